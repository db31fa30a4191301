"""Spawn and results on real files: killed at every call that changes one, and many at once."""

import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.operations.faults import Make, Outcome, Say, Scene, killed_at_every_call
from tests.simulated import HUMAN, Host, World, machine, stopped_holder
from tests.workers import named, order, results, workers
from vyane_cli.children import launch, launches
from vyane_cli.children import spawn as spawning
from vyane_cli.children.cancel import cancel
from vyane_cli.children.launch import run
from vyane_cli.children.order import Order
from vyane_cli.children.result import (
    LOST_AFTER_S,
    save_answer,
    settle_at_end,
    settle_child,
    settle_exit,
    settle_lost,
)
from vyane_cli.children.result_rules import Ending, Report
from vyane_cli.children.spawn import spawn as spawn
from vyane_cli.delivery.tick import tick
from vyane_cli.errors import ConflictError, StorageError
from vyane_cli.mail.lookup import find_message, whole_text
from vyane_cli.sessions import registry
from vyane_cli.sessions.worker import Worker, WorkerStatus
from vyane_cli.storage.locks import LockKind
from vyane_cli.upkeep.gc import collect


@pytest.fixture
def world(world: World) -> World:
    """With a parent, bob."""
    world.register("bob")
    return world


@pytest.fixture
def launched(monkeypatch) -> list[str]:
    """No process is started; the workers that would have one."""
    started: list[str] = []

    def start(runtime: object, worker: str, environment: object) -> None:
        started.append(worker)

    monkeypatch.setattr(spawning, "start_launcher", start)
    return started


# ------------------------------------------------------------------ spawn


class Spawned(Scene):
    """No launcher without a record, and the next spawn works."""

    def __init__(self, make: Make) -> None:
        self.world = make().world
        self.world.register("bob")

    def act(self, say: Say) -> None:
        say(spawn(self.world, order(block_parent=True)).id)

    def look(self, outcome: Outcome) -> None:
        children = [w for w in workers(self.world).values() if w.parent_worker_id]
        bob = named(self.world, "bob")
        assert bob.children_worker_ids == tuple(w.id for w in children), outcome.at
        assert not outcome.said or outcome.said == [w.id for w in children], outcome.at
        for child in children:
            linked_whole(self.world, bob, child)
        started = started_in(self.world)
        if started.exists():
            assert [w.id for w in children] == [started.read_text()], outcome.at

    def retry(self, outcome: Outcome) -> None:
        later = spawn(self.world, order())
        assert later.id in named(self.world, "bob").children_worker_ids
        assert collect(self.world)[1] == 0


def started_in(world: World) -> Path:
    """Where a launcher that is not started leaves the name of its worker."""
    return Path(world.layout.root).parent / "started"


def test_a_spawn_that_is_killed_leaves_no_child_or_one_that_is_linked_whole(monkeypatch):
    """At every call."""
    monkeypatch.setattr(
        spawning,
        "start_launcher",
        lambda home, worker, environment: started_in(home).write_text(worker),
    )

    assert killed_at_every_call(Spawned) > 10


def linked_whole(world: World, parent: Worker, child: Worker) -> None:
    logical = registry.load_logical_session(world.layout, child.logical_session_id)
    assert logical is not None
    assert (logical.worker, logical.parent_logical_id) == (child.id, parent.logical_session_id)
    (entry,) = world.inbox(child.id).mailbox.entries
    assert entry.message.id == child.dispatch_id == parent.blocked_on_message_id
    assert child.trace_id == parent.trace_id is not None
    launch = launches.load(world.layout, child.id)
    assert launch is not None
    assert launch.dispatch == child.dispatch_id
    assert "do it" in Path(world.layout.prompt(child.id)).read_text()


def test_twenty_spawns_at_once_lose_no_child(world):
    """Each a process of its own, against one parent."""
    program = (
        "import sys\n"
        "from vyane_cli.children.order import Order\n"
        "from vyane_cli.children import spawn\n"
        "from vyane_cli.home import Home\n"
        "spawn.start_launcher = lambda *rest: None\n"
        "print(spawn.spawn(Home(sys.argv[1], {}), Order('same', 'bob', cwd='/tmp')).id)\n"
    )
    command = [sys.executable, "-c", program, world.layout.root]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(20)]
    made = [one.communicate()[0].strip() for one in running]

    assert sorted(named(world, "bob").children_worker_ids) == sorted(made)
    assert len(set(made)) == 20
    names = {workers(world)[one].name for one in made}
    assert names == {"bob / same", *(f"bob / same-{n}" for n in range(2, 21))}
    spawned = world.events(named(world, "bob").logical_session_id)
    assert sorted(e["payload"]["worker"] for e in spawned) == sorted(made)


def test_a_child_whose_launcher_cannot_be_started_has_failed_at_once(world, monkeypatch):
    """The command fails, and the parent is told as by any result."""
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(StorageError):
        spawn(world, order(name="kid"))
    child = named(world, "kid")
    assert child.status is WorkerStatus.FAILED
    assert "could not be started" in str(child.failure_reason)
    assert len(results(world, named(world, "bob").id)) == 1


def test_a_child_of_an_ended_parent_or_with_a_taken_name_is_refused(world, launched):
    """And nothing is stored."""
    child = spawn(world, order(name="kid"))
    with pytest.raises(ConflictError):
        spawn(world, order(name="KID"))
    settle_child(world, child.id, Report(Ending.SUCCESS, "done"))
    with pytest.raises(ConflictError):
        spawn(world, Order("more", "kid", cwd="/tmp"))
    assert launched == [child.id]
    assert len(workers(world)) == 2


# ------------------------------------------------------------------ results


class Settled(Scene):
    """The parent has no result or one, and after the retry exactly one."""

    def __init__(self, make: Make, text: str) -> None:
        self.world, self.text = make().world, text
        self.world.register("bob")
        self.child = spawn(self.world, order(block_parent=True))

    def act(self, say: Say) -> None:
        settle_child(self.world, self.child.id, Report(Ending.SUCCESS, self.text))
        say("done")

    def look(self, outcome: Outcome) -> None:
        bob = named(self.world, "bob")
        self.before = results(self.world, bob.id)
        assert len(self.before) == 1 if outcome.said else len(self.before) <= 1, outcome.at
        if workers(self.world)[self.child.id].final:
            assert self.before, outcome.at
            assert bob.blocked_on_message_id is None, outcome.at
        else:
            assert bob.blocked_on_message_id == self.child.dispatch_id, outcome.at

    def retry(self, outcome: Outcome) -> None:
        if not workers(self.world)[self.child.id].final:
            settle_child(self.world, self.child.id, Report(Ending.ERROR, "", "another sender"))
        bob = named(self.world, "bob")
        (after,) = results(self.world, bob.id)
        assert not self.before or after == self.before[0], outcome.at
        assert after.correlation_id == self.child.dispatch_id
        assert bob.blocked_on_message_id is None
        if after.payload["success"]:
            assert whole_text(self.world, after) == self.text.strip("\n")


@pytest.mark.parametrize("text", ["done", "long " * 5000], ids=["short", "long"])
def test_a_result_that_is_killed_is_sent_once_by_whoever_tries_again(text, launched):
    """At every call."""
    assert killed_at_every_call(partial(Settled, text=text)) > 4


def test_a_child_has_one_result_and_a_worker_that_nobody_dispatched_has_none(world, launched):
    """Exit 4 for both."""
    child = spawn(world, order())
    settled = settle_child(world, child.id, Report(Ending.ERROR, "half", "no luck"))
    assert settled.child.status is WorkerStatus.FAILED
    assert settled.child.failure_reason == "no luck"
    with pytest.raises(ConflictError) as again:
        settle_child(world, child.id, Report(Ending.SUCCESS, "yes"))
    assert again.value.slug == "already_reported"
    with pytest.raises(ConflictError) as alone:
        settle_child(world, named(world, "bob").id, Report(Ending.SUCCESS, "yes"))
    assert alone.value.slug == "no_dispatch"
    assert len(results(world, named(world, "bob").id)) == 1


def test_the_result_of_a_cancelled_child_says_so(world, launched):
    """Whatever its process said, unless it had finished."""
    child = spawn(world, order())
    listed = registry.Registry(world.layout)
    listed.put(listed.workers[child.id]._replace(cancel_propagated_from="w-bob"))
    listed.save()
    settled = settle_child(world, child.id, Report(Ending.ERROR, "", "signal 15"))
    assert settled.child.status is WorkerStatus.KILLED
    assert settled.message is not None
    assert settled.message.payload["error"] == "cancelled_by_parent"


def test_the_whole_of_a_long_result_is_found_by_its_message(world, launched):
    """Under its own hash; a blob that was changed is refused."""
    child = spawn(world, order())
    text = "".join(f"line {number}\n" for number in range(4000))
    message = settle_child(world, child.id, Report(Ending.SUCCESS, text)).message
    assert message is not None
    assert whole_text(world, find_message(world, message.id).message) == text.strip("\n")
    assert len(message.payload["head"]) < len(text)


def test_the_last_answer_of_a_print_mode_child_is_its_result(world, launched):
    """Stop may come several times; the end of the session sends the last one."""
    child = spawn(world, order())
    session = world_session(world, child)
    settle_at_end(world, session)
    assert not results(world, named(world, "bob").id)
    save_answer(world, session, "first", "")
    save_answer(world, session, "last", "")
    settle_at_end(world, session)
    settle_at_end(world, session)
    (message,) = results(world, named(world, "bob").id)
    assert message.payload["summary"] == "last"
    assert workers(world)[child.id].status is WorkerStatus.COMPLETED


def world_session(world: World, child: Worker) -> Any:
    from vyane_cli.sessions.session import HostSession

    return HostSession(
        id="s-1",
        host="claude-code",
        worker=child.id,
        name=child.name,
        logical_session=child.logical_session_id,
    )


def test_when_the_parent_is_over_the_nearest_ancestor_that_is_not_gets_the_result_too(
    world, launched
):
    """Else a child of a child that has reported would speak to nobody."""
    child = spawn(world, order(name="kid"))
    below = spawn(world, Order("more", "kid", cwd="/tmp"))
    lowest = spawn(world, Order("most", below.id, cwd="/tmp"))
    for one in (child, below, lowest):
        settle_child(world, one.id, Report(Ending.SUCCESS, f"done {one.id}"))
    said = [message.payload["summary"] for message in results(world, named(world, "bob").id)]
    assert said == [f"done {one.id}" for one in (child, below, lowest)]
    assert len(results(world, child.id)) == len(results(world, below.id)) == 1


def test_an_orphan_that_fails_has_failed_and_was_not_cancelled(world, launched):
    """The field that names its dead parent is that of a cancel too."""
    child = spawn(world, order())
    listed = registry.Registry(world.layout)
    marked = listed.workers[child.id]._replace(
        cancel_propagated_from="w-bob", status=WorkerStatus.INTERRUPTED
    )
    listed.put(marked)
    listed.save()
    settled = settle_child(world, child.id, Report(Ending.ERROR, "", "no luck"))
    assert settled.child.status is WorkerStatus.FAILED


# ------------------------------------------------------------------ the lost


def test_a_child_that_was_never_started_fails_after_a_minute(world, launched):
    """A kill between the commit point and the launch leaves nobody else to say so."""
    child = spawn(world, order())
    assert not settle_lost(world, child)
    assert collect(world)[0]["lost"] == 0
    world.pass_s(LOST_AFTER_S + 1)
    assert collect(world, dry_run=True)[0]["lost"] == 1
    assert collect(world)[0]["lost"] == 1
    assert workers(world)[child.id].status is WorkerStatus.FAILED
    (message,) = results(world, named(world, "bob").id)
    assert message.payload["error"] == "it was never started"


def test_a_child_whose_launcher_died_is_lost_when_its_process_is_gone(world, launched):
    """Not before: it goes on without one."""
    child = spawn(world, order())
    process = subprocess.Popen(["sleep", "600"])
    dead = subprocess.Popen(["sleep", "600"])
    launch = launches.load(world.layout, child.id)
    assert launch is not None
    gone = world.identify(dead.pid)
    dead.kill()
    dead.wait()
    launches.save(world.layout, launch._replace(launcher=gone, process=world.identify(process.pid)))
    Path(world.layout.output(child.id)).parent.mkdir(exist_ok=True)
    Path(world.layout.output(child.id)).write_text("half of it\n")
    assert not settle_lost(world, child)
    process.kill()
    process.wait()
    assert settle_lost(world, child)
    assert not settle_lost(world, workers(world)[child.id])
    (message,) = results(world, named(world, "bob").id)
    assert "launcher" in message.payload["error"]
    assert message.payload["summary"].endswith("\n\nhalf of it")


# ------------------------------------------------------------------ a child with hooks


def handed(make: Callable[..., Host], parent: Host) -> tuple[Worker, Host]:
    """A child of the parent, and the print-mode session that its launch would start."""
    child = spawn(parent.world, Order("TASK", parent.worker, cwd="/tmp"))
    return child, make(attended=False, extra={"VYANE_WORKER": child.id})


def test_the_first_turn_of_a_child_hangs_below_the_turn_that_spawned_it(launched):
    """One trace: what the parent did before it had children, what it does next, and the child."""
    with machine() as make:
        parent = make()
        parent.start()
        parent.prompt()
        child, kid = handed(make, parent)
        kid.start()
        kid.prompt(text="TASK")
        parent.stop()
        parent.prompt()

        ours, theirs = parent.events(), kid.events()
        assert {event["trace_id"] for event in (*ours, *theirs)} == {child.trace_id}
        assert theirs[0]["parent_span_id"] == ours[0]["span_id"] is not None
        assert [event["payload"]["trigger"] for event in (ours[0], theirs[0])] == ["human", "peer"]


def test_a_print_mode_child_is_registered_by_its_hooks_and_its_end_is_its_result(launched):
    """Its prompt went by the launch, so the dispatch is settled unseen; the last Stop counts."""
    with machine() as make:
        parent = make()
        parent.start()
        world = parent.world
        child, kid = handed(make, parent)
        seen = kid.start()
        assert kid.worker == child.id
        logical = registry.load_logical_session(world.layout, child.logical_session_id)
        assert logical is not None
        carried = {"runtime_session_id": kid.session, "worker_id": child.id}
        assert logical.active_runtime == "claude_cli"
        assert logical.runtime_sessions == {"claude_cli": carried}
        assert child.name in seen.text
        assert "TASK" not in seen.text
        assert world.status(str(child.dispatch_id)) == "consumed"
        assert world.rules(str(child.dispatch_id))[-1] == "consumed:launch"
        kid.prompt(text="TASK")
        assert kid.events()[0]["trace_id"] == child.trace_id
        kid.stop(last_assistant_message="first")
        kid.stop(last_assistant_message="ANSWER", prompt_id="other")
        assert not results(world, parent.worker)
        kid.call("SessionEnd", reason="other")
        (message,) = results(world, parent.worker)
        assert (message.payload["summary"], message.payload["success"]) == ("ANSWER", True)
        assert message.payload["events_replay_token"].startswith("vc1.")
        assert "ANSWER" in parent.watch().text


def test_a_print_mode_child_that_ends_in_an_api_error_has_failed(launched):
    """The host's word for it is the error."""
    with machine() as make:
        parent = make()
        parent.start()
        _, kid = handed(make, parent)
        kid.start()
        kid.prompt(text="TASK")
        kid.call("StopFailure", error="rate_limit")
        kid.call("SessionEnd", reason="other")
        (message,) = results(parent.world, parent.worker)
        assert (message.payload["success"], message.payload["error"]) == (False, "rate_limit")


def test_a_print_mode_child_that_is_broken_off_in_a_later_turn_is_not_taken_at_its_word(launched):
    """Its end in the middle of a turn sends nothing: the exit status says what that was."""
    with machine() as make:
        parent = make()
        parent.start()
        world = parent.world
        child, kid = handed(make, parent)
        kid.start()
        kid.prompt(text="TASK")
        kid.stop(last_assistant_message="first")
        kid.prompt(text="more")
        kid.call("SessionEnd", reason="other")
        assert not results(world, parent.worker)
        launch = launches.load(world.layout, child.id)
        assert launch is not None
        settle_exit(world, launch, 143)
        (message,) = results(world, parent.worker)
        assert message.payload["error"] == "it exited with status 143"
        assert message.payload["summary"].endswith("\n\nfirst")


def test_the_last_answer_is_kept_though_its_stop_missed_the_lock(launched):
    """Else the parent would be given an earlier one."""
    with machine() as make:
        parent = make()
        parent.start()
        _, kid = handed(make, parent)
        kid.start()
        kid.prompt(text="TASK")
        kid.stop(last_assistant_message="first")
        kid.prompt(text="more")
        with stopped_holder(kid.home, (LockKind.INBOX, kid.worker)):
            kid.hook("Stop", last_assistant_message="ANSWER")
        kid.call("SessionEnd", reason="other")
        (message,) = results(parent.world, parent.worker)
        assert message.payload["summary"] == "ANSWER"


def test_a_session_below_a_child_has_no_part_in_its_result(launched):
    """It has the child's variable by inheritance, and is a worker of its own."""
    with machine() as make:
        parent = make()
        parent.start()
        child, kid = handed(make, parent)
        kid.start()
        below = make(attended=False, extra={"VYANE_WORKER": child.id})
        below.start()
        below.prompt()
        below.stop(last_assistant_message="not mine to say")
        below.call("SessionEnd", reason="other")
        assert below.worker != child.id
        assert not results(parent.world, parent.worker)


# ------------------------------------------------------------------ cancelled at its start


def test_a_child_that_is_cancelled_before_its_launcher_runs_is_never_started(
    world, launched, monkeypatch
):
    """A cancelled tree leaves nothing running, whatever the cancel found to stop."""
    child = spawn(world, order(runtime="claude"))
    cancel(world, child.id, speaker=HUMAN, wait_s=0)

    monkeypatch.setattr(launch, "_start", lambda *_: pytest.fail("it was started"))
    run(world, child.id, tick)

    assert named(world, child.name).status is WorkerStatus.KILLED
    (result,) = results(world, named(world, "bob").id)
    assert result.payload["error"] == "cancelled_by_parent"


def test_a_child_that_is_cancelled_while_it_is_being_started_is_ended(world, launched, monkeypatch):
    """Its process was not on record when the cancel looked for it."""
    child = spawn(world, order(runtime="claude"))
    began: list[subprocess.Popen[bytes]] = []

    def start(runtime: object, launch: object) -> "subprocess.Popen[bytes]":
        began.append(subprocess.Popen(["sleep", "600"], start_new_session=True))
        cancel(world, child.id, speaker=HUMAN, force=True, wait_s=0)
        return began[0]

    monkeypatch.setattr(launch, "_start", start)
    run(world, child.id, tick)

    assert began[0].returncode == -signal.SIGTERM
    assert named(world, child.name).final
    (result,) = results(world, named(world, "bob").id)
    assert result.payload["error"] == "cancelled_by_parent"
