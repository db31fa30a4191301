"""Whether a session is there, and whether it is busy: only by proof."""

from hypothesis import given
from hypothesis import strategies as st

from vyane_cli.sessions.liveness_rules import Liveness, LivenessEvidence, decide_liveness


@given(st.booleans(), st.sampled_from([True, False, None]), st.booleans(), st.booleans())
def test_liveness_is_total_and_the_host_can_only_clear_busy(ended, present, turn, idle):
    """Dead only by proof; what cannot be told is unknown; busy needs an open turn."""
    seen = decide_liveness(LivenessEvidence(ended, present, turn, idle))

    if seen is Liveness.BUSY:
        assert turn
        assert not idle
        assert present
    if present is None and not ended:
        assert seen is Liveness.UNKNOWN
    if ended or present is False:
        assert seen is Liveness.EXITED
    if present and not ended and (idle or not turn):
        assert seen is Liveness.IDLE
