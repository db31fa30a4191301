"""An agent hands work to children, goes idle, and is woken by what they answer."""

import json

from hostlab.client import Client
from hostlab.script import bash, turn
from hostlab.waiting import wait_until

from e2e.world import World

RESULT = "RESULT-0915"


def runtime_of(world: World, client: Client) -> str:
    """Make the runtime that starts this client in print mode; its name is the client's."""
    url = client.environment()["ANTHROPIC_BASE_URL"]
    command = [
        "env",
        f"ANTHROPIC_BASE_URL={url}",
        world.lab.binary,
        "-p",
        "--session-id",
        "{session_id}",
    ]
    with (world.home / "config.toml").open("a") as file:
        file.write(f"\n[runtimes.{client.name}]\nspawn = {json.dumps(command)}\n")
        file.write('hooks = true\nkeep = ["CLAUDE_CONFIG_DIR"]\n')
    return client.name


def children_of(parent: str, names: list[str]) -> list[str]:
    """The names that children get from their prompts, TASK and the name of their runtime."""
    return [f"{parent} / task-{name}" for name in names]


def tree(world: World, parent: str) -> dict[str, str]:
    """The children that `topology` shows below a worker, and their statuses."""
    (root,) = world.json("topology", parent)["workers"]
    return {child["name"]: child["status"] for child in root["children"]}


def test_an_idle_parent_is_woken_once_by_the_result_of_each_of_its_children(world: World) -> None:
    """Both are spawned by the agent itself, and are claude -p with hooks of their own."""
    ann = world.lab.client("ann")
    one = world.lab.client("one", project=ann.project)
    two = world.lab.client("two", project=ann.project)
    names = [runtime_of(world, client) for client in (one, two)]
    works = [world.lab.hold(), world.lab.hold()]
    for client, work in zip((one, two), works, strict=True):
        client.script(turn(work.call), turn(f"{RESULT}-{client.name}"))
    with ann.tui() as tui:
        parent = world.greet(ann, tui)
        calls = [bash(f"vyane spawn TASK-{n} --runtime {n}; echo status=$?") for n in names]
        ann.script(turn(calls[0]), turn(calls[1]), turn("Spawned."))
        tui.submit("hand it out")
        assert "status=0" in ann.request(3).newest
        assert "status=0" in ann.request(4).newest
        tui.wait_status("idle")
        for work in works:
            work.reached()
        assert tree(world, parent) == dict.fromkeys(children_of(parent, names), "RUNNING")
        for client, work in zip((one, two), works, strict=True):
            work.reached()
            assert f"TASK-{client.name}" in client.request(1).text
            assert parent in client.request(1).text  # what it inherits names its parent
            before = len(ann.requests())
            ann.script(turn("Read."))
            work.release()
            text = f"{RESULT}-{client.name}"
            assert ann.request_with(text).count(text) == 1
            tui.wait_status("idle")
            assert ann.last_request().count(text) == 1
            assert len(ann.requests()) == before + 1

    results = [m for m in world.json("inbox", parent, "--all") if m["kind"] == "task-result"]
    assert [m["payload"]["success"] for m in results] == [True, True]
    workers = {w["name"]: w for w in world.json("workers", "--all")}
    children = children_of(parent, names)
    assert [workers[child]["status"] for child in children] == ["COMPLETED", "COMPLETED"]
    ids = [workers[child]["id"] for child in children]
    assert workers[parent]["children_worker_ids"] == ids
    assert tree(world, parent) == dict.fromkeys(children, "COMPLETED")
    for child, sent in zip(children, results, strict=True):
        (dispatch,) = world.json("inbox", workers[child]["id"], "--all")
        assert (dispatch["status"], sent["correlation_id"]) == ("consumed", dispatch["id"])


def test_a_child_whose_program_is_not_there_has_failed_and_its_parent_is_told(world: World) -> None:
    """The reason wakes the parent as any result does."""
    ann = world.lab.client("ann")
    with (world.home / "config.toml").open("a") as file:
        file.write('\n[runtimes.gone]\nspawn = ["/no/such/program"]\n')
    with ann.tui() as tui:
        parent = world.greet(ann, tui)
        ann.script(turn("Too bad."))
        child = world.json("spawn", "try", "--parent", parent, "--runtime", "gone")

        assert ann.request_with("could not be started").count(child["id"]) == 0
        tui.wait_status("idle")
        ended = [w for w in world.json("workers", "--all") if w["id"] == child["id"]]
        assert ended[0]["status"] == "FAILED"
        assert "/no/such/program" in ended[0]["failure_reason"]


def test_an_interactive_child_works_in_a_window_of_its_own_and_reports(world: World) -> None:
    """The person can look in; its hooks make it a session like any, and it says when it is done."""
    world.lab.env.update(TMUX=f"{world.lab.short / 'ann.tmux'},1,0", TMUX_PANE="%0")
    ann = world.lab.client("ann")
    kid = world.lab.client("kid", project=ann.project)
    given = ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", "CLAUDE_CONFIG_DIR", "DISABLE_AUTOUPDATER")
    pairs = [f"{name}={kid.environment()[name]}" for name in given]
    command = ["env", *pairs, world.lab.binary, "--session-id", "{session_id}", "{prompt}"]
    with (world.home / "config.toml").open("a") as file:
        file.write(f"\n[runtimes.look]\nspawn = ['true']\ninteractive = {json.dumps(command)}\n")
        file.write("hooks = true\n")
    kid.script(turn(bash(f"vyane report --result {RESULT}")), turn("Reported."))
    with ann.tui() as tui:
        parent = world.greet(ann, tui)
        spawn = "vyane spawn TASK-LOOK --runtime look --tmux window --name look; echo status=$?"
        ann.script(turn(bash(spawn)), turn("Spawned."), turn("Read."))
        tui.submit("hand it out")

        assert "status=0" in ann.request(3).newest
        assert "TASK-LOOK" in kid.request(1).text
        assert ann.request_with(RESULT).count(RESULT) == 1
        kid.request(2)
        assert "look" in tui.tmux("list-windows", "-F", "#{window_name}").split()
        (child,) = [w for w in world.json("workers", "--all") if w["name"] == "look"]
        assert (child["status"], child["host"]) == ("COMPLETED", "claude-code")
        pane = tui.tmux("list-panes", "-t", ":look", "-F", "#{pane_id}").strip()
        tui.tmux("send-keys", "-t", pane, "-l", "/exit")
        wait_until(lambda: "/exit" in tui.tmux("capture-pane", "-p", "-t", pane), "it is typed")
        tui.tmux("send-keys", "-t", pane, "Enter")
        wait_until(
            lambda: pane not in tui.tmux("list-panes", "-a", "-F", "#{pane_id}").split(),
            "the window closes with the program",
            context=lambda: tui.tmux("capture-pane", "-p", "-t", pane),
        )
        results = [m for m in world.json("inbox", parent, "--all") if m["kind"] == "task-result"]
        assert len(results) == 1
