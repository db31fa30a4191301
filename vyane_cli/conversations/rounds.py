"""The mirror in a round: take in the messages of people, and show what happened.

A channel that cannot be reached does not stop a round; `doctor` and `vyane mirror status` say why.
A channel that cannot even be opened here, for example because a timer's environment lacks its
token, looks healthy to anyone who asks in a terminal: so the person is called.
"""

from __future__ import annotations

from vyane_cli.attention.call import call_person
from vyane_cli.attention.kinds import NeedKind, call_of
from vyane_cli.conversations.channels import configured
from vyane_cli.conversations.pull import PullReport, pull
from vyane_cli.conversations.push import PushReport, push
from vyane_cli.errors import LockTimeoutError, VyaneError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from vyane_cli.home import Home


def take_in(home: Home) -> int:
    """Take in the messages of people from all channels; return how many reached sessions."""
    return _over_channels(home, lambda name: _taken(home, name))


def show_all(home: Home, reached: Callable[[str], None] | None = None) -> int:
    """Show what happened in all channels; return how many posts were sent.

    `reached` is called with each channel that could be shown to.
    """
    return _over_channels(home, lambda name: _sent(home, name), reached)


def _taken(home: Home, name: str) -> int:
    return sum(one.taken for one in pull(home, channel=name) if isinstance(one, PullReport))


def _sent(home: Home, name: str) -> int:
    return sum(one.sent for one in push(home, channel=name) if isinstance(one, PushReport))


def _over_channels(
    home: Home,
    work: Callable[[str], int],
    reached: Callable[[str], None] | None = None,
) -> int:
    count = 0
    for name in configured(home):
        try:
            count += work(name)
        except LockTimeoutError:
            continue  # another run has the channel
        except VyaneError as error:
            _call_person(home, name, error)
            continue
        if reached is not None:
            reached(name)
    return count


def _call_person(home: Home, channel: str, error: VyaneError) -> None:
    """Call the person once for each cause, while the entry is open."""
    call = call_of(
        NeedKind.CHANNEL,
        channel=channel,
        slug=error.slug,
        message=error.message,
        hint=error.hint,
    )
    try:
        call_person(home, call)
    except VyaneError:
        return
