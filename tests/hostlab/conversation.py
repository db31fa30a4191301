"""What reached the model: the mock's log of requests, read back."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Body = Mapping[str, Any]  # a request as the client sent it: the API's shape, not ours


def text_of(content: object) -> str:
    """The text of a message's content: text blocks, tool results and tool calls."""
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence):
        return ""
    parts = []
    for block in content:
        match block.get("type"):
            case "text":
                parts.append(block["text"])
            case "tool_result":
                parts.append(text_of(block.get("content")))
            case "tool_use":
                parts.append(f"{block['name']} {json.dumps(block['input'], ensure_ascii=False)}")
            case _:
                pass
    return "\n".join(parts)


def user_texts(body: Body) -> list[str]:
    """The text of every user message, oldest first."""
    return [text_of(m["content"]) for m in body.get("messages", []) if m["role"] == "user"]


def whole_text(body: Body) -> str:
    """All text of a request.

    The client hands on what a hook said as `system` messages in the middle, as text blocks of a
    user message, or in front of everything, depending on the model and the event. So a test
    looks for text in the whole request.
    """
    parts = [text_of(body.get("system"))]
    parts += [text_of(message["content"]) for message in body.get("messages", [])]
    return "\n".join(parts)


@dataclass(frozen=True, slots=True)
class Request:
    """One call of the Messages API."""

    at: float
    """Unix seconds of its arrival, before any scripted delay."""
    kind: str
    """`main` with a list of tools, `side` without: titles, classifiers."""
    turn: int | None
    """The scripted turn that answered, None for the default answer."""
    body: Body

    @property
    def text(self) -> str:
        """Everything the model was sent."""
        return whole_text(self.body)

    @property
    def first(self) -> str:
        """The oldest user message: it tells a subagent's conversation from the main one."""
        return next(iter(user_texts(self.body)), "")

    @property
    def newest(self) -> str:
        """The latest user message."""
        return next(reversed(user_texts(self.body)), "")

    def count(self, text: str) -> int:
        """How often the model reads `text` in this request."""
        return self.text.count(text)


def load_lines(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a JSONL file that may still grow."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    whole = data[: data.rfind(b"\n") + 1]
    return [json.loads(line) for line in whole.splitlines() if line.strip()]


def load_requests(path: Path) -> list[Request]:
    """The calls of the Messages API in a log, oldest first."""
    return [
        Request(line["t"], line["kind"], line["turn"], line["body"])
        for line in load_lines(path)
        if line["kind"] in ("main", "side")
    ]
