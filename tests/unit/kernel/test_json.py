"""JSON for the hook path says what `json` says."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vyane_cli.kernel import json as quick_json

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)  # fmt: skip
texts = st.text('{}[]":,0123456789.eE+-truefalsn \t\n\\u\x00')


@given(values)
def test_what_is_written_is_what_json_writes(value):
    for ascii_only in (True, False):
        written = quick_json.dumps(value, ascii_only=ascii_only)
        assert written == json.dumps(value, ensure_ascii=ascii_only, separators=(",", ":"))
        assert quick_json.loads(written) == value
        assert quick_json.loads(written.encode("utf-8", "surrogatepass")) == value


@given(texts, st.booleans())
def test_what_is_read_is_what_json_reads(text, strict):
    """The same value, or refused by both."""
    try:
        expected = json.loads(text, strict=strict)
    except ValueError:
        with pytest.raises(ValueError):  # noqa: PT011 - whichever of its kinds
            quick_json.loads(text, strict=strict)
    else:
        assert quick_json.loads(text, strict=strict) == expected


@pytest.mark.parametrize("value", [math.nan, math.inf, [-math.inf]])
def test_a_number_that_json_has_not_is_not_written(value):
    with pytest.raises(ValueError, match="not JSON compliant"):
        quick_json.dumps(value)


def test_what_json_has_no_form_for_is_not_written():
    with pytest.raises(TypeError):
        quick_json.dumps({"a": object()})


def test_without_the_c_parts_json_does_the_same():
    """Another interpreter has other insides."""
    scan, encode = quick_json._by_json()
    assert encode(scan('{"a": [1, "é"]}', True), False) == '{"a":[1,"é"]}'


def test_depth_is_a_recursion_error_as_with_json():
    with pytest.raises(RecursionError):
        quick_json.loads("[" * 200_000)
