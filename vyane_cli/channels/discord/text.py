"""Markdown of any length, split into messages that Discord shows as written.

Discord pairs triple backticks only inside one message: it supports neither longer fences nor
tildes, and does not continue an open fence in the next message. So a text is first converted to
that form (`flatten`), then cut between lines; an open block is closed and reopened at each cut.
Lengths are UTF-16 units, the stricter of the two ways in which clients count. The module also
builds the parts of a post (`plan_parts`) and the request body of a part (`message_of`).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from vyane_cli.channels.port import File, Part, Post
from vyane_cli.kernel.text import strip_controls, utf16_length

LIMIT = 2_000
TITLE_MAX = 100
FENCE = "```"
BROKEN_FENCE = "`\u200b`\u200b`"
"""Three backticks that look the same, but that Discord does not pair."""

_CLOSING = "\n" + FENCE
_LANGUAGE_MAX = 40
_LANGUAGE = re.compile(r"[\w+.#-]*")
_FENCE_LINE = re.compile(r"[ \t]*(`{3,}|~{3,})[ \t]*([^`\n]*?)[ \t]*")
_COLOURS = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_WHOLE = re.compile(r"<(?:@[!&]?|#|a?:\w+:|t:)[\w:-]*>|\[[^\]\n]*\]\([^)\n]*\)|https?://\S+|`+")
"""Tokens that must not be cut in two: mentions, custom emoji, times, links, runs of backticks."""


def clean(text: str) -> str:
    """Remove colour codes and control characters, and turn line ends into newlines."""
    text = _COLOURS.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return strip_controls(text)


def title(text: str, otherwise: str = "session") -> str:
    """Return the text as a title: one line of 1 to 100 units. `otherwise` replaces an empty one."""
    line = " ".join(clean(text).split()) or otherwise
    if utf16_length(line) <= TITLE_MAX:
        return line
    return line[: fitting(line, TITLE_MAX - 1)].rstrip() + "…"


def split(text: str, limit: int = LIMIT) -> list[str]:
    """Split a text into messages, in order. Return no message for a text that shows nothing.

    Each message has at most `limit` units and balanced fences; no line is lost, code stays code.
    """
    found = []
    lines = _cut_long(flatten(text), limit)
    start = 0
    while start < len(lines):
        end = _end_of_part(lines, start, limit)
        found.append(_render(lines[start:end]))
        start = end
    return [part for part in found if part.strip()]


# ------------------------------------------------------------------ Discord's own form


def flatten(text: str) -> str:
    """Convert all fences to three backticks, each of them closed and none inside another."""
    text = clean(text)
    if _plain(text):
        return text
    rows = text.split("\n")
    out: list[str] = []
    at = 0
    while at < len(rows):
        fence = _FENCE_LINE.fullmatch(rows[at])
        end = _closing(rows, at, fence) if fence else at
        if fence is None or end <= at:
            row = rows[at]
            out.append(_break_fences(row) if row.count(FENCE) % 2 or "````" in row else row)
            at += 1
            continue
        language = _language(fence[2])
        info = [fence[2]] if fence[2] != language else []  # shown as the first line
        out += [FENCE + language, *info, *(_break_fences(row) for row in rows[at + 1 : end])]
        out.append(FENCE)
        at = end + 1
    return "\n".join(out)


def _plain(text: str) -> bool:
    """Return whether Discord reads the text as intended: only three-backtick fences, in pairs."""
    if "~~~" in text and any(row.lstrip().startswith("~~~") for row in text.split("\n")):
        return False
    if "````" in text or text.count(FENCE) % 2:
        return False
    inside = False
    for row in text.split("\n"):
        fence = _FENCE_LINE.fullmatch(row)
        if inside and fence and fence[2]:
            return False  # a fence with a language inside a block begins a nested block
        inside ^= row.count(FENCE) % 2 == 1
    return True


def _closing(rows: Sequence[str], start: int, fence: re.Match[str]) -> int:
    """Return the number of the line that closes the block at `start`; without one, `len(rows)`.

    A fence with a language inside the block begins a nested block, if both blocks are closed.
    """
    mark = fence[1]
    plain = len(rows)
    depth = 1
    for at in range(start + 1, len(rows)):
        found = _FENCE_LINE.fullmatch(rows[at])
        if found is None or found[1][0] != mark[0] or len(found[1]) < len(mark):
            continue
        if found[2]:
            depth += 1
            continue
        plain = min(plain, at)
        depth -= 1
        if depth == 0:
            return at
    return plain


def _break_fences(row: str) -> str:
    return re.sub(r"`{3,}", lambda run: "\u200b".join(run[0]), row)


def _language(info: str) -> str:
    """Return a fence's info text if Discord takes it for a language, else an empty string.

    Discord shows any other info text as text.
    """
    return info if len(info) <= _LANGUAGE_MAX and _LANGUAGE.fullmatch(info) else ""


# ------------------------------------------------------------------ cutting


class TextLine(NamedTuple):
    """A line of the flat text, with the code block that surrounds it."""

    text: str
    before: str | None
    """Language of the block that is open before the line; None outside code."""
    after: str | None
    """Language of the block that is open after the line; None outside code."""


def _lines(text: str) -> Iterator[TextLine]:
    state: str | None = None
    for row in text.split("\n"):
        before = state
        pieces = row.split(FENCE)
        for number, piece in enumerate(pieces[1:], 1):
            last = number == len(pieces) - 1
            state = (_language(piece) if last else "") if state is None else None
        yield TextLine(row, before, state)


def _cut_long(text: str, limit: int) -> list[TextLine]:
    """Return the lines of a text, with long ones cut to fit a message with their fences."""
    found = []
    for line in _lines(text):
        rest, before = line, line.before
        while not _fits(rest.text, room := limit - _around(rest)):
            at = fitting(rest.text, room)
            head = next(iter(_within(rest.text[:at], before)))
            found.append(head)
            before = head.after
            rest = TextLine(rest.text[at:], before, line.after)
        found.append(rest)
    return found


def _around(line: TextLine) -> int:
    """Return the units that the fences need around a line that is a message of its own.

    The number is exact, because two halves of a line are never in one message: a line break would
    be between them.
    """
    if FENCE in line.text:
        return 2 * len(_CLOSING) + len(line.before or line.after or "") + 1
    return 0 if line.before is None else _opening_size(line) + len(_CLOSING)


def _fits(text: str, room: int) -> bool:
    return len(text) <= room and utf16_length(text) <= room


def _within(piece: str, before: str | None) -> Iterator[TextLine]:
    opened = "" if before is None else before
    odd = piece.count(FENCE) % 2 == 1
    after = (None if before is not None else opened) if odd else before
    yield TextLine(piece, before, after)


def fitting(text: str, room: int) -> int:
    """Return how many characters of a line to keep within `room` units.

    The cut is after a blank if possible, and never inside a token if the token fits.
    """
    end = units = 0
    for character in text:
        units += 2 if character > "\uffff" else 1
        if units > room:
            break
        end += 1
    if end >= len(text):
        return len(text)
    whole = _outside_of_tokens(text, end)
    space = max(text.rfind(" ", 0, whole), text.rfind("\t", 0, whole)) + 1
    return space if space > end // 2 and text[:space].strip() else whole or max(end, 1)


def _outside_of_tokens(text: str, end: int) -> int:
    """Return the last index up to `end` outside mentions, links, emoji and combined characters."""
    for token in _WHOLE.finditer(text):
        if token.end() > end:
            if 0 < token.start() < end and token.end() - token.start() <= end:
                end = token.start()
            break
    at = end
    while at > max(end - 64, 0) and _joined(text, at):
        at -= 1
    return at if at > max(end - 64, 0) else end


def _joined(text: str, at: int) -> bool:
    """Return whether the characters on both sides of `at` are shown as one character."""
    left, right = text[at - 1], text[at]
    if right in "\u200d\ufe0e\ufe0f\u20e3" or left == "\u200d":
        return True
    if "\U0001f3fb" <= right <= "\U0001f3ff" or "\U000e0020" <= right <= "\U000e007f":
        return True  # a skin tone, a flag's tag
    if unicodedata.combining(right):
        return True
    flags = 0  # two regional indicators make a flag
    while flags < at and "\U0001f1e6" <= text[at - 1 - flags] <= "\U0001f1ff":
        flags += 1
    return flags % 2 == 1 and "\U0001f1e6" <= right <= "\U0001f1ff"


def _end_of_part(lines: Sequence[TextLine], start: int, limit: int) -> int:
    """Return the number of the line that begins the next message, after the one at `start`."""
    size = _opening_size(lines[start])
    for at in range(start, len(lines)):
        size += utf16_length(lines[at].text) + 1
        closing = len(_CLOSING) if lines[at].after is not None else 0
        if size - 1 + closing > limit:
            return _best_cut(lines, start, max(at, start + 1), limit)
    return len(lines)


def _opening_size(line: TextLine) -> int:
    return 0 if line.before is None else len(FENCE) + len(line.before) + 1


def _best_cut(lines: Sequence[TextLine], start: int, end: int, limit: int) -> int:
    """Return the line number to cut at, at most `end`.

    Preferred: an empty line, then a line outside code, if the message stays half full. The cut is
    never between a fence and its first line.
    """
    size = _opening_size(lines[start])
    best, rank = end, 0
    for at in range(start + 1, end + 1):
        size += utf16_length(lines[at - 1].text) + 1
        if at == len(lines) or size < limit // 2:
            continue
        outside = lines[at].before is None and not lines[at].text.startswith((" ", "\t"))
        gap = outside and not (lines[at].text.strip() and lines[at - 1].text.strip())
        here = 2 if gap else 1 if outside else 0
        if here >= rank and here:
            best, rank = at, here
    if rank == 0:
        while (
            best > start + 1 and lines[best - 1].before is None and lines[best].before is not None
        ):
            best -= 1  # keep the fence with its block
    return best


def _render(lines: Sequence[TextLine]) -> str:
    head = [] if lines[0].before is None else [FENCE + lines[0].before]
    tail = [] if lines[-1].after is None else [FENCE]
    rows = [*head, *(line.text for line in lines), *tail]
    if head and len(lines) > 0 and lines[0].text == FENCE:
        rows = rows[2:]  # the block is empty here: the message before has closed it
    return "\n".join(rows).strip("\n")


NO_PREVIEWS, SILENT = 1 << 2, 1 << 12
PARTS_MAX = 8
"""Most messages for one text; of a longer text the beginning is shown, with the whole as a file."""
EXCERPT = 1_200
FILE_MAX = 8 * 1024 * 1024
CUT_FILE = 256 * 1024
_EMPTY_LINES = re.compile(r"\A(?:[^\S\n]*\n)+")
NOBODY: Mapping[str, Any] = {"parse": []}


def plan_parts(post: Post) -> Sequence[Part]:
    """Split a post into parts, one for each message.

    A very long post becomes one part: its beginning, with the whole text as a file.
    """
    whole = clean(post.text)
    if not whole.strip():
        return []
    # so many characters need more than PARTS_MAX messages: skip the split
    pieces = [] if len(whole) > PARTS_MAX * LIMIT else split(whole)
    files: tuple[File, ...] = ()
    if not pieces or len(pieces) > PARTS_MAX:
        begin = _EMPTY_LINES.sub("", whole)[: 4 * EXCERPT]
        head = (split(begin, EXCERPT) or ["…"])[0]
        note = f"-# {len(whole):,} characters in all: output.txt"
        data = whole.encode("utf-8", "replace")
        if len(data) > FILE_MAX:
            whole = data[:FILE_MAX].decode("utf-8", "ignore")
            note += f", cut after {FILE_MAX // 1024 // 1024} MiB"
        pieces, files = [f"{head}\n{note}"], (File("output.txt", whole),)
    if post.mention:
        calls = " ".join(f"<@{user}>" for user in post.mention)
        together = f"{calls} {pieces[0]}"
        fits = utf16_length(together) <= LIMIT
        pieces = [together, *pieces[1:]] if fits else [calls, *pieces]
    first = Part(pieces[0], files, post.notify, post.mention)
    return [first, *(Part(piece) for piece in pieces[1:])]


def message_of(part: Part) -> tuple[dict[str, Any], tuple[File, ...]]:
    """Return the request body and the files of a part.

    The message mentions only the users of `part.mention`, even if its text names others.
    """
    mentions = {**NOBODY, "users": list(part.mention)} if part.mention else dict(NOBODY)
    body: dict[str, Any] = {
        "content": clean(fit(part.text)),
        "allowed_mentions": mentions,
        "flags": NO_PREVIEWS | (0 if part.notify else SILENT),
    }
    files = tuple(File(_file_name(one.name), one.text) for one in part.files)
    if files:
        body["attachments"] = [
            {"id": str(number), "filename": file.name} for number, file in enumerate(files)
        ]
    return body, files


def fit(text: str) -> str:
    """Return the beginning of a text that is too long for a message, because `plan` was not used.

    A text that fits is returned unchanged.
    """
    pieces = split(text)
    return pieces[0] if len(pieces) > 1 else text


def with_cut_files(part: Part) -> list[Part]:
    """Return the part with files cut to CUT_FILE characters; an empty list if none is longer."""
    if not any(len(file.text) > CUT_FILE for file in part.files):
        return []
    files = tuple(File(file.name, file.text[:CUT_FILE]) for file in part.files)
    note = f"-# the file is cut: Discord takes no larger one here; {CUT_FILE:,} characters are left"
    return [part._replace(files=files, text=f"{part.text}\n{note}")]


def without_files(part: Part) -> list[Part]:
    """Return the part without its files; an empty list for a part without files."""
    if not part.files:
        return []
    note = "-# the file is left out: Discord did not take it"
    return [part._replace(files=(), text=f"{part.text}\n{note}")]


def _file_name(name: str) -> str:
    """Return a safe file name: at most 80 ASCII letters, digits, `.`, `_` and `-`."""
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in name)
    return kept.strip(".")[-80:] or "file.txt"
