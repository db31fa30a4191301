"""The text of a thread file: its head, vyane's blocks, the person's lines, and the new lines.

Marks are comments, so that rendered Markdown hides them. Hand-edited files are parsed tolerantly:
a block that lost its mark is a quote, and lines that are only quotes are not a message.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

_HEAD = re.compile(r"<!-- vyane:thread (\S+) (open|closed) -->")
_MARK = re.compile(r"> <!-- vyane:post (\S+) (\d{1,6}) -->")


class PersonLine(NamedTuple):
    """One line that the person wrote."""

    number: int
    """Index of the line in `ThreadFile.body`."""
    text: str
    region: int
    """Number of the region: a block of vyane between two lines separates their regions."""
    whole: bool = True
    """Whether the newline at its end is written."""


class Written(NamedTuple):
    """One message that the person wrote."""

    id: str
    text: str
    edited: bool = False


class ThreadFile:
    """A parsed thread file; `render` returns the same text, with the changes made."""

    def __init__(self) -> None:
        self.above: list[str] = []
        """Empty lines above the head, from a person."""
        self.title, self.key, self.closed = "", "", False
        self.body: list[str] = []
        self.blocks: dict[str, tuple[int, int]] = {}
        """Nonce → index of the block's first line (the mark) and of its last line in `body`."""
        self.lines: list[PersonLine] = []
        self.unfinished = 0
        """Number of bytes at the end that a crash left: part of a block, zeros of a lost write."""

    def holds(self, nonce: str) -> bool:
        """Return whether the thread has the whole block with this nonce."""
        return nonce in self.blocks

    def change(self, nonce: str, text: str) -> bool:
        """Replace the text of a block. Return False when the block is missing."""
        if nonce not in self.blocks:
            return False
        first, last = self.blocks[nonce]
        self.body[first : last + 1] = render_block(text, nonce).rstrip("\n").split("\n")
        return True

    def render(self) -> str:
        """Return the text of the file."""
        head = [f"# {self.title}"] if self.title else []
        if self.key:
            head.append(f"<!-- vyane:thread {self.key} {'closed' if self.closed else 'open'} -->")
        return "\n".join([*self.above, *head, *self.body])


def parse_thread(text: str) -> ThreadFile:
    """Parse a thread. Accepts every text, also an empty one."""
    thread = ThreadFile()
    text, whole = text.rstrip("\0"), len(text)
    thread.unfinished = whole - len(text)
    rows = text.removeprefix("\ufeff").split("\n")
    first = next((number for number, row in enumerate(rows) if row.strip()), 0)
    if _HEAD.fullmatch("".join(rows[first + 1 : first + 2]).strip()):
        thread.above, rows = rows[:first], rows[first:]
    if rows and rows[0].startswith("# "):
        thread.title = rows.pop(0)[2:].strip()
    if rows and (found := _HEAD.fullmatch(rows[0].strip())):
        thread.key, thread.closed = found[1], found[2] == "closed"
        rows.pop(0)
    thread.body = rows
    region = number = 0
    end = len(rows) - 1  # after the last newline: empty, or a line still being written
    while number < len(rows):
        row = rows[number].removesuffix("\r")  # editors may save other line ends
        if (mark := _MARK.fullmatch(row)) or (number == end and _is_begun(row)):
            region += 1
            wanted = int(mark[2]) if mark else 1
            last = number
            while last - number < wanted and last + 1 < end and rows[last + 1].startswith(">"):
                last += 1
            if mark and last - number == wanted:
                thread.blocks.setdefault(mark[1], (number, last))
            elif last + 1 >= end and (not mark or rows[end] == "" or rows[end].startswith(">")):
                cut = "\n".join(rows[number:])
                thread.unfinished += len(cut.encode("utf-8", "surrogateescape"))
                break
            number = last + 1
            continue
        if row.strip():
            thread.lines.append(PersonLine(number, row, region, number < end))
        number += 1
    return thread


def _is_begun(row: str) -> bool:
    """Return whether a last line without a newline is a mark, or the beginning of one."""
    whole = "> <!-- vyane:post "
    return row.startswith(whole) or (row.startswith("> <!--") and whole.startswith(row))


def render_block(text: str, nonce: str) -> str:
    """Return a post as the file has it, followed by an empty line."""
    rows = text.replace("\r", "").split("\n")
    quoted = [f"> {row}".rstrip() if row.strip() else ">" for row in rows]
    return "\n".join([f"> <!-- vyane:post {nonce} {len(rows)} -->", *quoted]) + "\n\n"


# ------------------------------------------------------------------ new messages


def extend(cursor: str, lines: Sequence[PersonLine]) -> tuple[list[Written], str]:
    """Return the messages that are new or changed since the cursor, and the cursor after them.

    The cursor holds a digest of each line that was read, with the number of its message. So a line
    counts only once, even if it was moved in the file. Removed lines are forgotten.
    """
    before, count = _parse(cursor)
    known = [digest for digest, _ in before]
    lines = [line for line in lines if line.whole or _digest(line.text) in known]
    digests = [_digest(line.text) for line in lines]
    changes = _compare(known, digests)
    removed = {known[i] for tag, i1, i2, _, _ in changes if tag == "delete" for i in range(i1, i2)}
    owners: list[int] = []
    written: list[Written] = []
    for tag, i1, i2, j1, j2 in changes:
        if tag == "equal":
            owners += [owner for _, owner in before[i1:i2]]
        edited = before[i1][1] if tag == "replace" else 0
        for run in _runs(lines[j1:j2]) if tag in ("insert", "replace") else ():
            quotes = all(line.text.startswith(">") for line in run)
            moved = {_digest(line.text) for line in run} <= removed
            if edited or not (quotes or moved):
                count += 0 if edited else 1
                written.append(Written(str(edited or count), _text(run), bool(edited)))
                owners += [edited or count] * len(run)
            else:
                owners += [0] * len(run)
            edited = 0  # only the first run is the edited text
    taken = [list(pair) for pair in zip(digests, owners, strict=True)]
    return written, json.dumps({"n": count, "lines": taken}, separators=(",", ":"))


def _compare(old: list[str], new: list[str]) -> list[tuple[str, int, int, int, int]]:
    """Return the differences as opcodes of difflib.

    A common beginning is skipped first, which is cheap.
    """
    same = 0
    while same < min(len(old), len(new)) and old[same] == new[same]:
        same += 1
    found = [("equal", 0, same, 0, same)] if same else []
    if same == len(old) or same == len(new):
        if same < len(new):
            found.append(("insert", same, same, same, len(new)))
        return found
    from difflib import SequenceMatcher

    matcher = SequenceMatcher(None, old[same:], new[same:], autojunk=False)
    return found + [
        (tag, i1 + same, i2 + same, j1 + same, j2 + same)
        for tag, i1, i2, j1, j2 in matcher.get_opcodes()
    ]


def _runs(lines: Sequence[PersonLine]) -> list[list[PersonLine]]:
    """Group the lines by region."""
    runs: list[list[PersonLine]] = []
    for line in lines:
        if runs and runs[-1][-1].region == line.region:
            runs[-1].append(line)
        else:
            runs.append([line])
    return runs


def _text(run: Sequence[PersonLine]) -> str:
    """Join the lines, with the empty lines between them."""
    rows = [run[0].text]
    for before, line in pairwise(run):
        rows += [""] * (line.number - before.number - 1) + [line.text]
    return "\n".join(rows).encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _digest(text: str) -> str:
    return f"{zlib.crc32(text.rstrip().encode('utf-8', 'surrogateescape')):08x}"


def _parse(cursor: str) -> tuple[list[tuple[str, int]], int]:
    if not cursor:
        return [], 0
    data = json.loads(cursor)
    return [(str(digest), int(owner)) for digest, owner in data["lines"]], int(data["n"])
