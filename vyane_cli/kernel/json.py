"""JSON for the hook path: the C scanner and encoder that `json` uses, without importing `json`.

Importing `json` compiles regular expressions that only its Python fallback needs: 6 ms of a hook's
30. The C parts are not documented as an interface, so where they are not as expected, or on an
interpreter without them, `json` itself does the work. One dialect: what is not JSON is refused.
"""

from __future__ import annotations

from collections.abc import Callable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SPACE = " \t\n\r"


class _Rules:
    """What the scanner asks of a decoder: the defaults of `json.JSONDecoder`."""

    object_hook = object_pairs_hook = None
    parse_float, parse_int = float, int
    parse_constant = {"-Infinity": -float("inf"), "Infinity": float("inf"), "NaN": float("nan")}.get

    def __init__(self, strict: bool) -> None:
        self.memo: dict[str, str] = {}
        self.strict = strict
        """Whether control characters inside of texts are refused."""


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
    """The value of a JSON text; bytes are UTF-8. ValueError or RecursionError when it is none."""
    text = data.decode("utf-8", "surrogatepass") if isinstance(data, bytes) else data
    return _scan(text, strict)


def dumps(value: object, *, ascii_only: bool = False) -> str:
    """Compact JSON. ValueError for NaN and infinities, TypeError for what JSON has no form for."""
    return _encode(value, ascii_only)
