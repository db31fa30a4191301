"""JSON edits: insert into and delete from a JSON text without changing any other byte.

`scan` finds the position of each value; `append` and `delete` insert and cut there. Comparing
`containers` before and after an `append` shows what it created or filled, so that a `delete` can
undo it. Strict JSON (RFC 8259); if a name occurs twice, the last one counts. No library on PyPI
with users does this for strict JSON (2026-11), and the stdlib's decoder reports no positions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from vyane_cli.errors import InvalidInputError


@dataclass(frozen=True, slots=True)
class JsonNode:
    """A value and its position, `text[start:end]`. `names` are the names of an object's items."""

    start: int
    end: int
    kind: str  # the first character: { [ " or the first one of a number or word
    items: tuple[JsonNode, ...] = ()
    names: tuple[str, ...] = ()
    starts: tuple[int, ...] = ()  # where each item begins; in an object, where its name begins

    def value(self, text: str) -> Any:
        """Return the value as a Python object."""
        return json.loads(text[self.start : self.end], parse_int=_number)


def _number(digits: str) -> int | float:
    return int(digits) if len(digits) < 20 else float(digits)  # Python refuses very long integers


_SPACE = re.compile(r"[ \t\n\r]*")
_STRING = re.compile(r'"[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*"')
_PLAIN = re.compile(
    r"(?:true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)(?![\w.+-])"
)
DEPTH_MAX = 200


def scan(text: str, path: str = "settings.json") -> JsonNode:
    """Find the positions of all values. Return the root; InvalidInputError unless it is an object.

    A blank text counts as an empty object, as it does for the host.
    """
    if is_blank(text):
        return JsonNode(len(text), len(text), "{")
    root = _Scanner(text, path).document()
    if root.kind != "{":
        raise refused(text, root.start, path, "a JSON object")
    return root


def is_blank(text: str) -> bool:
    """Return whether the text is empty except for white space and a byte order mark."""
    return not text.strip("\ufeff \t\r\n")


def refused(text: str, at: int, path: str, expected: str) -> InvalidInputError:
    """Return the error that names file, line and column, and what was expected there."""
    line = text.count("\n", 0, at) + 1
    column = at - (text.rfind("\n", 0, at) + 1) + 1
    rest = text[at : at + 24].split("\n")[0].rstrip("\r")
    return InvalidInputError(
        f"{path}, line {line}, column {column}",
        rest or "the end of the line",
        expected,
        hint="nothing was written: mend the file, then run the same command again",
        slug="settings_unreadable",
    )


class _Scanner:
    """A scanner that makes one pass over a JSON text."""

    def __init__(self, text: str, path: str) -> None:
        self.text, self.path = text, path

    def document(self) -> JsonNode:
        root = self.value(self.skip(1 if self.text.startswith("\ufeff") else 0), 0)
        end = self.skip(root.end)
        if end != len(self.text):
            raise self.error(end, "the end of the file")
        return root

    def error(self, at: int, expected: str) -> InvalidInputError:
        return refused(self.text, at, self.path, expected)

    def skip(self, at: int) -> int:
        match = _SPACE.match(self.text, at)
        assert match is not None
        return match.end()

    def value(self, at: int, depth: int) -> JsonNode:
        first = self.text[at : at + 1]
        if depth > DEPTH_MAX:
            raise self.error(at, f"at most {DEPTH_MAX} levels deep")
        if first in ("{", "["):
            return self.container(at, first, depth)
        match = (_STRING if first == '"' else _PLAIN).match(self.text, at)
        if match is None:
            raise self.error(at, "a JSON value")
        return JsonNode(at, match.end(), first)

    def container(self, start: int, kind: str, depth: int) -> JsonNode:
        closer = "}" if kind == "{" else "]"
        items: list[JsonNode] = []
        names: list[str] = []
        starts: list[int] = []
        at = self.skip(start + 1)
        if self.text[at : at + 1] == closer:
            return JsonNode(start, at + 1, kind)
        while True:
            starts.append(at)
            if kind == "{":
                match = _STRING.match(self.text, at)
                if match is None:
                    raise self.error(at, "a name in double quotes")
                names.append(json.loads(match[0]))
                at = self.skip(match.end())
                if self.text[at : at + 1] != ":":
                    raise self.error(at, "a colon")
                at = self.skip(at + 1)
            items.append(self.value(at, depth + 1))
            at = self.skip(items[-1].end)
            after = self.text[at : at + 1]
            if after == closer:
                return JsonNode(
                    start=start,
                    end=at + 1,
                    kind=kind,
                    items=tuple(items),
                    names=tuple(names),
                    starts=tuple(starts),
                )
            if after != ",":
                raise self.error(at, f"a comma or {closer}")
            at = self.skip(at + 1)


def members(node: JsonNode | None) -> dict[str, JsonNode]:
    """Return an object's values by name; empty for other kinds."""
    return dict(zip(node.names, node.items, strict=True)) if node and node.kind == "{" else {}


def index_of(node: JsonNode, name: str) -> int:
    """Return the index of the last value with that name, which must exist."""
    return len(node.names) - 1 - node.names[::-1].index(name)


def effective(root: JsonNode, *names: str) -> JsonNode | None:
    """Return the value at this path of nested names; None if it does not exist."""
    node: JsonNode | None = root
    for name in names:
        node = members(node).get(name)
    return node


def list_at(text: str, names: tuple[str, str], path: str) -> JsonNode | None:
    """Return the list in an object in the root; None if either is missing.

    InvalidInputError if one of them has another kind.
    """
    root = scan(text, path)
    for depth, kind, expected in ((1, "{", "an object"), (2, "[", "a list")):
        node = effective(root, *names[:depth])
        if node is None:
            return None
        if node.kind != kind:
            raise refused(
                text, node.start, path, f"{expected}, as {'.'.join(names[:depth])} must be"
            )
    return node


Chain: TypeAlias = list[tuple[JsonNode, int]]
"""A path from the root down: each container, and the index of the item inside it."""


Stood: TypeAlias = Mapping[str, str | None]
"""The former contents of the containers that an `append` created or filled, by dotted names.

The value is the white space inside if the container was empty, None if it did not exist. The root
is "".
"""


def delete(text: str, chain: Chain, stood: Stood | None) -> str:
    """Delete the item at the end of the chain, and each container that becomes empty by this.

    By the record `stood`, a container that no `append` created stays, with its former white space.
    Without a record (None) every emptied container is deleted. The root is never deleted.
    """
    *above, (container, index) = chain
    starts, items = container.starts, container.items
    if len(items) > 1:
        if index == 0:
            return text[: starts[0]] + text[starts[1] :]
        return text[: items[index - 1].end] + text[items[index].end :]
    path = (node.names[at] if node.names else str(at) for node, at in above)
    held = "" if stood is None else stood.get(".".join(path), "")
    if above and (stood is None or held is None or len(above) > NAMED):
        return delete(text, above, stood)
    return text[: container.start + 1] + (held or "") + text[container.end - 1 :]


NAMED = 2
"""Depth, in names, of the deepest container that `append` fills. Deeper ones go when empty."""


def containers(text: str, names: tuple[str, ...], path: str) -> dict[str, str | None]:
    """Return the root, its containers of these names and the ones inside them, by dotted names.

    The value is the white space inside if the container is empty, None if it holds something.
    """
    root = scan(text, path)
    found = {"": root}
    for name, node in members(root).items():
        if name in names:
            found[name] = node
            found.update((f"{name}.{inner}", one) for inner, one in members(node).items())
    return {
        name: None if node.items else text[node.start + 1 : node.end - 1]
        for name, node in found.items()
        if node.kind in ("{", "[")
    }


# --- inserting -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Style:
    """The layout of a file: line ends, indentation and separators."""

    newline: str
    unit: str  # one level of indentation
    colon: str
    comma: str  # between items on one line

    def render(self, value: object, indent: str | None) -> str:
        """Render a value. `indent` is the indentation of its line; None renders it on one line."""
        if isinstance(value, dict):
            parts = [
                json.dumps(name, ensure_ascii=False)
                + self.colon
                + self.render(one, self.deeper(indent))
                for name, one in value.items()
            ]
            return self.enclose("{", parts, "}", indent)
        if isinstance(value, list):
            # the words of a command stay on its line
            flat = all(isinstance(one, str) for one in value)
            inner = None if flat else indent
            parts = [self.render(one, self.deeper(inner)) for one in value]
            return self.enclose("[", parts, "]", inner)
        return json.dumps(value, ensure_ascii=False)

    def deeper(self, indent: str | None) -> str | None:
        """Return the indentation of the lines one level deeper."""
        return None if indent is None else indent + self.unit

    def enclose(self, opener: str, parts: list[str], closer: str, indent: str | None) -> str:
        """Return the parts in brackets."""
        if indent is None:
            return opener + self.comma.join(parts) + closer
        inside = self.newline + indent + self.unit
        return opener + inside + ("," + inside).join(parts) + self.newline + indent + closer


def _style(text: str, root: JsonNode) -> Style:
    newline = "\r\n" if "\r\n" in text else "\n"
    colon = ": "
    if root.names:
        name = _STRING.match(text, root.starts[0])
        assert name is not None
        between = text[name.end() : root.items[0].start]
        colon = between if not between.strip(" \t:") else ": "
    return Style(newline, _unit(text, root), colon, "," if colon == ":" else ", ")


def _unit(text: str, root: JsonNode) -> str:
    """Return one level of indentation: the first one found, from the outside in."""
    level = [root]
    while level:
        for node in filter(lambda one: one.items, level):
            inner = _indent(text[node.start + 1 : node.starts[0]])
            outer = _indent(text[node.items[-1].end : node.end - 1])
            if inner and outer is not None and inner.startswith(outer) and inner != outer:
                return inner[len(outer) :]
        level = [item for node in level for item in node.items]
    return "  "


def _indent(space: str) -> str | None:
    """Return the indentation after the last line end of white space; None if it has no line end."""
    return space[space.rindex("\n") + 1 :] if "\n" in space else None


def append(text: str, names: tuple[str, str], item: object, path: str) -> str:
    """Append an item to a list in an object in the root, and create what is missing."""
    if is_blank(text):
        text = text.strip(" \t\r\n") + "{}\n"
    root = scan(text, path)
    style = _style(text, root)
    node, left = root, [*names]
    indent: str | None = ""  # of the container's line; None if it shares its parent's line
    while left and left[0] in node.names:
        index = index_of(node, left.pop(0))
        indent = _item_indent(text, node, index)
        node = node.items[index]
    value: object = [item] if left else item
    for name in reversed(left[1:]):
        value = {name: value}
    prefix = json.dumps(left[0]) + style.colon if left else ""
    if not node.items:
        return _fill(text, node, prefix, value, style, indent)
    own = _item_indent(text, node, len(node.items) - 1)
    lead = style.comma if own is None else "," + style.newline + own
    at = node.items[-1].end
    return text[:at] + lead + prefix + style.render(value, own) + text[at:]


def _item_indent(text: str, node: JsonNode, index: int) -> str | None:
    """Return the indentation of one item of a container; None if it shares a line."""
    before = node.items[index - 1].end if index else node.start + 1
    return _indent(text[before : node.starts[index]].rpartition(",")[2])


def _fill(
    text: str, node: JsonNode, prefix: str, value: object, style: Style, indent: str | None
) -> str:
    """Insert the first item into an existing empty container, after its white space."""
    held = text[node.start + 1 : node.end - 1]
    closing = "" if indent is None else style.newline + indent
    leading = held or (closing + style.unit if closing else "")
    own = _indent(leading)
    if own is None:
        own = style.deeper(indent)
    inside = leading + prefix + style.render(value, own) + closing
    return text[: node.start + 1] + inside + text[node.end - 1 :]
