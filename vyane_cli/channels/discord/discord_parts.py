"""What a post becomes: the messages of a text, their bodies, and the file of a very long one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from vyane_cli.channels.discord import text as discord_text
from vyane_cli.channels.port import File, Part, Post
from vyane_cli.kernel.text import utf16_length

NO_PREVIEWS, SILENT = 1 << 2, 1 << 12
PARTS_MAX = 8
"""A text of more messages is shown by its beginning, and goes out whole as a file."""
EXCERPT = 1_200
FILE_MAX = 8 * 1024 * 1024
CUT_FILE = 256 * 1024
_EMPTY_LINES = re.compile(r"\A(?:[^\S\n]*\n)+")
NOBODY: Mapping[str, Any] = {"parse": []}


def plan_parts(post: Post) -> Sequence[Part]:
    """The messages of a post; a very long one is its beginning and a file."""
    whole = discord_text.clean(post.text)
    if not whole.strip():
        return []
    # more than so many characters are more than so many messages, without a look at each
    pieces = [] if len(whole) > PARTS_MAX * discord_text.LIMIT else discord_text.split(whole)
    files: tuple[File, ...] = ()
    if not pieces or len(pieces) > PARTS_MAX:
        begin = _EMPTY_LINES.sub("", whole)[: 4 * EXCERPT]
        head = (discord_text.split(begin, EXCERPT) or ["…"])[0]
        note = f"-# {len(whole):,} characters in all: output.txt"
        data = whole.encode("utf-8", "replace")
        if len(data) > FILE_MAX:
            whole = data[:FILE_MAX].decode("utf-8", "ignore")
            note += f", cut after {FILE_MAX // 1024 // 1024} MiB"
        pieces, files = [f"{head}\n{note}"], (File("output.txt", whole),)
    if post.mention:
        calls = " ".join(f"<@{user}>" for user in post.mention)
        together = f"{calls} {pieces[0]}"
        fits = utf16_length(together) <= discord_text.LIMIT
        pieces = [together, *pieces[1:]] if fits else [calls, *pieces]
    first = Part(pieces[0], files, post.notify, post.mention)
    return [first, *(Part(piece) for piece in pieces[1:])]


def message_of(part: Part) -> tuple[dict[str, Any], tuple[File, ...]]:
    """A message's body. Whatever its text holds, it calls nobody but `part.mention`."""
    mentions = {**NOBODY, "users": list(part.mention)} if part.mention else dict(NOBODY)
    body: dict[str, Any] = {
        "content": discord_text.clean(fit(part.text)),
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
    """A text that was not made by `plan`: its beginning."""
    pieces = discord_text.split(text)
    return pieces[0] if len(pieces) > 1 else text


def with_cut_files(part: Part) -> list[Part]:
    """The same with shorter files, if they can be shorter."""
    if not any(len(file.text) > CUT_FILE for file in part.files):
        return []
    files = tuple(File(file.name, file.text[:CUT_FILE]) for file in part.files)
    note = f"-# the file is cut: Discord takes no larger one here; {CUT_FILE:,} characters are left"
    return [part._replace(files=files, text=f"{part.text}\n{note}")]


def without_files(part: Part) -> list[Part]:
    """The same without files, if it has any."""
    if not part.files:
        return []
    note = "-# the file is left out: Discord did not take it"
    return [part._replace(files=(), text=f"{part.text}\n{note}")]


def _file_name(name: str) -> str:
    """A plain name: letters, digits, and little else."""
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in name)
    return kept.strip(".")[-80:] or "file.txt"
