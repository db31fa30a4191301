"""`vyane cancel`: what it prints, its exit codes, who may; the tick that ends the turn."""

import json
from pathlib import Path

import pytest

from tests.simulated import files_of, vyane
from tests.workers import grow
from vyane_cli.sessions import registry
from vyane_cli.sessions.worker import WorkerStatus
from vyane_cli.upkeep.gc import collect

PERSON = ("--from-kind", "human")


def cancel(run, *words: str) -> tuple[int, dict]:
    code, out, _ = run("--json", "cancel", *words, *PERSON)
    return code, json.loads(out)


def test_a_cancelled_tree_is_printed_with_an_outcome_for_each(one, run):
    """Exit 0 when all are known; doctor and the timelines' check find nothing wrong with it."""
    ids = grow(one.world, 5, (2,))
    code, done = cancel(run, ids[0], "--reason", "wrong branch")

    assert code == 0
    assert list(done) == [
        "worker_id", "children_cancelled", "force", "skipped", "outcomes", "operation",
    ]  # fmt: skip
    assert done["worker_id"] == ids[0]
    assert sorted(done["children_cancelled"]) == [ids[1], ids[3], ids[4]]
    assert done["skipped"] == [ids[2]]
    assert done["force"] is False
    assert set(done["outcomes"].values()) == {"stopped"}
    assert run("timeline", "verify", ids[1])[0] == 0
    found = json.loads(run("--json", "doctor")[1])
    assert [row for row in found if "cancels" in row["detail"] and not row["ok"]] == []


def test_a_busy_session_is_unknown_until_its_turn_is_ended_by_the_tick(one, run):
    """Exit 5 at first; its next tool does not run; the same command then knows."""
    one.prompt()
    code, first = cancel(run, "project", "--wait", "0.1s")
    assert code == 5
    assert first["outcomes"] == {one.worker: "unknown"}
    assert one.tool().reply.deny
    assert one.batch().reply.stop == "cancelled"
    code, again = cancel(run, "project")

    assert code == 0
    assert again["operation"] == first["operation"]
    assert again["outcomes"] == {one.worker: "stopped"}
    assert one.outcomes() == ["cancelled/cancel_requested"]
    kinds = [event["kind"] for event in one.events()]
    assert (kinds.count("CancelRequested"), kinds.count("CancelSettled")) == (1, 1)
    assert run("timeline", "verify", "project")[0] == 0


def test_without_propagation_the_children_go_on(one, run):
    """One worker alone."""
    ids = grow(one.world, 4)
    _, done = cancel(run, ids[0], "--no-propagate")

    assert done["children_cancelled"] == done["skipped"] == []
    assert one.world.inbox(ids[1]).mailbox.entries == ()


def test_a_parent_may_cancel_its_child_and_nobody_elses(one, run):
    """Exit 5 and a Diagnostic for the other; `ambiguous` names the candidates."""
    ids = grow(one.world, 5)
    as_child = {"VYANE_WORKER": ids[1]}
    refused = vyane(one.home, "--json", "cancel", ids[2], environ=as_child)
    assert refused.status == 5
    assert json.loads(refused.err)["error"]["code"] == "direction"
    assert one.world.events("vs-000001")[-1]["kind"] == "Diagnostic"
    assert run("cancel", "w-0000", *PERSON)[0] == 4
    done = vyane(one.home, "--json", "cancel", ids[4], environ=as_child)

    assert done.status == 0
    assert registry.Registry(one.world.layout).workers[ids[4]].cancel_propagated_from == ids[1]


@pytest.mark.parametrize(
    "words, code",
    [
        (("nobody",), 3),
        (("project", "--operation", "no/id"), 2),
        (("project", "--wait", "2h"), 2),
    ],
)
def test_a_bad_cancel_stores_nothing(one, run, words, code):
    """Everything is checked before anything is written."""
    before = files_of(one.home)

    assert run("cancel", *words, *PERSON)[0] == code
    assert files_of(one.home) == before


def test_a_worker_that_has_ended_cannot_be_cancelled(one, run):
    """Exit 4; its children can, each by itself."""
    ids = grow(one.world, 2)
    book = registry.Registry(one.world.layout)
    book.put(book.workers[ids[0]]._replace(status=WorkerStatus.COMPLETED))
    book.save()

    assert run("cancel", ids[0], *PERSON)[0] == 4
    assert cancel(run, ids[1])[0] == 0


def test_a_cancelled_session_that_a_person_opens_again_is_a_worker_as_before(one, run):
    """It was closed, so it is `gone`; back again it is listed, and may be taken over."""
    one.call("SessionEnd", reason="prompt_input_exit")
    assert cancel(run, "project")[1]["outcomes"] == {one.worker: "gone"}

    one.start("resume")
    (row,) = json.loads(run("--json", "workers")[1])
    assert (row["status"], row["cancel_propagated_from"]) == ("IDLE", None)
    words = ("takeover", "project", "go on", "--timeout", "0.01s", *PERSON)
    assert run(*words)[0] == 0


def test_gc_forgets_a_settled_cancel_after_30_days_and_keeps_an_open_one(one, run):
    """An open one can still be gone on with."""
    ids = grow(one.world, 1)
    cancel(run, ids[0])
    one.prompt()
    open_one = cancel(run, "project", "--wait", "0.1s")[1]["operation"]
    assert collect(one.world)[0]["cancels"] == 0
    one.world.pass_s(31 * 86_400)

    assert collect(one.world, dry_run=True)[0]["cancels"] == 1
    assert collect(one.world)[0]["cancels"] == 1
    folder = Path(one.world.layout("queue", "cancels"))
    assert [path.stem for path in folder.glob("*.json")] == [open_one]
