"""A command stopped, or failed, at the k-th call that changes a file; and what is true afterwards.

The command runs in a child of this process, because a death has to be a real one: a claim is void
only if its process is gone. What it acknowledged, or showed, it says through a pipe.
"""

import json
import os
import sys
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.simulated import Host, World, machine
from vyane_cli.errors import ExitCode, VyaneError
from vyane_cli.storage import files
from vyane_cli.upkeep.gc import collect

STOPPED = 77
ENDLESS = 10_000

Say = Callable[[object], None]
Action = Callable[[Say], None]


@dataclass(frozen=True)
class Outcome:
    """What became of one run."""

    finished: bool
    """The k-th call was never reached: the action went through untouched."""
    said: list[Any]
    """What it said before it ended, in order."""
    error: str
    """The error's class, if it failed in a way that it knows."""
    code: int
    """The exit code of that error."""
    at: str
    """The call at which it was stopped or failed."""
    killed: bool = False

    @property
    def told(self) -> bool | None:
        """Whether it said that it is done (exit 0 and 8) or not; None if it died with no word."""
        if self.killed:
            return True if self.said else None
        return self.code in (ExitCode.DONE, ExitCode.DURABILITY_UNKNOWN)

    @property
    def surprise(self) -> bool:
        """Whether an exception came out that is no error of ours."""
        return self.error.startswith("!")


def stopped_at(k: int, action: Action) -> Outcome:
    """Run the action in a process that dies just before its k-th call."""

    def fault(name: str, path: str) -> None:
        os._exit(STOPPED)

    return _run(k, action, fault, 1)


def failing_at(k: int, action: Action, number: int, times: int = 1) -> Outcome:
    """Run the action with the k-th call (and `times` - 1 more) refused with this errno."""

    def fault(name: str, path: str) -> None:
        raise OSError(number, os.strerror(number), path)

    return _run(k, action, fault, times)


def _run(k: int, action: Action, fault: Callable[[str, str], None], times: int) -> Outcome:
    reader, writer = os.pipe()
    sys.stdout.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # 3.12: fork beside execnet's threads
        child = os.fork()
    if child == 0:
        os.close(reader)
        _child(writer, k, action, fault, times)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        lines = [json.loads(line) for line in pipe]
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, STOPPED), f"the child ended with {status}"
    marks: dict[str, Any] = {}
    for line in lines:
        if isinstance(line, dict) and "mark" in line:
            marks.update(line["mark"])
    said = [line for line in lines if not (isinstance(line, dict) and "mark" in line)]
    return Outcome(
        "at" not in marks, said, marks.get("error", ""), marks.get("code", 0), marks.get("at", ""),
        status == STOPPED,
    )  # fmt: skip


def _child(
    writer: int, k: int, action: Action, fault: Callable[[str, str], None], times: int
) -> None:
    def say(value: object) -> None:
        os.write(writer, json.dumps(value).encode() + b"\n")

    count = 0

    def step(name: str, path: str) -> None:
        nonlocal count
        count += 1
        if count == k:
            say({"mark": {"at": f"{k}: {name} {os.path.basename(path)}"}})
        if k <= count < k + times:
            fault(name, path)

    try:
        files.step = step
        action(say)
    except VyaneError as error:
        say({"mark": {"error": type(error).__name__, "code": int(error.exit_code)}})
    except BaseException as error:
        say({"mark": {"error": f"!{error!r}", "code": 1}})
    os._exit(0)


# ------------------------------------------------------------------ at every call


class Scene(ABC):
    """A command on a machine, and what is true after it was stopped or failed. Each run has one."""

    world: World

    @abstractmethod
    def act(self, say: Say) -> None:
        """Run the command. What it acknowledges, or shows, is said."""

    @abstractmethod
    def look(self, outcome: Outcome) -> None:
        """Assert what is true at once: it is done or it is not, and it said which."""

    @abstractmethod
    def retry(self, outcome: Outcome) -> None:
        """Run the same command, and those after it; assert what is true then."""


Make = Callable[..., Host]


def old_or_new(outcome: Outcome, now: object, old: object, new: object) -> None:
    """Assert that it is one of the two, and the one that the command told of, if it did."""
    wanted = {True: [new], False: [old], None: [old, new]}[outcome.told]
    assert now in wanted, (outcome.at, outcome.error, now, wanted)


def every_k(run: Callable[[int], Outcome]) -> int:
    """Run with k = 1, 2, 3 … until a run is not touched any more; the number of runs."""
    for k in range(1, 400):
        if run(k).finished:
            return k
    raise AssertionError("no end")


def killed_at_every_call(scene_of: Callable[[Make], Scene]) -> int:
    """Kill the command of the scene just before each of its calls; return the number of runs.

    What the dead one had half written is left behind, and `gc` takes it after an hour.
    """

    def run(k: int) -> Outcome:
        with machine() as make:
            scene = scene_of(make)
            outcome = stopped_at(k, scene.act)
            scene.look(outcome)
            scene.retry(outcome)
            long_ago = time.time() - 2 * 3600
            for path in temporaries(scene.world):
                os.utime(path, (long_ago, long_ago))
                collect(scene.world)
            assert temporaries(scene.world) == [], outcome.at
            return outcome

    return every_k(run)


def failing_at_every_call(
    scene_of: Callable[[Make], Scene], number: int, times: int = 1
) -> list[Outcome]:
    """Refuse each call of the command of the scene (and those after it); return the outcomes.

    Only errors that vyane knows come out, and nothing that is half written stays.
    """
    outcomes: list[Outcome] = []

    def run(k: int) -> Outcome:
        with machine() as make:
            scene = scene_of(make)
            outcome = failing_at(k, scene.act, number, times)
            outcomes.append(outcome)
            assert not outcome.surprise, (outcome.at, outcome.error)
            scene.look(outcome)
            scene.retry(outcome)
            assert temporaries(scene.world) == [], outcome.at
            return outcome

    every_k(run)
    return outcomes


def temporaries(world: World) -> list[Path]:
    """What was being written when its writer ended."""
    return sorted(Path(world.layout.root).rglob("*.tmp"))
