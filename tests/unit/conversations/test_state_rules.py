"""What follows from a channel's answer."""

from vyane_cli.channels.port import ChannelVerdict
from vyane_cli.conversations.state_rules import NEXT, MirrorStep


def test_every_verdict_has_its_step_and_every_step_its_verdict() -> None:
    assert set(NEXT) == set(ChannelVerdict)
    assert set(NEXT.values()) == set(MirrorStep)
