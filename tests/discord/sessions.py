"""Simulated sessions that are mirrored to the mock: what people read, and what reaches sessions."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.discord.mockcord import MockDiscord
from tests.simulated import Host, World, machine
from vyane_cli import channels
from vyane_cli.channels.discord import rest
from vyane_cli.children import spawn as spawning
from vyane_cli.children.order import Order
from vyane_cli.children.result import settle_child
from vyane_cli.children.result_rules import Ending, Report
from vyane_cli.children.spawn import spawn as spawn
from vyane_cli.conversations import channels as conversing
from vyane_cli.conversations.pull import PullReport, pull
from vyane_cli.conversations.push import PushReport, push
from vyane_cli.sessions import registry
from vyane_cli.sessions.speaker import FromKind
from vyane_cli.sessions.worker import WorkerStatus
from vyane_cli.storage import files

CHANGING = re.compile(r"\b(vs-[0-9a-f]{12}|01[0-9A-Z]{24})\b|`/\S+`")
"""What is another one in each test: ids and folders."""


class Mirrored:
    """One session on a machine of its own, and its place in Discord. Time is the mock's."""

    def __init__(self, host: Host, server: MockDiscord, settings: str = "") -> None:
        self.host, self.server = host, server
        self.world: World = host.world
        self.world.channels = channels.ADAPTERS
        self.environ = {"DISCORD_API": server.base_url, "DISCORD_TOKEN": server.world.token}
        self.alice = str(server.alice["id"])
        self.settings = settings
        self.configure()
        host.start()

    def configure(self, **settings: Any) -> None:
        """Write the settings; what is given here stands in for what a test began with."""
        given = {
            "guild": self.server.world.guild_id,
            "forum": self.server.forum.id,
            "allow_users": [self.alice],
            **settings,
        }
        lines = [f"{key} = {json.dumps(value)}" for key, value in given.items()]
        text = "\n".join(["[channels.discord]", *lines, self.settings])
        Path(self.world.layout.config).write_text(text)
        self.world._config = None

    def pass_s(self, seconds: float) -> None:
        """Let time go by, for Discord and for vyane."""
        self.server.advance(seconds)
        self.world.pass_s(seconds)

    # ------------------------------------------------------------------ what sessions do

    def turn(self, text: str) -> None:
        """A turn with this answer."""
        self.host.prompt()
        self.host.stop(last_assistant_message=text)

    def spawn(self, prompt: str) -> str:
        """A child that vyane spawned, without its process."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(spawning, "start_launcher", lambda *rest: None)
            return spawn(self.world, Order(prompt, self.host.worker, cwd="/tmp")).id

    def child(self, name: str = "kid", purpose: str = "check the tests", pid: int = 0) -> str:
        """A child on record, as spawn leaves it, without its process."""
        child = self.world.register(name, pid)
        dispatch = self.world.send(child, purpose, kind="task-dispatch")
        book = registry.Registry(self.world.layout)
        parent = book.workers[self.host.worker]
        made = book.workers[child]._replace(
            parent_worker_id=parent.id, dispatch_id=dispatch, status=WorkerStatus.RUNNING
        )
        book.put(made)
        book.put(parent._replace(children_worker_ids=(*parent.children_worker_ids, child)))
        book.save()
        return child

    def settle(self, child: str, text: str, ending: Ending = Ending.SUCCESS) -> None:
        """The child's result."""
        settle_child(self.world, child, Report(ending, text))

    def push(self, *, again: bool = False) -> PushReport:
        self.world.environ = self.environ  # a hook's call leaves its own behind
        (report,) = push(self.world, again=again)
        assert isinstance(report, PushReport)
        return report

    def pull(self) -> PullReport:
        self.world.environ = self.environ
        (report,) = pull(self.world)
        assert isinstance(report, PullReport)
        return report

    # ------------------------------------------------------------------ what people do and read

    def thread(self, of: str = "") -> str:
        """The id of the post whose first message names this session."""
        session = of or self.host.logical
        if of.startswith("w-"):
            session = registry.Registry(self.world.layout).workers[of].logical_session_id
        found = [
            one["id"]
            for one in self.server.threads()
            if session in self.server.visible(one["id"])[0]["content"]
        ]
        assert len(found) == 1, found
        return str(found[0])

    def messages(self, of: str = "") -> list[dict[str, Any]]:
        """What vyane said there after its first words."""
        shown = self.server.visible(self.thread(of))[1:]
        return [one for one in shown if one["by"] == "bot" and one["type"] == 0]

    def texts(self, of: str = "") -> list[str]:
        return [one["content"] for one in self.messages(of)]

    def say(self, content: str, of: str = "", **more: Any) -> str:
        """Alice writes."""
        return str(
            self.server.act(
                "post", channel=self.thread(of), user=self.alice, content=content, **more
            )
        )

    def words(self) -> list[str]:
        """What reached the session from people, in order."""
        return [
            str(entry.message.payload.get("text") or entry.message.payload.get("instruction"))
            for entry in self.world.inbox(self.host.worker).mailbox.entries
            if entry.message.from_kind is FromKind.HUMAN
        ]

    def scene(self) -> list[Any]:
        """All that a person reads, without ids and times. A sign that a crash took is no text."""
        threads = self.server.threads()
        return [
            (
                one["name"],
                one["archived"],
                [
                    (
                        CHANGING.sub("…", m["content"]),
                        m["by"],
                        m["silent"],
                    )
                    for m in self.server.visible(one["id"])
                    if m["type"] in (0, 19)
                ],
            )
            for one in threads
        ]

    def asked(self, operation: str) -> int:
        """How often something was asked of Discord."""
        return sum(one["op"] == operation for one in self.server.requests)


@contextmanager
def mirrored(server: MockDiscord, settings: str = "") -> Iterator[Mirrored]:
    with machine() as host:
        yield Mirrored(host(), server, settings)


def tell_the_seam(monkeypatch: Any) -> None:
    """Requests count among the calls before which a test may stop a process: before and after."""
    send = rest.Rest._send

    def watched(self: Any, request: Any, last: bool) -> Any:
        files.step("request", request.route)
        reply = send(self, request, last)
        files.step("answer", request.route)
        return reply

    monkeypatch.setattr(rest.Rest, "_send", watched)


def control(server: MockDiscord, path: str, **body: Any) -> Any:
    """The mock's own routes, for a process that is not the test's."""
    data = json.dumps(body).encode()
    with urllib.request.urlopen(f"{server.root}/_mock/{path}", data) as reply:
        return json.load(reply)


def waits(session: Mirrored, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the adapter waits passes at once, for Discord too."""
    monkeypatch.setattr(conversing, "time", SimpleNamespace(sleep=session.pass_s))


def started(session: Mirrored, text: str = "start") -> None:
    session.turn(text)
    session.push()
