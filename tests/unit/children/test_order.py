"""What a new child is called, what it inherits, and which records it is made of."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vyane_cli.children.order import (
    CONTEXT_MAX,
    PROMPT_MAX_BYTES,
    Fresh,
    Order,
    check_order,
    check_parent,
    child_name,
    inherited_context,
    plan_spawn,
    prompt_slug,
)
from vyane_cli.errors import ConflictError, InvalidInputError
from vyane_cli.mail.message import Lane, MessageKind
from vyane_cli.sessions.worker import NAME_MAX, Worker, WorkerStatus

PARENT = Worker("w-000000000001", "auth-refactor", "claude", "vs-000000000001")
FRESH = Fresh(
    worker="w-000000000002",
    logical_session="vs-000000000002",
    dispatch="01J00000000000000000000000",
    trace="ab" * 16,
    at=7.0,
)


@pytest.mark.parametrize(
    "prompt, slug",
    [
        ("请检查 OWASP 的 CSRF 问题", "owasp-csrf"),
        ("修复登录", "修复登录"),
        ("🙂🙂", "child"),
        ("Fix the login,\nthen test it", "fix-the-login-then-test-it"),
        ("word " * 60, "word-word-word-word-word-word-word-word"),
        ("x" * 300, "x" * 40),
    ],
)
def test_the_slug_is_the_ascii_words_of_the_prompt_else_its_letters(prompt, slug):
    """Deterministic, at most 40 characters, cut at a word's edge."""
    assert prompt_slug(prompt) == slug


@given(st.text(max_size=300))
def test_a_slug_is_never_empty_too_long_or_dashed_at_its_ends(prompt):
    """Whatever the prompt holds."""
    slug = prompt_slug(prompt)
    assert 0 < len(slug) <= 40
    assert slug == slug.strip("-")


def test_the_name_is_the_parents_and_the_slug_and_it_is_unique():
    """A collision gets a number."""
    first = child_name("auth-refactor", "OWASP CSRF", [])
    assert first == "auth-refactor / owasp-csrf"
    assert child_name("auth-refactor", "OWASP CSRF", [first]) == f"{first}-2"


def test_below_many_ancestors_the_own_words_of_a_child_stay_in_its_name():
    """The beginning gives way, never the slug."""
    name = "root"
    for depth in range(12):
        name = child_name(name, f"step number {depth} of a long way down", [name])
        assert len(name) <= NAME_MAX
        assert name.endswith(f" / step-number-{depth}-of-a-long-way-down")


@pytest.mark.parametrize(
    "order",
    [
        Order(""),
        Order(" \n"),
        Order("a\0b"),
        Order("x" * (PROMPT_MAX_BYTES + 1)),
        Order("x", purpose="foo"),
        Order("x", group="a\nb"),
    ],
)
def test_an_order_that_cannot_be_carried_out_is_refused(order):
    """Before anything is written."""
    with pytest.raises(InvalidInputError):
        check_order(order)


@pytest.mark.parametrize("status", [WorkerStatus.COMPLETED, WorkerStatus.FAILED])
def test_a_worker_that_has_ended_gets_no_children(status):
    """Nobody would read the result."""
    with pytest.raises(ConflictError) as caught:
        check_parent(PARENT._replace(status=status))
    assert caught.value.slug == "worker_ended"


def test_the_records_of_a_child_name_each_other():
    """Parent, child, logical session, dispatch and event; the trace is shared."""
    asked = {"purpose": "research", "group": "night", "cwd": "/w", "task": "T3"}
    order = Order("do it", independent=True, **asked)
    plan = plan_spawn(order, PARENT, [PARENT.name], "CONTEXT", FRESH, "span")

    child, parent, message = plan.child, plan.parent, plan.dispatch
    assert (child.parent_worker_id, parent.children_worker_ids) == (PARENT.id, (child.id,))
    assert child.trace_id == parent.trace_id == FRESH.trace
    assert (child.status, child.span_id, child.cwd) == (WorkerStatus.PENDING, "span", "/w")
    assert (child.independent, child.group, child.dispatch_id) == (True, "night", message.id)
    assert child.task_id == message.payload["task"] == "T3"
    assert plan.logical.parent_logical_id == PARENT.logical_session_id
    assert plan.logical.spawned_by_worker_id == PARENT.id
    assert plan.logical.spawn_purpose == "research"
    assert (message.kind, message.lane) == (MessageKind.TASK_DISPATCH, Lane.DIRECT)
    assert (message.from_id, message.to_id) == (PARENT.id, child.id)
    assert message.correlation_id == message.id
    assert message.launched
    assert message.payload["inherited_context"] == "CONTEXT"
    assert plan.prompt == "CONTEXT\n\ndo it"
    assert plan.event["dispatch"] == message.id
    assert parent.blocked_on_message_id is None


def test_a_parent_keeps_its_trace_and_is_blocked_only_when_that_is_asked():
    """`--block-parent` names the dispatch."""
    parent = PARENT._replace(trace_id="cd" * 16)
    plan = plan_spawn(Order("do it", block_parent=True), parent, [], "", FRESH, "")

    assert plan.child.trace_id == plan.parent.trace_id == "cd" * 16
    assert plan.parent.blocked_on_message_id == FRESH.dispatch
    assert "inherited_context" not in plan.dispatch.payload
    assert plan.prompt == "do it"


def turn(number: int, text: str, tools: int = 0) -> list[dict[str, object]]:
    return [
        {"kind": "TurnStarted", "payload": {}},
        *({"kind": "ToolObserved", "payload": {}} for _ in range(tools)),
        {"kind": "ResultObserved", "payload": {"excerpt": f"{number}: {text}"}},
        {"kind": "TurnFinished", "payload": {"outcome": "success"}},
    ]


def test_a_child_inherits_the_results_of_the_last_five_finished_turns():
    """In their order; a turn that runs is not among them."""
    events = [event for number in range(8) for event in turn(number, "done", tools=number)]
    events += turn(8, "running")[:2]
    lines = inherited_context("HEAD", "LEAD", events).splitlines()

    assert lines[:2] == ["HEAD", "LEAD"]
    assert [line.split(") ")[1] for line in lines[2:]] == [f"{n}: done" for n in range(3, 8)]
    assert "(success, 7 tool calls)" in lines[-1]


@given(st.text(max_size=3000), st.lists(st.text(max_size=900), max_size=8))
def test_inherited_context_is_within_its_cap(head, texts):
    """Whatever the parent said; the newest turns stay."""
    events = [event for number, text in enumerate(texts) for event in turn(number, text)]
    assert len(inherited_context(head, "LEAD", events)) <= CONTEXT_MAX


def test_of_a_parent_that_has_done_nothing_nothing_is_announced():
    assert inherited_context("HEAD", "What it did last:", []) == "HEAD"
