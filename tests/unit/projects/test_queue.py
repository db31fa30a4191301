"""The graph of a project: no cycle is accepted, and the critical path is a longest chain."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vyane_cli.errors import InvalidInputError, NotFoundError
from vyane_cli.projects.queue import (
    Graph,
    GraphNode,
    check_links,
    critical,
    critical_path,
    cycle,
    dependencies,
    find_node,
    parse_graph,
    put_node,
    render_graph,
    sorted_links,
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
