"""Stale: workers at work that give no sign are marked and told of; those that do again go on.

The person is told first, then the registry says STALE: a kill in between tells nobody twice.
Nothing is signalled and no mail is held back: a mark is an observation.
"""

from typing import NamedTuple

from vyane_cli.core.liveness import Liveness
from vyane_cli.core.mailbox import Mailbox, takeover_of
from vyane_cli.core.staleness import Signs, decide_stale, is_given_up, mark, unmark
from vyane_cli.core.workers import Worker, WorkerStatus, check_transition, is_stale, shown_status
from vyane_cli.errors import CorruptStateError, InvalidInputError
from vyane_cli.operations.boxes import boxes_of
from vyane_cli.operations.liveness import last_sign, look
from vyane_cli.operations.needs import call_person
from vyane_cli.store import inbox, registry
from vyane_cli.store.locks import Kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.core.turns import Clock
    from vyane_cli.runtime import Runtime

VARIABLE = "VYANE_WORKER_HEARTBEAT_TIMEOUT"


class Staleness(NamedTuple):
    """What a look at all workers found. Ids."""

    stale: tuple[str, ...] = ()
    """At work without a sign for too long, and not marked so far."""
    back: tuple[str, ...] = ()
    """Marked, and there was a sign since, or the session is over."""


def mark_stale(runtime: "Runtime", clock: "Clock") -> Staleness:
    """Mark workers that are stale, and take the mark from those that are not any more.

    For a round's maintenance and for `gc`. Repeated it changes nothing.
    """
    found = _moves(runtime, clock)
    for worker in found:
        if worker.status is WorkerStatus.STALE and _is_missed(runtime, worker):
            _tell(runtime, worker, clock)
    if not found:
        return Staleness()
    with runtime.held((Kind.REGISTRY, "")):
        book = registry.Registry(runtime.layout)
        moved = _moves(runtime, clock)
        for worker in moved:
            book.put(worker)
        if moved:
            book.save()
    return _sorted(moved)


def find_stale(runtime: "Runtime", clock: "Clock") -> Staleness:
    """What `mark_stale` would do. Nothing is changed, no lock is taken."""
    return _sorted(_moves(runtime, clock))


def _sorted(moved: list[Worker]) -> Staleness:
    stale = [worker.id for worker in moved if worker.status is WorkerStatus.STALE]
    return Staleness(tuple(stale), tuple(one.id for one in moved if one.id not in stale))


def stale_after_s(runtime: "Runtime") -> float:
    """The threshold: VYANE_WORKER_HEARTBEAT_TIMEOUT, else `workers.stale_after_s`, in seconds."""
    given = runtime.environ.get(VARIABLE, "")
    if not given:
        return float(runtime.config["workers.stale_after_s"])
    try:
        seconds = float(given)
    except ValueError:
        seconds = 0.0
    if not 1 <= seconds < float("inf"):
        raise InvalidInputError(VARIABLE, given, "a number of seconds, at least 1")
    return seconds


def may_be_passed(runtime: "Runtime", worker: Worker) -> bool:
    """Whether a worker was silent for so long that the project goes on without it.

    False for one that is marked by this very round, however late its clock says that it is.
    """
    return is_given_up(worker, runtime.clock(), stale_after_s(runtime))


def _moves(runtime: "Runtime", clock: "Clock") -> list[Worker]:
    """The workers whose record has to change, as it shall be."""
    after_s = stale_after_s(runtime)
    moved = []
    for worker in registry.Registry(runtime.layout).listing():
        try:
            after = None if worker.final else _move(runtime, worker, clock, after_s)
        except CorruptStateError:
            continue  # `doctor` names it
        if after is not None:
            moved.append(after)
    return moved


def _move(runtime: "Runtime", worker: Worker, clock: "Clock", after_s: float) -> Worker | None:
    now_s = clock.at
    seen = look(runtime, worker)
    sign_s = last_sign(runtime, worker, seen)
    shown = shown_status(worker, seen.liveness, sign_s)
    if worker.status is WorkerStatus.STALE:
        if shown is WorkerStatus.STALE and is_stale(worker, sign_s):
            return None
        back = WorkerStatus.IDLE if shown is WorkerStatus.STALE else shown  # it cannot be told
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
        return None  # whatever its inbox says
    boxes = _boxes(runtime, worker)
    expects = bool(worker.dispatch_id) or _expects(boxes)
    signs = signs._replace(takeover=bool(takeover_of(boxes)), expects=expects)
    if not decide_stale(signs, now_s, after_s).stale:
        return None
    check_transition(shown, WorkerStatus.STALE)
    return mark(worker, sign_s, clock)


def _boxes(runtime: "Runtime", worker: Worker) -> list[Mailbox]:
    paths = boxes_of(runtime, worker.id, worker.logical_session_id)
    return [inbox.read(path).mailbox for path in paths]


def _expects(boxes: list[Mailbox]) -> bool:
    """Whether mail lies there that ought to have started a turn."""
    return any(entry.waiting and entry.message.startable for box in boxes for entry in box.entries)


def _is_missed(runtime: "Runtime", worker: Worker) -> bool:
    """Whether somebody waits for it: one that only lies idle is worth no call."""
    busy = look(runtime, worker).liveness is Liveness.BUSY
    return busy or bool(worker.dispatch_id) or _expects(_boxes(runtime, worker))


def _tell(runtime: "Runtime", worker: Worker, clock: "Clock") -> None:
    text = (
        f"{worker.name} ({worker.id}) has given no sign for "
        f"{stale_after_s(runtime) / 60:.0f} minutes: look after it, or stop it with "
        f"`vyane cancel {worker.id}`"
    )
    call_person(runtime, f"stale:{worker.id}", text, clock, who=worker.name)
