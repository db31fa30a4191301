"""What a round does for those who follow sessions: take in their words, show what happened.

A channel that cannot be reached holds up no round; `doctor` and `vyane mirror status` say why. One
that cannot even be opened here, such as for want of a token in the environment of a timer, looks
well to whoever asks in a terminal: so the person is called.
"""

from __future__ import annotations

from vyane_cli.attention.call import call_person
from vyane_cli.attention.kinds import NeedKind, call_of
from vyane_cli.conversations.channels import configured
from vyane_cli.conversations.pull import PullReport, pull
from vyane_cli.conversations.push import PushReport, push
from vyane_cli.errors import LockTimeoutError, VyaneError
from vyane_cli.upkeep.ended_needs import end_calls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from vyane_cli.home import Runtime


def take_in(runtime: Runtime) -> int:
    """How many messages of people reached sessions, over all channels."""
    return _over_channels(runtime, lambda name: _taken(runtime, name))


def show_all(runtime: Runtime) -> int:
    """How many posts were shown, over all channels."""
    return _over_channels(runtime, lambda name: _sent(runtime, name), _end_calls)


def _taken(runtime: Runtime, name: str) -> int:
    return sum(one.taken for one in pull(runtime, channel=name) if isinstance(one, PullReport))


def _sent(runtime: Runtime, name: str) -> int:
    return sum(one.sent for one in push(runtime, channel=name) if isinstance(one, PushReport))


def _over_channels(
    runtime: Runtime,
    work: Callable[[str], int],
    afterwards: Callable[[Runtime, str], None] | None = None,
) -> int:
    count = 0
    for name in configured(runtime):
        try:
            count += work(name)
        except LockTimeoutError:
            continue  # another run is at it
        except VyaneError as error:
            _call_person(runtime, name, error)
            continue
        if afterwards is not None:
            afterwards(runtime, name)
    return count


def _call_person(runtime: Runtime, channel: str, error: VyaneError) -> None:
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


def _end_calls(runtime: Runtime, channel: str) -> None:
    """A channel that was shown sessions could be opened: the entries about it end."""
    try:
        end_calls(runtime, works=channel)
    except VyaneError:
        return  # the next round does it
