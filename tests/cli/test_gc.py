"""`vyane gc`: archive before cut, each message once, and nothing that somebody still needs."""

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.simulated import Host, World, machine, vyane
from vyane_cli import errors
from vyane_cli.attention import needs
from vyane_cli.delivery.why import tell
from vyane_cli.mail import archive
from vyane_cli.mail.lookup import find_message
from vyane_cli.mail.mailbox import Op, render_message
from vyane_cli.sessions import registry
from vyane_cli.storage import files, journal, locks, processes
from vyane_cli.upkeep.gc import collect

DAY_S = 86_400


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Callable[..., Host]]:
    with machine(tmp_path) as host:
        yield host


def consumed(bob: Host, text: str = "hello") -> str:
    """A message that bob has read in a turn that went on."""
    sent = bob.world.send(bob.worker, text)
    bob.prompt()
    bob.stop()
    assert bob.world.status(sent) == "consumed"
    return sent


def lines(world: World, month: str) -> list[dict[str, Any]]:
    found = [line.record for line in journal.read(world.layout.archive(month))]
    assert None not in found
    return [dict(record) for record in found if record is not None]


def month_of(ts: float) -> str:
    return time.strftime("%Y-%m", time.gmtime(ts))


def started(hosts: Callable[..., Host]) -> Host:
    bob = hosts()
    bob.start()
    return bob


def test_a_settled_message_is_in_the_archive_of_its_month_and_no_longer_in_the_inbox(hosts):
    bob = started(hosts)
    sent = consumed(bob)

    counts, code = collect(bob.world, grace_s=0.001)

    assert (counts["archived"], code) == (1, 0)
    assert bob.world.inbox(bob.worker).mailbox.entries == ()
    found = find_message(bob.world, sent)
    month = month_of(found.message.ts)
    assert found.path == bob.world.layout.archive(month)
    assert found.entry.status == "consumed"


def test_the_month_is_that_of_the_message_in_utc(hosts, monkeypatch):
    """Sent at 23:59 UTC on 31 January, when it is February already further east."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    bob = started(hosts)
    sent = consumed(bob)
    (one,) = archive.settled(bob.world.layout.inbox(bob.worker), 1e12)
    message = one.entry.message._replace(ts=1769903940.0)  # 2026-01-31T23:59:00Z

    month = one._replace(entry=one.entry._replace(message=message)).month
    monkeypatch.undo()
    time.tzset()

    assert month == "2026-01"
    assert sent == message.id


def test_what_is_not_settled_stays_in_the_inbox(hosts):
    bob = started(hosts)
    consumed(bob)
    waiting = bob.world.send(bob.worker, "later")

    collect(bob.world, grace_s=0.001)

    (entry,) = bob.world.inbox(bob.worker).mailbox.entries
    assert (entry.message.id, entry.status) == (waiting, "pending")


def test_a_message_that_was_settled_just_now_stays_for_the_grace(hosts):
    bob = started(hosts)
    consumed(bob)

    assert collect(bob.world, grace_s=60)[0]["archived"] == 0
    bob.world.pass_s(61)
    assert collect(bob.world, grace_s=60)[0]["archived"] == 1


def test_messages_that_went_out_together_have_their_own_story_each(hosts):
    bob = started(hosts)
    sent = [bob.world.send(bob.worker, text) for text in ("one", "two")]
    bob.prompt()
    bob.stop()
    before = [tell(bob.world, one) for one in sent]

    collect(bob.world, grace_s=0.001)

    assert [tell(bob.world, one) for one in sent] == before
    assert [find_message(bob.world, one).message.payload["text"] for one in sent] == ["one", "two"]


def test_show_and_why_and_a_keyed_retry_find_an_archived_message(hosts):
    bob = started(hosts)
    sent = bob.world.send(bob.worker, idempotency_key="k1")
    bob.prompt()
    bob.stop()
    home = bob.home
    collect(bob.world, grace_s=0.001)

    shown = vyane(home, "show", sent, "--json")
    why = vyane(home, "why", sent, "--json")
    again = bob.world.send(bob.worker, idempotency_key="k1")

    assert json.loads(shown.out)["status"] == "consumed"
    assert [one["step"] for one in json.loads(why.out)["steps"]][-1] == "consumed"
    assert again == sent
    assert bob.world.inbox(bob.worker).mailbox.entries == ()


def _folder(tmp_path: Path, number: int) -> Path:
    folder = tmp_path / str(number)
    folder.mkdir()
    return folder


class StoppedError(BaseException):
    """A stop, as by SIGKILL."""


def test_a_run_that_is_stopped_at_any_call_loses_nothing_and_archives_nothing_twice(
    tmp_path, monkeypatch
):
    for at in range(1000):
        with machine(_folder(tmp_path, at)) as host, monkeypatch.context() as patch:
            bob = started(host)
            sent = [consumed(bob, text) for text in ("one", "two")]
            before = [tell(bob.world, one) for one in sent]
            left = [None] * at

            def step(name: str, path: str, left: list[None] = left) -> None:
                if not left:
                    raise StoppedError
                left.pop()

            patch.setattr(files, "step", step)
            try:
                collect(bob.world, grace_s=0.001)
            except (StoppedError, OSError):  # OSError: a close after the stop
                stopped = True
            else:
                stopped = False
            patch.undo()
            between = [tell(bob.world, one) for one in sent]
            collect(bob.world, grace_s=0.001)

            assert between == before
            assert [tell(bob.world, one) for one in sent] == before
            records = lines(bob.world, month_of(time.time()))
            names = [one["message"]["id"] for one in records if one["op"] == Op.MESSAGE]
            assert sorted(names) == sorted(sent)
        if not stopped:
            break
    assert at > 5


def test_half_an_archived_message_is_completed(hosts):
    bob = started(hosts)
    sent = consumed(bob)
    told = tell(bob.world, sent)
    (one,) = archive.settled(bob.world.layout.inbox(bob.worker), 1e12)
    part = one._replace(records=one.records[:2])
    archive.append_settled(bob.world.layout, [part], locks.Deadline(5))

    collect(bob.world, grace_s=0.001)

    assert tell(bob.world, sent) == told
    assert len(lines(bob.world, one.month)) == len(one.records)


def test_a_damaged_line_of_the_settled_part_is_set_aside_and_not_swallowed(hosts):
    bob = started(hosts)
    path = Path(bob.world.layout.inbox(bob.worker))
    consumed(bob, "one")
    consumed(bob, "two")
    found = path.read_bytes().splitlines(keepends=True)
    found[1] = found[1].replace(b"claim", b"blame")
    path.write_bytes(b"".join(found))

    collect(bob.world, grace_s=0.001)

    kept = list(Path(bob.world.layout.quarantine).glob("*.bad"))
    assert [one.read_bytes() for one in kept] == [found[1]]


def test_archiving_costs_what_the_file_holds_and_not_its_square(hosts):
    bob = started(hosts)
    world = bob.world
    message = find_message(world, consumed(bob)).message
    at = world.clock().at
    records: list[dict[str, Any]] = []
    for number in range(3000):
        plain = render_message(message._replace(id=f"{number:026d}"))
        records += [
            {"op": Op.MESSAGE, "message": plain, "head": {"open": 0}},
            {"op": Op.FAILED, "ids": [plain["id"]], "at": at, "head": {"open": 0}},
        ]
    writer = journal.open_writer(world.layout.inbox(bob.worker), world.layout.root)
    writer.append(records)
    writer.close()

    began = time.process_time()
    counts, _ = collect(world, grace_s=0.001)
    spent = time.process_time() - began

    assert counts["archived"] == 3001
    assert spent < 5


# ------------------------------------------------------------------ times to live


def test_mail_to_a_closed_session_expires_and_its_sender_is_told(hosts):
    alice, bob = started(hosts), started(hosts)
    from_alice = {"CLAUDE_CODE_SESSION_ID": alice.session, "CLAUDECODE": "1"}
    ran = vyane(alice.home, "send", bob.worker, "hi", "--ttl", "1s", "--json", environ=from_alice)
    sent = json.loads(ran.out)["id"]
    bob.die()
    bob.world.pass_s(2)

    counts, _ = collect(bob.world, grace_s=3600)

    assert counts["expired"] == 1
    assert bob.world.status(sent) == "expired"
    (note,) = bob.world.inbox(alice.worker).mailbox.entries
    assert note.message.payload["bounced"] == sent


def test_a_person_whose_words_expired_is_called_once(hosts):
    """They have no inbox, and nothing else would say that nobody read it."""
    bob = started(hosts)
    sent = bob.world.send(bob.worker, "deploy tonight", ttl_s=1.0)
    bob.world.send(bob.worker, "by the way", kind="info", ttl_s=1.0)
    bob.die()
    bob.world.pass_s(2)
    for _ in range(2):
        collect(bob.world, grace_s=3600)

    (entry,) = needs.list_entries(bob.world.layout)
    assert sent in entry["ask"]
    assert "deploy tonight" in entry["text"]


def test_an_expired_message_is_archived_in_the_same_run(hosts):
    bob = started(hosts)
    sent = bob.world.send(bob.worker, ttl_s=1.0)
    bob.die()
    bob.world.pass_s(60)

    counts, _ = collect(bob.world)

    assert (counts["expired"], counts["archived"]) == (1, 1)
    assert "archive" in find_message(bob.world, sent).path


def test_mail_to_a_session_that_runs_is_left_to_its_own_ticks(hosts):
    bob = started(hosts)
    sent = bob.world.send(bob.worker, ttl_s=1.0)
    bob.world.pass_s(60)

    collect(bob.world)

    assert bob.world.status(sent) == "pending"


def test_mail_to_a_channel_expires(hosts):
    bob = started(hosts)
    sent = bob.world.send("channel:a b/c", ttl_s=1.0)
    bob.world.pass_s(60)

    collect(bob.world)

    assert bob.world.status(sent) == "expired"


def test_the_dead_turn_of_a_killed_session_is_closed_and_its_mail_is_pending_again(hosts):
    bob = started(hosts)
    sent = bob.world.send(bob.worker)
    bob.prompt()
    assert bob.world.status(sent) == "delivered"
    bob.die()

    collect(bob.world)

    assert bob.outcomes() == ["interrupted/runtime_restart"]
    assert (bob.world.status(sent), bob.world.marks(sent)) == ("pending", 1)


# ------------------------------------------------------------------ what is over


def test_keys_go_when_their_time_is_over(hosts):
    bob = started(hosts)
    bob.world.send(bob.worker, idempotency_key="k1", ttl_s=60.0)
    folder = Path(bob.world.layout("messages", "keys"))

    assert collect(bob.world)[0]["keys"] == 0
    bob.world.pass_s(DAY_S + 1)
    assert collect(bob.world)[0]["keys"] == 1
    assert list(folder.iterdir()) == []


def test_temporary_files_go_when_they_are_an_hour_old(hosts):
    world = started(hosts).world
    left, fresh = Path(world.layout(".a.1.tmp")), Path(world.layout("sessions", ".b.2.tmp"))
    left.touch()
    fresh.touch()
    os.utime(left, (1, 1))

    assert collect(world)[0]["temporary"] == 1
    assert (left.exists(), fresh.exists()) == (False, True)


def test_the_small_files_of_a_session_that_is_over_go_after_an_hour(hosts):
    bob = started(hosts)
    bob.die()
    wake = Path(bob.world.layout.wake(bob.session))
    process = Path(bob.world.layout.process(bob.process.pid))

    collect(bob.world)
    assert (wake.exists(), process.exists()) == (True, True)
    bob.world.pass_s(3601)
    collect(bob.world)
    assert (wake.exists(), process.exists()) == (False, False)


def test_a_session_that_runs_keeps_its_files_whatever_its_age(hosts):
    bob = started(hosts)
    bob.world.pass_s(365 * DAY_S)

    collect(bob.world)

    assert os.path.exists(bob.world.layout.wake(bob.session))
    assert bob.worker in registry.Registry(bob.world.layout).workers


def test_a_worker_leaves_the_registry_30_days_after_its_end(hosts):
    bob = started(hosts)
    worker, logical = bob.worker, bob.logical
    sent = consumed(bob)
    bob.die()

    bob.world.pass_s(29 * DAY_S)
    assert collect(bob.world)[0]["retired"] == 0
    bob.world.pass_s(2 * DAY_S)
    assert collect(bob.world)[0]["retired"] == 1

    layout = bob.world.layout
    assert worker not in registry.Registry(layout).workers
    assert registry.load_session(layout, bob.session) is None
    assert not os.path.exists(layout.inbox(worker))
    assert bob.world.status(sent) == "consumed"  # archived before the cut
    assert os.path.exists(layout.timeline(logical))  # the history stays


def test_a_worker_with_unsettled_mail_stays_whatever_its_age(hosts):
    bob = started(hosts)
    sent = bob.world.send(bob.worker, ttl_s=300.0 * DAY_S)
    bob.die()
    bob.world.pass_s(60 * DAY_S)

    assert collect(bob.world)[0]["retired"] == 0
    assert bob.world.status(sent) == "pending"


def test_a_worker_whose_end_cannot_be_proven_stays(hosts):
    world = started(hosts).world
    worker = world.register("unknown")
    world.pass_s(60 * DAY_S)

    collect(world)

    assert worker in registry.Registry(world.layout).workers


def test_a_session_that_was_resumed_while_gc_ran_keeps_everything(hosts, monkeypatch):
    """It came back between the first look and the lock."""
    bob = started(hosts)
    bob.die()
    bob.world.pass_s(60 * DAY_S)
    back = hosts(session=bob.session)
    real = World.held
    came: list[bool] = []

    def held(self: World, *wanted: Any, **more: Any) -> Any:
        if (locks.LockKind.REGISTRY, "") in wanted and not came:
            came.append(True)
            monkeypatch.setattr(World, "held", real)
            back.start("resume")
        return real(self, *wanted, **more)

    monkeypatch.setattr(World, "held", held)
    collect(bob.world)

    assert came
    assert back.worker in registry.Registry(bob.world.layout).workers
    assert os.path.exists(bob.world.layout.wake(bob.session))
    assert processes.is_present(registry.load_session(bob.world.layout, bob.session).process)


# ------------------------------------------------------------------ the command


def snapshot(root: str) -> dict[str, tuple[bytes, int]]:
    return {
        str(path): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in Path(root).rglob("*")
        if path.is_file()
    }


def test_a_dry_run_counts_the_same_and_changes_nothing(hosts):
    bob = started(hosts)
    consumed(bob)
    bob.world.send(bob.worker, ttl_s=1.0, idempotency_key="k")
    bob.die()
    bob.world.pass_s(31 * DAY_S)
    before = snapshot(bob.home)

    planned, _ = collect(bob.world, dry_run=True)

    assert snapshot(bob.home) == before
    assert (planned["archived"], planned["expired"], planned["keys"]) == (1, 1, 1)


def test_a_locked_inbox_is_left_and_holds_up_no_other(hosts):
    alice, bob = started(hosts), started(hosts)
    consumed(alice)
    consumed(bob)
    world = bob.world
    real = locks.held

    def held(root: str, wanted: list[tuple[locks.LockKind, str]], deadline: locks.Deadline) -> Any:
        if (locks.LockKind.INBOX, alice.worker) in wanted:
            raise errors.LockTimeoutError(Path("inbox.lock"), 5.0)
        return real(root, wanted, deadline)

    locks.held = held
    try:
        counts, code = collect(world, grace_s=0.001)
    finally:
        locks.held = real

    assert (counts["archived"], code) == (1, 6)
    (left,) = counts["skipped"]
    assert alice.worker in left["what"]


def test_gc_without_a_state_folder_has_nothing_to_do(tmp_path):
    ran = vyane(tmp_path / "none", "gc", "--json")

    assert ran.status == 0
    assert json.loads(ran.out)["archived"] == 0
    assert not (tmp_path / "none").exists()


def test_gc_prints_what_it_did(hosts):
    bob = started(hosts)
    consumed(bob)
    time.sleep(0.01)

    ran = vyane(bob.home, "gc", "--older-than", "0.001s")
    again = vyane(bob.home, "gc", "--older-than", "0.001s")

    assert b"1 settled messages archived" in ran.out
    assert again.out == b"nothing to do\n"
