"""Awaiting: a worker that can do nothing until a message of its is answered.

Its record names the message, so that the answer is direct mail. A crash may leave a name whose
message is not there, or is answered: that only makes a further answer direct, until it lapses.
"""

from __future__ import annotations

from collections.abc import Sequence

from vyane_cli.errors import InvalidInputError
from vyane_cli.mail.enqueue import Target
from vyane_cli.mail.message import Kind, ToKind
from vyane_cli.sessions import registry
from vyane_cli.sessions.speaker import FromKind, Speaker
from vyane_cli.storage.locks import Kind as LockKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Runtime


def check_awaitable(speaker: Speaker, kind: Kind, to: str, targets: Sequence[Target]) -> None:
    """InvalidInputError when nobody could wait for the answer, or nobody would give one."""
    if speaker.kind is not FromKind.WORKER:
        raise InvalidInputError("await-reply", speaker.name, "a worker: only a worker is woken")
    if kind is not Kind.CONTEXT_INJECT:
        raise InvalidInputError("await-reply", kind, f"answered: {Kind.CONTEXT_INJECT} is")
    one = len(targets) == 1 and targets[0].worker not in ("", speaker.id)
    if not one or targets[0].kind is ToKind.BROADCAST:
        raise InvalidInputError("await-reply", to, "one other worker")


def block(runtime: Runtime, worker_id: str, message_id: str | None, *, on: str = "") -> None:
    """The worker waits for an answer to this message, or (None) no longer. On disk when it returns.

    `on`: only if it waits for that one.
    """
    with runtime.held((LockKind.REGISTRY, "")):
        workers = registry.Registry(runtime.layout)
        worker = workers.workers.get(worker_id)
        if worker is None or (on and worker.blocked_on_message_id != on):
            return
        workers.put(worker._replace(blocked_on_message_id=message_id))
        workers.save()
