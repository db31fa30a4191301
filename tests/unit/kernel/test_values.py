"""`kernel.values` is what it stands in for: closed lists as `enum` has them, tuples as `typing`."""

import enum
import importlib
import pkgutil
import typing

import pytest

import vyane_cli
from vyane_cli.kernel import values


def closed_lists() -> list[type]:
    """Every closed list of texts in the package."""
    found = []
    for module in pkgutil.walk_packages(vyane_cli.__path__, "vyane_cli."):
        if module.name.endswith("__main__"):
            continue
        for one in vars(importlib.import_module(module.name)).values():
            closed = isinstance(one, type) and issubclass(one, values.StrEnum)
            if closed and one is not values.StrEnum:
                found.append(one)
    return list(dict.fromkeys(found))


@pytest.mark.parametrize("mine", closed_lists(), ids=lambda one: f"{one.__module__}.{one.__name__}")
def test_a_closed_list_is_what_enum_would_have_made_of_it(mine: typing.Any) -> None:
    """Type checkers see `enum`: nothing that they allow may be otherwise at run time."""
    theirs: typing.Any = enum.StrEnum("Theirs", {one.name: str(one) for one in mine})

    assert [(one.name, one.value, str(one), f"{one}") for one in mine] == [
        (one.name, one.value, str(one), f"{one}") for one in theirs
    ]
    assert len(mine) == len(theirs) > 0
    for one in mine:
        assert mine(str(one)) is mine(one) is getattr(mine, one.name) is one
        assert (one in mine, hash(one), one == str(one)) == (True, hash(str(one)), True)
        assert isinstance(one, mine)
        assert isinstance(one, str)


@pytest.mark.parametrize("wrong", ["", "nothing", None, 7, ["x"], {}])
def test_what_is_no_member_is_a_value_error(wrong: object) -> None:
    class Colour(values.StrEnum):
        RED = "red"

    with pytest.raises(ValueError, match="is not a valid Colour"):
        Colour(wrong)  # type: ignore[arg-type]  # that is the point


def test_numbers_and_methods_are_kept() -> None:
    class Level(values.IntEnum):
        """Levels."""

        LOW = 1
        HIGH = 2

        @property
        def loud(self) -> bool:
            return self is Level.HIGH

    assert [int(one) for one in Level] == [1, 2]
    assert (Level.LOW.loud, Level(2).loud, Level.HIGH.name) == (False, True, "HIGH")
    assert sorted([Level.HIGH, Level.LOW]) == [Level.LOW, Level.HIGH]
    assert Level.__doc__ == "Levels."
