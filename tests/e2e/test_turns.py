"""Turns and mail come out right when the host tells its hooks nothing, or too late."""

from hostlab.conversation import Request
from hostlab.script import turn

from e2e.world import HUMAN, MARK, QUIET, World

MAIL = "MAIL-2718"


def finished(world: World, worker: str) -> list[tuple[str, str]]:
    """(outcome, code) of each turn that has ended, oldest first."""
    events = world.events(worker, "TurnFinished")
    return [(event["payload"]["outcome"], event["payload"].get("code", "")) for event in events]


def is_marked(request: Request, text: str) -> bool:
    """Whether the envelope that holds the text says that it comes again."""
    at = request.text.rfind(text)
    return at >= 0 and MARK in request.text[max(0, at - 600) : at]


def test_a_prompt_typed_ahead_belongs_to_the_running_turn(world: World) -> None:
    """Its prompt event comes in the middle of the turn, and begins none."""
    bob = world.lab.client("bob")
    work = world.lab.hold()
    bob.script(turn(work.call), turn("Did both."))
    with bob.tui() as tui:
        tui.submit("work")
        work.reached()
        name = world.worker(tui.session_id)
        tui.submit("and this too")
        world.send(name, MAIL, *HUMAN)
        work.release()
        last = bob.request_with("and this too")
        tui.wait_status("idle")

        assert bob.last_request().count(MAIL) == 1
        assert last.count(MAIL) == 1
        assert len(world.events(name, "TurnStarted")) == 1
        assert finished(world, name) == [("success", "")]


def test_a_queued_prompt_after_an_interrupt_is_a_turn_of_its_own(world: World) -> None:
    """After Esc with a queued prompt a turn runs of which no prompt event tells."""
    bob = world.lab.client("bob")
    work, rather = world.lab.hold(), world.lab.hold()
    bob.script(turn(work.call), turn(rather.call), turn("Done."))
    with bob.tui() as tui:
        tui.submit("work")
        work.reached()
        name = world.worker(tui.session_id)
        tui.submit("rather do this")
        tui.keys("Escape")
        rather.reached()
        world.send(name, MAIL, *HUMAN)
        rather.release()

        assert bob.request(3).count(MAIL) == 1
        tui.wait_status("idle")
        assert bob.last_request().count(MAIL) == 1
        assert finished(world, name) == [("interrupted", "user_interrupt"), ("success", "")]


def test_mail_given_with_a_prompt_that_was_interrupted_comes_again_marked(world: World) -> None:
    """Text given at a prompt that is Esc'd before the answer is in no later request."""
    bob = world.lab.client("bob")
    with bob.tui() as tui:
        name = world.greet(bob, tui)
        world.send(name, MAIL, *QUIET)
        bob.script(turn("Too late.", delay=30), turn("Read."))
        tui.submit("what is new?")
        assert bob.request(2).count(MAIL) == 1
        tui.interrupt()
        tui.submit("once more")

        again = bob.request(3)
        assert again.count(MAIL) == 1
        assert is_marked(again, MAIL)
        tui.wait_status("idle")
        tui.submit("and again")
        assert bob.request(4).count(MAIL) == 1


def test_mail_whose_reader_was_killed_before_its_request_comes_again_marked(world: World) -> None:
    """The hook has printed it, the client dies before it asks the model: nobody has read it."""
    bob = world.lab.client("bob")
    released = world.lab.root / "released"
    # a second hook of the same event, not vyane's: the client asks the model when both have ended
    bob.hooks(UserPromptSubmit={"command": world.lab.recorder(wait_file=str(released))})
    released.touch()
    with bob.tui() as tui:
        name = world.greet(bob, tui)
        session = tui.session_id
        sent = world.send(name, MAIL, *QUIET)
        released.unlink()
        tui.submit("what is new?")
        world.wait_message(name, sent.id, "delivered")
        assert len(bob.requests()) == 1
        tui.kill()

    released.touch()
    bob.script(turn("Read."))
    with bob.tui("--resume", session) as tui:
        tui.submit("go on")
        again = bob.request_with(MAIL)
        assert again.count(MAIL) == 1
        assert is_marked(again, MAIL)


def test_a_wake_whose_reader_was_killed_with_its_request_comes_again_marked(world: World) -> None:
    """The client writes its transcript after it asks: a kill in between loses the wake's text."""
    bob = world.lab.client("bob")
    with bob.tui() as tui:
        name = world.greet(bob, tui)
        session = tui.session_id
        bob.script(turn("Too late.", delay=30), turn("Read."))
        world.send(name, MAIL, *HUMAN)
        bob.request_with(MAIL)
        tui.kill()

    before = len(bob.requests())
    with bob.tui("--resume", session):
        again = bob.request_with(MAIL, after=before)
        assert is_marked(again, MAIL)
