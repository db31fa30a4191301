"""Spawn order as data: the name, context and records of a new child."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from vyane_cli.errors import ConflictError, InvalidInputError
from vyane_cli.kernel.text import slug
from vyane_cli.kernel.values import NamedTuple, StrEnum
from vyane_cli.mail.message import (
    LAUNCHED,
    Lane,
    Message,
    MessageKind,
    ToKind,
    default_ttl_s,
    first_line,
)
from vyane_cli.sessions.session import LogicalSession
from vyane_cli.sessions.speaker import FromKind
from vyane_cli.sessions.worker import NAME_MAX, Worker, WorkerStatus, unique_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SLUG_MAX = 40
PROMPT_MAX_BYTES = 48 * 1024
"""With the inherited context it fits into a message's payload."""
CONTEXT_TURNS = 5
CONTEXT_MAX = 2_000
"""Characters of inherited context."""
SEPARATOR = " / "


class Purpose(StrEnum):
    """What a child is for."""

    TASK_DISPATCH = "task-dispatch"
    RESEARCH = "research"
    VERIFY = "verify"


class TerminalPlace(StrEnum):
    """Where an interactive child is opened."""

    PANE = "pane"
    WINDOW = "window"


class Order(NamedTuple):
    """What somebody asks for."""

    prompt: str
    parent: str = ""
    runtime: str = "claude"
    name: str = ""
    purpose: str = Purpose.TASK_DISPATCH
    independent: bool = False
    block_parent: bool = False
    inherit_context: bool = True
    group: str = ""
    cwd: str = ""
    worktree: str = ""
    """The branch of a git work tree of its own."""
    tmux: str = ""
    """A Place: the interactive program, for a person to look in. Empty: detached."""
    task: str = ""
    """Of a project's ledger."""
    project: str = ""
    """The project that the child is declared to belong to; else it belongs to its parent's."""
    worker: str = ""
    """The child's id, when a claim has reserved one; empty: a new id is made."""
    about: str = ""
    """Words that its name is made of; else those of the prompt."""


class Fresh(NamedTuple):
    """Ids that are new, and the time: what a plan cannot make by itself."""

    worker: str
    logical_session: str
    dispatch: str
    trace: str
    """For a parent that has none: that of its timeline's events so far, if there are any."""
    at: float


class SpawnPlan(NamedTuple):
    """Every record of a new child. The two workers go into one registry write, which is last."""

    child: Worker
    parent: Worker
    logical: LogicalSession
    dispatch: Message
    prompt: str
    """As the child gets it: the inherited context, then what was asked."""
    event: Mapping[str, Any]
    """Of the parent's timeline: ChildSpawned."""


def check_order(order: Order) -> Purpose:
    """The purpose, when the order is one that can be carried out."""
    if not order.prompt.strip():
        raise InvalidInputError("prompt", order.prompt, "a text: there is nothing to do")
    if "\0" in order.prompt:
        raise InvalidInputError("prompt", "…", "free of NUL characters")
    if len(order.prompt.encode("utf-8", "replace")) > PROMPT_MAX_BYTES:
        hint = "put it into a file, and name the file in the prompt"
        expected = f"at most {PROMPT_MAX_BYTES // 1024} KiB"
        raise InvalidInputError("prompt", "…", expected, hint=hint)
    if order.purpose not in tuple(Purpose):
        raise InvalidInputError("purpose", order.purpose, "one of " + ", ".join(Purpose))
    if order.tmux not in ("", *TerminalPlace):
        raise InvalidInputError("tmux", order.tmux, "one of " + ", ".join(TerminalPlace))
    if len(order.group) > NAME_MAX or not order.group.isprintable():
        raise InvalidInputError("group", order.group, f"at most {NAME_MAX} printable characters")
    return Purpose(order.purpose)


def check_parent(parent: Worker) -> None:
    """ConflictError for one that has ended: nobody would read the result."""
    if parent.final:
        raise ConflictError(f"{parent.name} has ended ({parent.status})", slug="worker_ended")


def prompt_slug(prompt: str) -> str:
    """The ASCII words of a prompt if it has any, else its letters and digits; at most 40."""
    plain = "".join(c if c.isascii() and c.isalnum() else " " for c in prompt)
    return slug(plain, SLUG_MAX) or slug(prompt, SLUG_MAX) or "child"


def child_name(parent: str, prompt: str, taken: Collection[str]) -> str:
    """`parent / slug`, unique. Below a long line of ancestors the beginning gives way."""
    own = prompt_slug(prompt)
    room = NAME_MAX - 6 - len(SEPARATOR) - len(own)
    above = parent if len(parent) <= room else "…" + parent[len(parent) - room + 1 :]
    return unique_name(above + SEPARATOR + own, taken)


def plan_spawn(
    order: Order, parent: Worker, taken: Collection[str], context: str, fresh: Fresh, span: str
) -> SpawnPlan:
    """The records of one child. `context` is what it inherits, within its cap, or empty."""
    name = order.name or child_name(parent.name, order.about or order.prompt, taken)
    child = Worker(
        fresh.worker,
        name,
        order.runtime,
        fresh.logical_session,
        status=WorkerStatus.PENDING,
        task_id=order.task or None,
        parent_worker_id=parent.id,
        trace_id=parent.trace_id or fresh.trace,
        span_id=span or None,
        dispatch_id=fresh.dispatch,
        independent=order.independent,
        group=order.group or None,
        project=order.project or None,
        cwd=order.cwd,
        created_at=fresh.at,
    )
    blocked = fresh.dispatch if order.block_parent else parent.blocked_on_message_id
    after = parent._replace(
        children_worker_ids=(*parent.children_worker_ids, child.id),
        trace_id=child.trace_id,
        blocked_on_message_id=blocked,
    )
    logical = LogicalSession(
        id=fresh.logical_session,
        display_name=name,
        worker=child.id,
        created_at=fresh.at,
        participating_agents=(child.id,),
        parent_logical_id=parent.logical_session_id or None,
        spawned_by_worker_id=parent.id,
        spawn_purpose=order.purpose,
    )
    payload: dict[str, Any] = {"prompt": order.prompt, LAUNCHED: True}
    if context:
        payload["inherited_context"] = context
    if order.task:
        payload["task"] = order.task
    dispatch = Message(
        fresh.dispatch,
        fresh.at,
        default_ttl_s(MessageKind.TASK_DISPATCH),
        FromKind.WORKER,
        parent.id,
        parent.name,
        ToKind.WORKER,
        child.id,
        MessageKind.TASK_DISPATCH,
        Lane.DIRECT,
        first_line(order.prompt),
        payload,
        trace_id=child.trace_id,
        correlation_id=fresh.dispatch,
    )
    event = {
        "worker": child.id,
        "session": child.logical_session_id,
        "dispatch": dispatch.id,
        "purpose": order.purpose,
        "name": name,
    }
    prompt = f"{context}\n\n{order.prompt}" if context else order.prompt
    return SpawnPlan(
        child=child, parent=after, logical=logical, dispatch=dispatch, prompt=prompt, event=event
    )


def inherited_context(head: str, lead: str, events: Iterable[Mapping[str, Any]]) -> str:
    """Render what a child reads about its parent: `head`, then the results of the last turns.

    `lead` announces the turns, if there are any. The oldest give way to the cap, never `head`.
    """
    turns: list[str] = []
    said, tools = "", 0
    for event in events:
        payload = event.get("payload") or {}
        match event.get("kind"):
            case "TurnStarted":
                said, tools = "", 0
            case "ToolObserved":
                tools += 1
            case "ResultObserved":
                said = str(payload.get("excerpt") or "")
            case "TurnFinished":
                done = f"{payload.get('outcome')}, {tools} tool calls"
                turns.append(f"- ({done}) {' '.join(said.split())}".rstrip())
    text = head[:CONTEXT_MAX]
    room = CONTEXT_MAX - len(text) - len(lead) - 1
    kept: list[str] = []
    for line in reversed(turns[-CONTEXT_TURNS:]):
        if len(line) + 1 > room:
            break
        kept.insert(0, line)
        room -= len(line) + 1
    return "\n".join([text, *([lead] if kept else []), *kept])
