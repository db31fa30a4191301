"""The text of a thread file: its head, vyane's blocks, the person's lines, and what is new in them.

Marks are comments, so that they do not show where Markdown is rendered. A hand-edited file is read
as far as it makes sense: without its mark a block is a quote, and quotes alone are no message.
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
    """One line of the person's."""

    number: int
    text: str
    region: int
    """Lines with something of vyane's between them are of different regions."""
    whole: bool = True
    """Its end has been written."""


class Written(NamedTuple):
    """One message of the person's."""

    id: str
    text: str
    edited: bool = False


class ThreadFile:
    """A parsed thread file; `render` gives the same text back, but for what was changed."""

    def __init__(self) -> None:
        self.above: list[str] = []
        """Empty lines that a person put above the head."""
        self.title, self.key, self.closed = "", "", False
        self.body: list[str] = []
        self.blocks: dict[str, tuple[int, int]] = {}
        """Nonce → its first and last line in `body`, the mark included."""
        self.lines: list[PersonLine] = []
        self.unfinished = 0
        """Bytes at the end that a crash left: a block cut short, zeros of a write that was lost."""

    def holds(self, nonce: str) -> bool:
        """Whether the whole block with this nonce is there."""
        return nonce in self.blocks

    def change(self, nonce: str, text: str) -> bool:
        """Put another text into a block; False when it is not there."""
        if nonce not in self.blocks:
            return False
        first, last = self.blocks[nonce]
        self.body[first : last + 1] = render_block(text, nonce).rstrip("\n").split("\n")
        return True

    def render(self) -> str:
        """The file."""
        head = [f"# {self.title}"] if self.title else []
        if self.key:
            head.append(f"<!-- vyane:thread {self.key} {'closed' if self.closed else 'open'} -->")
        return "\n".join([*self.above, *head, *self.body])


def parse_thread(text: str) -> ThreadFile:
    """Read a thread. Every text is one, an empty one too."""
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
    end = len(rows) - 1  # what follows the last newline: empty, or a line that is still written
    while number < len(rows):
        row = rows[number].removesuffix("\r")  # an editor may have saved it with other line ends
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
    """Whether a last line without its end is a mark, or the first half of one."""
    whole = "> <!-- vyane:post "
    return row.startswith(whole) or (row.startswith("> <!--") and whole.startswith(row))


def render_block(text: str, nonce: str) -> str:
    """A post as it stands in the file, with an empty line behind it."""
    rows = text.replace("\r", "").split("\n")
    quoted = [f"> {row}".rstrip() if row.strip() else ">" for row in rows]
    return "\n".join([f"> <!-- vyane:post {nonce} {len(rows)} -->", *quoted]) + "\n\n"


# ------------------------------------------------------------------ what is new


def extend(cursor: str, lines: Sequence[PersonLine]) -> tuple[list[Written], str]:
    """The messages that are new or changed since the cursor, and the cursor after them.

    The cursor holds a digest of each line that was taken, with the number of its message: so a
    line counts once, wherever in the file it stands by now. Taken away lines are forgotten.
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
            edited = 0  # what else is new stands elsewhere
    taken = [list(pair) for pair in zip(digests, owners, strict=True)]
    return written, json.dumps({"n": count, "lines": taken}, separators=(",", ":"))


def _compare(old: list[str], new: list[str]) -> list[tuple[str, int, int, int, int]]:
    """The differences as difflib says them; what is equal in front costs nothing."""
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
    """The lines by region."""
    runs: list[list[PersonLine]] = []
    for line in lines:
        if runs and runs[-1][-1].region == line.region:
            runs[-1].append(line)
        else:
            runs.append([line])
    return runs


def _text(run: Sequence[PersonLine]) -> str:
    """The lines with the empty ones between them."""
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
