"""The shape of a small JSON object as a table: key → types; a key that ends in `*` is required."""

from __future__ import annotations

from collections.abc import Mapping

from vyane_cli.errors import InvalidInputError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

Schema = Mapping[str, tuple[type, ...]]


DEPTH_MAX = 64


def clean(value: Any, where: str, depth: int = 0) -> Any:
    """`value` as every JSON reader takes it, or InvalidInputError.

    Lone surrogates become U+FFFD; NaN, infinities, integers over 64 bits and deep nesting are
    refused, because not every reader gives them back as they were.
    """
    if depth > DEPTH_MAX:
        raise InvalidInputError(where, "…", f"nested at most {DEPTH_MAX} deep")
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, float) and value - value != 0:
        raise InvalidInputError(where, str(value), "a finite number")
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        raise InvalidInputError(where, str(value)[:40], "a number of at most 64 bits")
    if isinstance(value, dict):
        return {
            clean(str(key), where): clean(item, f"{where}.{key}"[:80], depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [clean(item, where, depth + 1) for item in value]
    return value


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
                f"{where}.{key[:-1]}", data.get(key[:-1]), f"given: {of} needs it", missing=True
            )
    for key, value in data.items() if types else ():
        if key not in types:
            known = ", ".join(types)
            raise InvalidInputError(where, key, f"a key of {of}", hint=f"known: {known}")
        wrong_bool = isinstance(value, bool) and bool not in types[key]
        if wrong_bool or not isinstance(value, types[key]):
            names = " or ".join(t.__name__ for t in types[key])
            raise InvalidInputError(f"{where}.{key}", value, f"a {names}")
    return data
