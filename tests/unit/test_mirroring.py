"""What follows from a channel's answer."""

from vyane_cli.channels.port import Verdict
from vyane_cli.conversations.mirroring import NEXT, Step


def test_every_verdict_has_its_step_and_every_step_its_verdict() -> None:
    assert set(NEXT) == set(Verdict)
    assert set(NEXT.values()) == set(Step)
