"""The person breaks into a session of the real client, and stops one; an agent may not."""

from hostlab.script import bash, turn
from hostlab.waiting import wait_until

from e2e.world import HUMAN, World

ORDER = "ORDER-4711"
WAKE_LIMIT_S = 1.5
THINKS_S = 3.0
"""How long the model takes for the answer in which it asks for the tool that must not run."""


def test_a_takeover_in_a_tool_loop_stops_the_next_tool_and_is_in_the_next_request(
    world: World,
) -> None:
    """The tool does not run; the request holds the envelope, who, the tool, the instruction."""
    bob = world.lab.client("bob")
    bob.script(
        turn(bash("echo one")), turn(bash("touch second"), delay=THINKS_S), turn("As you say.")
    )
    with bob.tui() as tui:
        tui.submit("work")
        bob.request(2)
        name = world.worker(tui.session_id)
        taken = world.json("takeover", name, ORDER, "--timeout", "20s", *HUMAN)

        assert taken["status"] == "delivered"
        assert taken["interrupt"] == "requested_by_hook"
        third = bob.request(3)
        assert third.count(ORDER) == 1
        for part in ("[SYSTEM TAKEOVER] from human", "interrupted here: Bash", "not a new task"):
            assert part in third.text
        tui.wait_status("idle")
        assert not (bob.project / "second").exists()
        kinds = [event["kind"] for event in world.events(name)]
        assert kinds.count("TakeoverInitiated") == kinds.count("TakeoverConsumed") == 1
        assert kinds.index("TakeoverInitiated") < kinds.index("DeliveryAttempted")


def test_a_takeover_wakes_an_idle_session(world: World) -> None:
    """Within 1.5 s, shown once, and over when the turn that it made has ended."""
    bob = world.lab.client("bob")
    waits = []
    with bob.tui() as tui:
        name = world.greet(bob, tui)
        for number in range(3):
            bob.script(turn("As you say."))
            text = f"{ORDER}-{number}"
            sent = world.send(name, text, "--kind", "takeover", *HUMAN)
            waits.append(bob.request_with(text).at - sent.returned_at)
            tui.wait_status("idle")
        assert min(waits) <= WAKE_LIMIT_S, waits  # the best: others use the machine too
        assert [bob.last_request().count(f"{ORDER}-{n}") for n in range(3)] == [1, 1, 1]
        wait_until(lambda: len(world.events(name, "TakeoverConsumed")) == 3, "all are over")


def test_an_agent_that_takes_over_another_session_is_refused(world: World) -> None:
    """Exit 5; the refusal is in its own timeline, and the other session has nothing."""
    ann, bob = world.lab.client("ann"), world.lab.client("bob")
    with bob.tui() as tui:
        name = world.greet(bob, tui)
        ann.script(
            turn(bash(f"vyane takeover {name} {ORDER}; echo status=$?")),
            turn(bash(f"vyane cancel {name}; echo status=$?")),
            turn(bash(f"vyane send {name} {ORDER} --from-kind human; echo status=$?")),
            turn("Refused."),
        )
        ann.run("take over bob")
        assert "status=5" in ann.requests()[1].newest
        assert "status=5" in ann.requests()[2].newest
        assert "status=5" in ann.requests()[3].newest
        codes = [e["payload"]["code"] for e in world.events("ann", "Diagnostic")]
        assert codes.count("direction") == 3
        assert world.json("inbox", name) == []
        assert bob.last_request().count(ORDER) == 0


def test_a_cancel_ends_the_turn_at_its_next_tool(world: World) -> None:
    """The tool does not run, no request follows, and the outcome is known to the one who asked."""
    bob = world.lab.client("bob")
    bob.script(turn(bash("echo one")), turn(bash("touch second"), delay=THINKS_S))
    with bob.tui() as tui:
        tui.submit("work")
        bob.request(2)
        name = world.worker(tui.session_id)
        done = world.json("cancel", name, "--reason", "enough", "--wait", "20s", *HUMAN)

        assert list(done["outcomes"].values()) == ["stopped"]
        tui.wait_status("idle")
        assert bob.last_request().count("second") == 0
        assert len(bob.requests()) == 2
        assert not (bob.project / "second").exists()
        finished = world.events(name, "TurnFinished")[-1]["payload"]
        assert finished["outcome"] == "cancelled"


def test_a_takeover_by_tmux_ends_one_long_tool_call(world: World) -> None:
    """One Escape to the proven pane, then the session wakes with the order; shown once."""
    world.lab.env.update(TMUX=f"{world.lab.short / 'bob.tmux'},1,0", TMUX_PANE="%0")
    bob = world.lab.client("bob")
    work = world.lab.hold()
    bob.script(turn(work.call), turn("As you say."))
    with bob.tui() as tui:
        tui.submit("work")
        work.reached()
        name = world.worker(tui.session_id)
        tui.write("and then half a")
        taken = world.json(
            "takeover", name, ORDER, "--interrupt", "tmux", "--timeout", "20s", *HUMAN
        )

        assert taken["interrupt"] == "escape_sent"
        assert taken["typed"] == "and then half a"
        saved = [e["payload"] for e in world.events(name, "Diagnostic")]
        assert {"code": "input_saved", "text": "and then half a"} in saved
        assert taken["status"] == "delivered"
        assert bob.request_with(ORDER).count(ORDER) == 1
        tui.wait_status("idle")
        assert bob.last_request().count(ORDER) == 1
        codes = [event["payload"].get("code") for event in world.events(name, "TurnFinished")]
        assert "user_interrupt" in codes
