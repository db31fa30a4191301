"""What a round does for those who follow sessions: take in their words, show what happened.

A channel that cannot be reached holds up no round; `doctor` and `vyane mirror status` say why. One
that cannot even be opened here, such as for want of a token in the environment of a timer, looks
well to whoever asks in a terminal: so the person is called.
"""

from vyane_cli.core.attention import NeedKind, call_of
from vyane_cli.errors import LockTimeoutError, VyaneError
from vyane_cli.operations.attention import end_calls
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
    return _over_channels(runtime, push, "sent", _end_calls)


def _over_channels(
    runtime: "Runtime",
    work: "Work",
    counted: str,
    afterwards: "Callable[[Runtime, str], None] | None" = None,
) -> int:
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
        if afterwards is not None:
            afterwards(runtime, name)
    return count


def _call_person(runtime: "Runtime", channel: str, error: VyaneError) -> None:
    """Once for each cause, while the entry is open."""
    call = call_of(
        NeedKind.CHANNEL,
        channel=channel,
        slug=error.slug,
        message=error.message,
        hint=error.hint,
    )
    try:
        call_person(runtime, call)
    except VyaneError:
        return


def _end_calls(runtime: "Runtime", channel: str) -> None:
    """A channel that was shown sessions could be opened: the entries about it end."""
    try:
        end_calls(runtime, works=channel)
    except VyaneError:
        return  # the next round does it
