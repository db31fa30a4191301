"""vyane's entries in a settings file of Claude Code: edits from text to text.

The file belongs to the user, so every byte outside of these entries stays the same (`json_edit`).
`remove` deletes what `add` inserted, with the lists and objects that `add` had to create. For that
the caller records what was there before (`stood`), and passes the record in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from vyane_cli.hosts import json_edit
from vyane_cli.hosts.json_edit import (
    Chain,
    JsonNode,
    Stood,
    append,
    delete,
    effective,
    index_of,
    list_at,
    members,
    refused,
    scan,
)

GUARD = "/hooks/claude-code/guard"
RULE = "Bash(vyane:*)"
"""The permission rule that lets an agent run vyane without asking the person."""

DAY_S = 86400


class HandlerEntry(NamedTuple):
    """One handler of one event; `matcher` is the matcher of its group."""

    event: str
    matcher: str | None
    handler: Mapping[str, Any]


class HandlerRow(NamedTuple):
    """One handler that vyane installs, as a row of the table."""

    event: str
    rewake: bool = False  # runs in the background; its exit status 2 starts a turn
    timeout_s: int | None = None
    matcher: str | None = None


# fmt: off
TABLE = (
    HandlerRow("SessionStart", timeout_s=30),
    HandlerRow("SessionStart", rewake=True, timeout_s=DAY_S),
    HandlerRow("CwdChanged", timeout_s=10),
    HandlerRow("CwdChanged", rewake=True, timeout_s=DAY_S),
    HandlerRow("UserPromptSubmit", timeout_s=10),
    HandlerRow("PreToolUse", timeout_s=10),
    HandlerRow("PermissionRequest", timeout_s=10),
    HandlerRow("PostToolBatch", timeout_s=10),
    HandlerRow("Stop", timeout_s=30),
    HandlerRow("StopFailure", timeout_s=10),
    HandlerRow("SessionEnd"),  # the host's own 1.5 s: a longer timeout would delay the end
    HandlerRow("FileChanged", rewake=True, timeout_s=DAY_S),
    HandlerRow("Notification", rewake=True, timeout_s=DAY_S, matcher="idle_prompt"),
)
# fmt: on


def entries(guard: str) -> tuple[HandlerEntry, ...]:
    """Return the table's entries for this guard, in exec form (`args`): no shell reads the path."""
    found = []
    for row in TABLE:
        args = [row.event, "rewake"] if row.rewake else [row.event]
        handler: dict[str, Any] = {"type": "command", "command": guard, "args": args}
        if row.rewake:
            handler["asyncRewake"] = True
        if row.timeout_s is not None:
            handler["timeout"] = row.timeout_s
        found.append(HandlerEntry(row.event, row.matcher, handler))
    return tuple(found)


def groups_of(event: Sequence[HandlerEntry]) -> list[dict[str, Any]]:
    """Group the entries of one event by matcher, in the form of the event's list in the file."""
    groups: dict[str | None, list[Mapping[str, Any]]] = {}
    for one in event:
        groups.setdefault(one.matcher, []).append(one.handler)
    return [
        ({} if matcher is None else {"matcher": matcher}) | {"hooks": handlers}
        for matcher, handlers in groups.items()
    ]


# --- reading -----------------------------------------------------------------------------


def find(text: str, path: str = "settings.json") -> tuple[HandlerEntry, ...]:
    """Find the entries of vyane that are in force, for every state root, in file order."""
    hooks = effective(scan(text, path), "hooks")
    found = []
    for event, groups in members(hooks).items():
        for group in groups.items if groups.kind == "[" else ():
            one = members(group)
            matcher = one["matcher"].value(text) if "matcher" in one else None
            handlers = one.get("hooks")
            for handler in handlers.items if handlers and handlers.kind == "[" else ():
                value = handler.value(text) if handler.kind == "{" else {}
                if str(value.get("command")).endswith(GUARD):
                    found.append(HandlerEntry(event, matcher, value))
    return tuple(found)


def allows(text: str, path: str = "settings.json") -> bool:
    """Return whether the file contains the permission rule."""
    rules = effective(scan(text, path), "permissions", "allow")
    return rules is not None and RULE in [rule.value(text) for rule in rules.items]


def hooks_are_off(text: str, path: str = "settings.json") -> bool:
    """Return whether this file turns all hooks off (`disableAllHooks`)."""
    off = effective(scan(text, path), "disableAllHooks")
    return off is not None and off.value(text) is True


def plugins(text: str, path: str = "settings.json") -> tuple[str, ...]:
    """Return the plugins of vyane that this file enables, as `vyane@MARKETPLACE`."""
    enabled = members(effective(scan(text, path), "enabledPlugins"))
    return tuple(
        name
        for name, node in enabled.items()
        if name.startswith("vyane@") and node.value(text) not in (False, None)
    )


# --- editing -----------------------------------------------------------------------------


def stood(before: str, after: str, known: Stood, path: str = "settings.json") -> Stood:
    """Return the record of the containers that an edit created or filled.

    It is computed from the text before and after the edit. `known` is the record of earlier edits:
    its entries for containers that were non-empty before and still are stay in the record.
    """
    was = json_edit.containers(before, ("hooks", "permissions"), path)
    now = json_edit.containers(after, ("hooks", "permissions"), path)
    found = {}
    for name in (name for name, held in now.items() if held is None):
        if name not in was or was[name] is not None:
            found[name] = was.get(name)
        elif name in known:
            found[name] = known[name]
    return found


def add(
    text: str,
    wanted: Sequence[HandlerEntry],
    path: str = "settings.json",
    known: Stood | None = None,
) -> str:
    """Return `text` with these entries in force, each once; unchanged if they already are.

    Other entries with the same command (older ones) are removed; those of other state roots stay.
    InvalidInputError names the place if the file cannot be edited safely.
    """
    commands = [one.handler["command"] for one in wanted]  # foreign ones may have any type
    events = dict.fromkeys(one.event for one in wanted)
    for event in events:
        list_at(text, ("hooks", event), path)  # raises before anything is removed
    present = [one for one in find(text, path) if one.handler["command"] in commands]
    settled = {one for one in events if _agree(_of(present, one), _of(wanted, one))}

    def is_old(event: str, handler: Mapping[str, Any]) -> bool:
        return handler.get("command") in commands and event not in settled

    text = _cut(text, path, is_old, known)
    for event in events:
        if event not in settled:
            for group in groups_of(_of(wanted, event)):
                text = append(text, ("hooks", event), group, path)
    return text


def remove(
    text: str,
    is_ours: Callable[[Mapping[str, Any]], bool],
    path: str = "settings.json",
    known: Stood | None = None,
) -> str:
    """Return `text` without vyane's handlers (`is_ours`) and the containers that `add` created."""
    return _cut(text, path, lambda _event, handler: is_ours(handler), known)


def allow(text: str, path: str = "settings.json") -> str:
    """Return `text` with the permission rule; unchanged if it already has the rule."""
    list_at(text, ("permissions", "allow"), path)
    return text if allows(text, path) else append(text, ("permissions", "allow"), RULE, path)


def disallow(text: str, path: str = "settings.json", known: Stood | None = None) -> str:
    """Return `text` without the permission rule."""
    while allows(text, path):
        node = scan(text, path)
        chain: Chain = []
        for name in ("permissions", "allow"):
            index = index_of(node, name)
            chain.append((node, index))
            node = node.items[index]
        rules = [rule.value(text) for rule in node.items]
        text = delete(text, [*chain, (node, rules.index(RULE))], known)
    return text


def _of(found: Sequence[HandlerEntry], event: str) -> list[HandlerEntry]:
    return [one for one in found if one.event == event]


def _agree(found: list[HandlerEntry], wanted: list[HandlerEntry]) -> bool:
    """Return whether both lists hold the same entries, in any order."""
    return len(found) == len(wanted) and all(found.count(o) == wanted.count(o) for o in wanted)


def _cut(
    text: str, path: str, ours: Callable[[str, Mapping[str, Any]], bool], known: Stood | None
) -> str:
    hooks = effective(scan(text, path), "hooks")
    if hooks is not None and hooks.kind != "{":
        raise refused(text, hooks.start, path, "an object, as hooks must be")
    while (chain := _first(text, path, ours)) is not None:
        text = delete(text, chain, known)
    return text


def _first(text: str, path: str, ours: Callable[[str, Mapping[str, Any]], bool]) -> Chain | None:
    """Return the chain to vyane's first handler (`ours`), also through repeated names."""
    root = scan(text, path)
    for h, hooks in _named(root, "hooks"):
        for e, groups in enumerate(hooks.items if hooks.kind == "{" else ()):
            for g, group in enumerate(groups.items if groups.kind == "[" else ()):
                for m, handlers in _named(group, "hooks"):
                    for i, handler in enumerate(handlers.items if handlers.kind == "[" else ()):
                        if handler.kind == "{" and ours(hooks.names[e], handler.value(text)):
                            chain = [(root, h), (hooks, e), (groups, g)]
                            if len(handlers.items) == group.names.count("hooks") == 1:
                                return chain  # the whole group
                            return [*chain, (group, m), (handlers, i)]
    return None


def _named(node: JsonNode, name: str) -> Iterator[tuple[int, JsonNode]]:
    return ((index, node.items[index]) for index, one in enumerate(node.names) if one == name)
