"""Turns of producers other than hooks: start a turn, emit events in it, finish it.

Each call is one append under the timeline's lock, on disk when it returns (an observation: with the
next event that is flushed). A crash before the append leaves nothing. A turn whose process has died
is closed once, by the session's next call, as interrupted/runtime_restart.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from vyane_cli.errors import ConflictError, InvalidInputError, NotFoundError
from vyane_cli.history.queries import SelectedTimeline, event_of, find_timeline
from vyane_cli.history.story import TimelineEvent
from vyane_cli.history.tokens import Token, parse_token, render_token
from vyane_cli.hosts.port import Trigger
from vyane_cli.kernel.ids import is_safe_id
from vyane_cli.kernel.json import clean
from vyane_cli.kernel.process import Process
from vyane_cli.kernel.values import InJson
from vyane_cli.sessions import registry
from vyane_cli.sessions.facts import diagnose
from vyane_cli.storage import files, processes
from vyane_cli.storage.locks import LockKind
from vyane_cli.timeline import log, reader, turns
from vyane_cli.timeline.events import (
    PRODUCED,
    EventKind,
    TurnOutcome,
    check_event,
    check_kind,
    check_outcome,
)
from vyane_cli.timeline.turns import OpenTurn, TimelineHead, Transition

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home

CODE_MAX, TEXT_MAX = 64, 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedTurn:
    """The TurnStarted event of a turn, and the token that its producer presents from now on."""

    event: TimelineEvent = field(metadata={InJson: InJson(spread=True)})
    token: str


def start_turn(
    home: Home,
    who: str,
    *,
    trigger: str = Trigger.PRODUCER,
    prompt_chars: int | None = None,
    pid: int = 0,
    abandon: bool = False,
) -> StartedTurn:
    """Start a turn. Return its TurnStarted event and its token.

    `pid`: the process with which the turn ends; by default the session's process, if it has one.
    ConflictError: `turn_open`, or `turn_open_elsewhere` for a turn of another live host session.
    """
    if trigger not in tuple(Trigger):
        expected = "one of " + ", ".join(Trigger)
        raise InvalidInputError("trigger", trigger, expected, slug="unknown_trigger")
    if prompt_chars is not None and prompt_chars < 0:
        raise InvalidInputError("prompt-chars", prompt_chars, "zero or more")
    found = find_timeline(home, who)
    process = _process(found, pid)
    session = found.host_session.id if found.host_session is not None else found.session
    identity = log.Identity(
        found.session,
        found.worker.id if found.worker is not None else "",
        found.host_session.trace if found.host_session is not None else None,
        found.host_session.parent_span if found.host_session is not None else None,
    )
    with home.held((LockKind.TIMELINE, found.session)):
        opened = log.Timeline(
            found.path, home.layout.root, identity, home.entropy(16).hex(), checked=True
        )
        try:
            clock = home.clock()
            state = Transition(opened.head)
            elsewhere = False
            if opened.head.open is not None:
                code, elsewhere = _over(home, found, opened.head.open, session, abandon)
                state = turns.finish(state, clock, TurnOutcome.INTERRUPTED, code) if code else state
            if state.head.open is None:
                token = home.entropy(12).hex()
                state = turns.start(
                    state,
                    clock,
                    turn=home.new_id(clock.now_ms),
                    token=token,
                    trigger=Trigger(trigger),
                    session=session,
                    process=process,
                    payload={} if prompt_chars is None else {"prompt_chars": prompt_chars},
                    origin=_origin(found),
                )
                opened.commit(state)
        finally:
            opened.close()
    if elsewhere and state.head.open is not None and found.host_session is not None:
        text = f"turn {state.head.open.id} is open in {state.head.open.session}"
        diagnose(home, found.host_session, "turn_open_elsewhere", text)
    if not state.events:
        _refuse_open(state.head, elsewhere)
    started = state.head.open
    assert started is not None
    _beat(home, session)
    event = _event(home, found.session, started.seq)
    sealed = Token(found.session, started.id, started.seq, started.token)
    return StartedTurn(event=event, token=render_token(sealed))


def _process(found: SelectedTimeline, pid: int) -> Process | None:
    if pid:
        process = processes.identify(pid)
        if process is None:
            raise NotFoundError("process", str(pid))
        return process
    return found.host_session.process if found.host_session is not None else None


def _over(
    home: Home, found: SelectedTimeline, opened: OpenTurn, session: str, abandon: bool
) -> tuple[str, bool]:
    """Return (why the open turn has ended, empty while it runs; whether another session has it)."""
    elsewhere = opened.session != session
    other = (
        registry.load_session(home.layout, opened.session)
        if elsewhere and is_safe_id(opened.session)
        else None
    )
    if processes.is_present(opened.process) is False or (other is not None and other.ended):
        return "runtime_restart", elsewhere
    if abandon and opened.process is None:
        return "abandoned", elsewhere
    return "", elsewhere


def _refuse_open(head: TimelineHead, elsewhere: bool) -> NoReturn:
    opened = head.open
    assert opened is not None
    if elsewhere:
        raise ConflictError(
            f"turn {opened.id} is open in another live session, {opened.session}",
            slug="turn_open_elsewhere",
            hint="one turn runs at a time: wait for its end",
        )
    hint = "finish it with its token"
    if opened.native:
        hint = "its host ends it: a session with hooks records its own turns"
    elif opened.process is None:
        hint += ", or start with --abandon if nobody has the token any more"
    raise ConflictError(f"turn {opened.id} is open", slug="turn_open", hint=hint)


def emit_event(
    home: Home,
    token: str,
    kind: str,
    payload: Mapping[str, Any],
    *,
    flush: bool = False,
) -> TimelineEvent:
    """Emit one event in the token's turn.

    ConflictError (`turn_finished`) when that turn has finished.

    An observation is on disk with the next event that is flushed, or at once with `flush`.
    """
    wanted = parse_token(token)
    known = check_kind(kind)
    if known not in PRODUCED:
        raise InvalidInputError(
            "kind",
            kind,
            "one that a producer emits",
            hint="these are: " + ", ".join(PRODUCED),
            slug="kind_reserved",
        )
    checked = check_event(known, clean(dict(payload), "payload"))
    longest = max(TEXT_MAX, int(home.config["timeline.excerpt_chars"]))
    for key, value in checked.items():
        if isinstance(value, str) and len(value) > longest:
            raise InvalidInputError(
                f"payload.{key}",
                value,
                f"at most {longest} characters",
                hint="a timeline keeps names, counts and a few words, and no output",
            )
    with _Turn(home, wanted) as turn:
        if turn.opened is None:
            raise ConflictError(
                f"turn {wanted.turn} has finished",
                slug="turn_finished",
                hint="an event is never given to another turn: start the next one",
            )
        made = turns.emit(turn.state, known, checked, home.clock(), origin=turn.origin)
        turn.commit(made, flush=flush)
    return turn.event()


def finish_turn(
    home: Home,
    token: str,
    outcome: str,
    code: str = "",
    text: str = "",
) -> TimelineEvent:
    """Finish the token's turn. Return its TurnFinished event.

    A repeated call with the same outcome returns the first event and writes nothing. ConflictError
    (`terminal_conflict`) when the turn has finished in another way.
    """
    wanted = parse_token(token)
    end = check_outcome(outcome)
    code, text = clean(code, "code")[:CODE_MAX], clean(text, "text")[:TEXT_MAX]
    with _Turn(home, wanted) as turn:
        if turn.opened is not None:
            turn.commit(
                turns.finish(
                    turn.state,
                    home.clock(),
                    end,
                    code,
                    text=text,
                    origin=turn.origin,
                )
            )
    first = turn.event()
    payload = first.payload
    if (payload["outcome"], payload.get("code", "")) != (end, code):
        was = "/".join(filter(None, (payload["outcome"], payload.get("code"))))
        raise ConflictError(
            f"turn {wanted.turn} has finished as {was} already",
            slug="terminal_conflict",
            hint="the first terminal stands",
        )
    return first


class _Turn:
    """A token's timeline, opened under its lock: the turn is open, or `seq` is its TurnFinished."""

    def __init__(self, home: Home, token: Token) -> None:
        self.home, self.token = home, token
        self.path = home.layout.timeline(token.session)
        if not os.path.exists(self.path):
            raise unknown_turn(token)
        self.lock = home.held((LockKind.TIMELINE, token.session))
        self.opened: OpenTurn | None = None
        self.origin: Mapping[str, str] = {}
        self.seq = 0

    def __enter__(self) -> _Turn:
        self.lock.__enter__()
        try:
            root, token = self.home.layout.root, self.token
            identity = log.last_identity(self.path, token.session)
            self.timeline = log.Timeline(self.path, root, identity, "")
            try:
                self._find()
            except BaseException:
                self.timeline.close()
                raise
        except BaseException:
            self.lock.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self.timeline.close()
        self.lock.__exit__(None, None, None)

    def _find(self) -> None:
        head, token = self.timeline.head, self.token
        self.state = Transition(head)
        if head.open is not None and head.open.id == token.turn:
            if head.open.token != token.secret:
                raise unknown_turn(token)
            self.opened = head.open
            self.origin = {"provider": "producer", "native_session": head.open.session}
            return
        self.seq = _terminal(self.path, token)

    def commit(self, state: Transition, *, flush: bool = False) -> None:
        """Append the events, then touch the heartbeat: never before the events are stored."""
        self.timeline.commit(state, flush=flush)
        self.seq = state.head.seq
        if self.opened is not None:
            _beat(self.home, self.opened.session)

    def event(self) -> TimelineEvent:
        """Return the event that was appended, or the TurnFinished that already existed."""
        return _event(self.home, self.token.session, self.seq)


def unknown_turn(token: Token) -> NotFoundError:
    """Return the error for a token that belongs to no turn."""
    error = NotFoundError("turn", token.turn, hint="`vyane turn start` prints the token of a turn")
    error.slug = "unknown_turn"
    return error


def _terminal(path: str, token: Token) -> int:
    """Return the seq of a closed turn's TurnFinished; NotFoundError for a wrong token."""
    started = reader.event_at(path, token.seq) if token.seq > 0 else None
    if started is None:
        raise unknown_turn(token)
    head = log.head_of(started.record)
    turn = head.open if head is not None else None
    if turn is None or (turn.id, turn.token) != (token.turn, token.secret):
        raise unknown_turn(token)
    # one turn is open at a time: the next TurnFinished belongs to this turn
    for _, record in log.read(path, log.offset_of(path, token.seq + 1)):
        if record["kind"] == EventKind.TURN_FINISHED:
            return int(record["seq"])
    raise unknown_turn(token)


def _event(home: Home, session: str, seq: int) -> TimelineEvent:
    seen = reader.event_at(home.layout.timeline(session), seq)
    assert seen is not None, "it was just appended"
    return event_of(seen, session)


def _origin(found: SelectedTimeline) -> Mapping[str, str]:
    host = found.host_session
    origin = {"provider": host.host if host is not None else "producer"}
    return {**origin, "native_session": host.id} if host is not None else origin


def _beat(home: Home, session: str) -> None:
    """Touch the heartbeat, which follows accepted events. Errors are ignored."""
    try:
        files.touch(home.layout.beat(session))
    except Exception:
        return
