"""The shape of a small JSON object as a table: key → types; a key that ends in `*` is required."""

from collections.abc import Mapping
from typing import Any

from vyane_cli.errors import InvalidInputError

Schema = Mapping[str, tuple[type, ...]]


def check(schema: Schema, data: object, where: str, *, of: str) -> dict[str, Any]:
    """`data` when it fits; InvalidInputError names the first key that does not.

    Keys outside the schema are refused, unless the schema is empty (free form). A bool is no
    number, None is no value.
    """
    if not isinstance(data, dict):
        raise InvalidInputError(where, data, "a JSON object")
    types = {key.rstrip("*"): allowed for key, allowed in schema.items()}
    for key in schema:
        if key.endswith("*") and data.get(key[:-1]) in (None, ""):
            raise InvalidInputError(
                f"{where}.{key[:-1]}", data.get(key[:-1]), f"given: {of} needs it"
            )
    for key, value in data.items() if types else ():
        if key not in types:
            known = ", ".join(types)
            raise InvalidInputError(
                f"{where}.{key}", value, f"a key of {of}", hint=f"known: {known}"
            )
        wrong_bool = isinstance(value, bool) and bool not in types[key]
        if wrong_bool or not isinstance(value, types[key]):
            names = " or ".join(t.__name__ for t in types[key])
            raise InvalidInputError(f"{where}.{key}", value, f"a {names}")
    return data
