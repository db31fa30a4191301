"""A command stopped, or failed, at the k-th call that changes a file; and what is true afterwards.

The command runs in a child of this process, because a death has to be a real one: a claim is void
only if its process is gone. What it acknowledged, or showed, it says through a pipe.
"""

import json
import os
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from vyane_cli.errors import VyaneError
from vyane_cli.store import files

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
        "at" not in marks, said, marks.get("error", ""), marks.get("code", 0), marks.get("at", "")
    )


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
