"""Posts: what one session has yet to show in one conversation: timeline, notes, children, end.

Commit point: cursor and outbox in one document (see `push`).
"""

from __future__ import annotations

import hashlib

from vyane_cli.channels.port import Conversation, Placement, Sign
from vyane_cli.children.result_rules import result_id
from vyane_cli.conversations import binding
from vyane_cli.conversations import state as mirrors
from vyane_cli.conversations.binding import Binding, BindingStatus, EndReason
from vyane_cli.conversations.bindings import end_one
from vyane_cli.conversations.family import Family, answer_of
from vyane_cli.conversations.narration import (
    CLOSED,
    LINES,
    MARKS,
    Said,
    UntoldTurn,
    Verbosity,
    narrate,
    one_line,
    overview_line,
    show,
)
from vyane_cli.conversations.open import status_of, title_of
from vyane_cli.conversations.route_rules import RouteMode, route
from vyane_cli.conversations.state_rules import ThreadState, nonce_of
from vyane_cli.conversations.thread import FAREWELL, ConversationThread, Pen
from vyane_cli.errors import InvalidInputError, VyaneError
from vyane_cli.mail.lookup import find_message, whole_text
from vyane_cli.mail.message import body_of
from vyane_cli.sessions.facts import append_fact
from vyane_cli.sessions.worker import Worker, WorkerStatus
from vyane_cli.storage.locks import LockKind
from vyane_cli.timeline.cursors import parse_cursor, render_cursor
from vyane_cli.timeline.events import EventKind
from vyane_cli.timeline.reader import Reader, StoredEvent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home


BATCH = 50
"""Most parts that wait in an outbox; the timeline keeps the rest."""
TURNS_BACK = 3
"""Turns that are shown of a session that the mirror sees for the first time."""


class Story:
    """The posts that one session has yet to show in one conversation."""

    def __init__(self, thread: ConversationThread, family: Family) -> None:
        self.thread, self.family, self.run = thread, family, thread.run
        self.home, self.binding = thread.run.home, thread.binding
        self.worker = family.worker_of(self.binding.target_session)
        self.status = status_of(self.home, self.worker)
        self.pen = Pen(thread)
        self.children = Children(self.pen, family, self.worker)

    # -------------------------------------------------------------- the timeline

    def fill(self) -> bool:
        """Put new posts into the outbox, with the cursor after them, in one write.

        Returns whether more is left to read.
        """
        thread = self.thread
        if self.binding.status is not BindingStatus.ACTIVE:
            self._say_goodbye()
            return False
        if thread.blocked or self.run.blocked is not None:
            return False
        if len(thread.state.outbox) >= BATCH:
            return True
        key = self.binding.target_session
        reader = Reader(self.home.layout.timeline(key), key)
        self._seek(reader)
        heard = UntoldTurn(**thread.state.heard) if thread.state.heard else UntoldTurn()
        tools: Said | None = None
        more = False
        number: object = ""
        for seen in reader.read():
            record = seen.record
            number = record.get("turn_number") or number
            said, heard = narrate(
                record, heard, self.run.settings.verbosity, self.run.texts, self._answer
            )
            for position, one in enumerate(said):
                if one.slot:
                    tools = one
                    continue
                self._tools(tools, record["epoch"], number)
                tools = None
                self.pen.say(one, record["epoch"], record["seq"], position)
            if record["kind"] == EventKind.CHILD_SETTLED:
                self.children.settled(seen)
            if len(self.pen.items) >= BATCH:
                more = True
                break
        cursor = reader.cursor
        if tools is not None:
            self._tools(tools, cursor.epoch, number)
        items, shown = self.pen.take()
        if thread.state.found:
            items = [item._replace(tried=True) for item in items]
        outbox = thread.put(items)
        state = thread.state._replace(
            cursor=render_cursor(cursor) if cursor.seq else thread.state.cursor,
            started=True,
            outbox=outbox,
            heard={**heard._asdict(), "tools": dict(heard.tools)},
            shown_results=(*thread.state.shown_results, *shown)[-20:],
        )
        if not more:
            state = self._ended(state)._replace(found=False)
        thread.keep(state)
        return more

    def _seek(self, reader: Reader) -> None:
        state = self.thread.state
        if not state.started:
            head = reader.head()
            if head is not None and head.turns > TURNS_BACK:
                reader.seek_turn(head.turns - TURNS_BACK + 1)
            return
        if not state.cursor:
            return
        try:
            reader.seek(parse_cursor(state.cursor))
        except InvalidInputError as error:
            if error.slug != "cursor_epoch_mismatch":  # the timeline was cut: its events may be old
                reader.seek_end()

    def _tools(self, tools: Said | None, epoch: str, number: object) -> None:
        """Add the post of the turn's tools, which is edited in place."""
        if tools is not None:
            name = f"tools-{number}"
            nonce = nonce_of(self.binding.id, self.binding.target_session, epoch, name)
            self.pen.put_slot(name, nonce, tools.text)

    def _answer(self, digest: str) -> str | None:
        return answer_of(self.home, self.worker, digest)

    def _notes(self) -> None:
        """Post a child's own progress, and a note of an interrupt, each in one post of its own."""
        thread, texts = self.thread, self.run.texts
        if self.status is WorkerStatus.INTERRUPTED:
            if "interrupted" not in thread.state.slots:
                nonce = nonce_of(self.binding.id, "interrupted", thread.state.cursor)
                self.pen.put_slot("interrupted", nonce, texts.fill("interrupted"))
        elif "interrupted" in thread.state.slots:  # so that the next interrupt is shown again
            slots = {k: slot for k, slot in thread.state.slots.items() if k != "interrupted"}
            thread.keep(thread.state._replace(slots=slots))
        quiet = self.run.settings.verbosity is Verbosity.QUIET
        if self.worker is not None and self.worker.parent_worker_id and not quiet:
            said = self.family.reported(self.worker)
            if said and not self.worker.final:
                text = texts.fill("progress", text=one_line(said))
                nonce = nonce_of(self.binding.id, "progress", self.binding.target_session)
                self.pen.put_slot("progress", nonce, text)
        self.pen.keep()

    def _mark_last(self) -> None:
        """Put a sign at the last post of a child that waits for new work."""
        thread, child = self.thread, self.worker is not None and self.worker.parent_worker_id
        last = thread.state.last
        if not child or self.status is not WorkerStatus.IDLE or last in ("", thread.state.signed):
            return
        if self.run.sign(self.binding, last, Sign.DONE):
            thread.keep(thread.state._replace(signed=last))

    # -------------------------------------------------------------- the end

    def _ended(self, state: ThreadState) -> ThreadState:
        """Return the state with the last words of a session that has ended in the outbox, once."""
        worker = self.worker
        if worker is None or not worker.final or state.ended:
            return state
        texts = self.run.texts
        if worker.dispatch_id and not self.children.has_told(worker):
            text = result_text(self.home, worker)
            digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
            name = "result" if worker.status is WorkerStatus.COMPLETED else "result-failed"
            if name == "result" and digest in state.shown_results:
                name = "result-shown"
            said = texts.fill(name, text=show(text)).rstrip()
        else:
            said = texts.fill("ended", mark=MARKS[worker.status], status=str(worker.status))
        self.pen.say(Said(said, notify=True), "end", worker.dispatch_id or worker.id, 0)
        return state._replace(
            ended=worker.dispatch_id or str(worker.status),
            outbox=(*state.outbox, *self.pen.take()[0]),
        )

    def _say_goodbye(self) -> None:
        """Put the farewell of an ending binding into the outbox, once."""
        state = self.thread.state
        if state.ended:
            return
        said = binding.farewell(self.binding)
        if said and self.binding.end_reason != EndReason.COMPLETED:
            self.pen.say(Said(said), "farewell", self.binding.generation, 0)
        outbox = tuple(one for one in state.outbox if not one.slot)
        self.thread.keep(state._replace(ended=FAREWELL, outbox=(*outbox, *self.pen.take()[0])))

    def finish(self) -> None:
        """Update overview, title and closing of a conversation whose outbox is empty.

        Ends a binding that is ending, and one whose session has ended.
        """
        thread, binding = self.thread, self.binding
        if thread.blocked or self.run.blocked is not None:
            return
        if binding.status is BindingStatus.ENDING:
            if thread.state.outbox or thread.state.intake:  # the next pull handles the intake
                return
            if binding.placement is Placement.CHILD:
                thread.mark(thread.state.title, True)
            end_one(self.home, binding, binding.end_reason, status=BindingStatus.ENDED)
            return
        self._notes()
        self.children.overview()
        if not thread.drain():
            return
        self._mark_last()
        session = self.family.logical.get(binding.target_session)
        if session is None or binding.placement is Placement.CURRENT:
            done = True  # a conversation that a person chose keeps its name and stays open
        else:
            parent = self.family.workers.get((self.worker and self.worker.parent_worker_id) or "")
            title = title_of(self.home, session, self.worker, parent, MARKS[self.status])
            done = thread.mark(title, self.status in CLOSED)
        if done and self.worker is not None and self.worker.final and thread.state.ended:
            end_one(self.home, binding, EndReason.COMPLETED, status=BindingStatus.ENDED)


class Children:
    """The children of one session, in one of its conversations."""

    def __init__(self, pen: Pen, family: Family, worker: Worker | None) -> None:
        self.pen, self.thread, self.run = pen, pen.thread, pen.run
        self.family, self.worker = family, worker
        self.home, self.binding = pen.run.home, pen.thread.binding

    def settled(self, seen: StoredEvent) -> None:
        """Post a child's result here, and record it, if the router finds no binding of its own."""
        payload = seen.record["payload"]
        child = self.family.workers.get(str(payload.get("worker")))
        if child is None or self.family.is_pending(self.run, child):
            return
        if self.has_told(child, now_s=self.home.clock().at):
            return
        asked: Conversation | None = self.binding.conversation
        found = route(
            self.family.bindings.values(),
            child.logical_session_id,
            asked,
            self.home.clock().at,
        )
        if found.mode is RouteMode.BOUND:
            return
        counts = dict(self.run.state.fallbacks)
        counts[found.reason] = counts.get(found.reason, 0) + 1
        self.run.keep(self.run.state._replace(fallbacks=counts))
        _diagnose(self.home, child, str(found.reason), self.binding)
        mark = "✅" if payload.get("outcome") == "success" else "❌"
        text = result_text(self.home, child)
        said = self.run.texts.fill("child-result", mark=mark, child=child.name, text=show(text))
        self.pen.say(Said(said, notify=True), seen.record["epoch"], seen.record["seq"], 0)

    def has_told(self, child: Worker, now_s: float | None = None) -> bool:
        """Return whether another of the child's conversations on this account has shown its result.

        With `now_s`, a conversation that is open then counts too, because it will show the result.
        """
        found = self.family.places(child.logical_session_id, *self.binding.conversation.account_key)
        return any(
            (now_s is not None and one.is_open(now_s)) or _told_in(self.home, one, child)
            for one in found
            if one.id != self.binding.id
        )

    def overview(self) -> None:
        """Update the post that lists the children at work; it is edited in place."""
        thread, texts = self.thread, self.run.texts
        slot = thread.state.slots.get("overview")
        before = slot.text.split("\n") if slot is not None else []
        done, lines = list(thread.state.final_children), []
        for child in self.family.children_of(self.worker):
            status = status_of(self.home, child)
            if child.id in done or not LINES[status]:
                continue
            if child.final and (child.ended_at or 0.0) < self.binding.bound_at:
                continue
            if self.family.lies_in(child, self.binding.conversation):
                continue  # a thread of this conversation shows the child by itself
            text = result_text(self.home, child) if child.final else self.family.progress(child)
            line = overview_line(texts, status, child.name, text)
            if child.final and line in before:
                done.append(child.id)
            else:
                lines.append(line)
        thread.keep(thread.state._replace(final_children=tuple(done[-200:])))
        if not lines and slot is None:
            return
        name = "overview" if lines else "overview-none"
        text = texts.fill(name, lines="\n".join(lines))
        digest = hashlib.sha256(text.encode()).hexdigest()[:8] if slot is not None else ""
        self.pen.put_slot("overview", nonce_of(self.binding.id, "overview", digest), text)
        self.pen.keep()


def _told_in(home: Home, binding: Binding, child: Worker) -> bool:
    """Return whether the child's result went into the outbox of a binding, shown or not."""
    if binding.end_reason == EndReason.COMPLETED:
        return (binding.ended_at or 0.0) >= (child.ended_at or 0.0)
    state = mirrors.load_thread(home.layout, binding)
    return (
        state is not None
        and state.session == child.logical_session_id
        and bool(child.dispatch_id)
        and state.ended == child.dispatch_id
    )


def result_text(home: Home, child: Worker) -> str:
    """Return a child's whole result, or what is known of its end if the message is missing."""
    try:
        message = find_message(home, result_id(child.dispatch_id or "")).message
    except (VyaneError, ValueError):
        return child.failure_reason or str(child.status)
    try:
        return whole_text(home, message)
    except VyaneError:
        return body_of(message)


def _diagnose(home: Home, child: Worker, reason: str, binding: Binding) -> None:
    """Append the fallback to the child's timeline as a diagnostic. A VyaneError is ignored."""
    text = f"{reason}: the result of {child.name} went to {one_line(binding.conversation.id)}"
    try:
        with home.held((LockKind.TIMELINE, child.logical_session_id)):
            append_fact(
                home, child.id, child.logical_session_id, EventKind.DIAGNOSTIC,
                {"code": "route_fallback", "text": text}, home.clock(),
            )  # fmt: skip
    except VyaneError:
        return
