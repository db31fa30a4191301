"""Random hook orders, duplicates, crashes, late events and producers, against a model.

The model knows nothing of tokens, seqs or files: it is the table of DESIGN 7 once more, in the
fewest words. 20,000 steps with VYANE_TEST_FULL=1, as `.ci/run` sets it.
"""

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.store.timelines import SESSION, Desk
from tests.unit.scripted import TEMPLATES
from vyane_cli.delivery.decide import plan_tick
from vyane_cli.delivery.plan import FreshIds, Snapshot
from vyane_cli.errors import ConflictError
from vyane_cli.history.producer import emit_event, finish_turn, start_turn
from vyane_cli.hosts.port import HookCall, HostEvent, ToolCall
from vyane_cli.mail.mailbox import Head, Mailbox
from vyane_cli.storage import document
from vyane_cli.timeline import log
from vyane_cli.timeline.turns import REMEMBERED, Transition

FULL = bool(os.environ.get("VYANE_TEST_FULL"))
STEPS = 50
EXAMPLES = 400 if FULL else 24
Fact = tuple[Any, ...]
"""An event as the model has it: (started, native id), (finished, outcome, code), (tool, id) …"""


class Model:
    """Which turn is open and which ids are known: a fold of facts."""

    def __init__(self) -> None:
        self.facts: list[Fact] = []
        self.open: str | None = None
        self.tools: set[str] = set()
        self.known: list[str] = []
        self.last: str | None = None

    def take(self, facts: list[Fact]) -> None:
        for fact in facts:
            self.facts.append(fact)
            if fact[0] == "started":
                self.open, self.tools = fact[1], set()
                if fact[1] and fact[1] not in self.known:
                    self.known = [*self.known, fact[1]][-REMEMBERED:]
            elif fact[0] == "finished":
                self.last, self.open = self.open, None
            elif fact[0] == "tool":
                self.tools.add(fact[1])

    def expect(self, event: HostEvent, turn: str, tools: tuple[str, ...], error: str) -> list[Fact]:
        """What a call adds."""
        if event is HostEvent.SESSION_END:
            return [("finished", "interrupted", "process_exit")] if self.open is not None else []
        same = self.open is not None and bool(turn) and self.open == turn
        follows = (
            self.open is None and turn == self.last and event in (HostEvent.TOOL, HostEvent.BATCH)
        )
        if turn and turn in self.known and not (same or follows):
            return []  # late: an id that is known and not of the open turn
        facts: list[Fact] = []
        anew = (bool(turn) and not same) or (not turn and event is HostEvent.PROMPT)
        if anew:
            if self.open is not None:
                facts.append(("finished", "interrupted", "user_interrupt"))
            facts.append(("started", turn))
        if not anew and self.open is None:
            return facts
        if event in (HostEvent.BATCH, HostEvent.STOP, HostEvent.STOP_FAILURE):
            seen = set() if anew else set(self.tools)
            for tool in tools:
                if tool not in seen:
                    seen.add(tool)
                    facts.append(("tool", tool))
        if event is HostEvent.STOP:
            facts += [("result",), ("finished", "success", "")]
        if event is HostEvent.STOP_FAILURE:
            facts.append(("finished", "error", error))
        return facts


def fact_of(record: dict[str, Any]) -> Fact:
    payload = record["payload"]
    match record["kind"]:
        case "TurnStarted":
            return ("started", (record["origin"] or {}).get("native_turn", ""))
        case "TurnFinished":
            return ("finished", payload["outcome"], payload.get("code", ""))
        case "ToolObserved":
            return ("tool", payload.get("tool_use_id") or payload["tool"])
        case "ResultObserved":
            return ("result",)
    return (record["kind"],)


ids = st.sampled_from(["", "a", "b", "c", "d", "e"])
tool_ids = st.lists(st.sampled_from(["t1", "t2", "t3"]), max_size=3).map(tuple)
moving = st.sampled_from(
    [
        HostEvent.PROMPT,
        HostEvent.TOOL,
        HostEvent.BATCH,
        HostEvent.STOP,
        HostEvent.STOP_FAILURE,
        HostEvent.SESSION_END,
    ]
)


class Timelines(RuleBasedStateMachine):
    """One session's timeline, driven by hooks and by a producer, with crashes."""

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.desk = Desk(self.folder / "vyane")
        self.desk.home.clock = self.desk.clock  # type: ignore[method-assign]
        os.makedirs(os.path.dirname(self.desk.path))
        self.model = Model()
        self.calls = 0
        self.fresh = 0
        self.last: HookCall | None = None
        self.tokens: list[tuple[str, int]] = []
        self.ended: dict[int, tuple[str, str]] = {}
        self.started = 0

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder)

    def call(self, call: HookCall, *, dead: bool = False, keep: float | None = None) -> None:
        """Plan and commit one call; `keep`: a crash keeps so much of what it appends."""
        desk = self.desk
        opened = desk.opened()
        try:
            head = opened.head
            clock = desk.clock()
            running = head.open
            observed = log.tools_since(desk.path, running.seq) if running else frozenset()
            snapshot = Snapshot(
                worker="w-0123456789ab",
                name="bob",
                boxes=(Mailbox(Head(), ()),),
                timeline=head,
                clock=clock,
                templates=TEMPLATES,
                ids=FreshIds(*(desk.home.new_id(clock.now_ms) for _ in FreshIds._fields)),
                open_present=False if dead and head.open is not None else None,
                observed=observed,
            )
            plan = plan_tick(snapshot, call)
            before = opened.writer.end
            opened.commit(plan.transition)
        finally:
            opened.close()
        facts = (
            [("finished", "interrupted", "runtime_restart")]
            if dead and self.model.open is not None
            else []
            if dead
            else self.model.expect(
                call.event, call.turn, tuple(tool.id for tool in call.tools), call.error
            )
        )
        if keep is not None and os.path.exists(desk.path):
            size = os.path.getsize(desk.path)
            cut = before + round((size - before) * keep)
            os.truncate(desk.path, cut)
            facts = facts[: Path(desk.path).read_bytes()[before:].count(b"\n")]
        self.take(facts)

    def take(self, facts: list[Fact]) -> None:
        for fact in facts:
            if fact[0] == "finished" and self.model.open is not None:
                self.ended[self.started] = (fact[1], fact[2])
            if fact[0] == "started":
                self.started += 1
            self.model.take([fact])

    def made(self, event: HostEvent, turn: str, tools: tuple[str, ...]) -> HookCall:
        self.calls += 1
        return HookCall(
            "claude-code",
            event,
            str(event),
            SESSION,
            turn=turn,
            tools=tuple(ToolCall(tool, "Bash") for tool in tools),
            result="done" if event is HostEvent.STOP else "",
            result_digest="d",
            error="rate_limit" if event is HostEvent.STOP_FAILURE else "",
            digest=f"call-{self.calls}",
        )

    @rule(event=moving, turn=ids, tools=tool_ids)
    def hook(self, event: HostEvent, turn: str, tools: tuple[str, ...]) -> None:
        self.last = self.made(event, turn, tools)
        self.call(self.last)

    @rule(event=moving, tools=tool_ids)
    def hook_of_a_new_turn(self, event: HostEvent, tools: tuple[str, ...]) -> None:
        self.fresh += 1
        self.last = self.made(event, f"n{self.fresh}", tools)
        self.call(self.last)

    @precondition(lambda self: self.last is not None and self.last.turn)
    @rule()
    def the_same_call_again(self) -> None:
        assert self.last is not None
        self.call(self.last)

    @rule(event=moving, turn=ids, tools=tool_ids, keep=st.floats(0, 1))
    def a_crash_in_the_middle(
        self, event: HostEvent, turn: str, tools: tuple[str, ...], keep: float
    ) -> None:
        self.last = self.made(event, turn, tools)
        self.call(self.last, keep=keep)

    @rule()
    def the_host_dies_and_comes_back(self) -> None:
        self.call(self.made(HostEvent.SESSION_START, "", ()), dead=True)

    @rule()
    def a_producer_starts(self) -> None:
        if self.model.open is not None:
            with pytest.raises(ConflictError) as caught:
                start_turn(self.desk.home, SESSION)
            assert caught.value.slug == "turn_open"
            return
        started = start_turn(self.desk.home, SESSION)
        self.take([("started", "")])
        self.tokens.append((started.token, self.started))

    @precondition(lambda self: self.tokens)
    @rule(data=st.data())
    def a_producer_emits(self, data: st.DataObject) -> None:
        token, number = data.draw(st.sampled_from(self.tokens))
        if number in self.ended or number != self.started:
            with pytest.raises(ConflictError) as caught:
                emit_event(self.desk.home, token, "ToolObserved", {"tool": "Make"})
            assert caught.value.slug == "turn_finished"
            return
        emit_event(self.desk.home, token, "ToolObserved", {"tool": "Make"})
        self.take([("tool", "Make")])

    @precondition(lambda self: self.tokens)
    @rule(data=st.data(), end=st.sampled_from([("success", ""), ("error", "rate_limit")]))
    def a_producer_finishes(self, data: st.DataObject, end: tuple[str, str]) -> None:
        token, number = data.draw(st.sampled_from(self.tokens))
        was = self.ended.get(number)
        if was is not None and was != end:
            with pytest.raises(ConflictError) as caught:
                finish_turn(self.desk.home, token, *end)
            assert caught.value.slug == "terminal_conflict"
            return
        event = finish_turn(self.desk.home, token, *end)
        assert event.turn_number == number
        if was is None:
            self.take([("finished", *end)])

    @invariant()
    def the_file_says_what_the_model_says(self) -> None:
        if not hasattr(self, "desk") or not os.path.exists(self.desk.path):
            return
        data = Path(self.desk.path).read_bytes()
        records = [document.decode_line(line) for line in data.split(b"\n")[:-1]]
        assert [fact_of(record) for record in records] == self.model.facts
        checked = log.check(self.desk.path, SESSION)
        assert checked.events == len(records)
        head = log.read_head(self.desk.path)
        if head is not None:
            assert (head.open is not None) == (self.model.open is not None)
            assert head.turns == self.started


TestTimelines = Timelines.TestCase
TestTimelines.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=STEPS,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # to shrink a run of files takes minutes
    suppress_health_check=list(HealthCheck),
)


def test_the_model_notices_a_store_that_loses_an_event(tmp_path: Path) -> None:
    """The check itself is checked: a timeline that drops what it was given is found."""
    machine = Timelines()
    machine.begin()
    try:
        real = log.Timeline.commit
        dropped: list[Transition] = []

        def commit(self: log.Timeline, state: Transition) -> None:
            if state.events and not dropped:
                dropped.append(state)
                return
            real(self, state)

        def drive() -> None:
            for number in range(3):
                machine.hook(HostEvent.PROMPT, f"x{number}", ())
                machine.the_file_says_what_the_model_says()

        log.Timeline.commit = commit  # type: ignore[method-assign]
        with pytest.raises((AssertionError, FileNotFoundError)):
            drive()
    finally:
        log.Timeline.commit = real  # type: ignore[method-assign]
        machine.teardown()
