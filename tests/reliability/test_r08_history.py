"""The one checker of all histories: what it lets pass, and what it does not."""

import pytest

from tests.reliability.history import History, Log, gaps, gather, reordered, violations

OK = History(ok={"a:0": "1", "a:1": "2"}, shown=[("1", False), ("2", False)])
STORED = [("1", "a:0"), ("2", "a:1")]


def test_what_was_acknowledged_and_shown_once_passes():
    assert violations(OK, STORED) == []


def test_an_unknown_call_may_have_been_made_or_not():
    """Its process died: both are right."""
    told = History(ok={"a:0": "1"}, unknown={"a:1"}, shown=[("1", False), ("2", False)])

    assert violations(told, STORED) == []
    told.shown.pop()
    assert violations(told, STORED[:1]) == []


@pytest.mark.parametrize(
    "told, stored, fault",
    [
        (OK, STORED[:1], "lost: a:1"),
        (OK, [*STORED, ("3", "a:1")], "doubled: a:1"),
        (OK, [*STORED, ("3", "b:0")], "from nowhere: b:0"),
        (History(failed={"a:0"}, shown=[("1", False)]), STORED[:1], "visible though it failed"),
        (History(ok={"a:0": "9"}, shown=[("1", False)]), STORED[:1], "another id"),
        (History(ok={"a:0": "1"}), STORED[:1], "never shown"),
        (History(ok={"a:0": "1"}, shown=[("1", False)] * 2), STORED[:1], "without a mark"),
        (History(ok={"a:0": "1"}, shown=[("1", False), ("1", True)]), STORED[:1], "nobody died"),
        (History(ok={"a:0": "1"}, shown=[("1", False), ("7", False)]), STORED[:1], "not there"),
        (History(read={"r": [1, 2, 4]}), [], "read 4 after 2"),
        (History(read={"r": [1, 2, 2]}), [], "read 2 after 2"),
    ],
)
def test_each_violation_is_seen(told, stored, fault):
    assert any(fault in one for one in violations(told, stored))


def test_a_marked_second_showing_is_right_when_somebody_died():
    told = History(ok={"a:0": "1"}, shown=[("1", False), ("1", True)])

    assert violations(told, STORED[:1], deaths=1) == []


def test_the_order_of_a_sender_is_its_numbers():
    assert reordered(["a:0", "b:0", "a:1", "b:5"]) == []
    assert reordered(["a:1", "b:0", "a:0"]) == ["order: a:0 stands after 1"]
    assert gaps("r", [3, 4, 5]) == []


def test_logs_are_read_back_as_they_were_written(tmp_path):
    log = Log(tmp_path, "s")
    log("invoke", text="s:0")
    log("ok", text="s:0", id="1")
    log("invoke", text="s:1")  # its process dies
    log("invoke", text="s:2")
    log("failed", text="s:2", error="no")
    log.shown("Message from a, id 01ARZ3NDEKTSV4RRFFQ69G5FAV, redelivered\nbody")
    told = gather(tmp_path)

    assert told.ok == {"s:0": "1"}
    assert told.unknown == {"s:1"}
    assert told.failed == {"s:2"}
    assert told.shown == [("01ARZ3NDEKTSV4RRFFQ69G5FAV", True)]
