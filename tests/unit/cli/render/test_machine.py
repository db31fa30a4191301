"""Reports in JSON: one function, and the few rules that a field may have."""

import json
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import pytest

from vyane_cli.cli.render import machine
from vyane_cli.cli.render.machine import plain
from vyane_cli.kernel import values
from vyane_cli.kernel.values import OMIT, InJson


class Colour(Enum):
    RED = "red"


class Size(values.StrEnum):
    SMALL = "small"


class Stored(values.NamedTuple):
    name: str
    size: Size = Size.SMALL


def render_stored(one: Stored) -> dict[str, Any]:
    return {"name": one.name, "status": "stored", "extra": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    stored: Stored = field(metadata={InJson: InJson(spread=True, form=render_stored)})
    status: str
    sender: str = field(default="ann", metadata={InJson: InJson(key="from")})
    gone: int | None = field(default=None, metadata=OMIT)
    missing: int | None = None
    rows: tuple[Stored, ...] = field(
        default=(), metadata={InJson: InJson(form=lambda one: one.name)}
    )


def test_the_fields_of_a_report_are_its_keys_in_their_order():
    """A field of the same name as a spread key takes the key's place."""
    found = plain(Row(stored=Stored("a"), status="shown", rows=(Stored("b"), Stored("c"))))

    assert list(found.items()) == [
        ("name", "a"),
        ("status", "shown"),
        ("extra", 1),
        ("from", "ann"),
        ("missing", None),
        ("rows", ["b", "c"]),
    ]


def test_a_field_that_may_be_left_out_is_there_when_it_has_a_value():
    """Zero is a value."""
    assert plain(Row(stored=Stored("a"), status="", gone=0))["gone"] == 0


def test_nothing_is_spread_where_there_is_no_value():
    @dataclass(frozen=True)
    class Spread:
        inner: Row | None = field(metadata={InJson: InJson(spread=True)})

    assert plain(Spread(None)) == {}


@pytest.mark.parametrize(
    "value, expected",
    [
        (Stored("a"), '{"name": "a", "size": "small"}'),
        ((Colour.RED, Size.SMALL, {"b", "a"}), '["red", "small", ["a", "b"]]'),
        ({"key": (None, True, 1.5)}, '{"key": [null, true, 1.5]}'),
    ],
)
def test_values_have_one_form(value, expected):
    assert machine.line(value) == expected
    assert json.loads(machine.document(value)) == json.loads(expected)


def test_what_has_no_form_is_refused():
    """It would be a name in angle brackets otherwise, which no program can read."""
    with pytest.raises(TypeError, match="object has no JSON form"):
        plain({"key": [object()]})
