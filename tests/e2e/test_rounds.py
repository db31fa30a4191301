"""A round starts a worker in the client; it reports; the next round pauses."""

import json

from hostlab.client import Client
from hostlab.script import bash, turn

from e2e.world import World


def let_rounds_start(world: World, client: Client) -> None:
    """Rounds start this client in print mode. A round runs outside of the lab's network."""
    enter = [
        word for word in client.lab.enter(client.project, client.environment()) if word != "-i"
    ]
    command = [*enter, client.lab.binary, "-p", "--session-id", "{session_id}"]
    with (world.home / "config.toml").open("a") as file:
        file.write('\n[wake]\nruntime = "client"\n[runtimes.client]\nhooks = true\n')
        file.write(f"spawn = {json.dumps(command)}\n")


def test_a_round_starts_a_worker_that_reports_and_the_next_one_pauses(world: World) -> None:
    """The main session is idle, one task is pending, nobody works."""
    ann = world.lab.client("ann")
    one = world.lab.client("one", project=ann.project)
    let_rounds_start(world, one)
    work = world.lab.hold()
    one.script(
        turn(bash("vyane task report T1 --state running; echo running=$?")),
        turn(work.call),
        turn(bash("echo ok >made.txt; vyane task report T1 --state done --artifact made.txt")),
        turn("RESULT-0917"),
    )
    shop = ("--project", "shop")
    with ann.tui() as tui:
        main = world.greet(ann, tui)
        world.vyane("project", "create", "shop", "--dir", str(ann.project), "--main", main)
        world.vyane("goal", "set", "ship it", "--accept", "tests", *shop)
        world.vyane("goal", "accept", "tests", "--state", "pass", *shop)
        world.vyane("task", "add", "write it", *shop)
        made = world.json("wake", "--schedule", "A", *shop)
        assert (made["cell"], made["done"]["outcome"]) == ("A", "started"), made
        worker = made["done"]["worker"]
        work.reached()
        assert "Task T1 of project shop: write it" in one.request(1).text
        assert "running=0" in one.request(2).text
        (task,) = world.json("task", "list", *shop)
        assert (task["status"], task["worker"]) == ("running", worker)
        skipped = world.json("wake", "--schedule", "B", *shop)
        assert (skipped["cell"], skipped["reason"]) == ("skip", "executing")

        ann.script(turn("Read."))
        work.release()
        assert ann.request_with("RESULT-0917").count("RESULT-0917") == 1
        tui.wait_status("idle")
        (task,) = world.json("task", "list", *shop)
        assert task["status"] == "done"
        last = world.json("wake", "--schedule", "A", *shop)
        assert (last["cell"], last["reason"]) == ("D", "goal-complete"), last
        assert world.json("wake", "--schedule", "B", *shop)["reason"] == "paused"

    assert [one["status"] for one in world.json("schedule", "list")] == ["PAUSED", "PAUSED"]
    ended = [w for w in world.json("workers", "--all") if w["id"] == worker]
    assert (ended[0]["status"], ended[0]["project"]) == ("COMPLETED", "shop")
    dispatch = world.json("show", ended[0]["dispatch_id"])
    assert (dispatch["status"], dispatch["payload"]["task"]) == ("consumed", "T1")
