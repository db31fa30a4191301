"""What of one session is still to be told in one conversation: its timeline, its notes, its end.

Commit point: cursor and outbox in one document (see `mirror_push`).
"""

from __future__ import annotations

import hashlib

from vyane_cli.channels.port import Placement, Sign
from vyane_cli.conversations import binding
from vyane_cli.conversations.binding import BindingStatus, EndReason
from vyane_cli.conversations.bindings_2 import end_one
from vyane_cli.conversations.family import Family, answer_of
from vyane_cli.conversations.known import FAREWELL
from vyane_cli.conversations.mirror_children import Children, result_text
from vyane_cli.conversations.mirror_pen import Pen
from vyane_cli.conversations.mirroring import nonce_of
from vyane_cli.conversations.narration import (
    CLOSED,
    MARKS,
    Heard,
    Said,
    Verbosity,
    narrate,
    one_line,
    show,
)
from vyane_cli.conversations.open import status_of, title_of
from vyane_cli.conversations.state_rules import ThreadState
from vyane_cli.conversations.thread import Thread
from vyane_cli.errors import InvalidInputError
from vyane_cli.sessions.worker import WorkerStatus
from vyane_cli.timeline.cursors import parse_cursor, render_cursor
from vyane_cli.timeline.events import EventKind
from vyane_cli.timeline.reader import Reader

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
        self.pen = Pen(thread)
        self.children = Children(self.pen, family, self.worker)

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
            if error.slug != "cursor_epoch_mismatch":  # it was cut: what is there may be old
                reader.seek_end()

    def _tools(self, tools: Said | None, epoch: str, number: object) -> None:
        """The post of the turn's tools, which is changed in place."""
        if tools is not None:
            name = f"tools-{number}"
            nonce = nonce_of(self.binding.id, self.binding.target_session, epoch, name)
            self.pen.put_slot(name, nonce, tools.text)

    def _answer(self, digest: str) -> str | None:
        return answer_of(self.runtime, self.worker, digest)

    def _notes(self) -> None:
        """A child's own progress, and that an interrupt was sent: each in one post of its own."""
        thread, texts = self.thread, self.run.texts
        if self.status is WorkerStatus.INTERRUPTED:
            if "interrupted" not in thread.state.slots:
                nonce = nonce_of(self.binding.id, "interrupted", thread.state.cursor)
                self.pen.put_slot("interrupted", nonce, texts.fill("interrupted"))
        elif "interrupted" in thread.state.slots:  # the next one is told anew
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
        """A child that waits for new work has said its last: a sign stands there."""
        thread, child = self.thread, self.worker is not None and self.worker.parent_worker_id
        last = thread.state.last
        if not child or self.status is not WorkerStatus.IDLE or last in ("", thread.state.signed):
            return
        if self.run.sign(self.binding, last, Sign.DONE):
            thread.keep(thread.state._replace(signed=last))

    # -------------------------------------------------------------- the end

    def _ended(self, state: ThreadState) -> ThreadState:
        """The last words of a session that has ended, put into the outbox once."""
        worker = self.worker
        if worker is None or not worker.final or state.ended:
            return state
        texts = self.run.texts
        if worker.dispatch_id and not self.children.has_told(worker):
            text = result_text(self.runtime, worker)
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
        """The farewell of a binding that ends, once."""
        state = self.thread.state
        if state.ended:
            return
        said = binding.farewell(self.binding)
        if said and self.binding.end_reason != EndReason.COMPLETED:
            self.pen.say(Said(said), "farewell", self.binding.generation, 0)
        outbox = tuple(one for one in state.outbox if not one.slot)
        self.thread.keep(state._replace(ended=FAREWELL, outbox=(*outbox, *self.pen.take()[0])))

    def finish(self) -> None:
        """With nothing left to say: overview, title, closing; and the end of what has ended."""
        thread, binding = self.thread, self.binding
        if thread.blocked or self.run.blocked is not None:
            return
        if binding.status is BindingStatus.ENDING:
            if thread.state.outbox or thread.state.intake:  # that is for the next pull
                return
            if binding.placement is Placement.CHILD:
                thread.mark(thread.state.title, True)
            end_one(self.runtime, binding, binding.end_reason, status=BindingStatus.ENDED)
            return
        self._notes()
        self.children.overview()
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
