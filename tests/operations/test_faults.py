"""Commands and ticks, stopped and failed at every call that changes a file."""

import errno
import os
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.operations.faults import (
    Make,
    Outcome,
    Say,
    Scene,
    failing_at,
    failing_at_every_call,
    killed_at_every_call,
    old_or_new,
    stopped_at,
)
from tests.simulated import HUMAN, Host
from vyane_cli.delivery.tick import spool_call
from vyane_cli.errors import DurabilityUnknownError, ExitCode, VyaneError
from vyane_cli.history.delete import delete_timeline
from vyane_cli.hosts import claude_code
from vyane_cli.mail.send import MessageDraft, send
from vyane_cli.sessions.rename import rename_worker
from vyane_cli.storage import files, journal, processes
from vyane_cli.upkeep.gc import collect

FULL = bool(os.environ.get("VYANE_TEST_FULL"))
ERRNOS = [errno.ENOSPC, errno.EIO] + ([errno.EROFS, errno.EDQUOT, errno.EACCES] if FULL else [])
TORN = b'{"v":1,"op":"message","message":{"id'


def put(one: Host, text: str, key: str | None, say: Say) -> None:
    """Send, and acknowledge as exit 0 would."""
    draft = MessageDraft("project", text, idempotency_key=key)
    say(send(one.world, draft, HUMAN).message.id)


def pending(one: Host) -> list[str]:
    return [e.message.id for e in one.world.inbox(one.worker).mailbox.entries]


def texts_of(one: Host) -> list[str]:
    entries = one.world.inbox(one.worker).mailbox.entries
    return [str(e.message.payload["text"]) for e in entries]


def ready(make: Make, start: str = "") -> Host:
    """A session whose inbox is empty, filled, or has a torn tail."""
    one = make()
    one.start()
    if start in ("filled", "torn"):
        one.world.send("project", "first")
        one.world.send("project", "second")
    if start == "torn":
        with open(one.world.layout.inbox(one.worker), "ab") as file:
            file.write(TORN)
    return one


def tick(one: Host, name: str, say: Say, **more: Any) -> None:
    """A hook call; what it showed is said as it is shown."""
    seen = one.call(name, show=lambda reply: say(reply.context + reply.wake), **more)
    assert seen is not None


# ------------------------------------------------------------------ the scenes


class Send(Scene):
    """Old or new inbox, never between; a retry with the key is harmless."""

    def __init__(self, make: Make, start: str, key: str | None) -> None:
        self.one, self.start, self.key = ready(make, start), start, key
        self.world = self.one.world
        self.before = texts_of(self.one)

    def act(self, say: Say) -> None:
        put(self.one, "hello", self.key, say)

    def look(self, outcome: Outcome) -> None:
        self.after = texts_of(self.one)
        old_or_new(outcome, self.after, self.before, [*self.before, "hello"])
        assert outcome.killed or bool(outcome.said) == (outcome.code == 0)

    def retry(self, outcome: Outcome) -> None:
        self.world.send("project", "hello", idempotency_key=self.key)
        again = texts_of(self.one)
        assert again == [*(self.before if self.key else self.after), "hello"], outcome.at
        kept = [Path(f["file"]).read_bytes() for f in journal.list_quarantined(self.one.home)]
        assert set(kept) == ({TORN} if self.start == "torn" else set())
        assert len(kept) <= 1 or not outcome.killed, outcome.at
        assert self.one.prompt().text.count("hello") == again.count("hello")


class Broadcast(Scene):
    """Recipients first: a retry reaches those that were missed, and nobody gets two."""

    def __init__(self, make: Make) -> None:
        self.hosts = [ready(make) for _ in range(3)]
        self.world = self.hosts[0].world

    def act(self, say: Say) -> None:
        sent = send(self.world, MessageDraft("all", "to all", idempotency_key="b"), HUMAN)
        say([message.id for message in sent.messages])

    def look(self, outcome: Outcome) -> None:
        if outcome.told:
            assert [texts_of(one) for one in self.hosts] == [["to all"]] * 3, outcome.at

    def retry(self, outcome: Outcome) -> None:
        self.act(lambda _: None)
        assert [texts_of(one) for one in self.hosts] == [["to all"]] * 3, outcome.at


class Missed(Scene):
    """The end of a turn that was kept aside is there once, wherever the next call dies."""

    def __init__(self, make: Make) -> None:
        self.one = ready(make)
        self.world = self.one.world
        self.one.prompt(turn="first")
        said = self.one.payload("Stop", last_assistant_message="done")
        call = claude_code.parse(said, self.one.environ(), processes.identify)
        spool_call(self.world, call)

    def act(self, say: Say) -> None:
        say(self.one.prompt(turn="second").text)

    def look(self, outcome: Outcome) -> None:
        pass

    def retry(self, outcome: Outcome) -> None:
        self.one.prompt(turn="second")
        self.one.stop()
        assert self.one.outcomes() == ["success", "success"], outcome.at


TICKS = {
    "prompt": ("UserPromptSubmit", {}),
    "batch": ("PostToolBatch", {}),
    "stop": ("Stop", {}),
    "watch": ("FileChanged", {"rewake": True}),
    "start": ("SessionStart-resume", {}),
    "takeover": ("PreToolUse", {}),
}


def prepared(make: Make, name: str) -> tuple[Host, list[str]]:
    """A session in the state in which this event comes, and the mail that it has."""
    one = make()
    one.start()
    if name in ("batch", "stop", "takeover"):
        one.prompt()
    speaker: dict[str, Any] = {"kind": "takeover"} if name == "takeover" else {}
    kinds = ["info", "info"] if name == "start" else []
    if kinds:
        mail = [one.world.send("project", t, kind=k) for t, k in zip("ab", kinds, strict=True)]
    elif name in ("watch", "takeover"):
        mail = [one.world.send("project", "hello", **speaker)]
    else:
        mail = [one.world.send("project", "hello"), one.world.send("project", "world")]
    if name == "prompt":
        one.turn = "new-turn"
    return one, mail


def afterwards(one: Host, name: str, mail: list[str], first: str, at: str) -> None:
    """Everything is shown; what comes a second time is marked."""
    one.world.pass_s(400)
    texts = [first]
    if name == "takeover":
        texts += [one.tool().text, one.batch().text, one.tool().text]
    elif name == "watch":
        texts += [one.watch().text]
        texts += [one.woken(*mail).text]
    texts += [one.prompt().text, one.batch().text, one.stop().text]
    for message in mail:
        times = [text for text in texts if f"id {message}" in text]
        assert times, f"lost after {at}"
        assert len(times) <= 2, at
        if len(times) == 2:
            second = times[1][times[1].index(f"id {message}") :].split("\n")[0]
            assert "redelivered" in second, at
        assert one.world.status(message) in ("delivered", "consumed"), at


class Tick(Scene):
    """Each message is shown by the next calls; one that the dead tick may have shown is marked."""

    def __init__(self, make: Make, name: str) -> None:
        self.name = name
        self.one, self.mail = prepared(make, name)
        self.world = self.one.world

    def act(self, say: Say) -> None:
        event, more = TICKS[self.name]
        tick(self.one, event, say, **more)

    def look(self, outcome: Outcome) -> None:
        pass

    def retry(self, outcome: Outcome) -> None:
        afterwards(self.one, self.name, self.mail, "\n".join(outcome.said), outcome.at)


class Start(Scene):
    """The next event completes the registration, with one worker that gets its mail."""

    def __init__(self, make: Make) -> None:
        self.one = make()
        self.world = self.one.world

    def act(self, say: Say) -> None:
        tick(self.one, "SessionStart-startup-interactive", say)

    def look(self, outcome: Outcome) -> None:
        assert [w.name for w in self.one.world_workers()] in ([], ["project"]), outcome.at

    def retry(self, outcome: Outcome) -> None:
        self.one.prompt()
        assert [w.name for w in self.one.world_workers()] == ["project"], outcome.at
        mail = self.world.send("project", "hello")
        assert f"id {mail}" in self.one.batch().text, outcome.at


class Clear(Scene):
    """SessionEnd `clear` and the start after it: the new session has worker and mail."""

    def __init__(self, make: Make) -> None:
        self.one = ready(make)
        self.world = self.one.world
        self.worker = self.one.worker
        self.mail = self.world.send("project", "hello")

    def act(self, say: Say) -> None:
        tick(self.one, "SessionEnd-clear", say)
        self.one.session = "after-clear"
        tick(self.one, "SessionStart-clear", say)

    def look(self, outcome: Outcome) -> None:
        pass

    def retry(self, outcome: Outcome) -> None:
        self.one.session = "after-clear"
        self.one.start("clear")
        texts = self.one.prompt().text + self.one.batch().text
        assert self.one.worker == self.worker, outcome.at
        assert f"id {self.mail}" in texts, outcome.at


class Register(Scene):
    """Old or new, and the exit code says which."""

    def __init__(self, make: Make) -> None:
        self.one = ready(make)
        self.world = self.one.world

    def act(self, say: Say) -> None:
        say(self.world.register("bob"))

    def look(self, outcome: Outcome) -> None:
        self.names = [w.name for w in self.one.world_workers()]
        old_or_new(outcome, self.names, ["project"], ["project", "bob"])

    def retry(self, outcome: Outcome) -> None:
        if "bob" not in self.names:
            self.world.register("bob")
        self.world.send("bob", "hello")


class Rename(Scene):
    """The list of names for completion is not worth an error: it is derived."""

    def __init__(self, make: Make) -> None:
        self.one = ready(make)
        self.world = self.one.world

    def act(self, say: Say) -> None:
        say(rename_worker(self.world, "project", "other").name)

    def look(self, outcome: Outcome) -> None:
        (worker,) = self.one.world_workers()
        old_or_new(outcome, worker.name, "project", "other")

    def retry(self, outcome: Outcome) -> None:
        assert rename_worker(self.world, self.one.worker, "other").name == "other", outcome.at


class Delete(Scene):
    """The commit point of a delete is the rename: after it a disk that is not sure is exit 8."""

    def __init__(self, make: Make) -> None:
        self.one = ready(make)
        self.world = self.one.world
        self.one.prompt()
        self.one.stop()
        self.path = self.world.layout.timeline(self.one.logical)
        self.world.environ = {"VYANE_WORKER": ""}

    def act(self, say: Say) -> None:
        say(delete_timeline(self.world, "project", yes=True).deleted)

    def look(self, outcome: Outcome) -> None:
        old_or_new(outcome, os.path.exists(self.path), True, False)

    def retry(self, outcome: Outcome) -> None:
        if os.path.exists(self.path):
            delete_timeline(self.world, "project", yes=True)
        assert not os.path.exists(self.path), outcome.at


class Takeover(Scene):
    """Its fact in the timeline comes first: a disk that is not sure of that has stored nothing."""

    def __init__(self, make: Make) -> None:
        self.one = ready(make)
        self.world = self.one.world
        self.one.prompt()

    def act(self, say: Say) -> None:
        say(send(self.world, MessageDraft("project", "stop", "takeover"), HUMAN).message.id)

    def look(self, outcome: Outcome) -> None:
        old_or_new(outcome, len(pending(self.one)), 0, 1)

    def retry(self, outcome: Outcome) -> None:
        if not pending(self.one):
            self.act(lambda _: None)
        assert f"id {pending(self.one)[0]}" in self.one.tool().text, outcome.at


class Gc(Scene):
    """Archive before cut: settled ones stay showable, pending ones stay pending, once each."""

    def __init__(self, make: Make) -> None:
        self.one = ready(make)
        self.world = self.one.world
        self.settled = [self.world.send("project", f"old {n}") for n in range(3)]
        self.one.prompt()
        self.one.batch()
        self.waiting = [self.world.send("project", f"new {n}") for n in range(3)]

    def act(self, say: Say) -> None:
        say(collect(self.world, grace_s=0)[0]["archived"])

    def look(self, outcome: Outcome) -> None:
        for message in self.settled:
            assert self.world.status(message) == "consumed", outcome.at
        for message in self.waiting:
            assert self.world.status(message) == "pending", outcome.at

    def retry(self, outcome: Outcome) -> None:
        collect(self.world, grace_s=0)
        assert pending(self.one) == self.waiting, outcome.at
        self.look(outcome)
        text = self.one.prompt().text
        assert [text.count(f"id {message}") for message in self.waiting] == [1, 1, 1], outcome.at


class Row(NamedTuple):
    """A scene, and how many calls that change a file it makes at least."""

    scene: Callable[[Make], Scene]
    calls: int = 4
    fails: bool = True
    """Whether a disk that fails says more of it than of the row beside it."""


SCENES = {
    "send/empty/key": Row(partial(Send, start="empty", key="key")),
    "send/filled/key": Row(partial(Send, start="filled", key="key")),
    "send/torn/key": Row(partial(Send, start="torn", key="key")),
    "send/empty": Row(partial(Send, start="empty", key=None), fails=False),
    "send/filled": Row(partial(Send, start="filled", key=None), fails=False),
    "send/torn": Row(partial(Send, start="torn", key=None), fails=False),
    "broadcast": Row(Broadcast),
    "missed": Row(Missed),
    **{f"tick/{name}": Row(partial(Tick, name=name), 6) for name in TICKS},
    "start": Row(Start, 6),
    "clear": Row(Clear, 6),
    "register": Row(Register),
    "rename": Row(Rename),
    "delete": Row(Delete, 3),
    "takeover": Row(Takeover),
    "gc": Row(Gc, 6),
}
"""The commands that change the state of messages and sessions. A new state file is a row."""


@pytest.mark.parametrize("name", SCENES)
def test_a_command_that_is_killed_loses_nothing_and_the_next_one_works(name):
    """Killed before any call that changes a file: what it acknowledged, or showed, is true."""
    row = SCENES[name]

    assert killed_at_every_call(row.scene) >= row.calls


@cache
def failed(name: str, number: int) -> list[Outcome]:
    """What became of a scene whose disk failed at each call in turn."""
    return failing_at_every_call(SCENES[name].scene, number)


@pytest.mark.parametrize("number", ERRNOS, ids=errno.errorcode.get)
@pytest.mark.parametrize("name", [name for name, row in SCENES.items() if row.fails])
def test_a_command_whose_disk_fails_says_truly_what_is_done_and_loses_nothing(name, number):
    """
    Done: it is there. Failed: it is not. Unknown (exit 8): it is there, and a retry with the key
    leaves one. Afterwards the same command works.
    """
    assert len(failed(name, number)) >= SCENES[name].calls


@pytest.mark.parametrize("number", ERRNOS, ids=errno.errorcode.get)
@pytest.mark.parametrize("start", ["empty", "filled", "torn"])
def test_a_disk_that_fails_for_ever_is_told_of_as_truly(start, number):
    failing_at_every_call(partial(Send, start=start, key="key"), number, times=1000)


def test_a_failed_flush_after_the_commit_is_told_apart_from_failure():
    """Stored, durability unknown: exit 8, with the id."""
    outcomes = failed("send/filled/key", errno.EIO)
    unknown = [one.at.split()[1] for one in outcomes if one.code == ExitCode.DURABILITY_UNKNOWN]

    assert set(unknown) == {"fsync"}


def test_a_broadcast_whose_disk_does_not_confirm_one_message_stores_the_others():
    """Exit 8 says stored: then all of them are."""
    outcomes = failed("broadcast", errno.EIO)

    assert [one.code for one in outcomes].count(ExitCode.DURABILITY_UNKNOWN) == 3


def test_a_retry_is_done_only_when_the_disk_confirms_what_is_there(host, monkeypatch):
    """ "It is there" is not "it is durable": a retry flushes file and folders, or says 8 again."""
    one = ready(host, "filled")
    before = texts_of(one)
    path = one.world.layout.inbox(one.worker)
    draft = MessageDraft("project", "hello", idempotency_key="key")

    def failing(where: str) -> None:
        def step(name: str, place: str) -> None:
            if name == "fsync" and place == where:
                raise OSError(5, "Input/output error")

        monkeypatch.setattr(files, "step", step)

    for where in (path, path, os.path.dirname(path)):
        failing(where)
        with pytest.raises(DurabilityUnknownError):
            send(one.world, draft, HUMAN)
    failing("")

    assert send(one.world, draft, HUMAN).repeated
    assert texts_of(one) == [*before, "hello"]


def test_a_full_disk_changes_nothing_and_a_tick_shows_nothing(host):
    """What is not claimed is not shown: with no write possible the mail stays as it was."""
    one, mail = prepared(host, "batch")
    before = Path(one.world.layout.inbox(one.worker)).read_bytes()
    outcome = failing_at(1, partial(tick, one, "PostToolBatch"), errno.ENOSPC, 10_000)

    assert outcome.said == []
    assert not outcome.surprise
    assert Path(one.world.layout.inbox(one.worker)).read_bytes() == before
    afterwards(one, "batch", mail, "", outcome.at)


# ------------------------------------------------------------------ the rig itself


def test_the_rig_sees_every_changing_call_of_a_send():
    """A seam that is bypassed would make these tests blind."""
    outcomes = failed("send/torn/key", errno.EIO)
    names = {one.at.split()[1] for one in outcomes if one.at}

    assert {"open", "write", "fsync", "rename", "ftruncate", "touch"} <= names


def test_an_error_that_vyane_knows_is_told_from_a_surprise():
    """So that the assertions above can fail."""

    def known(say: Callable[[object], None]) -> None:
        raise VyaneError("known")

    def unknown(say: Callable[[object], None]) -> None:
        raise OSError(5, "surprise")

    assert not stopped_at(1, known).surprise
    assert stopped_at(1, unknown).surprise
