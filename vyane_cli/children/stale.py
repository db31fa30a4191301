"""Stale workers: mark running workers with no recent activity, and unmark active ones.

The mark STALE is saved in the registry first. The person is called once for each mark, after the
worker had time for a sign of activity: a clock that was set ahead, or a machine that slept, causes
no call. A mark is an observation: processes are not signalled, and mail is not held back.
"""

from __future__ import annotations

from typing import NamedTuple

from vyane_cli.attention import needs
from vyane_cli.attention.call import call_person
from vyane_cli.attention.kinds import NeedKind, call_of
from vyane_cli.children.stale_rules import (
    TOLD_AFTER_S,
    Signs,
    decide_stale,
    is_given_up,
    mark,
    unmark,
)
from vyane_cli.errors import CorruptStateError, InvalidInputError
from vyane_cli.mail import inbox
from vyane_cli.mail.inbox import boxes_of
from vyane_cli.mail.mailbox import Mailbox, takeover_of
from vyane_cli.sessions import registry
from vyane_cli.sessions.liveness import Look, last_sign, look
from vyane_cli.sessions.liveness_rules import Liveness
from vyane_cli.sessions.worker import Worker, WorkerStatus, check_transition, is_stale, shown_status
from vyane_cli.storage.locks import LockKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home
    from vyane_cli.kernel.clock import Clock

VARIABLE = "VYANE_WORKER_HEARTBEAT_TIMEOUT"


class Staleness(NamedTuple):
    """Workers whose stale mark changes, as ids."""

    stale: tuple[str, ...] = ()
    """Workers at work that gave no sign for too long, and that had no mark before."""
    back: tuple[str, ...] = ()
    """Workers that were marked and have been active since, or whose session has ended."""


def mark_stale(home: Home, clock: Clock) -> Staleness:
    """Mark workers that are stale, and unmark workers that are no longer stale.

    For a round's maintenance and for `gc`. Returns the changes. Repeated, it changes nothing.
    """
    moved = _moves(home, clock)
    if moved:
        with home.held((LockKind.REGISTRY, "")):
            book = registry.Registry(home.layout)
            moved = _moves(home, clock)
            for _, after in moved:
                book.put(after)
            if moved:
                book.save()
    _call_for_silent(home, clock)
    return _sorted(moved)


def find_stale(home: Home, clock: Clock) -> Staleness:
    """Return the changes that `mark_stale` would make. Changes no state and takes no lock."""
    return _sorted(_moves(home, clock))


def _sorted(moved: list[tuple[Worker, Worker]]) -> Staleness:
    stale = [after.id for _, after in moved if after.status is WorkerStatus.STALE]
    back = [before.id for before, _ in moved if before.status is WorkerStatus.STALE]
    return Staleness(tuple(stale), tuple(back))


def stale_after_s(home: Home) -> float:
    """Return the threshold in seconds: VYANE_WORKER_HEARTBEAT_TIMEOUT or `workers.stale_after_s`.

    Raises InvalidInputError when the variable is not a number of at least 1.
    """
    given = home.environ.get(VARIABLE, "")
    if not given:
        return float(home.config["workers.stale_after_s"])
    try:
        seconds = float(given)
    except ValueError:
        seconds = 0.0
    if not 1 <= seconds < float("inf"):
        raise InvalidInputError(VARIABLE, given, "a number of seconds, at least 1")
    return seconds


def may_be_passed(home: Home, worker: Worker) -> bool:
    """Return whether a stale worker was silent long enough for its project to go on without it.

    False for a worker that this round has just marked, however long the wall clock says that the
    worker was silent.
    """
    return worker.status is WorkerStatus.STALE and was_silent(home, worker)


def was_silent(home: Home, worker: Worker) -> bool:
    """Return whether a worker, of any status, was found silent and the threshold has passed since.

    Only time in which the machine was awake counts (`is_given_up`).
    """
    return is_given_up(worker, home.clock(), stale_after_s(home))


def _moves(home: Home, clock: Clock) -> list[tuple[Worker, Worker]]:
    """Return, for each worker whose record must change, the present record and the new one."""
    after_s = stale_after_s(home)
    moved = []
    for worker in registry.Registry(home.layout).listing():
        try:
            after = None if worker.final else _move(home, worker, clock, after_s)
        except CorruptStateError:
            continue  # `doctor` names it
        if after is not None:
            moved.append((worker, after))
    return moved


def _move(home: Home, worker: Worker, clock: Clock, after_s: float) -> Worker | None:
    now_s = clock.at
    seen = look(home, worker)
    sign_s = last_sign(home, worker, seen)
    shown = shown_status(worker, seen.liveness, sign_s)
    if worker.status is WorkerStatus.STALE:
        if shown is WorkerStatus.STALE and is_stale(worker, sign_s):
            return None
        back = WorkerStatus.IDLE if shown is WorkerStatus.STALE else shown  # unknown liveness
        return unmark(worker, check_transition(worker.status, back))
    signs = Signs(
        shown,
        seen.liveness,
        sign_s,
        attended=seen.session is not None and seen.session.attended,
        expects=True,
        long_running_until_s=worker.long_running_until or 0.0,
    )
    if not decide_stale(signs, now_s, after_s).stale:
        # no mail in the inbox could make it stale, so the inbox is not read
        return _watch(worker, seen, sign_s, clock, after_s)
    boxes = _boxes(home, worker)
    expects = bool(worker.dispatch_id) or _expects(boxes)
    signs = signs._replace(takeover=bool(takeover_of(boxes)), expects=expects)
    if not decide_stale(signs, now_s, after_s).stale:
        return _watch(worker, seen, sign_s, clock, after_s)
    check_transition(shown, WorkerStatus.STALE)
    return mark(worker, sign_s, clock)


def _watch(
    worker: Worker, seen: Look, sign_s: float, clock: Clock, after_s: float
) -> Worker | None:
    """Note or clear the start of the silence of a worker that may not become STALE.

    It is noted when the liveness is unknown or the session's state is damaged. Returns the new
    record, or None without a change.
    """
    unsure = seen.liveness is Liveness.UNKNOWN or bool(seen.damaged)
    if worker.stale_since is None:
        silent = unsure and clock.at - sign_s >= after_s
        return mark(worker, sign_s, clock, worker.status) if silent else None
    if unsure and sign_s <= worker.stale_since:
        return None
    return unmark(worker, worker.status)


def _boxes(home: Home, worker: Worker) -> list[Mailbox]:
    paths = boxes_of(home, worker.id, worker.logical_session_id)
    return [inbox.read(path).mailbox for path in paths]


def _expects(boxes: list[Mailbox]) -> bool:
    """Return whether mail is waiting that should have started a turn."""
    return any(entry.waiting and entry.message.startable for box in boxes for entry in box.entries)


def _call_for_silent(home: Home, clock: Clock) -> None:
    """Call the person, once for each mark, about silent workers that somebody waits for."""
    for worker in registry.Registry(home.layout).listing():
        if worker.status is not WorkerStatus.STALE or not is_given_up(worker, clock, TOLD_AFTER_S):
            continue
        try:
            seen = look(home, worker)
            silent = is_stale(worker, last_sign(home, worker, seen))
            if seen.liveness is not Liveness.EXITED and silent and _is_missed(home, worker):
                _tell(home, worker, clock)
        except CorruptStateError:
            continue  # `doctor` names it


def _is_missed(home: Home, worker: Worker) -> bool:
    """Return whether somebody waits for the worker; an idle worker without mail needs no call."""
    busy = look(home, worker).liveness is Liveness.BUSY
    return busy or bool(worker.dispatch_id) or _expects(_boxes(home, worker))


def _tell(home: Home, worker: Worker, clock: Clock) -> None:
    call = call_of(
        NeedKind.STALE,
        who=worker.name,
        worker=worker.id,
        stale_since=worker.stale_since or 0.0,  # part of the key: one call for each mark
        name=worker.name,
        minutes=f"{stale_after_s(home) / 60:.0f}",
    )
    if needs.was_resolved(home.layout, call.key):
        return  # the person has resolved this call
    call_person(home, call, clock)
