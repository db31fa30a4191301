"""The files of a project: how they could be read, edits beside ours, and claims of rounds."""

import json
import multiprocessing
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.simulated import World, fast_folder
from vyane_cli.errors import ConflictError, CorruptStateError
from vyane_cli.kernel.clock import Clock
from vyane_cli.projects import claims, ledger
from vyane_cli.projects.catalog import create_project, named
from vyane_cli.projects.claim_rules import ENDS, TaskClaim, is_held, renew
from vyane_cli.projects.claims import claim_head, held_tasks
from vyane_cli.projects.goal import GoalState, Readability, Source, judge
from vyane_cli.projects.queue import GraphNode, add
from vyane_cli.projects.task import Ledger, Task, TaskStatus
from vyane_cli.projects.tasks import add_task
from vyane_cli.sessions.liveness_rules import Liveness
from vyane_cli.storage import journal, processes
from vyane_cli.upkeep.gc import collect


@pytest.fixture
def world(world: World) -> World:
    """With the books of a project, p."""
    ledger.make_files(world.layout, "p")
    return world


def fill(world: World, *titles: str) -> None:
    value = Ledger()
    for title in titles:
        value, _ = add(value, Task("", title), 1.0)
    path = world.layout.tasks("p")
    ledger.save_ledger(world.layout, "p", value, ledger.stamp(path))


def write(world: World, source: Source, text: str) -> Path:
    path = Path(ledger.path_of(world.layout, "p", source))
    path.write_text(text)
    return path


def test_the_files_of_a_new_project_are_whole_and_say_nothing(world):
    books = ledger.read(world.layout, "p")

    assert [reading.state for reading in books.readings] == [Readability.EMPTY] * 3
    assert judge(books).state is GoalState.UNKNOWN
    assert ledger.make_files(world.layout, "p") == ()


BROKEN = {
    "no JSON": ('{"tasks": [\n  {"id": "T1",\n}', Readability.DAMAGED, "line 3: not JSON"),
    "half written": ('{"v": 1, "tas', Readability.DAMAGED, "line 1: not JSON"),
    "no byte": ("", Readability.DAMAGED, "line 1: not JSON"),
    "another form": ("[]", Readability.DAMAGED, "not an object"),
    "later": ('{"v": 2, "tasks": []}', Readability.NEWER, "version 2 is newer"),
}


@pytest.mark.parametrize("source", Source)
@pytest.mark.parametrize("kind", BROKEN)
def test_a_file_that_cannot_be_read_says_so_and_never_completes_a_goal(world, source, kind):
    text, state, says = BROKEN[kind]
    path = write(world, source, text)
    books = ledger.read(world.layout, "p")

    reading = books.reading(source)
    assert (reading.state, reading.read) == (state, False)
    assert says in reading.detail
    assert (books.ledger, books.graph, books.goal)[list(Source).index(source)] is None
    assert judge(books).state is GoalState.UNKNOWN
    with pytest.raises(CorruptStateError) as caught:
        ledger.load(world.layout, "p", source)
    assert str(path) in caught.value.message
    assert path.read_text() == text


@pytest.mark.parametrize("source", Source)
def test_a_missing_file_is_no_empty_one(world, source):
    os.remove(ledger.path_of(world.layout, "p", source))
    books = ledger.read(world.layout, "p")

    assert books.reading(source).state is Readability.MISSING
    assert not books.read


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_says_so(world):
    os.chmod(world.layout.tasks("p"), 0)

    assert ledger.read(world.layout, "p").reading(Source.TASKS).state is Readability.UNREADABLE


@pytest.mark.parametrize(
    "tasks, nodes, source, says",
    [
        ([("T1", ["T2"]), ("T2", ["T1"])], [], Source.TASKS, "T1 → T2 → T1"),
        ([("T1", ["T1"])], [], Source.TASKS, "T1 → T1"),
        ([("T1", ["T9"])], [], Source.TASKS, "'T9'"),
        ([("T1", [])], [("a", ["b"])], Source.GRAPH, "'b'"),
        ([("T1", ["a"])], [("a", ["T1"])], Source.GRAPH, "cycle"),
    ],
)
def test_a_bad_link_is_damage_of_the_file_that_has_it(world, tasks, nodes, source, says):
    listed = [{"id": name, "title": "x", "after": after} for name, after in tasks]
    write(world, Source.TASKS, json.dumps({"tasks": listed}))
    write(
        world,
        Source.GRAPH,
        json.dumps({"nodes": [{"id": name, "after": after} for name, after in nodes]}),
    )
    books = ledger.read(world.layout, "p")

    assert books.reading(source).state is Readability.DAMAGED
    assert says in books.reading(source).detail
    assert (books.ledger if source is Source.TASKS else books.graph) is None


def test_a_save_of_an_editor_between_is_not_lost(world):
    path = world.layout.tasks("p")
    before = ledger.stamp(path)
    text = '{"tasks": [{"id": "T1", "title": "by hand"}]}'
    write(world, Source.TASKS, text)

    with pytest.raises(ConflictError) as caught:
        ledger.save_ledger(world.layout, "p", Ledger(), before)
    assert caught.value.slug == "edited"
    assert Path(path).read_text() == text


# ------------------------------------------------------------------ claims


def test_the_table_of_claims_is_total():
    assert set(ENDS) == set(Liveness)


@pytest.mark.parametrize(
    "holder, age_s, held",
    [
        (Liveness.BUSY, 100_000, True),
        (Liveness.IDLE, 1_199, True),
        (Liveness.IDLE, 1_200, False),
        (Liveness.UNKNOWN, 1_199, True),
        (Liveness.UNKNOWN, 1_200, False),
        (Liveness.EXITED, 0, False),
        (Liveness.IDLE, -5_000, True),  # the clock stepped back
    ],
)
def test_a_claim_ends_by_its_holder(holder, age_s, held):
    claim = TaskClaim(task="T1", worker="w-1", round="r", at=0.0, renewed_at=10_000.0)

    assert is_held(claim, holder, Clock((10_000 + age_s) * 1000, 0), 1_200) is held


@given(
    step_s=st.integers(-10_000_000, 10_000_000),
    age_s=st.integers(0, 5_000),
    holder=st.sampled_from(sorted(Liveness)),
)
def test_no_step_of_the_wall_clock_ends_a_claim_or_keeps_it(step_s, age_s, holder):
    clock = Clock(10_000_000_000, 5_000, "boot", 4_000)
    claim = renew(TaskClaim(task="T1", worker="w-1", round="r", at=0.0, renewed_at=0.0), clock)
    later = clock._replace(
        now_ms=clock.now_ms + (age_s + step_s) * 1000, awake_ms=clock.awake_ms + age_s * 1000
    )
    still = clock._replace(now_ms=clock.now_ms + age_s * 1000, awake_ms=later.awake_ms)

    assert is_held(claim, holder, later, 1_200) is is_held(claim, holder, still, 1_200)


@pytest.mark.parametrize("wall_s, held", [(-1, False), (1_199, True), (1_200, False)])
def test_a_claim_of_an_earlier_boot_goes_by_the_wall_clock_and_not_into_the_future(wall_s, held):
    claim = renew(
        TaskClaim(task="T1", worker="w-1", round="r", at=0.0, renewed_at=0.0),
        Clock(10_000_000, 900_000, "one"),
    )
    later = Clock(10_000_000 + wall_s * 1000, 5_000, "two")

    assert is_held(claim, Liveness.UNKNOWN, later, 1_200) is held


def test_a_claimed_task_is_not_given_to_the_next_round(world):
    fill(world, "one", "two")

    first, second = claim_head(world, "p", "r1"), claim_head(world, "p", "r2")
    assert [one.task.id for one in (first, second) if one] == ["T1", "T2"]
    assert claim_head(world, "p", "r3") is None
    assert held_tasks(world, "p") == {"T1", "T2"}


def test_a_claim_of_a_dead_round_without_a_worker_is_free_and_kept_aside(world):
    fill(world, "one")
    dead = processes.myself()._replace(start=1)
    claims.take(
        world.layout,
        "p",
        TaskClaim(
            task="T1", worker="w-000000000000", round="r1", at=1.0, renewed_at=1.0, process=dead
        ),
    )

    taken = claim_head(world, "p", "r2")
    assert taken is not None
    assert taken.claim.round == "r2"
    assert os.listdir(world.layout("projects", "p", "claims-stale")) == ["T1-r1.json"]


def test_a_claim_whose_worker_is_on_record_outlives_its_round(world):
    fill(world, "one")
    worker = world.register("busy-one", pid=os.getpid())
    dead = processes.myself()._replace(start=1)
    claims.take(
        world.layout,
        "p",
        TaskClaim(
            task="T1",
            worker=worker,
            round="r1",
            at=world.clock().at,
            renewed_at=world.clock().at,
            process=dead,
        ),
    )

    assert claim_head(world, "p", "r2") is None
    world.pass_s(1_201)
    assert claim_head(world, "p", "r3") is not None  # it is idle and has not reported


def test_a_claim_that_cannot_be_read_is_held(world):
    fill(world, "one")
    Path(world.layout("projects", "p", "claims")).mkdir()
    Path(world.layout.claim("p", "T1")).write_text("{")

    assert claim_head(world, "p", "r1") is None


def test_nothing_is_claimed_from_a_ledger_that_cannot_be_read(world):
    write(world, Source.TASKS, "{")

    with pytest.raises(CorruptStateError):
        claim_head(world, "p", "r1")
    assert claims.list_claims(world.layout, "p") == ()


def test_claims_by_which_no_start_counts_any_more_go_after_a_month(world, tmp_path):
    """Of a task that is done, gone, or was put back since; the others say how often it failed."""
    create_project(world, "p", str(tmp_path))
    tasks = (
        Task("T1", "one", status=TaskStatus.DONE, no_artifact_reason="none"),
        Task("T2", "two", generation=1),
    )
    path = world.layout.tasks("p")
    ledger.save_ledger(world.layout, "p", Ledger(tasks, next=9), ledger.stamp(path))
    at = world.clock().at
    for task, generation in (("T1", 0), ("T2", 0), ("T2", 1), ("T7", 0)):
        claim = TaskClaim(
            task=task,
            worker="w-1",
            round=f"r{generation}",
            at=at,
            renewed_at=at,
            generation=generation,
        )
        claims.save(world.layout, "p", claim)
        claims.free(world.layout, "p", claim)

    world.pass_s(29 * 86_400)
    assert collect(world)[0]["claims"] == 0
    world.pass_s(86_401)
    assert collect(world, dry_run=True)[0]["claims"] == 3
    assert len(claims.all_stale(world.layout, "p")) == 4
    assert collect(world)[0]["claims"] == 3
    assert os.listdir(world.layout("projects", "p", "claims-stale")) == ["T2-r1.json"]


def test_no_claim_goes_while_the_ledger_cannot_be_read(world, tmp_path):
    create_project(world, "p", str(tmp_path))
    claim = TaskClaim(task="T1", worker="w-1", round="r", at=1.0, renewed_at=1.0)
    claims.save(world.layout, "p", claim)
    claims.free(world.layout, "p", claim)
    write(world, Source.TASKS, "{")

    assert collect(world)[0]["claims"] == 0
    assert claims.stale(world.layout, "p", "T1") == (claim,)


def _claim(root: str, barrier, found) -> None:
    world = World(Path(root))
    barrier.wait()
    taken = claim_head(world, "p", f"r{os.getpid()}")
    found.put(taken.task.id if taken is not None else None)
    barrier.wait()  # alive until all have looked


def test_of_eight_rounds_at_once_one_starts_the_task(world):
    fill(world, "one")
    context = multiprocessing.get_context("spawn")
    barrier, found = context.Barrier(8), context.Queue()
    rounds = [
        context.Process(target=_claim, args=(world.layout.root, barrier, found)) for _ in range(8)
    ]
    for one in rounds:
        one.start()
    taken = [found.get(timeout=60) for _ in rounds]
    for one in rounds:
        one.join(60)

    assert sorted(taken, key=str) == [None] * 7 + ["T1"]


def _add(root: str, folder: str, barrier) -> None:
    world = World(Path(root))
    barrier.wait()
    for number in range(5):
        add_task(world, named(world, "q"), Task("", f"task {number} of {os.getpid()}"))


def test_of_four_writers_at_once_no_task_is_lost_and_no_id_is_used_twice(world, tmp_path):
    create_project(world, "q", str(tmp_path))
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(4)
    writers = [
        context.Process(target=_add, args=(world.layout.root, str(tmp_path), barrier))
        for _ in range(4)
    ]
    for one in writers:
        one.start()
    for one in writers:
        one.join(120)

    books = ledger.read(world.layout, "q")
    assert books.ledger is not None
    assert [task.id for task in books.ledger.tasks] == [f"T{n}" for n in range(1, 21)]
    assert len({task.title for task in books.ledger.tasks}) == 20
    assert books.ledger.revision == 20
    records = [line.record for line in journal.read(world.layout.tasks_events("q"))]
    assert [record["revision"] for record in records if record] == list(range(1, 21))


# ------------------------------------------------------------------ whatever people write

leaves = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
    | st.sampled_from(["T1", "T2", "pending", "done", "blocked", "pass", "fail", 10**400, "\ud800"])
)  # fmt: skip
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
tasks_like = st.fixed_dictionaries(
    {}, optional=dict.fromkeys((*Task._fields, "later"), values)
)  # fmt: skip
nodes_like = st.fixed_dictionaries(
    {}, optional=dict.fromkeys((*GraphNode._fields, "later"), values)
)
documents = {
    Source.TASKS: st.fixed_dictionaries(
        {"tasks": st.lists(tasks_like, max_size=3) | values},
        optional={"revision": values, "next": values, "later": values, "v": values},
    ),
    Source.GRAPH: st.fixed_dictionaries(
        {"nodes": st.lists(nodes_like, max_size=3) | values}, optional={"revision": values}
    ),
    Source.GOAL: st.fixed_dictionaries(
        {}, optional={"title": values, "accepted": values, "set_at": values, "revision": values,
                      "acceptance_state": values | st.dictionaries(st.text(max_size=3), values)},
    ),
}  # fmt: skip


documents = {
    Source.TASKS: documents[Source.TASKS]
    | values.map(lambda odd: {"tasks": [{"id": "T1", "title": "x", "later": odd}]})
    | values.map(lambda odd: {"tasks": [], "later": odd}),
    Source.GRAPH: documents[Source.GRAPH]
    | values.map(lambda odd: {"nodes": [{"id": "a", "later": odd}]}),
    Source.GOAL: documents[Source.GOAL] | values.map(lambda odd: {"title": "x", "later": odd}),
}


@settings(max_examples=300, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_whatever_stands_in_a_file_it_is_read_or_named_and_what_is_read_can_be_kept(data):
    """No traceback, no guess, and no value that the next write would lose or choke on."""
    source = data.draw(st.sampled_from(tuple(Source)))
    value = data.draw(documents[source])
    with fast_folder() as folder:
        layout = World(folder / "vyane").layout
        ledger.make_files(layout, "p")
        path = ledger.path_of(layout, "p", source)
        Path(path).write_text(json.dumps(value))
        books = ledger.read(layout, "p")
        reading = books.reading(source)
        judge(books)

        if not reading.read:
            assert reading.detail
            return
        stamp = ledger.stamp(path)
        match source:
            case Source.TASKS:
                ledger.save_ledger(layout, "p", books.ledger, stamp)
            case Source.GRAPH:
                ledger.save_graph(layout, "p", books.graph, stamp)
            case Source.GOAL:
                ledger.save_goal(layout, "p", books.goal, stamp)
        again = ledger.read(layout, "p")
        assert again.read
        for before, after in zip(books[2:], again[2:], strict=True):
            kept = before is None or after._replace(revision=before.revision) == before
            assert kept
