"""What a round does for those who follow sessions: take in their words, show what happened.

A channel that cannot be reached holds up no round; `doctor` and `vyane mirror status` say why. One
that cannot even be opened here, such as for want of a token in the environment of a timer, looks
well to whoever asks in a terminal: so the person is called.
"""

from vyane_cli.errors import LockTimeoutError, VyaneError
from vyane_cli.operations.conversations.channels import configured
from vyane_cli.operations.conversations.mirror_pull import PullReport, pull
from vyane_cli.operations.conversations.mirror_push import PushReport, push
from vyane_cli.operations.needs import call_person

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from vyane_cli.runtime import Runtime


def take_in(runtime: "Runtime") -> int:
    """How many messages of people reached sessions, over all channels."""
    return _over_channels(runtime, lambda name: _taken(runtime, name))


def show_all(runtime: "Runtime") -> int:
    """How many posts were shown, over all channels."""
    return _over_channels(runtime, lambda name: _sent(runtime, name))


def _taken(runtime: "Runtime", name: str) -> int:
    return sum(one.taken for one in pull(runtime, channel=name) if isinstance(one, PullReport))


def _sent(runtime: "Runtime", name: str) -> int:
    return sum(one.sent for one in push(runtime, channel=name) if isinstance(one, PushReport))


def _over_channels(runtime: "Runtime", work: "Callable[[str], int]") -> int:
    count = 0
    for name in configured(runtime):
        try:
            count += work(name)
        except LockTimeoutError:
            continue  # another run is at it
        except VyaneError as error:
            _call_person(runtime, name, error)
    return count


def _call_person(runtime: "Runtime", channel: str, error: VyaneError) -> None:
    """Once for each cause, while the entry is open."""
    text = f"rounds cannot show sessions in {channel}, nor hear you there: {error.message}"
    try:
        call_person(runtime, f"channel:{channel}:{error.slug}", text, ask=error.hint)
    except VyaneError:
        return
