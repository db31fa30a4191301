"""What a plan found out reaches the senders and the person, once, whatever is killed."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.operations.faults import ENDLESS, Say, stopped_at
from tests.simulated import Host, machine
from vyane_cli.attention import needs
from vyane_cli.health.state import documents
from vyane_cli.health.subject import Subject
from vyane_cli.mail import outcomes
from vyane_cli.mail.mailbox import brought
from vyane_cli.mail.outcomes import LEFT_MAX
from vyane_cli.sessions.speaker import FromKind, Speaker
from vyane_cli.storage import journal
from vyane_cli.upkeep.gc import collect


def as_worker(host: Host) -> Speaker:
    return Speaker(FromKind.WORKER, host.worker, "alice")


def bounced(host: Host) -> list[object]:
    """Which messages the notes to a session are about, one for each record."""
    lines = journal.read(host.world.layout.inbox(host.worker))
    found = [brought(line.record or {}).get("payload") for line in lines]
    return [payload.get("bounced") for payload in found if payload is not None]


def late_mail(hosts: Callable[..., Host]) -> tuple[Host, Host, str]:
    """Alice, Bob, and a message of hers to him whose time is over."""
    alice, bob = hosts(), hosts()
    alice.start()
    bob.start()
    sent = alice.world.send(bob.worker, "soon gone", as_worker(alice), ttl_s=1.0)
    alice.world.pass_s(2)
    return alice, bob, sent


def each_stop(act: Callable[[int], bool]) -> int:
    """Run `act` stopped at its first call, its second …, until it is not reached."""
    for k in range(1, ENDLESS):
        if act(k):
            return k
    raise AssertionError("it never ends")


@pytest.mark.parametrize("later", ["its own next call", "another session's call", "gc"])
def test_a_hook_killed_at_any_call_tells_the_sender_once(later: str) -> None:
    def act(k: int) -> bool:
        with machine() as hosts:
            alice, bob, sent = late_mail(hosts)

            outcome = stopped_at(k, lambda say: say(bob.prompt("turn").text))
            match later:
                case "gc":
                    bob.die()
                    collect(bob.world, grace_s=3600)
                case "another session's call":
                    bob.prompt("turn")  # what was not committed is expired here
                    alice.prompt()
                case _:
                    bob.prompt("turn")
                    bob.stop()

            assert bob.world.status(sent) == "expired", outcome.at
            assert bounced(alice) == [sent], outcome.at
            assert not outcomes.list_untold(bob.world.layout), outcome.at
            return outcome.finished

    assert each_stop(act) > 5


@pytest.mark.parametrize("later", ["a session's call", "gc"])
def test_gc_killed_at_any_call_tells_the_sender_once(later: str) -> None:
    def act(k: int) -> bool:
        with machine() as hosts:
            alice, bob, sent = late_mail(hosts)
            bob.die()

            def sweep(say: Say) -> None:
                say(collect(bob.world, grace_s=3600)[0]["expired"])

            outcome = stopped_at(k, sweep)
            if later == "gc":
                collect(bob.world, grace_s=3600)
            else:
                alice.prompt()
                collect(bob.world, grace_s=3600)

            assert bob.world.status(sent) == "expired", outcome.at
            assert bounced(alice) == [sent], outcome.at
            return outcome.finished

    assert each_stop(act) > 5


def test_a_hook_killed_at_any_call_calls_the_person_once() -> None:
    def act(k: int) -> bool:
        with machine() as hosts:
            bob = hosts()
            bob.start()
            bob.world.send(bob.worker, "wake up")
            for _ in range(2):
                bob.watch()
                bob.world.pass_s(400)

            outcome = stopped_at(k, lambda say: say(bob.watch().text))
            bob.watch()
            bob.prompt()

            assert len(needs.list_entries(bob.world.layout)) == 1, outcome.at
            return outcome.finished

    assert each_stop(act) > 5


def test_what_a_living_process_is_about_to_tell_is_left_to_it(hosts) -> None:
    alice, bob, sent = late_mail(hosts)
    bob.prompt()
    assert bounced(alice) == [sent]
    kept = outcomes.Untold("mine", bob.world.me(), (("key", "look here"),), ())
    outcomes.save_untold(bob.world.layout, kept)

    alice.prompt()

    assert outcomes.list_untold(bob.world.layout) == [kept]
    assert not needs.list_entries(bob.world.layout)


def test_one_hook_call_tells_a_few_of_those_that_others_left(hosts) -> None:
    bob = hosts()
    bob.start()
    gone = hosts()
    gone.start()
    process = bob.world.identify(gone.process.pid)
    assert process is not None
    gone.die()
    for number in range(LEFT_MAX + 1):
        call = (f"key {number}", f"look at {number}")
        outcomes.save_untold(bob.world.layout, outcomes.Untold(f"0{number}", process, (call,), ()))

    bob.prompt()

    assert len(needs.list_entries(bob.world.layout)) == LEFT_MAX
    bob.stop()
    assert len(needs.list_entries(bob.world.layout)) == LEFT_MAX + 1


def test_a_damaged_one_stays_holds_up_nothing_and_is_named(hosts) -> None:
    bob = hosts()
    bob.start()
    path = Path(bob.world.layout.untold("broken"))
    path.parent.mkdir(parents=True)
    path.write_text("{")

    bob.prompt()

    assert outcomes.list_untold(bob.world.layout) == []
    assert path.read_text() == "{"
    assert "queue/untold/broken.json" in documents(Subject(bob.world, None, "/")).detail  # type: ignore[arg-type]
