"""Processes as they are stored."""

from hypothesis import given
from hypothesis import strategies as st

from vyane_cli.kernel.process import Process, parse_process
from vyane_cli.mail import mailbox

texts = st.text(max_size=20)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts, lambda i: st.lists(i, max_size=2)
)


@given(json_values, st.integers(), st.integers())
def test_a_process_survives_its_stored_form(junk, pid, start):
    """And anything else is none."""
    process = Process("b", "n", pid, start)

    assert parse_process(process._asdict()) == process
    assert parse_process(junk) is None
    assert parse_process({"pid": junk}) is None
    assert mailbox.parse_claim({}).by == Process("", "", 0, 0)
