"""Bytes that somebody else wrote: each reader takes them or refuses them in words.

`python -m tests.fuzz TARGET --seconds 60` looks for more, and keeps what breaks one in its corpus.
"""

import os
import random

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from tests.fuzz.mutation import mutated
from tests.fuzz.targets import TARGETS, corpus

EXAMPLES = 1_000 if os.environ.get("VYANE_TEST_FULL") else 150

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner),
    max_leaves=12,
)


@pytest.mark.parametrize(
    "name, path", [(name, path) for name in TARGETS for path in corpus(name)],
    ids=lambda value: value if isinstance(value, str) else value.name,
)  # fmt: skip
def test_a_kept_input_is_taken_or_refused(name, path):
    TARGETS[name](path.read_bytes())


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_has_a_corpus(name):
    assert corpus(name), f"put an example into tests/fuzz/corpus/{name}"


@pytest.mark.parametrize("name", TARGETS)
@hypothesis_settings(max_examples=EXAMPLES)
@given(seed=st.integers(0, 2**32))
def test_a_changed_input_is_taken_or_refused(name, seed):
    kept = [path.read_bytes() for path in corpus(name)]
    TARGETS[name](mutated(random.Random(seed), kept))


@pytest.mark.parametrize("name", TARGETS)
@hypothesis_settings(max_examples=EXAMPLES)
@given(data=st.binary(max_size=300))
def test_any_bytes_are_taken_or_refused(name, data):
    TARGETS[name](data)


@pytest.mark.parametrize("name", ["payload", "records", "documents", "message", "json", "settings"])
@hypothesis_settings(max_examples=EXAMPLES)
@given(value=values)
def test_any_json_is_taken_or_refused(name, value):
    import json

    TARGETS[name](json.dumps(value).encode())
