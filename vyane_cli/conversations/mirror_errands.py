"""What one message of a person's leads to: mail to the session, or a command and its answer.

Each is stored under a key of its own: done again after a crash, it is done once.
"""

from __future__ import annotations

from vyane_cli.channels.port import Incoming
from vyane_cli.children.cancel import cancel
from vyane_cli.conversations.binding import Binding
from vyane_cli.conversations.chat_commands import Command, Heard, Intent, digest_of
from vyane_cli.conversations.mirroring import nonce_of
from vyane_cli.conversations.run import Run
from vyane_cli.delivery.takeover import take_over
from vyane_cli.delivery.topology import TreeNode, topology
from vyane_cli.errors import (
    CorruptStateError,
    DurabilityUnknownError,
    LockTimeoutError,
    NotFoundError,
    StorageError,
    VyaneError,
)
from vyane_cli.mail.lookup import find_message
from vyane_cli.mail.message import Kind, first_line
from vyane_cli.mail.send import Draft, send
from vyane_cli.sessions import registry
from vyane_cli.sessions.speaker import FromKind, Speaker

CANCEL_WAIT_S = 1.0
TRANSIENT = (LockTimeoutError, StorageError, CorruptStateError)
"""With these the message waits in the intake; any other error is answered, and it is set aside."""
STRANGERS_MAX = 50


class Errand:
    """One message that was read in a bound conversation, and understood."""

    def __init__(self, run: Run, binding: Binding, one: Incoming, heard: Heard) -> None:
        self.run, self.binding, self.one, self.heard = run, binding, one, heard
        self.runtime = run.runtime
        self.made = ""
        """The message to the session that came of it; an edit belongs to it."""

    def answer(self, earlier: str) -> str:
        """Do what it asks for; what is said in the conversation, often nothing.

        `earlier`: what came of it before it was edited.
        """
        try:
            answer = self._do(earlier)
        except TRANSIENT:
            raise
        except DurabilityUnknownError:
            return ""  # it is stored, and will be delivered
        except VyaneError as error:
            text = f"{error.message}; {error.hint}" if error.hint else error.message
            answer = self._say("said-error", text=text)
        if self.heard.left:
            what = ", ".join(f"`{one}`" for one in self.heard.left)
            answer = f"{answer}\n{self._say('said-left', what=what)}".strip()
        return answer

    def _say(self, template: str, /, **words: object) -> str:
        return self.run.texts.fill(template, **words)

    def _do(self, earlier: str) -> str:
        heard = self.heard
        match heard.intent:
            case Intent.MESSAGE:
                self.made = self._send(self._target(), heard.text)
            case Intent.NOTE:
                text = self._say("edited", text=heard.text)
                self._send(self._target(), text, first_line(heard.text), self._known(earlier))
            case Intent.STRANGER:
                self._refuse(heard.text)
            case Intent.COMMAND:
                return self._command()
            case Intent.IGNORE:
                pass
        return ""

    def _command(self) -> str:
        rest = self.heard.text
        match self.heard.command:
            case Command.TAKEOVER if rest:
                taken = take_over(
                    self.runtime, self._target(), rest, timeout_s=0.0,
                    speaker=self._speaker(), key=self._key(),
                )  # fmt: skip
                self.made = taken.sent.message.id
                return self._say("said-takeover", id=self.made, status=taken.status)
            case Command.TAKEOVER:
                return self._say("said-needs", command="`/takeover`", what="TEXT")
            case Command.CANCEL:
                done = cancel(
                    self.runtime, self._target(), reason=rest, wait_s=CANCEL_WAIT_S,
                    operation=nonce_of(self._key()), speaker=self._speaker(),
                )  # fmt: skip
                outcomes = (f"{done.names.get(w, w)}: {o}" for w, o in done.cancel.outcomes.items())
                return self._say("said-cancel", outcomes=", ".join(outcomes))
            case Command.RELAY:
                to, _, text = rest.partition(" ")
                if not text.strip():
                    return self._say("said-needs", command="`/relay`", what="WORKER TEXT")
                return self._say("said-relay", to=to, id=self._send(to, text.strip()))
            case Command.TOPOLOGY:
                return _tree(topology(self.runtime, self._target()).workers)
            case _:
                return self._say("said-help")

    def _send(self, to: str, text: str, summary: str | None = None, parent: str = "") -> str:
        draft = Draft(
            to, text, summary=summary, reply_to=parent or None, idempotency_key=self._key()
        )
        return send(self.runtime, draft, self._speaker()).message.id

    def _known(self, message: str) -> str:
        """The message, if it is on record still."""
        try:
            return find_message(self.runtime, message).message.id if message else ""
        except NotFoundError:
            return ""

    def _refuse(self, text: str) -> None:
        """Somebody whose words do not count: counted, and where the settings say so, noted."""
        run, one = self.run, self.one
        counts = dict(run.state.strangers)
        counts[one.author] = counts.pop(one.author, 0) + 1
        newest = dict(list(counts.items())[-STRANGERS_MAX:])
        run.keep(run.state._replace(strangers=newest))
        if run.settings.strangers != "note":
            return
        said = self._say(
            "stranger", name=one.name, author=one.author, text=text,
            place=f"{self.binding.conversation.channel}:{self.binding.conversation.id}",
        )  # fmt: skip
        outside = Speaker(FromKind.EXTERNAL, f"{run.name}:{one.author}", one.name)
        send(self.runtime, Draft(self._target(), said, Kind.INFO, idempotency_key=self._key()),
             outside)  # fmt: skip

    def _target(self) -> str:
        """The session's present worker; the session itself where that is gone."""
        key = self.binding.target_session
        session = registry.load_logical_session(self.runtime.layout, key)
        known = registry.Registry(self.runtime.layout).workers
        return session.worker if session is not None and session.worker in known else key

    def _speaker(self) -> Speaker:
        one = self.one
        return Speaker(
            FromKind.HUMAN, f"{self.run.name}:{one.author}"[:128], one.name or one.author
        )

    def _key(self) -> str:
        return f"mirror:{nonce_of(self.binding.id, self.one.id, digest_of(self.one.text))}"


def _tree(nodes: tuple[TreeNode, ...]) -> str:
    """The tree as a list that any Markdown reader shows."""
    lines: list[str] = []

    def walk(node: TreeNode, depth: int) -> None:
        shown = node.shown
        said = f": {shown.progress}" if shown.progress else ""
        lines.append(f"{'  ' * depth}- **{shown.worker.name}** {shown.status}{said}")
        for child in node.children:
            walk(child, depth + 1)

    for one in nodes:
        walk(one, 0)
    return "\n".join(lines)
