"""Pull: messages that people write in bound conversations, handed on to their sessions once.

Commit points: the messages that were read are stored together with the adapter's cursor (the
intake); each message is then handed on under its own key, and leaves the intake after that. After a
crash, messages that were not stored are read again, and stored messages are handed on again; the
keys prevent duplicates.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from vyane_cli.channels.port import (
    ChannelOutcome,
    ChannelPage,
    ChannelVerdict,
    Incoming,
    Post,
    Sign,
)
from vyane_cli.children.cancel import cancel
from vyane_cli.conversations.bind import sweep
from vyane_cli.conversations.binding import Binding
from vyane_cli.conversations.bindings import touch
from vyane_cli.conversations.chat_commands import ChatInput, Command, Intent, digest_of, understand
from vyane_cli.conversations.family import mirrored_bindings
from vyane_cli.conversations.narration import show
from vyane_cli.conversations.run import (
    ConversationProblem,
    Problem,
    Run,
    UnopenedChannel,
    each_channel,
)
from vyane_cli.conversations.state_rules import MirrorFault, PendingPart, nonce_of, remember
from vyane_cli.conversations.thread import ConversationThread
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
from vyane_cli.mail.message import MessageKind, first_line
from vyane_cli.mail.send import MessageDraft, send
from vyane_cli.sessions import registry
from vyane_cli.sessions.speaker import FromKind, Speaker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home


@dataclass(frozen=True, slots=True, kw_only=True)
class PullReport:
    """The result of a pull on one channel."""

    channel: str
    taken: int
    refused: int
    answered: int
    state: str
    problems: tuple[Problem, ...]


@dataclass(slots=True)
class _Taken:
    """The counts and problems of a run so far."""

    taken: int = 0
    refused: int = 0
    answered: int = 0
    problems: list[Problem] = field(default_factory=list)


def pull(home: Home, *, channel: str = "") -> tuple[PullReport | UnopenedChannel, ...]:
    """Take in the messages that people wrote; return a report for each channel."""
    sweep(home, home.clock())
    return each_channel(home, channel, lambda name: _pull_channel(home, name))


def _pull_channel(home: Home, name: str) -> PullReport:
    so_far = _Taken()
    with Run(home, name) as run:
        for binding in mirrored_bindings(home, name, run.account):
            if run.over or run.blocked is not None:
                break
            try:
                _Listener(run, binding, so_far).listen()
            except VyaneError as error:
                problem = _problem(binding, error.slug, error.message, error.hint)
                so_far.problems.append(problem)
        state, problems = run.sum_up(so_far.problems)
    return PullReport(
        channel=name,
        taken=so_far.taken,
        refused=so_far.refused,
        answered=so_far.answered,
        state=state,
        problems=problems,
    )


def _problem(binding: Binding, code: str, detail: str, fix: str) -> ConversationProblem:
    return ConversationProblem(
        session=binding.target_session,
        conversation=binding.conversation.id,
        code=code,
        detail=detail,
        fix=fix,
    )


class _Listener:
    """The reader of one conversation."""

    def __init__(self, run: Run, binding: Binding, so_far: _Taken) -> None:
        self.run, self.binding, self.so_far = run, binding, so_far
        self.home = run.home
        self.thread = ConversationThread(run, binding)

    def listen(self) -> None:
        """Hand on what was stored before, then read page by page.

        Messages that were read while the binding was open are handed on after its end, too.
        """
        self._hand_on()
        if not self.binding.is_open(self.home.clock().at):
            return
        if (fault := self.run.refused(f"read {self.binding.generation}")) is not None:
            self._tell(fault)
        while fault is None and not self.run.over:
            page = self._read()
            if page is None:
                break
            self._keep(page)
            self._hand_on()
            if not page.more:
                break
        if self.thread.state.outbox:
            self.thread.drain()

    def _read(self) -> ChannelPage | None:
        channel, state = self.run.channel, self.thread.state
        if not state.begun:
            since_ms = int(self.binding.open_since * 1000)
            end = self.run.learn(channel.seek_end(self.binding.conversation, since_ms))
            if end.verdict is not ChannelVerdict.DONE or end.page is None:
                self._failed(end)
                return None
            self.thread.keep(state._replace(inbound=end.page.cursor, begun=True))
        outcome = self.run.learn(channel.read(self.binding.conversation, self.thread.state.inbound))
        self.run.keep_memory()
        if outcome.verdict is not ChannelVerdict.DONE or outcome.page is None:
            self._failed(outcome)
            return None
        self.run.note(f"read {self.binding.generation}", outcome)
        if outcome.page.problem != self.run.state.problem:
            self.run.keep(self.run.state._replace(problem=outcome.page.problem))
        if outcome.page.problem:
            noted = _problem(self.binding, "noted", outcome.page.problem, "")
            self.so_far.problems.append(noted)
        return outcome.page

    def _failed(self, outcome: ChannelOutcome) -> None:
        if outcome.verdict is ChannelVerdict.GONE:
            self.thread.follow(outcome)
        self.run.note(f"read {self.binding.generation}", outcome)
        self._tell(outcome)

    def _tell(self, why: ChannelOutcome | MirrorFault) -> None:
        detail = why.detail or why.reason
        self.so_far.problems.append(_problem(self.binding, why.reason, detail, why.fix))

    def _keep(self, page: ChannelPage) -> None:
        """Store the intake and the cursor after it, in one write."""
        state = self.thread.state
        seen, intake = dict(state.seen), list(state.intake)
        for one in page.messages:
            digest = digest_of(one.text)
            if seen.get(one.id) == digest:
                continue
            intake.append(one._replace(edited=one.edited or one.id in seen))
            seen = remember(seen, one.id, digest)
        self.thread.keep(state._replace(inbound=page.cursor, seen=seen, intake=tuple(intake)))

    # ------------------------------------------------------------------ handing on

    def _hand_on(self) -> None:
        while self.thread.state.intake:
            one = self.thread.state.intake[0]
            heard = understand(one, self.run.settings.allow_users, edited=one.edited)
            self.so_far.refused += heard.intent is Intent.STRANGER
            errand = Errand(self.run, self.binding, one, heard)
            items = self._items(one, errand.answer(self.thread.state.stored.get(one.id, "")))
            state = self.thread.state
            stored = remember(state.stored, one.id, errand.made) if errand.made else state.stored
            outbox = self.thread.put(items)
            self.thread.keep(state._replace(intake=state.intake[1:], outbox=outbox, stored=stored))
            if heard.intent in (Intent.MESSAGE, Intent.COMMAND, Intent.NOTE):
                self.so_far.taken += 1
                touch(self.home, self.binding.id, forced=False)
                self.run.sign(self.binding, one.id, Sign.SEEN)

    def _items(self, one: Incoming, answer: str) -> list[PendingPart]:
        parts = self.run.channel.plan(Post(show(answer))) if answer else ()
        self.so_far.answered += bool(parts)
        digest = digest_of(one.text)
        return [
            PendingPart(nonce_of(self.binding.id, "answer", one.id, digest, str(number)), part)
            for number, part in enumerate(parts)
        ]


CANCEL_WAIT_S = 1.0
TRANSIENT = (LockTimeoutError, StorageError, CorruptStateError)
"""Errors after which the message stays in the intake. Any other error is answered, and the message
leaves the intake."""
STRANGERS_MAX = 50


class Errand:
    """One message that was read in a bound conversation, and what it asks for."""

    def __init__(self, run: Run, binding: Binding, one: Incoming, heard: ChatInput) -> None:
        self.run, self.binding, self.one, self.heard = run, binding, one, heard
        self.home = run.home
        self.made = ""
        """Id of the message to the session that this one became; an edit replies to it."""

    def answer(self, earlier: str) -> str:
        """Do what the message asks for; return the answer for the conversation, often empty.

        `earlier` is the id of the message to the session that it became before it was edited.
        """
        try:
            answer = self._do(earlier)
        except TRANSIENT:
            raise
        except DurabilityUnknownError:
            return ""  # the message is stored, and will be delivered
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
                    self.home, self._target(), rest, timeout_s=0.0,
                    speaker=self._speaker(), key=self._key(),
                )  # fmt: skip
                self.made = taken.sent.message.id
                return self._say("said-takeover", id=self.made, status=taken.status)
            case Command.TAKEOVER:
                return self._say("said-needs", command="`/takeover`", what="TEXT")
            case Command.CANCEL:
                done = cancel(
                    self.home, self._target(), reason=rest, wait_s=CANCEL_WAIT_S,
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
                return _tree(topology(self.home, self._target()).workers)
            case _:
                return self._say("said-help")

    def _send(self, to: str, text: str, summary: str | None = None, parent: str = "") -> str:
        draft = MessageDraft(
            to, text, summary=summary, reply_to=parent or None, idempotency_key=self._key()
        )
        return send(self.home, draft, self._speaker()).message.id

    def _known(self, message: str) -> str:
        """Return the id of the message if it is still on record, else an empty text."""
        try:
            return find_message(self.home, message).message.id if message else ""
        except NotFoundError:
            return ""

    def _refuse(self, text: str) -> None:
        """Count a message of a writer who is not allowed; pass it on as a note if so configured."""
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
        draft = MessageDraft(self._target(), said, MessageKind.INFO, idempotency_key=self._key())
        send(self.home, draft, outside)

    def _target(self) -> str:
        """Return the session's present worker; the session itself if the worker is missing."""
        key = self.binding.target_session
        session = registry.load_logical_session(self.home.layout, key)
        known = registry.Registry(self.home.layout).workers
        return session.worker if session is not None and session.worker in known else key

    def _speaker(self) -> Speaker:
        one = self.one
        return Speaker(
            FromKind.HUMAN, f"{self.run.name}:{one.author}"[:128], one.name or one.author
        )

    def _key(self) -> str:
        return f"mirror:{nonce_of(self.binding.id, self.one.id, digest_of(self.one.text))}"


def _tree(nodes: tuple[TreeNode, ...]) -> str:
    """Return the tree as a list that any Markdown reader shows."""
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
