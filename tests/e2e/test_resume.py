"""A closed session of the real client is opened again by mail, where the settings allow it."""

import json

from hostlab.script import bash, turn
from hostlab.waiting import wait_until

from e2e.world import World

MAIL = "MAIL-2207"


def test_mail_opens_a_closed_session_again_and_it_answers(world: World) -> None:
    """In print mode, with its history; the message is shown once, then it is closed again."""
    bob = world.lab.client("bob")
    ann = world.lab.client("ann", project=bob.project)
    url = bob.environment()["ANTHROPIC_BASE_URL"]
    command = ["env", f"ANTHROPIC_BASE_URL={url}", world.lab.binary]
    with (world.home / "config.toml").open("a") as file:
        resume = json.dumps([*command, "-p", "--resume", "{session_id}"])
        file.write('\n[delivery]\nresume = "all"\n')
        file.write(f"[runtimes.claude]\nresume = {resume}\n")
    with bob.tui() as tui:
        name = world.greet(bob, tui)
        tui.leave()
    before = len(bob.requests())
    bob.script(turn("Answered."))
    ann.script(turn(bash(f"vyane send {name} {MAIL}; echo status=$?")), turn("Sent."))
    ann.run("write to bob")

    assert "status=0" in ann.requests()[1].newest
    request = bob.request_with(MAIL)
    assert request.count(MAIL) == 1
    assert "hello" in request.text  # what was said before it was closed
    assert len(bob.requests()) == before + 1

    def settled() -> bool:
        listed = world.json("inbox", name, "--all")
        return [entry["status"] for entry in listed if MAIL in entry["summary"]] == ["consumed"]

    wait_until(settled, "the message is consumed", context=lambda: world.vyane("logs", name))
    wait_until(lambda: "Answered." in world.vyane("logs", name), "its answer is in the log")

    def closed() -> bool:
        row = next(w for w in world.workers() if w["name"] == name)
        return bool(row["transports"] == ["resume"])

    wait_until(closed, "it is closed again", context=world.story)
    assert world.lab.processes_left() == []
