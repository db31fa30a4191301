"""Frozen values for the hook path: `typing.NamedTuple` without `typing`.

Importing `typing` and building a class with it costs a hook 5 ms of its 30 (measured with
`-X importtime`), `dataclasses` twice that. `collections` is loaded by then in any case.
"""

from collections import namedtuple

TYPE_CHECKING = False
if TYPE_CHECKING:
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
