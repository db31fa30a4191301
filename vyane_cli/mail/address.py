"""Address resolution: an address as people type it → the inboxes that it means."""

from __future__ import annotations

from vyane_cli.errors import InvalidInputError, NotFoundError
from vyane_cli.kernel.text import nearest_names
from vyane_cli.mail.enqueue import Target
from vyane_cli.mail.message import Relation, ToKind
from vyane_cli.mail.routing import Address, Relative, parse_address
from vyane_cli.sessions import registry
from vyane_cli.sessions.liveness import last_sign, look
from vyane_cli.sessions.speaker import FromKind, Speaker
from vyane_cli.sessions.worker import Worker, WorkerStatus, find_worker, is_stale

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home


def find_address(text: str, workers: registry.Registry) -> Address:
    """Parse an address.

    InvalidInputError for a malformed one, with the nearest worker names as a hint.
    """
    try:
        return parse_address(text)
    except InvalidInputError as error:
        names = [worker.name for worker in workers.listing() if not worker.final]
        near = nearest_names(text, names)
        if near:
            error.hint = "did you mean " + " or ".join(near) + "?"
        elif names:
            error.hint = error.hint or "known: " + ", ".join(names[:5])
        raise


def resolve(
    home: Home, workers: registry.Registry, address: Address, speaker: Speaker
) -> list[Target]:
    """Return the targets of an address; NotFoundError with the nearest names for an unknown one."""
    layout = home.layout
    own = workers.workers.get(speaker.id) if speaker.kind is FromKind.WORKER else None
    match address.kind:
        case ToKind.CHANNEL:
            check_channel(home, address.text)
            path = layout.channel_inbox(address.text)
            return [
                Target(
                    ToKind.CHANNEL,
                    address.text,
                    path,
                    relation=_relation(speaker, None),
                    lock="channel:" + address.text,
                    name=address.text,
                )
            ]
        case ToKind.LOGICAL_SESSION:
            logical = registry.load_logical_session(layout, address.text)
            if logical is None:
                raise NotFoundError("logical session", address.text)
            worker = workers.workers.get(logical.worker)
            return [
                Target(
                    kind=ToKind.LOGICAL_SESSION,
                    id=logical.id,
                    path=layout.session_inbox(logical.id),
                    worker=logical.worker,
                    logical_session=logical.id,
                    relation=_relation(speaker, worker, own),
                    lock=logical.id,
                    name=logical.display_name,
                )
            ]
        case ToKind.BROADCAST:
            active = [w for w in workers.listing() if w is not own and _is_active(home, w)]
            if not active:
                raise NotFoundError("active worker", "all", hint="`vyane workers` lists them")
            return [
                _to_worker(home, w, speaker, own)._replace(kind=ToKind.BROADCAST, id="*")
                for w in active
            ]
        case _:
            found = _workers_of(workers, address, own)
            return [_to_worker(home, worker, speaker, own) for worker in found]


def check_channel(home: Home, name: str) -> None:
    """Check that a channel is set up.

    NotFoundError otherwise, because no channel would show the message.
    """
    if home.channels is None or name in home.config.channels:
        return
    there = list(home.config.channels)
    near, hint = nearest_names(name, there), ""
    if there and not near and name not in home.channels:
        hint = "set up: " + ", ".join(there)
    elif not near:
        table = name if name in home.channels else next(iter(home.channels))
        hint = f"add a table [channels.{table}] to config.toml, then `vyane mirror push` shows it"
    raise NotFoundError("channel", name, near, hint)


def _workers_of(workers: registry.Registry, address: Address, own: Worker | None) -> list[Worker]:
    if address.relative is None:
        return [find_worker(address.text, workers.listing())]
    if own is None:
        raise InvalidInputError(
            "to",
            address.text,
            "known here: this command does not run in a worker's session",
            hint="name a worker: `vyane workers` lists them",
        )
    links = (
        [own.parent_worker_id] if address.relative is Relative.PARENT else own.children_worker_ids
    )
    found = [workers.workers[link] for link in links if link in workers.workers]
    if address.relative is Relative.CHILDREN:
        found = [child for child in found if not child.final]
    if not found:
        raise NotFoundError("worker", address.text, hint=f"{own.name} has none that has not ended")
    return found


def _to_worker(home: Home, worker: Worker, speaker: Speaker, own: Worker | None) -> Target:
    return Target(
        kind=ToKind.WORKER,
        id=worker.id,
        path=home.layout.inbox(worker.id),
        worker=worker.id,
        logical_session=worker.logical_session_id,
        relation=_relation(speaker, worker, own),
        lock=worker.id,
        name=worker.name,
    )


def _relation(speaker: Speaker, target: Worker | None, own: Worker | None = None) -> Relation:
    if speaker.kind is FromKind.HUMAN:
        return Relation.HUMAN
    if own is None or target is None:
        return Relation.OUTSIDE
    if target.parent_worker_id == own.id:
        return Relation.PARENT
    return Relation.CHILD if own.parent_worker_id == target.id else Relation.PEER


def _is_active(home: Home, worker: Worker) -> bool:
    if worker.final:
        return False
    if registry.has_ended(registry.current_session(home.layout, worker.id)):
        return False
    if worker.status is not WorkerStatus.STALE:
        return True
    return not is_stale(worker, last_sign(home, worker, look(home, worker)))
