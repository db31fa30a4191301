"""One run over one channel, under its lock: the channel's state, and how answers change it.

The lock is held while the run speaks to the channel: two runs at the same time show everything
once, in order.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from vyane_cli.channels.port import Channel, ChannelOutcome, ChannelVerdict, Sign
from vyane_cli.conversations import state as mirrors
from vyane_cli.conversations.binding import Binding
from vyane_cli.conversations.channels import configured, open_channel, settings_of
from vyane_cli.conversations.narration import Verbosity
from vyane_cli.conversations.state_rules import ChannelState, MirrorFault, fault_of, holds
from vyane_cli.errors import NotFoundError, VyaneError, shortened
from vyane_cli.kernel.text import Templates
from vyane_cli.kernel.values import OMIT
from vyane_cli.storage.locks import Deadline, LockKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelProblem:
    """A problem of a whole channel."""

    code: str
    detail: str
    fix: str

    @property
    def session(self) -> str:
        """Return no session: the problem affects all sessions."""
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionProblem:
    """A problem of one session."""

    session: str
    code: str
    detail: str
    fix: str
    conversation: str | None = field(default=None, metadata=OMIT)
    """The conversation whose posts are kept back; None for any other problem."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationProblem:
    """A problem of one conversation."""

    session: str
    conversation: str
    code: str
    detail: str
    fix: str


Problem = ChannelProblem | SessionProblem | ConversationProblem


@dataclass(frozen=True, slots=True, kw_only=True)
class UnopenedChannel:
    """A channel that could not be opened."""

    channel: str
    state: str
    problems: tuple[ChannelProblem, ...]


Report = TypeVar("Report")


def each_channel(
    home: Home, only: str, work: Callable[[str], Report]
) -> tuple[Report | UnopenedChannel, ...]:
    """Return the result of `work` for every channel that is set up, or for one.

    Raises NotFoundError for a channel that is not set up. When there are several, a channel that
    cannot be opened does not stop the others: its error is a problem of its report. If only
    one channel is chosen, its error is raised.
    """
    names = configured(home)
    if only and only not in names:
        raise NotFoundError(
            "channel", only, hint=f"add [channels.{shortened(only)}] to config.toml"
        )
    chosen = [only] if only else names
    reports: list[Report | UnopenedChannel] = []
    for name in chosen:
        try:
            reports.append(work(name))
        except VyaneError as error:
            if len(chosen) == 1:
                raise
            problems = (problem_of(error),)
            reports.append(UnopenedChannel(channel=name, state="error", problems=problems))
    return tuple(reports)


def problem_of(error: VyaneError) -> ChannelProblem:
    """Return an error as one of a report's problems."""
    return ChannelProblem(code=error.slug, detail=error.message, fix=error.hint)


def problem_of_fault(fault: MirrorFault) -> ChannelProblem:
    """Return a fault as one of a report's problems."""
    return ChannelProblem(code=fault.reason, detail=fault.detail, fix=fault.fix)


class MirrorSettings(NamedTuple):
    """The settings that every channel has."""

    sessions: str
    verbosity: Verbosity
    allow_users: tuple[str, ...]
    strangers: str
    ping_users: tuple[str, ...]
    recreate: bool


class Run:
    """A context manager over one channel. `blocked` says whether to leave the channel alone."""

    channel: Channel
    texts: Templates

    def __init__(self, home: Home, name: str, account: str = "default") -> None:
        self.home, self.name, self.account = home, name, account
        given = settings_of(home, name)
        self.settings = MirrorSettings(
            sessions=given["sessions"],
            verbosity=Verbosity(given["verbosity"]),
            allow_users=tuple(given["allow_users"]),
            strangers=given["strangers"],
            ping_users=tuple(given["ping_users"]),
            recreate=given["recreate"],
        )
        self.budget_s = float(home.config["mirror.budget_s"])
        self.held: AbstractContextManager[None] | None = None
        self.memory: dict[str, Any] = {}

    def __enter__(self) -> Run:
        """Take the lock, read the state, open the channel."""
        home = self.home
        wanted = (LockKind.MIRROR, f"{self.name}/{self.account}")
        held = home.held(wanted, deadline=Deadline(self.budget_s))
        held.__enter__()
        try:
            self.state = mirrors.load_channel(home.layout, self.name, self.account)
            self.memory = copy.deepcopy(dict(self.state.memory))
            self.channel = open_channel(home, self.name, self.account, self.memory)
            self.texts = home.mirror_templates
            self.end_ms = home.clock().now_ms + int(self.budget_s * 1000)
            if not self.state.since:
                self.keep(self.state._replace(since=home.clock().at))
        except BaseException:
            held.__exit__(None, None, None)
            raise
        self.held = held
        return self

    def __exit__(self, *exc: Any) -> None:
        """Save the adapter's memory, and release the lock."""
        try:
            self.keep_memory()
        finally:
            assert self.held is not None
            self.held.__exit__(*exc)

    # ------------------------------------------------------------------ the channel's own state

    def keep(self, state: ChannelState, *, durable: bool = True) -> None:
        """Save the state of the channel if it has changed."""
        if state != self.state or not self.state.since:
            layout = self.home.layout
            mirrors.save_channel(layout, self.name, self.account, state, durable=durable)
            self.state = state

    def keep_memory(self) -> None:
        """Save the adapter's memory. Not flushed: losing it costs one refused request."""
        self.keep(self.state._replace(memory=copy.deepcopy(self.memory)), durable=False)

    def again(self) -> None:
        """Forget why the channel was left alone, and what it refused."""
        self.keep(self.state._replace(fault=None, fingerprint="", refused={}))

    # ------------------------------------------------------------------ refused requests

    def refused(self, what: str) -> MirrorFault | None:
        """Return why this request is not made now; None if it may be made."""
        fault = self.state.refused.get(what)
        if fault is None or fault.fingerprint != self.channel.fingerprint:
            return None
        over = fault.verdict == ChannelVerdict.LATER and fault.retry_ms <= self.home.clock().now_ms
        return None if over else fault

    def note(self, what: str, outcome: ChannelOutcome) -> None:
        """Record the answer to a request if it was refused; else forget an earlier refusal."""
        kept = {key: fault for key, fault in self.state.refused.items() if key != what}
        if holds(outcome):
            fault = fault_of(outcome, self.home.clock().at)
            kept[what] = fault._replace(fingerprint=self.channel.fingerprint)
        self.keep(self.state._replace(refused=kept))

    def sign(self, binding: Binding, message: str, sign: Sign) -> bool:
        """Put a sign at a message; return False if a later run should try again.

        Losing a sign is harmless. Of its outcomes only OFF is recorded for the whole channel.
        """
        what = f"sign {binding.generation}"
        if not self.channel.capabilities.acknowledge:
            return True
        if self.blocked is not None or self.refused(what) is not None:
            return False
        outcome = self.channel.acknowledge(binding.conversation, message, sign)
        self.keep_memory()
        self.note(what, outcome)
        if outcome.verdict is ChannelVerdict.OFF:
            self.learn(outcome)
        return outcome.verdict in (ChannelVerdict.DONE, ChannelVerdict.ABSENT)

    def note_only(self, living: Collection[str]) -> None:
        """Forget refusals of subjects not in `living`: the second word of a key (`open vs-…`)."""
        left = {k: fault for k, fault in self.state.refused.items() if k.split()[-1] in living}
        self.keep(self.state._replace(refused=left))

    @property
    def blocked(self) -> MirrorFault | None:
        """Return why no request is made to the channel now; None if requests may be made."""
        fault = self.state.fault
        if fault is None:
            return None
        if fault.verdict == ChannelVerdict.OFF:
            return fault if self.state.fingerprint == self.channel.fingerprint else None
        return fault if fault.retry_ms > self.home.clock().now_ms else None

    @property
    def over(self) -> bool:
        """Return whether the time of this run has passed."""
        return self.home.clock().now_ms >= self.end_ms

    def sum_up(self, problems: Sequence[Problem]) -> tuple[str, tuple[Problem, ...]]:
        """Return the state of the channel, and its problems: those of the whole channel first."""
        fault = self.blocked
        if fault is None:
            return "ok", tuple(problems)
        return fault.verdict, (problem_of_fault(fault), *problems)

    def learn(self, outcome: ChannelOutcome) -> ChannelOutcome:
        """Record what an answer says about the whole channel; return the answer."""
        everywhere = outcome.verdict is ChannelVerdict.LATER and outcome.everywhere
        if outcome.verdict is ChannelVerdict.OFF or everywhere:
            fault = fault_of(outcome, self.home.clock().at)
            self.keep(self.state._replace(fault=fault, fingerprint=self.channel.fingerprint))
        elif outcome.verdict is ChannelVerdict.DONE and self.state.fault is not None:
            self.keep(self.state._replace(fault=None, fingerprint=""))
        return outcome
