"""Tables generated from the code. `python -m docs.tables` (in tests/) rewrites them."""

import ast
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from docs import pages
from docs.rooms import ORDER
from vyane_cli.attention.kinds import ROWS, NeedKind, NeedRow
from vyane_cli.channels import ADAPTERS
from vyane_cli.delivery.gating import NOTICE_GATES
from vyane_cli.kernel.config import CHANNEL_KEYS, KEYS, Key
from vyane_cli.projects.round_rules import ACTIONS, MATRIX
from vyane_cli.upkeep.ending_rules import ENDINGS

PACKAGE = pages.ROOT / "vyane_cli"
CLI = pages.ROOT / "docs" / "reference" / "cli.md"
ROUNDS = pages.ROOT / "docs" / "explanation" / "gating.md"
CONFIG = pages.ROOT / "docs" / "reference" / "config.md"
MAP = pages.ROOT / "docs" / "contributing" / "map.md"
ATTENTION = pages.ROOT / "docs" / "reference" / "attention.md"


def describe() -> dict[str, Any]:
    """Return the command line as data, from `vyane describe --json`."""
    with tempfile.TemporaryDirectory() as home:
        done = subprocess.run(
            [sys.executable, "-m", "vyane_cli", "describe", "--json"],
            env={**os.environ, "VYANE_HOME": home},
            capture_output=True,
            check=True,
        )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def every_command(commands: Mapping[str, Any], above: str = "vyane") -> Iterator[tuple[str, Any]]:
    """Yield (full name, description) of each command and subcommand, in order."""
    for name, about in commands.items():
        full = f"{above} {name}"
        yield full, about
        yield from every_command(about.get("commands", {}), full)


def parameters(about: Mapping[str, Any]) -> list[str]:
    """Return the lines of a command's table; no lines for a command without parameters."""
    rows = []
    for one in about["params"]:
        upper = one["kind"] == "argument"
        names = " / ".join(f"`{n.upper() if upper else n}`" for n in one["names"])
        default = one["default"]
        shown = "" if default in (None, "", False) else f"`{default}`"
        shown = "required" if one["required"] else shown
        text = one["help"].replace("|", "\\|")
        rows.append(f"| {names} | {shown} | {text} |".replace("|  |", "| |"))
    return ["| | default | |", "| --- | --- | --- |", *rows] if rows else []


def settings(keys: Mapping[str, Key] = KEYS) -> list[str]:
    """Return the lines of a table of settings."""
    rows = []
    for key, known in keys.items():
        value = f'"{known.default}"' if isinstance(known.default, str) else str(known.default)
        if isinstance(known.default, bool):
            value = value.lower()
        least = "" if known.minimum is None else f"{known.minimum:g}"
        if known.choices:
            least = ", ".join(f"`{choice}`" for choice in known.choices)
        rows.append(f"| `{key}` | `{value}` | {least} | {known.doc} |".replace("|  |", "| |"))
    return ["| key | default | least, or one of | meaning |", "| --- | --- | --- | --- |", *rows]


def matrix() -> list[str]:
    """Return the lines of the matrix of a round."""
    rows = []
    for row in MATRIX:
        when = "; ".join(f"{name} {' or '.join(values)}" for name, values in row.when.items())
        cells = (f"`{row.cell}`", f"`{row.reason}`", when, f"`{ACTIONS[row.cell]}`", row.doc)
        rows.append(f"| {' | '.join(cells)} |".replace("|  |", "| |"))
    return ["| cell | reason | when | action | |", "| --- | --- | --- | --- | --- |", *rows]


def throttles() -> list[str]:
    """Return the lines of the table of the notice throttles."""
    rows = [f"| `{gate}` | {opens} |" for gate, opens in NOTICE_GATES.items()]
    return ["| throttle | lets a notice through when |", "| --- | --- |", *rows]


def attention() -> list[str]:
    """Return the lines of the table of the needs for which the person is called."""
    rows = []
    for row in ROWS:
        begin = [] if row.kind is NeedKind.DELIVERY else [str(row.kind)]
        key = ":".join([*begin, *(name.upper() for name in row.fields)])
        ends = ENDINGS[row.ended_by].doc + (f": {row.reason}" if row.reason else "")
        rows.append(f"| `{row.kind}` | `{key}` | {row.when} | {_asked(row)} | {ends} |")
    return [
        "| kind | key | when | what is asked | what ends it |",
        "| --- | --- | --- | --- | --- |",
        *rows,
    ]


def _asked(row: NeedRow) -> str:
    """Return every sentence that a row may ask, or the row's text if it asks nothing."""
    asked = dict.fromkeys([row.ask or row.text, *(ask for _, ask in row.forms.values())])
    return "; or: ".join(re.sub(r"\{(\w+)\}", lambda m: m[1].upper(), one) for one in asked)


def first_words(about: Mapping[str, Any]) -> str:
    """Return the first paragraph of a command's help on one line."""
    return " ".join(about["help"].split("\n\n")[0].split())


def section(text: str, heading: str) -> str | None:
    """Return the text between a heading and the next one of any level; None if it is missing."""
    match = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#+ |\Z)", text, re.M | re.S)
    return match[1].strip("\n") if match else None


def parts(text: str) -> tuple[str, str, list[str]]:
    """Split a section. Return its first paragraph, its handwritten text, and its table."""
    table = [line for line in text.splitlines() if line.startswith("|")]
    plain = "\n".join(line for line in text.splitlines() if not line.startswith("|"))
    first, _, rest = plain.strip("\n").partition("\n\n")
    return first, re.sub(r"\n{3,}", "\n\n", rest).strip("\n"), table


def rooms() -> list[str]:
    """Each room with the sentence of its `__init__.py` and its modules."""
    rows = []
    for name in ORDER:
        folder = PACKAGE / name
        first = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
        said = (ast.get_docstring(ast.parse(first.read_bytes())) or "").split("\n\n")[0]
        modules = [
            file.relative_to(folder).with_suffix("").as_posix()
            for file in sorted(folder.rglob("*.py"))
            if file.stem != "__init__"
        ]
        listed = " ".join(f"`{one}`" for one in modules)
        rows.append(f"| `{name}` | {' '.join(said.split())} | {listed} |".replace("|  |", "| |"))
    return ["| room | is about | modules |", "| --- | --- | --- |", *rows]


def put(page: Path, heading: str, first: str | None, table: list[str]) -> None:
    """Replace the first paragraph (None: leave it) and the table of a heading's section."""
    text = page.read_text()
    old = section(text, heading)
    if old is None:
        raise SystemExit(f"{page.name}: add a section {heading!r} where it belongs")
    written, rest, _ = parts(old)
    body = "\n\n".join(filter(None, (first or written, rest, "\n".join(table))))
    pattern = rf"(^#+ {re.escape(heading)}\n).*?(?=^#+ |\Z)"
    new = re.sub(pattern, lambda m: f"{m[1]}\n{body}\n\n", text, count=1, flags=re.M | re.S)
    page.write_text(new.rstrip() + "\n")


if __name__ == "__main__":
    for name, about in every_command(describe()["commands"]):
        put(CLI, name, first_words(about), parameters(about))
    put(CONFIG, "Keys", None, settings())
    put(CONFIG, "Every channel", None, settings(CHANNEL_KEYS))
    for name, adapter in ADAPTERS.items():
        put(CONFIG, f"The `{name}` channel", None, settings(adapter.SETTINGS))
    put(ROUNDS, "The matrix of a round", None, matrix())
    put(ROUNDS, "The throttles of notices", None, throttles())
    put(ATTENTION, "Kinds", None, attention())
    put(MAP, "Rooms", None, rooms())
