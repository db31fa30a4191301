"""Documentation pages as data: fenced blocks, tables, links, anchors."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^( *)(```+)\s*(\S*)\s*$")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^(#{1,6})\s+(.*?)\s*$")
PROMPT = re.compile(r"^(?:([a-z]+))?\$ (.*)$")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language, its lines, and the page's line number of the first one."""

    language: str
    lines: tuple[str, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Command:
    """A command of a `console` block: its terminal, its text and its output on the page."""

    terminal: str
    text: str
    output: tuple[str, ...]


def pages() -> list[Path]:
    """Return the paths of README.md and of every page in docs/."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page, in order."""
    found: list[Block] = []
    inside: list[str] | None = None
    language = fence = indent = ""
    start = 0
    for number, line in enumerate(page.read_text().splitlines(), 1):
        match = FENCE.match(line)
        if inside is None and match:
            indent, fence, language = match.groups()
            inside, start = [], number + 1
        elif inside is not None and match and match[2] == fence and not match[3]:
            found.append(Block(language, tuple(inside), start))
            inside = None
        elif inside is not None:
            inside.append(line.removeprefix(indent))
    return found


def commands(block: Block) -> list[Command]:
    """Return the commands of a `console` block. A line with `> ` in front continues a command."""
    found: list[tuple[str, list[str], list[str]]] = []
    for line in block.lines:
        if match := PROMPT.match(line):
            found.append((match[1] or "you", [match[2]], []))
        elif line.startswith("> ") and found and not found[-1][2]:
            found[-1][1].append(line[2:])
        elif found:
            found[-1][2].append(line)
    return [Command(one, "\n".join(text), tuple(output)) for one, text, output in found]


def prose(page: Path) -> str:
    """Return the text of a page without its fenced blocks."""
    kept, fence = [], ""
    for line in page.read_text().splitlines():
        match = FENCE.match(line)
        if match and (not fence or match[2] == fence):
            fence = "" if fence else match[2]
        elif not fence:
            kept.append(line)
    return "\n".join(kept)


def links(page: Path) -> list[str]:
    """Return the targets of a page's links. Text in backticks is ignored."""
    return LINK.findall(re.sub(r"`[^`]*`", "", prose(page)))


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, by GitHub's rules."""
    seen: dict[str, int] = {}
    found = set()
    for line in prose(page).splitlines():
        if match := HEADING.match(line):
            text = re.sub(r"[^\w\- ]", "", match[2].replace("`", "").lower()).replace(" ", "-")
            count = seen.get(text, 0)
            found.add(f"{text}-{count}" if count else text)
            seen[text] = count + 1
    return found


def table(page: Path, heading: str) -> list[dict[str, str]]:
    """Return the rows of the first table below a heading, each as column name → cell."""
    rows = _table_lines(page, heading)
    names = next(rows, None)
    assert names, f"{page.name}: no table below {heading!r}"
    next(rows)  # | --- |
    return [dict(zip(names, row, strict=True)) for row in rows]


def _table_lines(page: Path, heading: str) -> Iterator[list[str]]:
    level, below, begun = 0, False, False
    for line in prose(page).splitlines():
        match = HEADING.match(line)
        if match:
            if match[2].replace("`", "") == heading.replace("`", ""):
                below, level = True, len(match[1])
            elif below and len(match[1]) <= level:
                return
        elif below and line.startswith("|"):
            begun = True
            cells = re.split(r"(?<!\\)\|", line.strip().strip("|"))
            yield [cell.strip().replace("\\|", "|") for cell in cells]
        elif begun:
            return


def code(cell: str) -> str:
    """Return a cell that is one piece of code without its backticks."""
    return cell.strip().strip("`")


def codes(cell: str) -> list[str]:
    """Return the pieces of code in a cell."""
    return re.findall(r"`([^`]+)`", cell)
