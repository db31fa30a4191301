"""`vyane timeline delete --purge-messages`: the text goes, the ids and the steps stay."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.simulated import Host, machine, vyane
from tests.store.faults import Outcome, stopped_at
from tests.store.test_faults import every_k
from vyane_cli.core.messages import FromKind, Kind, Lane, Message, ToKind
from vyane_cli.operations.identity import Speaker
from vyane_cli.operations.story import tell
from vyane_cli.operations.upkeep.purge import delete_and_purge
from vyane_cli.runtime import Runtime
from vyane_cli.store import inbox, launches, quarantine

READ, WAITS, OTHER = "TEXT-READ", "TEXT-WAITS", "TEXT-OTHER"


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Callable[..., Host]]:
    with machine(tmp_path) as host:
        yield host


def talked(hosts: Callable[..., Host]) -> tuple[Host, list[str]]:
    """Bob with a message that he read and one that waits, both of eve's; and one that she read."""
    bob, eve = hosts(), hosts()
    bob.start()
    eve.start()
    speaker = Speaker(FromKind.WORKER, eve.worker, "eve")
    sent = [bob.world.send(bob.worker, READ, speaker)]
    bob.prompt()
    bob.stop()
    sent.append(bob.world.send(bob.worker, WAITS, speaker))
    sent.append(bob.world.send(eve.worker, OTHER))
    eve.prompt()
    eve.stop()
    return bob, sent


def texts_in(home: Path) -> set[str]:
    """Which of the three texts are still in a file of the state."""
    data = [path.read_bytes() for path in home.rglob("*") if path.is_file()]
    return {text for text in (READ, WAITS, OTHER) if any(text.encode() in one for one in data)}


def test_the_text_of_what_the_session_read_goes_and_all_else_stays(hosts):
    bob, (read, waits, other) = talked(hosts)
    home = Path(bob.home)
    before = tell(bob.world, read)

    done = vyane(home, "timeline", "delete", bob.worker, "--yes", "--purge-messages", "--json")

    answer = json.loads(done.out)
    assert (answer["deleted"], answer["purged"]) == (True, 1), done.err
    assert texts_in(home) == {WAITS, OTHER}
    shown = json.loads(vyane(home, "show", read, "--json").out)
    assert (shown["id"], shown["payload"], shown["summary"]) == (read, {}, "")
    assert shown["status"] == "consumed"
    after = tell(bob.world, read)
    assert after.steps == before.steps
    for kept, text in ((waits, WAITS), (other, OTHER)):
        assert json.loads(vyane(home, "show", kept, "--json").out)["payload"]["text"] == text


def test_without_the_option_no_text_goes(hosts):
    bob, _ = talked(hosts)

    vyane(Path(bob.home), "timeline", "delete", bob.worker, "--yes")

    assert texts_in(Path(bob.home)) == {READ, WAITS, OTHER}


def test_a_purge_that_is_killed_is_finished_by_the_same_command(hosts):
    """At every call: no message is lost, and the next run leaves what an undisturbed one leaves."""

    def run(k: int) -> Outcome:
        with machine() as make:
            bob, sent = talked(make)
            home = Path(bob.home)
            outcome = stopped_at(k, lambda say: say(purge(bob)))
            for message in sent:
                tell(bob.world, message)
            purge(bob)
            assert texts_in(home) == {WAITS, OTHER}, outcome.at
            assert quarantine.listing(bob.home) == [], outcome.at
            return outcome

    assert every_k(run) > 5


def purge(bob: Host) -> int:
    runtime = Runtime(bob.home, environ={})
    return int(delete_and_purge(runtime, bob.worker, yes=True).purged)


def test_a_damaged_line_is_set_aside_and_not_swallowed(hosts):
    bob, _ = talked(hosts)
    purge(bob)
    (month,) = Path(bob.home).glob("messages/archive/*/messages.jsonl")
    damaged = b'{"v":1,"op":"message"}\n'
    month.write_bytes(damaged + month.read_bytes())
    bob.world.send(bob.worker, READ)
    bob.prompt()
    bob.stop()

    assert purge(bob) >= 1

    kept = [Path(one["file"]).read_bytes() for one in quarantine.listing(bob.home)]
    assert kept == [damaged]


def test_the_rest_of_a_long_result_goes_too_unless_another_message_has_it(hosts):
    bob, eve = hosts(), hosts()
    bob.start()
    eve.start()
    layout = bob.world.layout
    alone, shared = "a" * 64, "b" * 64
    for digest, readers in ((alone, [bob]), (shared, [bob, eve])):
        launches.keep_blob(layout, digest, "the rest")
        for reader in readers:
            message = long_result(reader, digest)
            inbox.append(layout.inbox(reader.worker), layout.root, message, bob.world.clock())
    for one in (bob, eve):
        one.prompt()
        one.stop()

    assert purge(bob) == 2

    assert not Path(layout.blob(alone)).exists()
    assert Path(layout.blob(shared)).exists()


def long_result(to: Host, digest: str) -> Message:
    now = to.world.clock()
    reference = {"sha256": digest, "bytes": 8}
    payload = {"success": True, "head": "done", "summary_ref": reference}
    return Message(
        to.world.new_id(now.now_ms), now.at, 3600.0, FromKind.WORKER, "w-child", "child",
        ToKind.WORKER, to.worker, Kind.TASK_RESULT, Lane.DIRECT, "done", payload,
    )  # fmt: skip
