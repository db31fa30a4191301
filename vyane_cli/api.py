"""The Python API: send messages, record turns and read timelines from a program.

    from vyane_cli import connect

    vy = connect()
    with vy.turn("builder", prompt_chars=42) as turn:
        turn.tool("Bash")
        turn.result("all tests pass")
    vy.send("reviewer", "please look at it")
    for event in vy.history("builder", kinds=["TurnFinished"]):
        print(event["at"], event["payload"]["outcome"])

Every call has a deadline. Errors are those of `vyane_cli.errors`: each has `slug`, `message`,
`hint` and `exit_code`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, NamedTuple, Self

from ulid import ULID

from vyane_cli import channels
from vyane_cli.children.report import send_or_report
from vyane_cli.cli.render.machine import plain
from vyane_cli.delivery.outlook import state_of_message
from vyane_cli.history.producer import emit_event, finish_turn, start_turn
from vyane_cli.history.queries import WatchMode, check_watch, watch
from vyane_cli.home import Home
from vyane_cli.hosts.port import Trigger
from vyane_cli.mail.send import MessageDraft
from vyane_cli.storage.locks import Deadline
from vyane_cli.timeline.events import EventKind, TurnOutcome

TIMEOUT_S = 5.0
"""Seconds that a call waits for locks by default."""


class SentMessage(NamedTuple):
    """The message that `send` stored."""

    id: str
    status: str
    to_id: str
    lane: str
    repeated: bool
    """Whether the idempotency key was already known, so that nothing new was stored."""


def connect(home: str = "", *, timeout_s: float = TIMEOUT_S) -> Vyane:
    """Return the API for a state folder. Nothing is opened or created yet.

    The folder is `home`, else $VYANE_HOME, else $XDG_CONFIG_HOME/vyane, else ~/.config/vyane. A
    call that waits for locks longer than `timeout_s` raises LockTimeoutError.
    """
    return Vyane(_Bounded(home, timeout_s))


class _Bounded(Home):
    """A home in which every operation has the same time limit for locks."""

    def __init__(self, home: str, timeout_s: float) -> None:
        super().__init__(home, channels=channels.ADAPTERS)
        self.timeout_s = timeout_s

    def deadline(self, budget_s: float | None = None) -> Deadline:
        return super().deadline(self.timeout_s if budget_s is None else budget_s)

    def new_id(self, now_ms: int) -> str:
        """Return the same kind of id as `Home.new_id`, made with python-ulid.

        Hooks avoid the import of python-ulid; the API can afford it.
        """
        fresh = ULID.from_bytes(now_ms.to_bytes(6, "big") + self.entropy(10))
        if self._last_id and str(fresh) <= self._last_id:
            fresh = ULID.from_int(int(ULID.from_str(self._last_id)) + 1)
        self._last_id = str(fresh)
        return self._last_id


def _values(report: object) -> dict[str, Any]:
    """Return the keys and values of a report, as `--json` prints them."""
    values: dict[str, Any] = plain(report)
    return values


class Vyane:
    """The API for the sessions, messages and timelines of one state folder."""

    def __init__(self, home: Home) -> None:
        self.home = home

    def turn(
        self,
        session: str = "",
        *,
        trigger: str = Trigger.PRODUCER,
        prompt_chars: int | None = None,
        pid: int | None = None,
        abandon: bool = False,
    ) -> Turn:
        """Start a turn in a session and return the turn.

        `session`: a worker's name or id, or vs-…; empty means your own session. If nothing else
        ends the turn, it ends with this process. `pid` names another process, 0 the session's own.
        ConflictError: `turn_open`, `turn_open_elsewhere`.
        """
        started = start_turn(
            self.home,
            session,
            trigger=trigger,
            prompt_chars=prompt_chars,
            pid=os.getpid() if pid is None else pid,
            abandon=abandon,
        )
        return Turn(self, started.token, _values(started))

    def resume(self, token: str) -> Turn:
        """Return a turn that was started elsewhere, by its token."""
        return Turn(self, token, {})

    def send(
        self,
        to: str,
        text: str = "",
        *,
        kind: str = "context-inject",
        payload: Mapping[str, Any] | None = None,
        ttl_s: float | None = None,
        reply_to: str | None = None,
        idempotency_key: str | None = None,
    ) -> SentMessage:
        """Append a message to a session's inbox. The message is on disk when this returns."""
        sent = send_or_report(
            self.home,
            MessageDraft(
                to,
                text,
                kind,
                payload,
                ttl_s=ttl_s,
                reply_to=reply_to,
                idempotency_key=idempotency_key,
            ),
        )
        first = sent.message
        stored = state_of_message(self.home, first, stored_before=sent.repeated)
        return SentMessage(
            first.id, str(stored.status), first.to_id, str(first.lane), sent.repeated
        )

    def history(
        self,
        session: str = "",
        *,
        after: str = "",
        kinds: Iterable[str] = (),
        category: str = "",
        turn: str = "",
        since: float = 0.0,
    ) -> Iterator[dict[str, Any]]:
        """Yield the existing events, or only those after the cursor `after`, as a stream."""
        wanted = check_watch(
            (WatchMode.HISTORY,),
            after=after,
            kinds=tuple(kinds),
            category=category,
            turn=turn,
            since=since,
        )
        return (_values(one) for one in watch(self.home, session, wanted))

    def follow(
        self,
        session: str = "",
        *,
        after: str = "",
        consumer: str = "",
        reset: str = "",
        kinds: Iterable[str] = (),
        category: str = "",
        timeout_s: float | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Yield the existing events, one `caught_up` record, then new events as they arrive.

        `consumer`: continue where the consumer of this name stopped; asking for the next event
        confirms that the previous event was processed. `timeout_s`: end if no event arrives for
        this many seconds; None means never.
        """
        wanted = check_watch(
            (WatchMode.FOLLOW,),
            after=after,
            consumer=consumer,
            reset=reset,
            kinds=tuple(kinds),
            category=category,
        )
        found = watch(self.home, session, wanted, timeout_s=timeout_s)
        return (_values(one) for one in found)


class Turn:
    """A turn that this program records. As a context manager it finishes the turn at the end.

    The outcome is success, error on an exception, or interrupted on KeyboardInterrupt.
    """

    def __init__(self, vyane: Vyane, token: str, started: Mapping[str, Any]) -> None:
        self._vyane = vyane
        self.token = token
        """The token of the turn. Another process can emit in this turn with it: `Vyane.resume`."""
        self.started = started
        """The TurnStarted event; empty for a resumed turn."""
        self.finished: Mapping[str, Any] | None = None
        """The TurnFinished event, once `finish` has returned."""

    def emit(self, kind: str, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Record an event in the turn. Return the event.

        ConflictError (`turn_finished`) if the turn has ended.
        """
        return _values(emit_event(self._vyane.home, self.token, kind, payload))

    def tool(self, name: str, *, ok: bool = True, duration_ms: int | None = None) -> dict[str, Any]:
        """Record a tool call: its name and whether it succeeded, never its input or output.

        Return the event.
        """
        payload: dict[str, Any] = {"tool": name, "outcome": "ok" if ok else "failed"}
        if duration_ms is not None:
            payload["duration_ms"] = duration_ms
        return self.emit(EventKind.TOOL_OBSERVED, payload)

    def result(self, text: str) -> dict[str, Any]:
        """Record the turn's result: its digest, its length and an excerpt as the settings allow.

        Return the event.
        """
        digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
        payload: dict[str, Any] = {"digest": digest, "chars": len(text)}
        limit = int(self._vyane.home.config["timeline.excerpt_chars"])
        if limit and text:
            payload["excerpt"] = text[:limit]
        return self.emit(EventKind.RESULT_OBSERVED, payload)

    def usage(self, model: str = "", *, input_tokens: int = 0, output_tokens: int = 0) -> None:
        """Record the tokens that the turn used."""
        payload: dict[str, Any] = {"input_tokens": input_tokens, "output_tokens": output_tokens}
        self.emit(EventKind.USAGE_OBSERVED, {"model": model, **payload} if model else payload)

    def finish(
        self, outcome: str = TurnOutcome.SUCCESS, code: str = "", text: str = ""
    ) -> dict[str, Any]:
        """Finish the turn. Return the TurnFinished event; a repeated call returns the first one.

        ConflictError (`terminal_conflict`) if the turn has ended with another outcome or code.
        """
        event = _values(finish_turn(self._vyane.home, self.token, outcome, code, text))
        self.finished = event
        return event

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.finished is not None:
            return
        if kind is None:
            self.finish()
        elif issubclass(kind, KeyboardInterrupt):
            self.finish(TurnOutcome.INTERRUPTED, "user_interrupt")
        else:
            self.finish(TurnOutcome.ERROR, "exception", kind.__name__)
