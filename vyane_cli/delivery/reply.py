"""Reply and relay: answers to a message's sender, and texts forwarded to a child."""

from __future__ import annotations

from vyane_cli.delivery.transaction import Desk
from vyane_cli.errors import InvalidInputError, RefusedError, VyaneError
from vyane_cli.hosts.port import HookCall, HostEvent
from vyane_cli.mail.enqueue import Sent
from vyane_cli.mail.lookup import find_message
from vyane_cli.mail.outcomes import tell
from vyane_cli.mail.send import MessageDraft, send
from vyane_cli.sessions import registry
from vyane_cli.sessions.identity import whoami
from vyane_cli.sessions.session import HostSession
from vyane_cli.sessions.speaker import FromKind
from vyane_cli.sessions.worker import find_worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home


def reply(home: Home, message_id: str, draft: MessageDraft) -> Sent:
    """Send an answer to a message's sender, in the same thread."""
    message = find_message(home, message_id).message
    speaker = whoami(home)
    if message.from_kind is not FromKind.WORKER:
        human = message.from_kind is FromKind.HUMAN
        reads = "reads your answer in your own session" if human else "has no inbox"
        said = f"from a worker: {message.from_kind} {message.from_name} {reads}"
        raise InvalidInputError("message", message_id, said)
    if speaker.id == message.from_id != message.to_id:
        said = "of another: you wrote it, and the answer would come to you"
        hint = "`vyane send NAME TEXT --reply-to ID` adds to it"
        raise InvalidInputError("message", message_id, said, hint=hint)
    sent = send(home, draft._replace(to=message.from_id, reply_to=message.id))
    session = speaker.session
    if session is not None and session.host == "generic":
        prove(home, session)
    return sent


def relay(home: Home, draft: MessageDraft) -> Sent:
    """Forward a text to a child. RefusedError if a worker sends to one that is not its child."""
    speaker = whoami(home)
    if speaker.kind is FromKind.WORKER:
        workers = registry.Registry(home.layout)
        child = find_worker(draft.to, workers.listing())
        if child.parent_worker_id != speaker.id:
            raise RefusedError(
                f"{child.name} is no child of {speaker.name}",
                slug="direction",
                hint="`vyane send` writes to any worker",
            )
        draft = draft._replace(to=child.id)
    return send(home, draft, speaker)


def prove(home: Home, session: HostSession) -> None:
    """Consume the mail that the worker got: an answer proves that the worker has read it.

    The effect is that of the worker's next call.
    """
    host = home.host(session.host)
    if host is None:
        return
    call = HookCall(session.host, HostEvent.CALL, "reply", session.id, cwd=session.cwd)
    try:
        deadline = home.deadline()
        desk = Desk(home, session, call, host, deadline, rerun=True)
        desk.claim()
        tell(home, desk.untold, deadline)
    except VyaneError:
        return  # the answer is stored; the worker's next call is the proof
