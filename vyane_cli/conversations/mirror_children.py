"""The children of a session, as their parent's conversation tells of them: at work, and settled."""

from __future__ import annotations

import hashlib

from vyane_cli.channels.port import Conversation
from vyane_cli.children.result_rules import result_id
from vyane_cli.conversations import state as mirrors
from vyane_cli.conversations.binding import Binding, EndReason
from vyane_cli.conversations.family import Family
from vyane_cli.conversations.mirror_pen import Pen
from vyane_cli.conversations.mirroring import nonce_of
from vyane_cli.conversations.narration import LINES, Said, one_line, overview_line, show
from vyane_cli.conversations.open import status_of
from vyane_cli.conversations.route_rules import Mode, route
from vyane_cli.errors import VyaneError
from vyane_cli.mail.lookup import find_message, whole_text
from vyane_cli.mail.message import body_of
from vyane_cli.sessions.facts import append_fact
from vyane_cli.sessions.worker import Worker
from vyane_cli.storage.locks import Kind
from vyane_cli.timeline.events import EventKind
from vyane_cli.timeline.reader import Seen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Runtime


class Children:
    """Those of one session, in one conversation of its."""

    def __init__(self, pen: Pen, family: Family, worker: Worker | None) -> None:
        self.pen, self.thread, self.run = pen, pen.thread, pen.run
        self.family, self.worker = family, worker
        self.runtime, self.binding = pen.run.runtime, pen.thread.binding

    def settled(self, seen: Seen) -> None:
        """A child's result, where the router finds no place of its own: here, and observed."""
        payload = seen.record["payload"]
        child = self.family.workers.get(str(payload.get("worker")))
        if child is None or self.family.is_pending(self.run, child):
            return
        if self.has_told(child, now_s=self.runtime.clock().at):
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
        text = result_text(self.runtime, child)
        said = self.run.texts.fill("child-result", mark=mark, child=child.name, text=show(text))
        self.pen.say(Said(said, notify=True), seen.record["epoch"], seen.record["seq"], 0)

    def has_told(self, child: Worker, now_s: float | None = None) -> bool:
        """Whether another conversation of this channel that is the child's has shown its result.

        With `now_s` one that will show it counts too: one that is open then.
        """
        found = self.family.places(child.logical_session_id, *self.binding.conversation.account_key)
        return any(
            (now_s is not None and one.is_open(now_s)) or _told_in(self.runtime, one, child)
            for one in found
            if one.id != self.binding.id
        )

    def overview(self) -> None:
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
            text = result_text(self.runtime, child) if child.final else self.family.progress(child)
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


def _told_in(runtime: Runtime, binding: Binding, child: Worker) -> bool:
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


def result_text(runtime: Runtime, child: Worker) -> str:
    """A child's result, whole; what is known of its end where the message is gone."""
    try:
        message = find_message(runtime, result_id(child.dispatch_id or "")).message
    except (VyaneError, ValueError):
        return child.failure_reason or str(child.status)
    try:
        return whole_text(runtime, message)
    except VyaneError:
        return body_of(message)


def _diagnose(runtime: Runtime, child: Worker, reason: str, binding: Binding) -> None:
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
