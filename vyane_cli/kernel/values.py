"""Frozen values for the hook path: named tuples without `typing`, closed lists without `enum`.

Importing `typing` and building one class with it costs a hook 5 ms of its 30 (measured with
`-X importtime`), `dataclasses` twice that, `enum` with two dozen classes 6 ms. `collections` is
already loaded by then. A type checker sees the real classes.
"""

from collections import namedtuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from enum import IntEnum as IntEnum
    from enum import StrEnum as StrEnum
    from typing import Any
    from typing import NamedTuple as NamedTuple
else:

    class _Value(type):
        """Metaclass that turns annotated fields, those with defaults last, into a named tuple."""

        def __new__(cls, name, bases, body):
            if not bases:
                return super().__new__(cls, name, bases, body)
            fields = body.get("__annotations__", {})
            defaults = [body.pop(field) for field in fields if field in body]
            base = namedtuple(name, fields, defaults=defaults, module=body["__module__"])
            return type(name, (base,), {"__slots__": (), **body})

    class NamedTuple(metaclass=_Value):
        """Base class of the frozen values."""

    class _Closed(type):
        """Metaclass that makes the constants of a class its only members, in their order."""

        def __new__(cls, name, bases, body):
            kind = bases[0].__mro__[-2]  # str or int
            constants = {
                key: value
                for key, value in body.items()
                if not key.startswith("_") and isinstance(value, kind)
            }
            made = super().__new__(cls, name, bases, body)
            made._members = {}
            for key, value in constants.items():
                member = kind.__new__(made, value)
                member.name, member.value = key, value
                made._members[value] = member
                setattr(made, key, member)
            return made

        def __call__(cls, value):
            try:
                return cls._members[value]
            except (KeyError, TypeError):
                raise ValueError(f"{value!r} is not a valid {cls.__name__}") from None

        def __contains__(cls, value):
            return value in cls._members

        def __iter__(cls):
            return iter(cls._members.values())

        def __len__(cls):
            return len(cls._members)

    class StrEnum(str, metaclass=_Closed):
        """Base class of closed lists of texts."""

    class IntEnum(int, metaclass=_Closed):
        """Base class of closed lists of numbers."""


class InJson:
    """The JSON form of a report's field, stored in the field's metadata with this class as key.

    Only fields that differ from the default (the field's name as key) need one. It is a plain
    class: a named tuple would cost each hook 0.14 ms, because hooks load this module although
    they render no reports.
    """

    __slots__ = ("form", "key", "omit", "spread")

    def __init__(
        self,
        *,
        omit: bool = False,
        key: str = "",
        spread: bool = False,
        form: "Callable[[Any], object] | None" = None,
    ) -> None:
        self.omit = omit
        """Whether the key is left out if the value is None."""
        self.key = key
        """The JSON key if it differs from the field's name (`from` cannot be a Python name)."""
        self.spread = spread
        """Whether the keys of the value are inserted among the report's own keys, in its place."""
        self.form = form
        """The function that renders the value or each item of a tuple. Stored records have one."""


OMIT = {InJson: InJson(omit=True)}
"""Metadata of a field that is left out of the JSON if it is None."""
