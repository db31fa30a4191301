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
"""Longest prompt; together with the inherited context it fits into a message's payload."""
CONTEXT_TURNS = 5
CONTEXT_MAX = 2_000
"""Longest inherited context, in characters."""
SEPARATOR = " / "


class Purpose(StrEnum):
    """The purpose of a child."""

    TASK_DISPATCH = "task-dispatch"
    RESEARCH = "research"
    VERIFY = "verify"


class TerminalPlace(StrEnum):
    """The tmux place in which an interactive child is opened."""

    PANE = "pane"
    WINDOW = "window"


class Order(NamedTuple):
    """An order to spawn a child, as the caller gives it."""

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
    """Branch of the child's own git work tree; empty: no work tree."""
    tmux: str = ""
    """A TerminalPlace: run the interactive program, for a person to look in. Empty: detached."""
    task: str = ""
    """Id of the task in the project's ledger."""
    project: str = ""
    """The project that the child is declared to belong to; empty: its parent's project."""
    worker: str = ""
    """The child's id, when a claim has reserved one; empty: a new id is made."""
    about: str = ""
    """Words for the child's name; empty: the words of the prompt."""


class Fresh(NamedTuple):
    """New ids and the time, which a pure plan cannot make by itself."""

    worker: str
    logical_session: str
    dispatch: str
    trace: str
    """Trace for a parent without one: that of its timeline's events so far, else a new one."""
    at: float


class SpawnPlan(NamedTuple):
    """Every record of a new child. One registry write, the last, saves child and parent."""

    child: Worker
    parent: Worker
    logical: LogicalSession
    dispatch: Message
    prompt: str
    """The full prompt of the child: the inherited context, then the ordered prompt."""
    event: Mapping[str, Any]
    """Payload of the ChildSpawned event in the parent's timeline."""


def check_order(order: Order) -> Purpose:
    """Check an order and return its purpose. Raises InvalidInputError for an invalid order."""
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
    """Raise ConflictError when the parent has ended: then no worker would read the result."""
    if parent.final:
        raise ConflictError(f"{parent.name} has ended ({parent.status})", slug="worker_ended")


def prompt_slug(prompt: str) -> str:
    """Return a slug of at most 40 characters from a prompt's ASCII words.

    A prompt without ASCII words gives its other letters and digits, else "child".
    """
    plain = "".join(c if c.isascii() and c.isalnum() else " " for c in prompt)
    return slug(plain, SLUG_MAX) or slug(prompt, SLUG_MAX) or "child"


def child_name(parent: str, prompt: str, taken: Collection[str]) -> str:
    """Return a unique name `parent / slug`. A name that would be too long loses its beginning."""
    own = prompt_slug(prompt)
    room = NAME_MAX - 6 - len(SEPARATOR) - len(own)
    above = parent if len(parent) <= room else "…" + parent[len(parent) - room + 1 :]
    return unique_name(above + SEPARATOR + own, taken)


def plan_spawn(
    order: Order, parent: Worker, taken: Collection[str], context: str, fresh: Fresh, span: str
) -> SpawnPlan:
    """Return the records of one child.

    `context` is the inherited context, already cut to its cap, or empty. `span` is the id of the
    parent's open span, or empty.
    """
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
    """Render the context that a child inherits: `head`, then its parent's last turns' results.

    `lead` introduces the turns and is left out without turns. At most CONTEXT_TURNS turns are
    shown; to fit CONTEXT_MAX the oldest turns are dropped first. `head` is cut only when it alone
    exceeds CONTEXT_MAX.
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
