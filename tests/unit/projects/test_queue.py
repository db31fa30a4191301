"""The queue of a project: its graph, what may start and in which order, and what reports change."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vyane_cli.errors import ConflictError, InvalidInputError, NotFoundError, RefusedError
from vyane_cli.projects.queue import (
    Graph,
    GraphNode,
    add,
    blocked,
    check_links,
    critical,
    critical_path,
    cycle,
    dependencies,
    find_node,
    find_task,
    has_queue,
    parse_graph,
    put_node,
    render_graph,
    sorted_links,
    startable,
    transition,
    waiting_for,
)
from vyane_cli.projects.task import (
    TRANSITIONS,
    Ledger,
    Task,
    TaskStatus,
    TaskUpdate,
    parse_ledger,
    render_ledger,
)

NAMES = [f"n{number}" for number in range(7)]
any_links = st.dictionaries(
    st.sampled_from(NAMES), st.lists(st.sampled_from(NAMES), max_size=3, unique=True)
).map(lambda drawn: {name: tuple(drawn.get(name, ())) for name in NAMES})
acyclic = any_links.map(
    lambda links: {name: tuple(o for o in after if o < name) for name, after in links.items()}
)


def longest_chains(links):
    """Every longest chain, by trying all."""
    chains = [
        chain
        for size in range(1, len(links) + 1)
        for chain in itertools.permutations(links, size)
        if all(a in links[b] for a, b in itertools.pairwise(chain))
    ]
    longest = max(map(len, chains))
    return [chain for chain in chains if len(chain) == longest]


@given(any_links)
def test_a_cycle_is_found_exactly_when_there_is_one(links):
    found = cycle(links)
    if found:
        for name, following in itertools.pairwise((*found, found[0])):
            assert following in links[name]
        with pytest.raises(InvalidInputError) as caught:
            check_links(links)
        assert caught.value.slug == "cycle"
        assert all(name in caught.value.message for name in found)
    else:
        check_links(links)
        order = sorted_links(links)
        assert sorted(order) == sorted(links)
        assert all(order.index(o) < order.index(n) for n in links for o in links[n])


@given(acyclic.map(lambda links: {name: links[name] for name in NAMES[:5]}))
def test_the_critical_path_is_a_longest_chain_and_critical_are_all_of_such(links):
    links = {name: tuple(o for o in after if o in links) for name, after in links.items()}
    chains = longest_chains(links)

    assert critical_path(links) in chains
    assert critical(links) == {name for chain in chains for name in chain}


def test_a_graph_of_ten_thousand_steps_in_a_row_is_no_recursion():
    links = {str(n): ((str(n - 1),) if n else ()) for n in range(10_000)}

    check_links(links)
    assert critical(links) == set(links)
    assert cycle({**links, "0": ("9999",)})


def test_nothing_left_has_no_critical_path():
    assert critical({}) == frozenset()
    assert critical_path({}) == ()


def test_a_link_to_a_name_that_is_not_there_names_the_nearest():
    with pytest.raises(NotFoundError) as caught:
        check_links({"T1": ("desing",), "design": ()})

    assert "design" in caught.value.hint


def test_a_task_that_is_not_there_yet_is_not_named_as_the_nearest():
    with pytest.raises(NotFoundError) as caught:
        check_links({"T1": (), "T3": ("T9",)})

    assert "T1" in caught.value.hint
    assert "T3" not in caught.value.hint


def test_a_node_with_the_id_of_a_task_adds_links_to_it():
    graph = Graph((GraphNode("design"), GraphNode("T2", after=("design",))))

    assert dependencies([("T1", ()), ("T2", ("T1",))], graph) == {
        "T1": (), "T2": ("T1", "design"), "design": (),
    }  # fmt: skip


def test_a_graph_comes_back_as_it_was_with_what_is_not_known():
    data = {"_about": "mine", "nodes": [{"id": "a", "done": True, "x": 1}, {"id": "b",
            "after": ["a"], "title": "then"}]}  # fmt: skip

    graph = parse_graph(data)
    assert parse_graph(render_graph(graph)) == graph
    assert render_graph(graph)["nodes"][0]["x"] == 1
    assert render_graph(graph)["_about"] == "mine"


@pytest.mark.parametrize(
    "data, says",
    [
        ({}, '"nodes" is not a list'),
        ({"nodes": [1]}, "nodes[0] is not an object"),
        ({"nodes": [{"id": "a b"}]}, "nodes[0].id: 'a b' is not an id"),
        ({"nodes": [{"id": "a", "done": "yes"}]}, "nodes[0] (a).done: 'yes' is not true or false"),
        ({"nodes": [{"id": "a", "after": "b"}]}, "nodes[0] (a).after: 'b' is not a list"),
        ({"nodes": [{"id": "a"}, {"id": "a"}]}, "two nodes have the id a"),
        ({"nodes": [], "revision": "x"}, "revision"),
    ],
)
def test_what_is_wrong_in_an_edited_graph_is_named_by_its_place(data, says):
    with pytest.raises(ValueError, match=r".+") as caught:
        parse_graph(data)

    assert says in str(caught.value)


def test_a_node_is_put_once_and_found_by_its_id():
    graph = put_node(put_node(Graph(), GraphNode("a")), GraphNode("a", "again"))

    assert find_node(graph, "a").title == "again"
    with pytest.raises(NotFoundError):
        find_node(graph, "b")
    with pytest.raises(InvalidInputError):
        put_node(graph, GraphNode("a b"))


PENDING, RUNNING, DONE, BLOCKED = TaskStatus
GRAPH = Graph()


def whole(status: TaskStatus, **more: str) -> TaskUpdate:
    """A change with all that its status needs."""
    return TaskUpdate(
        status,
        reason="waits for a key" if status is BLOCKED else "",
        no_artifact_reason="a talk" if status is DONE else "",
        **more,
    )


def ledger_of(*tasks: Task) -> Ledger:
    ledger = Ledger()
    for task in tasks:
        ledger, _ = add(ledger, task, 1.0)
    return ledger


def titled(title: str = "a task", **more: object) -> Task:
    return Task("", title, **more)  # type: ignore[arg-type]


def at(status: TaskStatus) -> Ledger:
    """A ledger with one task of this status."""
    ledger = ledger_of(titled())
    return ledger if status is PENDING else transition(ledger, GRAPH, "T1", whole(status), 2.0)


@pytest.mark.parametrize("before", TaskStatus)
@pytest.mark.parametrize("after", TaskStatus)
def test_a_task_moves_only_as_the_table_says(before, after):
    ledger = at(before)
    if before is after or after in TRANSITIONS[before]:
        moved = transition(ledger, GRAPH, "T1", whole(after), 9.0).tasks[0]
        assert moved.status is after
        assert moved.changed_at == (9.0 if before is not after else ledger.tasks[0].changed_at)
    else:
        with pytest.raises(ConflictError):
            transition(ledger, GRAPH, "T1", whole(after), 9.0)


@pytest.mark.parametrize(
    "change, field",
    [
        (TaskUpdate(BLOCKED), "reason"),
        (TaskUpdate(BLOCKED, reason="  "), "reason"),
        (TaskUpdate(DONE), "artifact"),
        (TaskUpdate(DONE, no_artifact_reason=" "), "artifact"),
        (TaskUpdate(DONE, artifact="a", no_artifact_reason="b"), "no-artifact-reason"),
        (TaskUpdate(RUNNING, reason="why"), "reason"),
        (TaskUpdate(RUNNING, artifact="a"), "artifact"),
        (TaskUpdate(BLOCKED, reason="x", artifact="a"), "artifact"),
    ],
)
def test_a_report_that_lacks_what_its_status_needs_changes_nothing(change, field):
    with pytest.raises(InvalidInputError) as caught:
        transition(at(PENDING), GRAPH, "T1", change, 2.0)

    assert caught.value.field == field


def test_leaving_blocked_clears_the_reason_and_the_first_start_is_kept():
    ledger = transition(at(PENDING), GRAPH, "T1", whole(RUNNING), 2.0)
    ledger = transition(ledger, GRAPH, "T1", whole(BLOCKED), 3.0)
    assert ledger.tasks[0].reason == "waits for a key"

    ledger = transition(ledger, GRAPH, "T1", whole(RUNNING), 4.0)
    assert (ledger.tasks[0].reason, ledger.tasks[0].started_at) == ("", 2.0)

    ledger = transition(ledger, GRAPH, "T1", whole(DONE), 5.0)
    assert ledger.tasks[0].ended_at == 5.0

    opened = transition(ledger, GRAPH, "T1", whole(PENDING), 6.0).tasks[0]
    assert (opened.ended_at, opened.no_artifact_reason) == (None, "")


def test_of_the_tasks_of_one_line_one_runs_and_other_lines_go_on():
    ledger = ledger_of(titled(line="api"), titled(line="api"), titled(line="web"), titled())
    ledger = transition(ledger, GRAPH, "T1", whole(RUNNING), 2.0)

    assert [task.id for task in startable(ledger, GRAPH)] == ["T3", "T4"]
    with pytest.raises(RefusedError) as caught:
        transition(ledger, GRAPH, "T2", whole(RUNNING), 3.0)
    assert caught.value.slug == "line_busy"
    ledger = transition(ledger, GRAPH, "T1", whole(DONE), 4.0)
    assert transition(ledger, GRAPH, "T2", whole(RUNNING), 5.0).tasks[1].status is RUNNING


def test_a_task_starts_when_all_that_it_comes_after_is_done_also_nodes_of_the_graph():
    graph = Graph((GraphNode("design"), GraphNode("T2", after=("design",))))
    ledger = ledger_of(titled(), titled(after=("T1",)))

    assert waiting_for(ledger, graph, ledger.tasks[1]) == ("T1", "design")
    with pytest.raises(RefusedError) as caught:
        transition(ledger, graph, "T2", whole(RUNNING), 2.0)
    assert caught.value.slug == "not_ready"
    ledger = transition(ledger, graph, "T1", whole(DONE), 3.0)
    assert startable(ledger, graph) == ()
    ready = Graph((GraphNode("design", done=True), GraphNode("T2", after=("design",))))
    assert [task.id for task in startable(ledger, ready)] == ["T2"]


def test_the_head_lies_on_the_critical_path_then_comes_by_order_then_by_number():
    ledger = ledger_of(
        titled(), titled(order=1), titled(), titled(after=("T3",)), titled(after=("T4",))
    )

    assert [task.id for task in startable(ledger, GRAPH)] == ["T3", "T1", "T2"]
    ledger = ledger_of(*(titled() for _ in range(11)), titled(order=-1))
    assert [task.id for task in startable(ledger, GRAPH)][:3] == ["T12", "T1", "T2"]
    assert [task.id for task in startable(ledger, GRAPH)][-1] == "T11"


def test_a_claimed_task_and_its_line_are_not_started():
    ledger = ledger_of(titled(line="api"), titled(line="api"), titled())

    assert [task.id for task in startable(ledger, GRAPH, {"T1"})] == ["T3"]


@pytest.mark.parametrize("status", TaskStatus)
def test_the_queue_is_what_is_pending_or_running(status):
    assert has_queue(at(status)) == (status in (PENDING, RUNNING))
    assert bool(blocked(at(status))) == (status is BLOCKED)


def test_an_unknown_task_names_the_nearest():
    with pytest.raises(NotFoundError) as caught:
        find_task(ledger_of(titled(), titled()), "T11")

    assert "T1" in caught.value.hint
    assert find_task(ledger_of(titled()), "t1").id == "T1"


names = st.sampled_from(["T1", "T2", "T3", "T4"])
changes = st.builds(lambda name, status: (name, whole(status, worker="w-1")), names,
                    st.sampled_from(tuple(TaskStatus)))  # fmt: skip


@given(lines=st.lists(st.sampled_from(["", "api", "web"]), min_size=4, max_size=4),
       afters=st.lists(st.booleans(), min_size=4, max_size=4),
       reports=st.lists(changes, max_size=30))  # fmt: skip
def test_whatever_is_reported_the_ledger_keeps_its_rules(lines, afters, reports):
    """
    One task of a line runs at most; what runs had all before it done when it began;
    a blocked task has a reason and no other has; done has something to show.
    """
    ledger = ledger_of(
        *(titled(line=line, after=(f"T{n}",) if n and after else ())
          for n, (line, after) in enumerate(zip(lines, afters, strict=True)))
    )  # fmt: skip
    for moment, (name, change) in enumerate(reports, 10):
        before = ledger
        try:
            ledger = transition(ledger, GRAPH, name, change, float(moment))
        except (ConflictError, RefusedError):
            assert ledger == before
            continue
        task = find_task(ledger, name)
        assert task.status is change.status
        if change.status is RUNNING and find_task(before, name).status is not RUNNING:
            assert not waiting_for(before, GRAPH, task)
        running = [t.line for t in ledger.tasks if t.status is RUNNING and t.line]
        assert len(running) == len(set(running))
        for one in ledger.tasks:
            assert bool(one.reason) == (one.status is BLOCKED)
            assert bool(one.no_artifact_reason) == (one.status is DONE)
            assert (one.ended_at is not None) == (one.status is DONE)
        assert all(t.status is PENDING for t in startable(ledger, GRAPH))
    again = parse_ledger(json.loads(json.dumps(render_ledger(ledger))))
    assert again == ledger
