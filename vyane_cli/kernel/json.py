"""JSON for the hook path: the C scanner and encoder of `json`, without importing `json` itself.

Importing `json` compiles regular expressions that only its Python fallback needs: 6 ms of a hook's
30. The C parts are not a documented interface. If they are missing or do not behave as expected,
`json` itself does the work. Both accept the same dialect and refuse everything that is not JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from vyane_cli.errors import InvalidInputError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


SPACE = " \t\n\r"


class _Rules:
    """The attributes that the C scanner reads from a decoder: defaults of `json.JSONDecoder`."""

    object_hook = object_pairs_hook = None
    parse_float, parse_int = float, int
    parse_constant = {"-Infinity": -float("inf"), "Infinity": float("inf"), "NaN": float("nan")}.get

    def __init__(self, strict: bool) -> None:
        self.memo: dict[str, str] = {}
        self.strict = strict
        """Whether control characters inside strings are refused."""


def _refuse(value: object) -> object:
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _by_c() -> tuple[Callable[..., Any], Callable[..., str]]:
    from _json import encode_basestring, encode_basestring_ascii, make_encoder, make_scanner

    scanners = {
        strict: make_scanner(_Rules(strict))  # type: ignore[arg-type]
        for strict in (True, False)
    }
    encoders = {
        plain: make_encoder(None, _refuse, text, None, ":", ",", False, False, False)
        for plain, text in ((True, encode_basestring_ascii), (False, encode_basestring))
    }

    def scan(text: str, strict: bool) -> Any:
        start = len(text) - len(text.lstrip(SPACE))
        try:
            value, end = scanners[strict](text, start)
        except StopIteration:
            raise ValueError("not JSON") from None
        if text[end:].strip(SPACE):
            raise ValueError("more than one JSON value")
        return value

    def encode(value: object, ascii_only: bool) -> str:
        return "".join(encoders[ascii_only](value, 0))

    probe = '{"a":[1,-2.5,null,true,"\\u00e9"]}'
    if encode(scan(probe, True), True) != probe:
        raise ImportError("the C parts of json are not as expected")
    return scan, encode


def _by_json() -> tuple[Callable[..., Any], Callable[..., str]]:
    import json

    def scan(text: str, strict: bool) -> Any:
        return json.loads(text, strict=strict)

    def encode(value: object, ascii_only: bool) -> str:
        return json.dumps(value, ensure_ascii=ascii_only, separators=(",", ":"), allow_nan=False)

    return scan, encode


try:
    _scan, _encode = _by_c()
except (ImportError, TypeError, ValueError, AttributeError):
    _scan, _encode = _by_json()


def loads(data: bytes | str, *, strict: bool = True) -> Any:
    """Parse a JSON text; bytes are UTF-8. Raise ValueError or RecursionError if it is not JSON."""
    text = data.decode("utf-8", "surrogatepass") if isinstance(data, bytes) else data
    return _scan(text, strict)


def dumps(value: object, *, ascii_only: bool = False) -> str:
    """Render compact JSON. ValueError for NaN and infinities, TypeError for unsupported types."""
    return _encode(value, ascii_only)


Schema = Mapping[str, tuple[type, ...]]


DEPTH_MAX = 64


def clean(value: Any, where: str, depth: int = 0) -> Any:
    """Return `value` in a form that every JSON reader accepts, or raise InvalidInputError.

    Lone surrogates become U+FFFD. NaN, infinities, integers over 64 bits and deep nesting are
    refused, because some readers return them changed.
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
    """Return `data` if it fits the schema; InvalidInputError names the first key that does not.

    Keys outside the schema are refused, unless the schema is empty (free form). A bool does not
    count as a number, nor None as a value.
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
