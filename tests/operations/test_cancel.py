"""A cancelled tree: killed at its steps and run again; who is signalled, and who is not."""

import os
import shutil
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.operations.faults import stopped_at
from tests.simulated import HUMAN, OUTSIDE, World, fast_folder
from tests.workers import grow
from vyane_cli.children import cancel as cancelling
from vyane_cli.children.cancel import Cancelled
from vyane_cli.children.cancel import cancel as cancel
from vyane_cli.children.cancel_rules import CancelOutcome
from vyane_cli.errors import ConflictError, RefusedError
from vyane_cli.kernel.process import Process
from vyane_cli.sessions import registry
from vyane_cli.sessions.speaker import FromKind, Speaker
from vyane_cli.sessions.worker import WorkerStatus
from vyane_cli.setup.home import initialise
from vyane_cli.storage import processes
from vyane_cli.timeline import log

FULL = bool(os.environ.get("VYANE_TEST_FULL"))
STRIDE = 1 if FULL else 7
"""A kill at each 7th step of several hundred, and at every one of the first and the last."""
EDGE = 12


def end_state(world: World) -> dict[str, Any]:
    """What a run leaves, without times and ids that differ between two runs."""
    state: dict[str, Any] = {}
    for worker in registry.Registry(world.layout).listing():
        path = world.layout.timeline(worker.logical_session_id)
        kinds = Counter(record["kind"] for _, record in log.read(path))
        entries = world.inbox(worker.id).mailbox.entries
        state[worker.id] = (
            str(worker.status),
            worker.cancel_propagated_from,
            [(str(e.message.kind), str(e.status)) for e in entries],
            dict(kinds),
        )
    plan = cancelling.load(world.layout, "op")
    assert plan is not None
    state["plan"] = (list(plan.messages), plan.skipped, dict(plan.outcomes), plan.settled)
    return state


def run(world: World, who: str, **more: Any) -> Cancelled:
    given: dict[str, Any] = {"speaker": HUMAN, "wait_s": 0, "operation": "op", **more}
    return cancel(world, who, **given)


def test_a_cancel_that_was_killed_at_any_step_ends_as_an_undisturbed_one_when_run_again():
    """
    40 workers, 10 of them independent: the same outcomes, each told once, each fact
    once in its timeline, wherever the first run died.
    """
    independent = (2, 5, 6, 11, 14, 20, 24, 30, 33, 39)
    with fast_folder() as folder:
        base = World(folder / "base")
        initialise(base)
        root = grow(base, 40, independent)[0]

        def copy(name: str) -> World:
            shutil.copytree(base.layout.root, folder / name, symlinks=True)
            return World(folder / name)

        whole = copy("whole")
        steps = 0

        def count(name: str, path: str) -> None:
            nonlocal steps
            steps += 1

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("vyane_cli.storage.files.step", count)
            run(whole, root)
        wanted = end_state(whole)
        assert len(wanted["plan"][0]) + len(wanted["plan"][1]) == 40
        assert set(wanted["plan"][2].values()) == {"stopped"}

        edges = {*range(1, EDGE + 1), *range(steps - EDGE, steps + 1)}
        for k in sorted(edges | set(range(1, steps + 1, STRIDE))):
            world = copy(f"k{k}")
            assert not stopped_at(k, lambda say, w=world: run(w, root) and None).finished
            run(world, root)
            assert end_state(world) == wanted, f"killed at step {k}"
            shutil.rmtree(world.layout.root)


def test_independent_subtrees_go_on_and_are_listed(world):
    """Their records are as before; nobody told them."""
    ids = grow(world, 13, (2,))
    done = run(world, ids[0])

    assert set(done.cancel.skipped) == {ids[2], ids[7], ids[8], ids[9]}
    workers = registry.Registry(world.layout).workers
    for spared in done.cancel.skipped:
        assert workers[spared].status is WorkerStatus.RUNNING
        assert world.inbox(spared).mailbox.entries == ()
    assert workers[ids[1]].status is WorkerStatus.KILLED
    assert workers[ids[1]].cancel_propagated_from == ids[0]


def test_a_busy_worker_is_unknown_until_its_turn_has_ended_and_the_same_cancel_goes_on(world):
    """Here nothing can be told about its process; its inbox says it later."""
    ids = grow(world, 2, process=None)
    first = run(world, ids[0])
    assert first.incomplete
    assert set(first.cancel.outcomes.values()) == {CancelOutcome.UNKNOWN}
    with pytest.raises(ConflictError, match="operation op"):
        run(world, ids[0], operation="other")
    for number in (0, 1):
        session = registry.load_session(world.layout, f"s{number}")
        assert session is not None
        registry.save_session(world.layout, session._replace(ended="other"))
    again = run(world, ids[0], operation="")

    assert again.cancel.operation == "op"
    assert set(again.cancel.outcomes.values()) == {CancelOutcome.GONE}
    assert [len(world.inbox(one).mailbox.entries) for one in ids] == [1, 1]
    assert run(world, ids[0]).cancel.settled


def test_only_the_person_and_the_ancestors_may_cancel(world):
    """A peer, a child and a script without a person behind it are refused; nothing is written."""
    ids = grow(world, 13)
    session = registry.load_session(world.layout, "s2")
    peer = Speaker(FromKind.WORKER, ids[2], "n2", session)
    child = Speaker(FromKind.WORKER, ids[4], "n4", registry.load_session(world.layout, "s4"))
    for speaker in (peer, child, OUTSIDE):
        with pytest.raises(RefusedError):
            run(world, ids[1], speaker=speaker)
    assert not Path(world.layout("queue", "cancels")).exists()
    kinds = [record["kind"] for _, record in log.read(world.layout.timeline("vs-000002"))]
    assert kinds == ["Diagnostic"]

    parent = Speaker(FromKind.WORKER, ids[0], "n0", registry.load_session(world.layout, "s0"))
    run(world, ids[1], speaker=parent)
    assert registry.Registry(world.layout).workers[ids[1]].cancel_propagated_from == ids[0]


def test_force_ends_the_process_that_is_proven_to_be_the_workers(world, monkeypatch):
    """TERM first; one that ignores it gets KILL."""
    program = "import signal,time; signal.signal(15, signal.SIG_IGN); print(1, flush=True); "
    with (
        subprocess.Popen(["sleep", "600"]) as soft,
        subprocess.Popen(
            ["python3", "-c", program + "time.sleep(600)"], stdout=subprocess.PIPE
        ) as hard,
    ):
        assert hard.stdout is not None
        hard.stdout.readline()
        ids = grow(world, 2)
        for number, process in enumerate((soft, hard)):
            session = registry.load_session(world.layout, f"s{number}")
            assert session is not None
            known = processes.identify(process.pid)
            registry.save_session(world.layout, session._replace(process=known))
        monkeypatch.setattr(cancelling, "KILL_AFTER_S", 0.3)
        began = time.monotonic()
        done = run(world, ids[0], force=True, wait_s=5)

        assert (soft.wait(), hard.wait()) == (-signal.SIGTERM, -signal.SIGKILL)
        assert time.monotonic() - began < 15
        assert set(done.cancel.outcomes.values()) == {CancelOutcome.GONE}


@pytest.mark.parametrize("wrong", ["start", "boot", "namespace"])
def test_force_signals_nobody_when_the_pid_is_another_process_now(world, monkeypatch, wrong):
    """The pid is reused: no signal goes anywhere, TERM or KILL."""
    sent: list[object] = []
    with subprocess.Popen(["sleep", "600"]) as stranger:
        real = processes.identify(stranger.pid)
        assert real is not None
        old = {
            "start": real._replace(start=real.start - 1),
            "boot": real._replace(boot="another"),
            "namespace": real._replace(namespace="pid:[1]"),
        }[wrong]
        ids = grow(world, 4, process=old)
        monkeypatch.setattr("os.kill", lambda *words: sent.append(words))
        monkeypatch.setattr("signal.pidfd_send_signal", lambda *words: sent.append(words))
        run(world, ids[0], force=True)

        assert [one for one in sent if one[1:] != (0,)] == []  # 0 only asks whether it is there
        assert stranger.poll() is None
        monkeypatch.undo()
        stranger.kill()


LAST_PID = "/proc/sys/kernel/ns_last_pid"


TICK_MS = 1000 // os.sysconf("SC_CLK_TCK")


def reuse(pid: int) -> "subprocess.Popen[bytes] | None":
    """A process that was given this pid; None when another one was quicker."""
    with open(LAST_PID, "w") as file:
        file.write(str(pid - 1))
    process = subprocess.Popen(["sleep", "600"])
    if process.pid == pid:
        return process
    process.kill()
    process.wait()
    return None


@pytest.mark.skipif(not os.access(LAST_PID, os.W_OK), reason="pids cannot be chosen here")
def test_a_stranger_with_the_pid_of_a_worker_that_is_gone_is_not_signalled(world):
    """The kernel really gave the pid again: 5 times, and the worker counts as gone."""
    strangers = []
    try:
        for number in range(5):
            gone = subprocess.Popen(["sleep", "600"])
            known = processes.identify(gone.pid)
            gone.kill()
            gone.wait()
            assert known is not None
            while processes.boot_ms() // TICK_MS <= known.start:
                pass  # a start time counts ticks: no pid comes round within one
            stranger = None
            for _ in range(200):
                stranger = stranger or reuse(gone.pid)
            if stranger is None:
                continue
            strangers.append(stranger)
            root = grow(world, 1, process=known)[0]
            done = run(world, root, force=True, operation=f"op{number}")
            assert set(done.cancel.outcomes.values()) == {CancelOutcome.GONE}
            assert stranger.poll() is None
    finally:
        for stranger in strangers:
            stranger.kill()
            stranger.wait()
    assert strangers


def test_a_signal_is_for_the_very_process_or_for_nobody():
    """A process that is gone, or without a start time, cannot be proven."""
    with subprocess.Popen(["sleep", "600"]) as process:
        known = processes.identify(process.pid)
        assert known is not None
        assert not processes.send_signal(Process(*known[:3], 0), signal.SIGTERM)
        assert processes.send_signal(known, signal.SIGTERM)
        process.wait()
        assert not processes.send_signal(known, signal.SIGTERM)
