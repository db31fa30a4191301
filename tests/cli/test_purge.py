"""`vyane timeline delete --purge-messages`: the text goes, the ids and the steps stay."""

import json
from collections.abc import Callable
from pathlib import Path

from tests.operations.faults import Make, Outcome, Say, Scene, killed_at_every_call
from tests.simulated import Host, vyane
from vyane_cli.delivery.why import tell
from vyane_cli.home import Home
from vyane_cli.mail import blobs, inbox
from vyane_cli.mail.message import Lane, Message, MessageKind, ToKind
from vyane_cli.sessions.speaker import FromKind, Speaker
from vyane_cli.storage import journal
from vyane_cli.upkeep.purge import delete_and_purge

READ, WAITS, OTHER = "TEXT-READ", "TEXT-WAITS", "TEXT-OTHER"


def talked(host: Callable[..., Host]) -> tuple[Host, list[str]]:
    """Bob with a message that he read and one that waits, both of eve's; and one that she read."""
    bob, eve = host(), host()
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


def test_the_text_of_what_the_session_read_goes_and_all_else_stays(host):
    bob, (read, waits, other) = talked(host)
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


def test_without_the_option_no_text_goes(host):
    bob, _ = talked(host)

    vyane(Path(bob.home), "timeline", "delete", bob.worker, "--yes")

    assert texts_in(Path(bob.home)) == {READ, WAITS, OTHER}


class Purged(Scene):
    """No message is lost, and the next run leaves what an undisturbed one leaves."""

    def __init__(self, make: Make) -> None:
        self.bob, self.sent = talked(make)
        self.world = self.bob.world

    def act(self, say: Say) -> None:
        say(purge(self.bob))

    def look(self, outcome: Outcome) -> None:
        for message in self.sent:
            tell(self.world, message)

    def retry(self, outcome: Outcome) -> None:
        purge(self.bob)
        assert texts_in(Path(self.bob.home)) == {WAITS, OTHER}, outcome.at
        assert journal.list_quarantined(self.bob.home) == [], outcome.at


def test_a_purge_that_is_killed_is_finished_by_the_same_command():
    """At every call."""
    assert killed_at_every_call(Purged) > 5


def purge(bob: Host) -> int:
    home = Home(bob.home, environ={})
    return int(delete_and_purge(home, bob.worker, yes=True).purged)


def test_a_damaged_line_is_set_aside_and_not_swallowed(host):
    bob, _ = talked(host)
    purge(bob)
    (month,) = Path(bob.home).glob("messages/archive/*/messages.jsonl")
    damaged = b'{"v":1,"op":"message"}\n'
    month.write_bytes(damaged + month.read_bytes())
    bob.world.send(bob.worker, READ)
    bob.prompt()
    bob.stop()

    assert purge(bob) >= 1

    kept = [Path(one["file"]).read_bytes() for one in journal.list_quarantined(bob.home)]
    assert kept == [damaged]


def test_the_rest_of_a_long_result_goes_too_unless_another_message_has_it(host):
    bob, eve = host(), host()
    bob.start()
    eve.start()
    layout = bob.world.layout
    alone, shared = "a" * 64, "b" * 64
    for digest, readers in ((alone, [bob]), (shared, [bob, eve])):
        blobs.save_blob(layout, digest, "the rest")
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
        ToKind.WORKER, to.worker, MessageKind.TASK_RESULT, Lane.DIRECT, "done", payload,
    )  # fmt: skip
