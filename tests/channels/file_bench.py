"""The `file` channel's world: a folder, and a person with an editor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.channels.bench import around
from vyane_cli.channels.file import adapter
from vyane_cli.channels.file.thread import parse_thread
from vyane_cli.channels.port import Channel, Conversation


class FileBench:
    """Threads in `home/threads`."""

    def __init__(self, home: Path) -> None:
        self.home, self.folder = home, home / "threads"

    def channel(self, memory: dict[str, Any] | None = None) -> Channel:
        return adapter.open_channel(
            {"folder": "threads"}, "default", {} if memory is None else memory, around(self.home)
        )

    def path(self, where: Conversation) -> Path:
        return self.folder / f"{where.id}.md"

    def titles(self) -> list[str]:
        return sorted(parse_thread(p.read_text()).title for p in self.folder.glob("*.md"))

    def shown(self, where: Conversation) -> list[str]:
        thread = parse_thread(self.path(where).read_text())
        return [
            "\n".join(row[2:] for row in thread.body[first + 1 : last + 1])
            for first, last in thread.blocks.values()
        ]

    def is_closed(self, where: Conversation) -> bool:
        return parse_thread(self.path(where).read_text()).closed

    def say(self, where: Conversation, text: str) -> None:
        with self.path(where).open("a") as thread:
            thread.write(text + "\n")

    def change(self, where: Conversation, before: str, after: str) -> None:
        path = self.path(where)
        path.write_text(path.read_text().replace(before, after))

    def remove_post(self, where: Conversation, text: str) -> None:
        path = self.path(where)
        rows = path.read_text().split("\n")
        at = rows.index(f"> {text}")
        path.write_text("\n".join(rows[: at - 1] + rows[at + 1 :]))

    def lock(self, where: Conversation) -> None:
        self.path(where).chmod(0o400)

    def unlock(self, where: Conversation) -> None:
        self.path(where).chmod(0o600)

    def delete(self, where: Conversation) -> None:
        self.path(where).unlink()

    def lose_answers(self, operation: str) -> None:
        raise NotImplementedError("a file answers")

    def stop_working(self) -> None:
        self.folder.write_text("a file is in the folder's place")
