"""Frozen values for the hook path: named tuples without `typing`, closed lists without `enum`.

Importing `typing` and building a class with it costs a hook 5 ms of its 30 (measured with
`-X importtime`), `dataclasses` twice that, `enum` and two dozen classes of it 6 ms. `collections`
is loaded by then in any case. A type checker sees the real ones.
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
        """Makes a class of annotated fields, with defaults at the end, a named tuple."""

        def __new__(cls, name, bases, body):
            if not bases:
                return super().__new__(cls, name, bases, body)
            fields = body.get("__annotations__", {})
            defaults = [body.pop(field) for field in fields if field in body]
            base = namedtuple(name, fields, defaults=defaults, module=body["__module__"])
            return type(name, (base,), {"__slots__": (), **body})

    class NamedTuple(metaclass=_Value):
        """Base of the values."""

    class _Closed(type):
        """Makes the constants of a class its only members, in their order."""

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
        """Base of the closed lists of texts."""

    class IntEnum(int, metaclass=_Closed):
        """Base of the closed lists of numbers."""


class InJson:
    """How a field of a report stands in JSON: in the metadata of the field, under this class.

    Only where it does not simply stand there by its name. No named tuple, which would cost each
    hook 0.14 ms: hooks load this module, and render no reports.
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
        """Leave the key out when the value is None."""
        self.key = key
        """The key, where it is not the name of the field (`from` is no name)."""
        self.spread = spread
        """The keys of the value stand among those of the report, at its place."""
        self.form = form
        """The function that renders the value, or each item of a tuple: a stored record has one."""


OMIT = {InJson: InJson(omit=True)}
"""Metadata of a field that is left out when it is None."""
