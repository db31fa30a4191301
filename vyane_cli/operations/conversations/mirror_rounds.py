"""What a round does for those who follow sessions: take in their words, show what happened.

A channel that cannot be reached holds up no round; `doctor` and `vyane mirror status` say why. One
that cannot even be opened here, such as for want of a token in the environment of a timer, looks
well to whoever asks in a terminal: so the person is called.
"""

from vyane_cli.errors import LockTimeoutError, VyaneError
from vyane_cli.operations.conversations.channels import configured
from vyane_cli.operations.conversations.mirror_pull import pull
from vyane_cli.operations.conversations.mirror_push import push
from vyane_cli.operations.needs import call_person

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from vyane_cli.runtime import Runtime

    Work = Callable[..., list[dict[str, Any]]]


def take_in(runtime: "Runtime") -> int:
    """How many messages of people reached sessions, over all channels."""
    return _over_channels(runtime, pull, "taken")


def show_all(runtime: "Runtime") -> int:
    """How many posts were shown, over all channels."""
    return _over_channels(runtime, push, "sent")


def _over_channels(runtime: "Runtime", work: "Work", counted: str) -> int:
    count = 0
    for name in configured(runtime):
        try:
            (report,) = work(runtime, channel=name)
        except LockTimeoutError:
            continue  # another run is at it
        except VyaneError as error:
            _call_person(runtime, name, error)
            continue
        count += int(report[counted])
    return count


def _call_person(runtime: "Runtime", channel: str, error: VyaneError) -> None:
    """Once for each cause, while the entry is open."""
    text = f"rounds cannot show sessions in {channel}, nor hear you there: {error.message}"
    try:
        call_person(runtime, f"channel:{channel}:{error.slug}", text, ask=error.hint)
    except VyaneError:
        return
