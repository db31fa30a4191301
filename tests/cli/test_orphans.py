"""`vyane gc` and the children of a parent that is over."""

import json

from tests.workers import grow
from vyane_cli.attention import needs
from vyane_cli.children.cancel_rules import ORPHANED_S
from vyane_cli.sessions import registry


def _ended(session, one):
    return session._replace(ended="other", ended_at=one.world.clock().at - ORPHANED_S - 1)


def test_a_child_of_a_parent_that_is_over_is_left_to_the_person(one, run):
    """INTERRUPTED with the parent's id, one NEED-USER entry, no signal; and once."""
    ids = grow(one.world, 4, (2,))
    session = registry.load_session(one.world.layout, "s0")
    assert session is not None
    registry.save_session(one.world.layout, _ended(session, one))
    dry = json.loads(run("--json", "gc", "--dry-run")[1])
    first = json.loads(run("--json", "gc")[1])
    again = json.loads(run("--json", "gc")[1])

    assert (dry["orphans"], first["orphans"], again["orphans"]) == (2, 2, 0)
    workers = registry.Registry(one.world.layout).workers
    states = [str(workers[worker_id].status) for worker_id in ids]
    assert states == ["RUNNING", "INTERRUPTED", "RUNNING", "INTERRUPTED"]
    assert workers[ids[1]].cancel_propagated_from == ids[0]
    texts = [entry["text"] for entry in needs.list_entries(one.world.layout)]
    assert [text.split(" ")[0] for text in texts] == ["n1", "n3"]


def test_an_orphan_whose_parent_is_opened_again_is_a_child_as_before(one, run):
    """While nobody opens it, it stays INTERRUPTED, whatever else happens."""
    ids = grow(one.world, 2)
    session = registry.load_session(one.world.layout, "s0")
    assert session is not None
    registry.save_session(one.world.layout, _ended(session, one))
    for _ in range(2):
        run("gc")
        child = registry.Registry(one.world.layout).workers[ids[1]]
        assert (child.status, child.cancel_propagated_from) == ("INTERRUPTED", ids[0])

    registry.save_session(one.world.layout, session)
    run("gc")
    child = registry.Registry(one.world.layout).workers[ids[1]]
    assert (child.status, child.cancel_propagated_from) == ("RUNNING", None)
    assert needs.list_entries(one.world.layout) == [], "nobody has to look after it any more"

    registry.save_session(one.world.layout, _ended(session, one))
    run("gc")
    assert len(needs.list_entries(one.world.layout)) == 1, "and it is told of again"


def test_a_parent_that_is_there_has_no_orphans(one, run):
    """Its children run on."""
    grow(one.world, 4)

    assert json.loads(run("--json", "gc")[1])["orphans"] == 0
