"""Send, tick, register and gc, stopped and failed at every call that changes a file."""

import errno
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.simulated import HUMAN, Host, machine
from tests.store.faults import Outcome, failing_at, stopped_at
from vyane_cli.errors import DurabilityUnknownError, VyaneError
from vyane_cli.hosts import claude_code
from vyane_cli.operations.rename import rename_worker
from vyane_cli.operations.send import Draft, send
from vyane_cli.operations.tick import spool_call
from vyane_cli.operations.timelines.delete import delete_timeline
from vyane_cli.operations.upkeep.gc import collect
from vyane_cli.store import files, processes, quarantine

FULL = bool(os.environ.get("VYANE_TEST_FULL"))
ERRNOS = [errno.ENOSPC, errno.EIO] + ([errno.EROFS, errno.EDQUOT, errno.EACCES] if FULL else [])
TORN = b'{"v":1,"op":"message","message":{"id'


def every_k(run: Callable[[int], Outcome]) -> int:
    """Run with k = 1, 2, 3 … until a run is not touched any more; the number of runs."""
    for k in range(1, 400):
        if run(k).finished:
            return k
    raise AssertionError("no end")


def show(one: Host, shown: dict[str, int]) -> str:
    """All that the session is given from here on, over several calls; counts in `shown`."""
    texts = [one.prompt().text, one.batch().text, one.batch().text, one.stop().text]
    text = "\n".join(texts)
    for part in text.split("\nMessage from ")[0:] if text else []:
        for word in part.split():
            mail = word.rstrip(",")
            if len(mail) == 26 and f"id {mail}" in part:
                shown[mail] = shown.get(mail, 0) + 1
                break
    return text


def put(one: Host, text: str, key: str | None, say: Callable[[object], None]) -> None:
    """Send, and acknowledge as exit 0 would."""
    draft = Draft("project", text, idempotency_key=key)
    say(send(one.world, draft, HUMAN).message.id)


def pending(one: Host) -> list[str]:
    return [e.message.id for e in one.world.inbox(one.worker).mailbox.entries]


def texts_of(one: Host) -> list[str]:
    entries = one.world.inbox(one.worker).mailbox.entries
    return [str(e.message.payload["text"]) for e in entries]


def ready(make: Callable[..., Host], start: str) -> Host:
    """A session whose inbox is empty, filled, or has a torn tail."""
    one = make()
    one.start()
    if start != "empty":
        one.world.send("project", "first")
        one.world.send("project", "second")
    if start == "torn":
        with open(one.world.layout.inbox(one.worker), "ab") as file:
            file.write(TORN)
    return one


# ------------------------------------------------------------------ send


@pytest.mark.parametrize("start", ["empty", "filled", "torn"])
@pytest.mark.parametrize("key", [None, "key"])
def test_a_send_that_is_killed_loses_nothing_that_was_acknowledged(start, key):
    """Old or new inbox, never between; the next command works; a retry with the key is harmless."""

    def run(k: int) -> Outcome:
        with machine() as make:
            one = ready(make, start)
            before = texts_of(one)
            outcome = stopped_at(k, partial(put, one, "hello", key))
            after = texts_of(one)
            assert after in (before, [*before, "hello"]), outcome.at
            assert not outcome.said or after == [*before, "hello"], outcome.at
            one.world.send("project", "hello", idempotency_key=key)
            again = texts_of(one)
            if key:
                assert again == [*before, "hello"], outcome.at
            else:
                assert again == [*after, "hello"], outcome.at
            kept = quarantine.listing(one.home)
            assert [Path(f["file"]).read_bytes() for f in kept] == (
                [TORN] if start == "torn" else []
            )
            assert one.prompt().text.count("hello") == again.count("hello")
            return outcome

    assert every_k(run) > 3


@pytest.mark.parametrize("number", ERRNOS, ids=errno.errorcode.get)
@pytest.mark.parametrize("start", ["empty", "filled", "torn"])
@pytest.mark.parametrize("times", [1, 1000], ids=["once", "for-ever"])
def test_a_send_that_fails_says_truly_whether_the_message_is_stored(start, number, times):
    """
    Done: it is readable. Failed: it is not visible. Unknown (exit 8): it is visible, and a
    retry with the key leaves one. Afterwards the same command works.
    """

    def run(k: int) -> Outcome:
        with machine() as make:
            one = ready(make, start)
            before = texts_of(one)
            outcome = failing_at(k, partial(put, one, "hello", "key"), number, times)
            after = texts_of(one)
            assert not outcome.surprise, (outcome.at, outcome.error)
            if outcome.code in (0, 8):
                assert after == [*before, "hello"], outcome.at
            else:
                assert after == before, (outcome.at, outcome.error)
            assert bool(outcome.said) == (outcome.code == 0)
            one.world.send("project", "hello", idempotency_key="key")
            assert texts_of(one) == [*before, "hello"], outcome.at
            if start == "torn":
                kept = quarantine.listing(one.home)
                assert TORN in [Path(f["file"]).read_bytes() for f in kept]
            assert temporaries(one.home) == [], outcome.at
            return outcome

    every_k(run)


def temporaries(home: str) -> list[str]:
    return [p.name for p in Path(home).rglob("*") if p.name.endswith(".tmp")]


def test_a_failed_flush_after_the_commit_is_told_apart_from_failure():
    """Stored, durability unknown: exit 8, with the id; the retry leaves exactly one."""
    codes = set()

    def run(k: int) -> Outcome:
        with machine() as make:
            one = ready(make, "filled")
            outcome = failing_at(k, partial(put, one, "hello", "key"), errno.EIO)
            codes.add((outcome.code, outcome.at.split()[1] if outcome.at else ""))
            return outcome

    every_k(run)
    assert (8, "fsync") in codes
    assert all(name == "fsync" for code, name in codes if code == 8)


def test_a_retry_is_done_only_when_the_disk_confirms_what_is_there(monkeypatch):
    """ "It is there" is not "it is durable": a retry flushes file and folders, or says 8 again."""
    with machine() as make:
        one = ready(make, "filled")
        before = texts_of(one)
        path = one.world.layout.inbox(one.worker)
        draft = Draft("project", "hello", idempotency_key="key")

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


def test_a_killed_keyed_broadcast_is_completed_by_its_retry():
    """Recipients first: whoever was missed gets it, nobody gets two."""

    def broadcast(one: Host, say: Callable[[object], None]) -> None:
        sent = send(one.world, Draft("all", "to all", idempotency_key="b"), HUMAN)
        say([message.id for message in sent.messages])

    def run(k: int) -> Outcome:
        with machine() as make:
            hosts = [make(), make(), make()]
            for one in hosts:
                one.start()
            outcome = stopped_at(k, partial(broadcast, hosts[0]))
            broadcast(hosts[0], lambda _: None)
            for one in hosts:
                assert texts_of(one) == ["to all"], outcome.at
            return outcome

    assert every_k(run) > 3


# ------------------------------------------------------------------ tick


def tick(one: Host, name: str, say: Callable[[object], None], **more: Any) -> None:
    """A hook call; what it showed is said as it is shown."""
    seen = one.call(name, show=lambda reply: say(reply.context + reply.wake), **more)
    assert seen is not None


def test_a_call_that_missed_its_locks_is_told_though_its_teller_is_killed():
    """The end of a turn that was kept aside is there once, wherever the next call dies."""

    def run(k: int) -> Outcome:
        with machine() as make:
            one = make()
            one.start()
            one.prompt(turn="first")
            said = one.payload("Stop", last_assistant_message="done")
            spool_call(one.world, claude_code.parse(said, one.environ(), processes.identify))
            outcome = stopped_at(k, lambda say: say(one.prompt(turn="second").text))
            one.prompt(turn="second")
            one.stop()
            assert one.outcomes() == ["success", "success"], outcome.at
            return outcome

    assert every_k(run) > 3


TICKS = {
    "prompt": ("UserPromptSubmit", {}),
    "batch": ("PostToolBatch", {}),
    "stop": ("Stop", {}),
    "watch": ("FileChanged", {"rewake": True}),
    "start": ("SessionStart-resume", {}),
    "takeover": ("PreToolUse", {}),
}


def prepared(make: Callable[..., Host], name: str) -> tuple[Host, list[str]]:
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


@pytest.mark.parametrize("name", TICKS)
def test_a_tick_that_is_killed_loses_nothing(name):
    """
    Killed before any call that changes a file: each message is shown by the next calls, and one
    that the dead tick may have shown comes with a mark.
    """
    event, more = TICKS[name]

    def run(k: int) -> Outcome:
        with machine() as make:
            one, mail = prepared(make, name)
            outcome = stopped_at(k, partial(tick, one, event, **more))
            first = "\n".join(outcome.said)
            afterwards(one, name, mail, first, outcome.at)
            return outcome

    assert every_k(run) > 5


@pytest.mark.parametrize("number", ERRNOS, ids=errno.errorcode.get)
@pytest.mark.parametrize("name", TICKS)
def test_a_tick_whose_disk_fails_loses_nothing(name, number):
    """The same with each call refused once: only errors that vyane knows, and no message lost."""
    event, more = TICKS[name]

    def run(k: int) -> Outcome:
        with machine() as make:
            one, mail = prepared(make, name)
            outcome = failing_at(k, partial(tick, one, event, **more), number)
            assert not outcome.surprise, (outcome.at, outcome.error)
            first = "\n".join(outcome.said)
            afterwards(one, name, mail, first, outcome.at)
            return outcome

    every_k(run)


def test_a_full_disk_changes_nothing_and_a_tick_shows_nothing():
    """What is not claimed is not shown: with no write possible the mail stays as it was."""
    with machine() as make:
        one, mail = prepared(make, "batch")
        before = Path(one.world.layout.inbox(one.worker)).read_bytes()
        outcome = failing_at(1, partial(tick, one, "PostToolBatch"), errno.ENOSPC, 10_000)

        assert outcome.said == []
        assert not outcome.surprise
        assert Path(one.world.layout.inbox(one.worker)).read_bytes() == before
        afterwards(one, "batch", mail, "", outcome.at)


# ------------------------------------------------------------------ register, clear, end


def test_a_killed_start_of_a_session_leaves_one_that_gets_its_mail():
    """Whatever of the registration was done: the next event completes it, with one worker."""

    def run(k: int) -> Outcome:
        with machine() as make:
            one = make()
            outcome = stopped_at(k, partial(tick, one, "SessionStart-startup-interactive"))
            one.prompt()
            workers = one.world_workers()
            assert [w.name for w in workers] == ["project"], outcome.at
            mail = one.world.send("project", "hello")
            assert f"id {mail}" in one.batch().text, outcome.at
            return outcome

    assert every_k(run) > 5


def test_a_killed_clear_keeps_worker_and_mail():
    """SessionEnd `clear` and the start after it, stopped anywhere: the new session has all."""

    def clear(one: Host, say: Callable[[object], None]) -> None:
        tick(one, "SessionEnd-clear", say)
        one.session = "after-clear"
        tick(one, "SessionStart-clear", say)

    def run(k: int) -> Outcome:
        with machine() as make:
            one = make()
            one.start()
            worker = one.worker
            mail = one.world.send("project", "hello")
            outcome = stopped_at(k, partial(clear, one))
            one.session = "after-clear"
            one.start("clear")
            texts = one.prompt().text + one.batch().text
            assert one.worker == worker, outcome.at
            assert f"id {mail}" in texts, outcome.at
            return outcome

    assert every_k(run) > 5


@pytest.mark.parametrize("number", ERRNOS, ids=errno.errorcode.get)
def test_a_registration_that_fails_says_truly_whether_it_is_made(number):
    """Old or new; the exit code says which, whatever call failed; and the same command works."""

    def register(one: Host, say: Callable[[object], None]) -> None:
        say(one.world.register("bob"))

    def run(k: int) -> Outcome:
        with machine() as make:
            one = make()
            one.start()
            outcome = failing_at(k, partial(register, one), number)
            assert not outcome.surprise, (outcome.at, outcome.error)
            names = [w.name for w in one.world_workers()]
            made = outcome.code in (0, 8)
            assert names == (["project", "bob"] if made else ["project"]), outcome.at
            if not made:
                one.world.register("bob")
            one.world.send("bob", "hello")
            assert temporaries(one.home) == [], outcome.at
            return outcome

    every_k(run)


@pytest.mark.parametrize("number", ERRNOS, ids=errno.errorcode.get)
def test_a_rename_that_fails_says_truly_whether_it_is_made(number):
    """The list of names for completion is not worth an error: it is derived."""

    def run(k: int) -> Outcome:
        with machine() as make:
            one = make()
            one.start()

            def rename(say: Callable[[object], None]) -> None:
                say(rename_worker(one.world, "project", "other").name)

            outcome = failing_at(k, rename, number)
            assert not outcome.surprise, (outcome.at, outcome.error)
            (worker,) = one.world_workers()
            assert worker.name == ("other" if outcome.code in (0, 8) else "project"), outcome.at
            return outcome

    every_k(run)


def test_a_broadcast_whose_disk_does_not_confirm_one_message_stores_the_others():
    """Exit 8 says stored: then all of them are."""
    unsure = 0

    def run(k: int) -> Outcome:
        nonlocal unsure
        with machine() as make:
            hosts = [make(), make(), make()]
            for one in hosts:
                one.start()

            def broadcast(say: Callable[[object], None]) -> None:
                say(len(send(hosts[0].world, Draft("all", "to all"), HUMAN).messages))

            outcome = failing_at(k, broadcast, errno.EIO)
            if outcome.code == 8:
                unsure += 1
                assert [texts_of(one) for one in hosts] == [["to all"]] * 3, outcome.at
            return outcome

    every_k(run)
    assert unsure == 3


@pytest.mark.parametrize("number", ERRNOS, ids=errno.errorcode.get)
def test_a_delete_of_a_timeline_that_fails_says_truly_whether_it_is_deleted(number):
    """Its commit point is the rename: after it a disk that does not confirm is exit 8."""

    def run(k: int) -> Outcome:
        with machine() as make:
            one = make()
            one.start()
            one.prompt()
            one.stop()

            def delete(say: Callable[[object], None]) -> None:
                say(delete_timeline(one.world, "project", yes=True).deleted)

            one.world.environ = {"VYANE_WORKER": ""}
            outcome = failing_at(k, delete, number)
            assert not outcome.surprise, (outcome.at, outcome.error)
            there = os.path.exists(one.world.layout.timeline(one.logical))
            assert there == (outcome.code not in (0, 8)), (outcome.at, outcome.code)
            return outcome

    assert every_k(run) > 2


@pytest.mark.parametrize("number", ERRNOS, ids=errno.errorcode.get)
def test_a_takeover_that_fails_says_truly_whether_it_is_stored(number):
    """Its fact in the timeline comes first: a disk that is not sure of that has stored nothing."""

    def run(k: int) -> Outcome:
        with machine() as make:
            one = ready(make, "empty")
            one.prompt()

            def order(say: Callable[[object], None]) -> None:
                say(send(one.world, Draft("project", "stop", "takeover"), HUMAN).message.id)

            outcome = failing_at(k, order, number)
            assert not outcome.surprise, (outcome.at, outcome.error)
            entries = one.world.inbox(one.worker).mailbox.entries
            assert len(entries) == (outcome.code in (0, 8)), (outcome.at, outcome.code)
            return outcome

    every_k(run)


# ------------------------------------------------------------------ gc


def test_a_killed_gc_loses_no_message():
    """Archive before cut: settled ones stay showable, pending ones stay pending, once each."""

    def gc(one: Host, say: Callable[[object], None]) -> None:
        say(collect(one.world, grace_s=0)[0]["archived"])

    def run(k: int) -> Outcome:
        with machine() as make:
            one = make()
            one.start()
            settled = [one.world.send("project", f"old {n}") for n in range(3)]
            one.prompt()
            one.batch()
            waiting = [one.world.send("project", f"new {n}") for n in range(3)]
            outcome = stopped_at(k, partial(gc, one))
            for message in settled:
                assert one.world.status(message) == "consumed", outcome.at
            for message in waiting:
                assert one.world.status(message) == "pending", outcome.at
            collect(one.world, grace_s=0)
            assert pending(one) == waiting, outcome.at
            for message in settled:
                assert one.world.status(message) == "consumed", outcome.at
            text = one.prompt().text
            assert [text.count(f"id {message}") for message in waiting] == [1, 1, 1], outcome.at
            return outcome

    assert every_k(run) > 5


@pytest.mark.parametrize("number", ERRNOS, ids=errno.errorcode.get)
def test_a_gc_whose_disk_fails_loses_no_message(number):
    """It stops or goes on, and whatever was not archived is still in the inbox."""

    def gc(one: Host, say: Callable[[object], None]) -> None:
        collect(one.world, grace_s=0)

    def run(k: int) -> Outcome:
        with machine() as make:
            one = make()
            one.start()
            settled = [one.world.send("project", f"old {n}") for n in range(2)]
            one.prompt()
            one.batch()
            waiting = one.world.send("project", "new")
            outcome = failing_at(k, partial(gc, one), number)
            assert not outcome.surprise, (outcome.at, outcome.error)
            for message in settled:
                assert one.world.status(message) == "consumed", outcome.at
            assert one.world.status(waiting) == "pending", outcome.at
            return outcome

    every_k(run)


# ------------------------------------------------------------------ the rig itself


def test_the_rig_sees_every_changing_call_of_a_send():
    """A seam that is bypassed would make these tests blind."""
    names: list[str] = []

    def run(k: int) -> Outcome:
        with machine() as make:
            one = ready(make, "torn")
            outcome = stopped_at(k, partial(put, one, "hello", "key"))
            if outcome.at:
                names.append(outcome.at.split()[1])
            return outcome

    every_k(run)
    assert {"open", "write", "fsync", "rename", "ftruncate", "touch"} <= set(names)


def test_an_error_that_vyane_knows_is_told_from_a_surprise():
    """So that the assertions above can fail."""

    def known(say: Callable[[object], None]) -> None:
        raise VyaneError("known")

    def unknown(say: Callable[[object], None]) -> None:
        raise OSError(5, "surprise")

    assert not stopped_at(1, known).surprise
    assert stopped_at(1, unknown).surprise
