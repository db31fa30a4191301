"""What a round does for those who follow sessions: take in their words, show what happened.

A channel that cannot be reached holds up no round; `doctor` and `vyane mirror status` say why.
"""

from vyane_cli.errors import VyaneError
from vyane_cli.operations.conversations.channels import configured
from vyane_cli.operations.conversations.mirror_pull import pull
from vyane_cli.operations.conversations.mirror_push import push

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.runtime import Runtime


def take_in(runtime: "Runtime") -> int:
    """How many messages of people reached sessions, over all channels."""
    return _over_channels(runtime, "taken")


def show_all(runtime: "Runtime") -> int:
    """How many posts were shown, over all channels."""
    return _over_channels(runtime, "sent")


def _over_channels(runtime: "Runtime", key: str) -> int:
    work = pull if key == "taken" else push
    count = 0
    for name in configured(runtime):
        try:
            (report,) = work(runtime, channel=name)
        except VyaneError:
            continue
        count += int(report[key])
    return count
