"""The table of events, and what does not fit it."""

import pytest

from vyane_cli.errors import InvalidInputError
from vyane_cli.timeline.events import CATEGORIES, PRODUCED, SCHEMAS, EventKind, check_event


def test_the_tables_of_events_are_total() -> None:
    assert set(CATEGORIES) == set(SCHEMAS) == set(EventKind)
    assert set(PRODUCED) < set(EventKind)


@pytest.mark.parametrize(
    "kind, payload, slug",
    [
        ("ToolHeard", {}, "unknown_kind"),
        ("ToolObserved", {"tool": "Bash", "seq": 3}, "extra_key"),
        ("ToolObserved", {"tool": "Bash", "turn_id": "x"}, "extra_key"),
        ("TurnFinished", {"outcome": "done"}, "wrong_outcome"),
        ("ToolObserved", {}, "invalid_input"),
        ("ToolObserved", [], "invalid_input"),
        ("ResultObserved", {"digest": "d", "chars": True}, "invalid_input"),
    ],
)
def test_a_payload_that_does_not_fit_its_kind_is_refused_by_name(kind, payload, slug) -> None:
    with pytest.raises(InvalidInputError) as caught:
        check_event(kind, payload)

    assert caught.value.slug == slug
