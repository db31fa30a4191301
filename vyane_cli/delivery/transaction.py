"""Transaction: one session's inboxes and timeline, changed together under their locks.

Load, decide, claim; settle. Only the class `Desk` advances the state of a session's mail. A tick
uses it, and so do `gc`, for sessions that no longer tick, and a host without hooks. (`attempts`
records attempts alone; `upkeep/expire` and `conversations/push` settle inboxes without a session.)
"""

from __future__ import annotations

from vyane_cli.delivery import spool
from vyane_cli.delivery.decide import plan_tick
from vyane_cli.delivery.deliver import plan_markers, plan_settle, plan_unshown, settle_turn
from vyane_cli.delivery.plan import FreshIds, Showing, Snapshot, TickPlan
from vyane_cli.errors import CorruptStateError
from vyane_cli.hosts.port import HookCall, HostEvent, Reply
from vyane_cli.kernel.process import Process
from vyane_cli.mail import inbox
from vyane_cli.mail.inbox import boxes_of
from vyane_cli.mail.mailbox import InboxChange, Mailbox, Op
from vyane_cli.mail.message import Lane
from vyane_cli.sessions import markers, registry
from vyane_cli.sessions.session import HostSession
from vyane_cli.storage import processes
from vyane_cli.storage.locks import LockKind
from vyane_cli.timeline import log, turns
from vyane_cli.timeline.events import EventKind
from vyane_cli.timeline.turns import Transition

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from vyane_cli.home import Home
    from vyane_cli.hosts.port import Host, ToolCall
    from vyane_cli.mail.outcomes import Untold
    from vyane_cli.storage.locks import Deadline

    TurnRead = tuple[tuple[ToolCall, ...], dict[str, Any] | None, str]

DAMAGED = "timeline-damaged"


class Desk:
    """One session's inboxes and timeline, opened together under their locks, as often as needed."""

    def __init__(
        self,
        home: Home,
        session: HostSession,
        call: HookCall,
        host: Host,
        deadline: Deadline,
        *,
        guard: int = 0,
        rerun: bool = False,
    ) -> None:
        self.home, self.session, self.call = home, session, call
        self.host, self.deadline, self.guard, self.rerun = host, deadline, guard, rerun
        self.me = home.me()
        self.dry = False
        self.read: tuple[int, TurnRead] | None = None
        self.untold: list[Untold] = []
        self.identity = log.Identity(
            session.logical_session, session.worker, session.trace, session.parent_span
        )

    @property
    def paths(self) -> list[str]:
        """Return the paths of the inboxes that the worker reads.

        Read this under the locks: a first message creates an inbox.
        """
        return boxes_of(self.home, self.session.worker, self.session.logical_session)

    def locks(self) -> Sequence[tuple[LockKind, str]]:
        """Return the locks of the desk, in any order: `held` sorts them."""
        return (
            (LockKind.INBOX, self.session.worker),
            (LockKind.INBOX, self.session.logical_session),
            (LockKind.TIMELINE, self.session.logical_session),
        )

    def claim(self) -> TickPlan:
        """Load, decide, commit. Return the plan.

        The markers are saved here if nothing is left to settle.
        """
        home, layout = self.home, self.home.layout
        self._read_turn()
        with home.held(*self.locks(), deadline=self.deadline), _Open(self) as opened:
            if registry.read_current(layout, self.session.worker) != self.session.id:
                # replaced during the wait for locks: a tick of an earlier session claims nothing
                return TickPlan(Reply(self.call.name), Transition(opened.timeline.head))
            if self.call.event is HostEvent.FILE_CHANGED:
                markers.disarm(layout, self.session.id)
            self._replay(opened)
            plan = plan_tick(self.snapshot(opened, self.call), self.call)
            opened.commit(plan)
            if plan.showing is None and plan.markers is not None:
                wall = home.clock().now_ms
                markers.save(layout, self.session.id, self.session.worker, plan.markers, wall)
        return plan

    def _replay(self, opened: _Open) -> None:
        """Commit the calls that missed their locks, in order. They hand over no mail."""
        for late in spool.waiting(self.home.layout, self.session.logical_session):
            desk = self._desk_of(late.call.session, opened)
            if desk is not None:
                plan = plan_tick(desk.snapshot(opened, late.call, replay=True), late.call)
                opened.commit(plan)
            else:
                text = f"{late.call.name} of the earlier session {late.call.session} came too late"
                payload = {"code": "call_superseded", "text": text}
                state = Transition(opened.timeline.head)
                clock = self.home.clock()
                opened.write(turns.emit(state, EventKind.DIAGNOSTIC, payload, clock))
            spool.remove_call(late)

    def _desk_of(self, session_id: str, opened: _Open) -> Desk | None:
        """Return the desk of a spooled call: this desk, or that of the session before (`/clear`).

        None if that session is unknown, or if mail or a turn already belongs to this session: a
        call of another session would then undo what this session was given.
        """
        if session_id == self.session.id:
            return self
        heard = {entry.session for box in opened.boxes for entry in box.mailbox.unsettled}
        if opened.timeline.head.open is not None:
            heard.add(opened.timeline.head.open.session)
        before = registry.load_session(self.home.layout, session_id)
        if before is None or self.session.id in heard:
            return None
        return Desk(self.home, before, self.call, self.host, self.deadline)

    def _read_turn(self) -> None:
        """Read the ending turn from the transcript, without locks: the transcript may be long."""
        if (
            self.call.event not in (HostEvent.STOP, HostEvent.STOP_FAILURE)
            or not self.session.transcript
        ):
            return
        path = self.home.layout.timeline(self.session.logical_session)
        head = log.read_head(path)
        if head is not None and head.open is not None:
            begin = head.open.transcript_bytes
            self.read = head.open.seq, self.host.read_turn(self.session.transcript, begin)

    def note_damage(self, error: CorruptStateError) -> None:
        """Record on the waiting mail that the timeline is damaged, so that `why` can report it.

        A damaged timeline is refused, and with it every delivery.
        """
        root, clock = self.home.layout.root, self.home.clock()
        with self.home.held(*self.locks(), deadline=self.deadline):
            for path in self.paths:
                box = inbox.Inbox(path, root)
                try:
                    held = [e for e in box.entries.values() if e.waiting and e.rule != DAMAGED]
                    if held:
                        fields = {
                            "at": clock.at,
                            "boot_ms": clock.boot_ms,
                            "verdict": "hold",
                            "rule": DAMAGED,
                            "readings": {"error": error.message},
                        }
                        ids = [entry.message.id for entry in held]
                        box.change(Op.ATTEMPT, ids, fields, box.head, durable=False)
                finally:
                    box.close()

    def dry_run(self) -> TickPlan:
        """Return the plan of the call for the current state. No change is made, no lock taken."""
        self.dry = True
        boxes = tuple(inbox.read(path).mailbox for path in self.paths)
        head = log.read_head(self.home.layout.timeline(self.session.logical_session))
        head = head or turns.TimelineHead("")
        return plan_tick(self._snapshot(boxes, head, self.call), self.call)

    def settle(self, showing: Showing, *, shown: bool) -> None:
        """Record whether the output was written, then update the marker files to match."""
        home, layout = self.home, self.home.layout
        with home.held(*self.locks(), deadline=self.deadline), _Open(self) as opened:
            clock = home.clock()
            head = opened.boxes[0].head
            planned = plan_settle if shown else plan_unshown
            opened.apply(planned(head, showing, clock))
            state = settle_turn(Transition(opened.timeline.head), showing, clock, shown=shown)
            opened.write(state)
            boxes = [box.mailbox for box in opened.boxes]
            wanted = plan_markers(boxes, clock, home.config.limits)
            markers.save(layout, self.session.id, self.session.worker, wanted, clock.now_ms)

    def snapshot(self, opened: _Open, call: HookCall, *, replay: bool = False) -> Snapshot:
        """Return the snapshot for the plan of a call. A replayed call hands over no mail."""
        boxes = tuple(box.mailbox for box in opened.boxes)
        snapshot = self._snapshot(boxes, opened.timeline.head, call)
        return snapshot._replace(silent=True) if replay else snapshot

    def _snapshot(
        self, boxes: tuple[Mailbox, ...], head: turns.TimelineHead, call: HookCall
    ) -> Snapshot:
        home, session, host = self.home, self.session, self.host
        clock = home.clock()
        opened = head.open
        present: bool | None = None
        host_idle = mark = False
        observed: frozenset[str] = frozenset()
        tools: tuple[ToolCall, ...] = ()
        usage: Mapping[str, Any] | None = None
        problem = step = ""
        path = home.layout.timeline(session.logical_session)
        if opened is not None:
            present = processes.is_present(opened.process)
            if session.process is not None and opened.session == session.id:
                host_idle = host.says_idle(
                    session.config_dir, session.process.pid, session.id, opened.at
                )
            mark = bool(session.transcript) and host.was_interrupted(session.transcript)
            if call.event in (HostEvent.BATCH, HostEvent.STOP, HostEvent.STOP_FAILURE):
                observed = log.tools_since(path, opened.seq)
            if call.event in (HostEvent.STOP, HostEvent.STOP_FAILURE) and session.transcript:
                if self.read is None or self.read[0] != opened.seq:
                    found = host.read_turn(session.transcript, opened.transcript_bytes)
                    self.read = opened.seq, found
                tools, usage, problem = self.read[1]
            if any(entry.message.lane is Lane.CONTROL for box in boxes for entry in box.unsettled):
                step = call.tools[0].name if call.event is HostEvent.TOOL and call.tools else ""
                step = step or log.last_tool(path, opened.seq)
        starts = call.event in (HostEvent.PROMPT, HostEvent.STOP)
        return Snapshot(
            worker=session.worker,
            name=session.name,
            boxes=tuple(self._noted(box) for box in boxes),
            timeline=head,
            clock=clock,
            templates=home.templates,
            limits=home.config.limits,
            dead=self._dead(boxes),
            gone=self._gone(boxes, head),
            carrier_gone=processes.is_present(session.process) is False,
            host_idle=host_idle,
            interrupt_mark=mark,
            open_present=present,
            ids=FreshIds(*(home.new_id(clock.now_ms) for _ in FreshIds._fields)),
            me=self.me,
            guard=self.guard,
            silent=self.rerun,
            observed=observed,
            tools=tools,
            usage=usage,
            diagnostic=problem,
            last_step=step,
            transcript_bytes=host.transcript_size(session.transcript) if starts else 0,
            wake_path=self._watch(call),
            introduce=call.event is HostEvent.SESSION_START and call.source != "compact",
            excerpt_chars=int(home.config["timeline.excerpt_chars"]),
        )

    def _watch(self, call: HookCall) -> str:
        starts = call.event is HostEvent.SESSION_START and not call.rewake
        if not (starts or call.event is HostEvent.CWD_CHANGED) or not call.attended:
            return ""
        if self.dry:
            return self.home.layout.wake(self.session.id)
        return markers.watched(self.home.layout, self.session.id)

    def _noted(self, box: Mailbox) -> Mailbox:
        """Add a note to the mail that was sent before this owner had the name."""
        since = self.session.generation_at
        if not since:
            return box
        note = self.home.templates.fill("note-former-owner")
        return box._replace(
            entries=tuple(
                e._replace(message=e.message._replace(note=note)) if e.message.ts < since else e
                for e in box.entries
            )
        )

    def _dead(self, boxes: Sequence[Mailbox]) -> frozenset[str]:
        """Return the ids of messages whose claim is void.

        The process of the claim is gone, or the claim belongs to the rerun tick.
        """
        known: dict[Process, bool] = {self.me: False}
        dead = set()
        for box in boxes:
            for entry in box.unsettled:
                claim = entry.claim
                if claim is None:
                    continue
                if claim.by not in known:
                    known[claim.by] = processes.is_present(claim.by) is False
                if known[claim.by] or (self.rerun and claim.guard == self.guard):
                    dead.add(entry.message.id)
        return frozenset(dead)

    def _gone(self, boxes: Sequence[Mailbox], head: turns.TimelineHead) -> frozenset[str]:
        """Return the ids of other host sessions that have ended.

        Only those that unsettled mail, the open turn or the handshake names.
        """
        named = {e.session for box in boxes for e in box.unsettled if e.session}
        if head.open is not None:
            named.add(head.open.session)
        if boxes and boxes[0].head.handshake is not None:
            named.add(boxes[0].head.handshake.session)
        named.discard(self.session.id)
        gone = set()
        for session_id in named:
            if registry.has_ended(registry.load_session(self.home.layout, session_id)):
                gone.add(session_id)
        return frozenset(gone)


class _Open:
    """The files of a desk, opened under its locks."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        root = desk.home.layout.root
        self.boxes: list[inbox.Inbox] = []
        path = desk.home.layout.timeline(desk.session.logical_session)
        self.timeline = log.Timeline(path, root, desk.identity, desk.home.entropy(16).hex())
        try:
            self.boxes = [inbox.Inbox(box, root) for box in desk.paths]
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> _Open:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every file."""
        for box in self.boxes:
            box.close()
        self.timeline.close()

    def commit(self, plan: TickPlan) -> None:
        """Commit a plan: save the notifications to send, then write the turn, then the mail.

        The turn is written before the mail, because the mail may name the turn.
        """
        if plan.expired or plan.need_user:
            from vyane_cli.mail.outcomes import save_outcomes

            session = self.desk.session
            expired = [entry.message for entry in plan.expired]
            found = save_outcomes(
                self.desk.home, session.worker, session.name, plan.need_user, expired
            )
            self.desk.untold += [found] if found is not None else []
        self.write(plan.transition)
        self.apply(plan.changes)

    def write(self, state: Transition) -> None:
        """Append the events of a transition, each with the head after it."""
        self.timeline.commit(state)

    def apply(self, changes: Sequence[InboxChange]) -> None:
        """Append the mail changes in order, with one flush for consecutive changes of an inbox.

        Attempts alone are not flushed.
        """
        start = 0
        for end in range(1, len(changes) + 1):
            box = changes[start].box
            if end < len(changes) and changes[end].box == box:
                continue
            steps = inbox.steps_of(changes[start:end])
            durable = any(step.op is not Op.ATTEMPT for step in steps)
            self.boxes[box].change_all(steps, durable=durable)
            start = end
