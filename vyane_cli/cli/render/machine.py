"""Results for programs: one JSON document, or one document a line for streams."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from vyane_cli.kernel.values import InJson


def document(value: object) -> str:
    """Return a value as one JSON document, indented on a terminal and compact elsewhere."""
    import sys

    indent = 2 if sys.stdout.isatty() else None
    return _dump(value, indent)


def line(value: object) -> str:
    """Return a value as one JSON document on one line."""
    return _dump(value, None)


def plain(value: object) -> Any:
    """Convert the result of an operation to JSON values.

    A record (dataclass or named tuple) becomes an object with the record's fields, in their order
    and by their names. `InJson` in the metadata of a dataclass field overrides this for the field.
    A tuple, a list or a set becomes an array; sets are sorted. A member of an Enum becomes its
    value. Raises TypeError for any other type.
    """
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, Mapping):
        return {key: plain(one) for key, one in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return _object(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {name: plain(getattr(value, name)) for name in value._fields}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, (set, frozenset)):
        return sorted(plain(one) for one in value)
    if isinstance(value, Enum):
        return plain(value.value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _object(record: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in fields(record):
        rule = field.metadata.get(InJson, InJson())
        value = getattr(record, field.name)
        if value is None and rule.omit:
            continue
        formed = plain(_formed(rule, value))
        if rule.spread:
            found.update(formed or {})
        else:
            found[rule.key or field.name] = formed
    return found


def _formed(rule: InJson, value: Any) -> object:
    """Apply the field's own render function to the value, or to each item of a tuple or list."""
    if rule.form is None or value is None:
        return value
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return [rule.form(one) for one in value]
    return rule.form(value)


def _dump(value: object, indent: int | None) -> str:
    text = json.dumps(plain(value), ensure_ascii=False, indent=indent)
    return text.translate(_HIDDEN).encode("utf-8", "replace").decode()


_HIDDEN = {
    code: f"\\u{code:04x}"
    for start, stop in ((0x7F, 0xA0), (0x200B, 0x2010), (0x2028, 0x202F), (0x2060, 0x2070))
    for code in range(start, stop)
}
"""Characters that JSON allows but a terminal acts on or hides; they are printed as escapes."""
