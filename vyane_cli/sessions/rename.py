"""Give a worker another name: by a person, or by an agent for itself and its children."""

from __future__ import annotations

from vyane_cli.errors import ConflictError
from vyane_cli.sessions import registry
from vyane_cli.sessions.authority import require_person
from vyane_cli.sessions.identity import whoami
from vyane_cli.sessions.worker import Worker, check_name, find_worker
from vyane_cli.storage import files
from vyane_cli.storage.locks import LockKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home


def rename_worker(home: Home, who: str, name: str) -> Worker:
    """Give a worker another name. Mail goes by id, so none of it is affected.

    An agent names itself and its children: by another's name mail would go to somebody else.
    """
    check_name(name)
    speaker = whoami(home)
    layout = home.layout
    with home.held((LockKind.REGISTRY, "")):
        workers = registry.Registry(layout)
        worker = find_worker(who, workers.listing())
        if speaker.id not in (worker.id, worker.parent_worker_id):
            require_person(home, speaker, "rename a worker that is not its own")
        taken = {w.name.casefold(): w for w in workers.listing() if w.id != worker.id}
        if name.casefold() in taken:
            other = taken[name.casefold()]
            raise ConflictError(f"{name} is the name of {other.id}", hint="choose another name")
        session = registry.current_session(layout, worker.id)
        logical = worker.logical_session_id
        conversation = registry.load_logical_session(layout, logical) if logical else None
        with files.before_commit():
            if session is not None:
                registry.save_session(layout, session._replace(name=name))
            if conversation is not None and conversation.worker == worker.id:
                registry.save_logical_session(layout, conversation._replace(display_name=name))
        renamed = worker._replace(name=name)
        workers.put(renamed)
        workers.save()
    return renamed
