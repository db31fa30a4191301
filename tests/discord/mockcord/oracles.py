"""Judgements on a row of message texts."""

from __future__ import annotations

import re


def fence_problems(content: str) -> list[str]:
    """Discord pairs triple backticks inside one message and never across messages."""
    found = len(re.findall(r"```", content))
    return [f"{found} code fences: one of them is left open"] if found % 2 else []


def lines_as_read(contents: list[str]) -> list[tuple[str, str]]:
    """Each line a reader sees in a row of messages, as ('code' | 'text', line); fence lines vanish.

    Give it the messages of one answer, and give it the answer as written (as one text, however
    long); the two results are equal when splitting lost nothing and kept code as code.
    """
    out: list[tuple[str, str]] = []
    for content in contents:
        inside = False
        for line in content.split("\n"):
            pieces = line.split("```")
            if len(pieces) == 1:
                if line or inside:
                    out.append(("code" if inside else "text", line))
                continue
            for index, piece in enumerate(pieces):
                if index:
                    inside = not inside
                info = inside and index == len(pieces) - 1 and re.fullmatch(r"[\w+.#-]*", piece)
                if piece and not info:
                    out.append(("code" if inside else "text", piece))
    return out


def repeated(contents: list[str]) -> list[str]:
    """Texts that appear more than once, in order."""
    return [c for c in dict.fromkeys(contents) if contents.count(c) > 1]
