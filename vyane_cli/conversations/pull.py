"""Mirror in: what people write in a bound conversation reaches its session, once.

Commit points: what was read is kept together with the adapter's cursor (the intake); each message
is then handed on under a key of its own, and leaves the intake after that. A crash reads again what
was not kept, and hands on again what was; the keys see to it that nothing comes twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from vyane_cli.channels.port import Incoming, Outcome, Page, Post, Sign, Verdict
from vyane_cli.conversations.binding import Binding
from vyane_cli.conversations.bindings_2 import touch
from vyane_cli.conversations.bindings_sweep import sweep
from vyane_cli.conversations.chat_commands import Intent, digest_of, understand
from vyane_cli.conversations.family import mirrored_bindings
from vyane_cli.conversations.mirror_errands import Errand
from vyane_cli.conversations.mirroring import nonce_of
from vyane_cli.conversations.narration import show
from vyane_cli.conversations.run import (
    ConversationProblem,
    Problem,
    Run,
    UnopenedChannel,
    each_channel,
)
from vyane_cli.conversations.state_rules import Fault, Item, remember
from vyane_cli.conversations.thread import Thread
from vyane_cli.errors import VyaneError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Runtime


@dataclass(frozen=True, slots=True, kw_only=True)
class PullReport:
    """What a pull took in of one channel."""

    channel: str
    taken: int
    refused: int
    answered: int
    state: str
    problems: tuple[Problem, ...]


@dataclass(slots=True)
class _Taken:
    """What a run has taken in so far."""

    taken: int = 0
    refused: int = 0
    answered: int = 0
    problems: list[Problem] = field(default_factory=list)


def pull(runtime: Runtime, *, channel: str = "") -> tuple[PullReport | UnopenedChannel, ...]:
    """Take in what people wrote; return what each channel has come to."""
    sweep(runtime, runtime.clock())
    return each_channel(runtime, channel, lambda name: _pull_channel(runtime, name))


def _pull_channel(runtime: Runtime, name: str) -> PullReport:
    so_far = _Taken()
    with Run(runtime, name) as run:
        for binding in mirrored_bindings(runtime, name, run.account):
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
    """One conversation, read."""

    def __init__(self, run: Run, binding: Binding, so_far: _Taken) -> None:
        self.run, self.binding, self.so_far = run, binding, so_far
        self.runtime = run.runtime
        self.thread = Thread(run, binding)

    def listen(self) -> None:
        """Hand on what was kept before, then read page by page.

        What was read while the binding was open is handed on after its end, too.
        """
        self._hand_on()
        if not self.binding.is_open(self.runtime.clock().at):
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

    def _read(self) -> Page | None:
        channel, state = self.run.channel, self.thread.state
        if not state.begun:
            since_ms = int(self.binding.open_since * 1000)
            end = self.run.learn(channel.seek_end(self.binding.conversation, since_ms))
            if end.verdict is not Verdict.DONE or end.page is None:
                self._failed(end)
                return None
            self.thread.keep(state._replace(inbound=end.page.cursor, begun=True))
        outcome = self.run.learn(channel.read(self.binding.conversation, self.thread.state.inbound))
        self.run.keep_memory()
        if outcome.verdict is not Verdict.DONE or outcome.page is None:
            self._failed(outcome)
            return None
        self.run.note(f"read {self.binding.generation}", outcome)
        if outcome.page.problem != self.run.state.problem:
            self.run.keep(self.run.state._replace(problem=outcome.page.problem))
        if outcome.page.problem:
            noted = _problem(self.binding, "noted", outcome.page.problem, "")
            self.so_far.problems.append(noted)
        return outcome.page

    def _failed(self, outcome: Outcome) -> None:
        if outcome.verdict is Verdict.GONE:
            self.thread.follow(outcome)
        self.run.note(f"read {self.binding.generation}", outcome)
        self._tell(outcome)

    def _tell(self, why: Outcome | Fault) -> None:
        detail = why.detail or why.reason
        self.so_far.problems.append(_problem(self.binding, why.reason, detail, why.fix))

    def _keep(self, page: Page) -> None:
        """The intake and the cursor behind it, in one write."""
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
                touch(self.runtime, self.binding.id, forced=False)
                self.run.sign(self.binding, one.id, Sign.SEEN)

    def _items(self, one: Incoming, answer: str) -> list[Item]:
        parts = self.run.channel.plan(Post(show(answer))) if answer else ()
        self.so_far.answered += bool(parts)
        digest = digest_of(one.text)
        return [
            Item(nonce_of(self.binding.id, "answer", one.id, digest, str(number)), part)
            for number, part in enumerate(parts)
        ]
