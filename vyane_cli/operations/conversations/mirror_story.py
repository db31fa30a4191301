"""What of one session is still to be told in one conversation: the timeline, its children, its end.

Commit point: cursor and outbox in one document (see `mirror_push`).
"""

import hashlib

from vyane_cli.core import bindings as core
from vyane_cli.core.bindings import Binding, BindingStatus, EndReason
from vyane_cli.core.conversations import Conversation, Placement, Post, Sign
from vyane_cli.core.cursors import parse_cursor, render_cursor
from vyane_cli.core.destinations import Mode, route
from vyane_cli.core.events import EventKind
from vyane_cli.core.messages import body_of
from vyane_cli.core.mirroring import nonce_of
from vyane_cli.core.mirrors import Item, ThreadState
from vyane_cli.core.narration import (
    CLOSED,
    LINES,
    MARKS,
    Heard,
    Said,
    Verbosity,
    narrate,
    one_line,
    overview_line,
    show,
)
from vyane_cli.core.results import result_id
from vyane_cli.core.workers import Worker, WorkerStatus
from vyane_cli.errors import InvalidInputError, VyaneError
from vyane_cli.operations.conversations.bindings import end_one
from vyane_cli.operations.conversations.conversing import FAREWELL, Thread, single
from vyane_cli.operations.conversations.mirrored import Family, answer_of
from vyane_cli.operations.conversations.opening import status_of, title_of
from vyane_cli.operations.diagnose import append_fact
from vyane_cli.operations.lookup import find_message, whole_text
from vyane_cli.store import mirrors
from vyane_cli.store.locks import Kind
from vyane_cli.store.reading import Reader, Seen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.runtime import Runtime

BATCH = 50
"""So many parts wait in an outbox at most; the timeline keeps the rest."""
TURNS_BACK = 3
"""Of a session that is seen for the first time so many turns are told."""


class Story:
    """What of one session is still to be told in one conversation."""

    def __init__(self, thread: Thread, family: Family) -> None:
        self.thread, self.family, self.run = thread, family, thread.run
        self.runtime, self.binding = thread.run.runtime, thread.binding
        self.worker = family.worker_of(self.binding.target_session)
        self.status = status_of(self.runtime, self.worker)
        self.items: list[Item] = []
        self.shown: list[str] = []

    # -------------------------------------------------------------- the timeline

    def fill(self) -> bool:
        """Put what is new into the outbox, with the cursor behind it; whether there is more."""
        thread = self.thread
        if self.binding.status is not BindingStatus.ACTIVE:
            self._say_goodbye()
            return False
        if thread.blocked or self.run.blocked is not None:
            return False
        if len(thread.state.outbox) >= BATCH:
            return True
        key = self.binding.target_session
        reader = Reader(self.runtime.layout.timeline(key), key)
        self._seek(reader)
        heard = Heard(**thread.state.heard) if thread.state.heard else Heard()
        self.items, self.shown, more = [], [], False
        tools: Said | None = None
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
                self._add(one, record["epoch"], record["seq"], position)
            if record["kind"] == EventKind.CHILD_SETTLED:
                self._settled_child(seen)
            if len(self.items) >= BATCH:
                more = True
                break
        cursor = reader.cursor
        if tools is not None:
            self._tools(tools, cursor.epoch, number)
        if thread.state.found:
            self.items = [item._replace(tried=True) for item in self.items]
        outbox = thread.put(self.items)
        state = thread.state._replace(
            cursor=render_cursor(cursor) if cursor.seq else thread.state.cursor,
            started=True,
            outbox=outbox,
            heard={**heard._asdict(), "tools": dict(heard.tools)},
            shown_results=(*thread.state.shown_results, *self.shown)[-20:],
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
            if error.slug != "cursor_epoch_mismatch":  # it was cut: what is there may be old
                reader.seek_end()

    def _tools(self, tools: Said | None, epoch: str, number: object) -> None:
        """The post of the turn's tools, which is changed in place."""
        if tools is not None:
            name = f"tools-{number}"
            nonce = nonce_of(self.binding.id, self.binding.target_session, epoch, name)
            self._put_slot(name, nonce, tools.text)

    def _put_slot(self, name: str, nonce: str, text: str) -> None:
        slot = self.thread.state.slots.get(name)
        for part in self.run.channel.plan(Post(text))[:1]:
            if slot is None or slot.text != part.text:
                # each change is an item of its own: one that was sent keeps its nonce
                used = {one.nonce for one in self.thread.state.outbox}
                unique = nonce if nonce not in used else nonce_of(nonce, part.text)
                self.items.append(Item(unique, single(part), name))

    def _add(self, said: Said, epoch: str, seq: object, position: int) -> None:
        mention = self.run.settings.ping_users if said.notify else ()
        parts = self.run.channel.plan(Post(said.text, said.notify, mention))
        for number, part in enumerate(parts):
            nonce = nonce_of(
                self.binding.id, self.binding.target_session, epoch, str(seq),
                str(position), str(number),
            )  # fmt: skip
            self.items.append(Item(nonce, part))
        if said.digest:
            self.shown.append(said.digest[:16])

    def _answer(self, digest: str) -> str | None:
        return answer_of(self.runtime, self.worker, digest)

    # -------------------------------------------------------------- children

    def _settled_child(self, seen: Seen) -> None:
        """A child's result, where the router finds no place of its own: here, and observed."""
        payload = seen.record["payload"]
        child = self.family.workers.get(str(payload.get("worker")))
        if child is None or self.family.is_pending(self.run, child):
            return
        if self._has_told(child, now_s=self.runtime.clock().at):
            return
        asked: Conversation | None = self.binding.conversation
        found = route(
            self.family.bindings.values(),
            child.logical_session_id,
            asked,
            self.runtime.clock().at,
        )
        if found.mode is Mode.BOUND:
            return
        counts = dict(self.run.state.fallbacks)
        counts[found.reason] = counts.get(found.reason, 0) + 1
        self.run.keep(self.run.state._replace(fallbacks=counts))
        _diagnose(self.runtime, child, str(found.reason), self.binding)
        mark = "✅" if payload.get("outcome") == "success" else "❌"
        text = _result_text(self.runtime, child)
        said = self.run.texts.fill("child-result", mark=mark, child=child.name, text=show(text))
        self._add(Said(said, notify=True), seen.record["epoch"], seen.record["seq"], 0)

    def _has_told(self, child: Worker, now_s: float | None = None) -> bool:
        """Whether another conversation of this channel that is the child's has shown its result.

        With `now_s` one that will show it counts too: one that is open then.
        """
        found = self.family.places(child.logical_session_id, *self.binding.conversation[:2])
        return any(
            (now_s is not None and one.is_open(now_s)) or _told_in(self.runtime, one, child)
            for one in found
            if one.id != self.binding.id
        )

    def _notes(self) -> None:
        """A child's own progress, and that an interrupt was sent: each in one post of its own."""
        thread, texts = self.thread, self.run.texts
        self.items = []
        if self.status is WorkerStatus.INTERRUPTED:
            if "interrupted" not in thread.state.slots:
                nonce = nonce_of(self.binding.id, "interrupted", thread.state.cursor)
                self._put_slot("interrupted", nonce, texts.fill("interrupted"))
        elif "interrupted" in thread.state.slots:  # the next one is told anew
            slots = {k: slot for k, slot in thread.state.slots.items() if k != "interrupted"}
            thread.keep(thread.state._replace(slots=slots))
        quiet = self.run.settings.verbosity is Verbosity.QUIET
        if self.worker is not None and self.worker.parent_worker_id and not quiet:
            said = self.family.reported(self.worker)
            if said and not self.worker.final:
                text = texts.fill("progress", text=one_line(said))
                nonce = nonce_of(self.binding.id, "progress", self.binding.target_session)
                self._put_slot("progress", nonce, text)
        thread.keep(thread.state._replace(outbox=thread.put(self.items)))

    def _mark_last(self) -> None:
        """A child that waits for new work has said its last: a sign stands there."""
        thread, child = self.thread, self.worker is not None and self.worker.parent_worker_id
        last = thread.state.last
        if not child or self.status is not WorkerStatus.IDLE or last in ("", thread.state.signed):
            return
        if self.run.sign(self.binding, last, Sign.DONE):
            thread.keep(thread.state._replace(signed=last))

    def _overview(self) -> None:
        """The children at work, in one post that is changed in place."""
        thread, texts = self.thread, self.run.texts
        slot = thread.state.slots.get("overview")
        before = slot.text.split("\n") if slot is not None else []
        done, lines = list(thread.state.final_children), []
        for child in self.family.children_of(self.worker):
            status = status_of(self.runtime, child)
            if child.id in done or not LINES[status]:
                continue
            if child.final and (child.ended_at or 0.0) < self.binding.bound_at:
                continue
            if self.family.lies_in(child, self.binding.conversation):
                continue  # a thread of this conversation: nothing of it spills into it
            text = _result_text(self.runtime, child) if child.final else self.family.progress(child)
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
        self.items = []
        digest = hashlib.sha256(text.encode()).hexdigest()[:8] if slot is not None else ""
        self._put_slot("overview", nonce_of(self.binding.id, "overview", digest), text)
        thread.keep(thread.state._replace(outbox=thread.put(self.items)))

    # -------------------------------------------------------------- the end

    def _ended(self, state: ThreadState) -> ThreadState:
        """The last words of a session that has ended, put into the outbox once."""
        worker = self.worker
        if worker is None or not worker.final or state.ended:
            return state
        texts, self.items = self.run.texts, []
        if worker.dispatch_id and not self._has_told(worker):
            text = _result_text(self.runtime, worker)
            digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
            name = "result" if worker.status is WorkerStatus.COMPLETED else "result-failed"
            if name == "result" and digest in state.shown_results:
                name = "result-shown"
            said = texts.fill(name, text=show(text)).rstrip()
        else:
            said = texts.fill("ended", mark=MARKS[worker.status], status=str(worker.status))
        self._add(Said(said, notify=True), "end", worker.dispatch_id or worker.id, 0)
        return state._replace(
            ended=worker.dispatch_id or str(worker.status),
            outbox=(*state.outbox, *self.items),
        )

    def _say_goodbye(self) -> None:
        """The farewell of a binding that ends, once."""
        state = self.thread.state
        if state.ended:
            return
        said = core.farewell(self.binding)
        self.items = []
        if said and self.binding.end_reason != EndReason.COMPLETED:
            self._add(Said(said), "farewell", self.binding.generation, 0)
        outbox = tuple(one for one in state.outbox if not one.slot)
        self.thread.keep(state._replace(ended=FAREWELL, outbox=(*outbox, *self.items)))

    def finish(self) -> None:
        """With nothing left to say: overview, title, closing; and the end of what has ended."""
        thread, binding = self.thread, self.binding
        if thread.blocked or self.run.blocked is not None:
            return
        if binding.status is BindingStatus.ENDING:
            if thread.state.outbox:
                return
            if binding.placement is Placement.CHILD:
                thread.mark(thread.state.title, True)
            end_one(self.runtime, binding, binding.end_reason, status=BindingStatus.ENDED)
            return
        self._notes()
        self._overview()
        if not thread.drain():
            return
        self._mark_last()
        session = self.family.logical.get(binding.target_session)
        if session is None or binding.placement is Placement.CURRENT:
            done = True  # a conversation of the person's keeps its name and stays open
        else:
            parent = self.family.workers.get((self.worker and self.worker.parent_worker_id) or "")
            title = title_of(self.runtime, session, self.worker, parent, MARKS[self.status])
            done = thread.mark(title, self.status in CLOSED)
        if done and self.worker is not None and self.worker.final and thread.state.ended:
            end_one(self.runtime, binding, EndReason.COMPLETED, status=BindingStatus.ENDED)


def _told_in(runtime: "Runtime", binding: Binding, child: Worker) -> bool:
    """Whether the child's result went into the outbox of a binding, whatever became of it then."""
    if binding.end_reason == EndReason.COMPLETED:
        return (binding.ended_at or 0.0) >= (child.ended_at or 0.0)
    state = mirrors.load_thread(runtime.layout, binding)
    return (
        state is not None
        and state.session == child.logical_session_id
        and bool(child.dispatch_id)
        and state.ended == child.dispatch_id
    )


def _result_text(runtime: "Runtime", child: Worker) -> str:
    """A child's result, whole; what is known of its end where the message is gone."""
    try:
        message = find_message(runtime, result_id(child.dispatch_id or "")).message
    except (VyaneError, ValueError):
        return child.failure_reason or str(child.status)
    try:
        return whole_text(runtime, message)
    except VyaneError:
        return body_of(message)


def _diagnose(runtime: "Runtime", child: Worker, reason: str, binding: Binding) -> None:
    """The fallback as a fact of the child's timeline."""
    text = f"{reason}: the result of {child.name} went to {one_line(binding.conversation.id)}"
    try:
        with runtime.held((Kind.TIMELINE, child.logical_session_id)):
            append_fact(
                runtime, child.id, child.logical_session_id, EventKind.DIAGNOSTIC,
                {"code": "route_fallback", "text": text}, runtime.clock(),
            )  # fmt: skip
    except VyaneError:
        return
