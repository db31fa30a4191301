"""Reply and relay: answers to a message's sender, texts passed on to a child."""

from __future__ import annotations

from vyane_cli.delivery.generic import prove
from vyane_cli.errors import InvalidInputError, RefusedError
from vyane_cli.mail.lookup import find_message
from vyane_cli.mail.once import Sent
from vyane_cli.mail.send import Draft, send
from vyane_cli.sessions import registry
from vyane_cli.sessions.identity import whoami
from vyane_cli.sessions.speaker import FromKind
from vyane_cli.sessions.worker import find_worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Runtime


def reply(runtime: Runtime, message_id: str, draft: Draft) -> Sent:
    """Answer a message: to its sender, in its chain."""
    message = find_message(runtime, message_id).message
    speaker = whoami(runtime)
    if message.from_kind is not FromKind.WORKER:
        human = message.from_kind is FromKind.HUMAN
        reads = "reads your answer in your own session" if human else "has no inbox"
        said = f"from a worker: {message.from_kind} {message.from_name} {reads}"
        raise InvalidInputError("message", message_id, said)
    if speaker.id == message.from_id != message.to_id:
        said = "of another: you wrote it, and the answer would come to you"
        hint = "`vyane send NAME TEXT --reply-to ID` adds to it"
        raise InvalidInputError("message", message_id, said, hint=hint)
    sent = send(runtime, draft._replace(to=message.from_id, reply_to=message.id))
    session = speaker.session
    if session is not None and session.host == "generic":
        prove(runtime, session)
    return sent


def relay(runtime: Runtime, draft: Draft) -> Sent:
    """Pass a text on to a child. From a worker to one that is not its child: refused."""
    speaker = whoami(runtime)
    if speaker.kind is FromKind.WORKER:
        workers = registry.Registry(runtime.layout)
        child = find_worker(draft.to, workers.listing())
        if child.parent_worker_id != speaker.id:
            raise RefusedError(
                f"{child.name} is no child of {speaker.name}",
                slug="direction",
                hint="`vyane send` writes to any worker",
            )
        draft = draft._replace(to=child.id)
    return send(runtime, draft, speaker)
