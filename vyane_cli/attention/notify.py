"""Notify the person of what is open, once per entry, by the library apprise (`vyane[notify]`).

Where to is an argument, the environment or a setting; no address goes into the state or a log.
The entry is claimed before it is sent. What fails is tried again by the next call, three times in
all; a crash in the middle leaves an entry that was not sent, and that stays on the page.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

from vyane_cli.attention import needs
from vyane_cli.attention.call import URLS, urls_of
from vyane_cli.attention.need import sentence
from vyane_cli.errors import InvalidInputError, NotFoundError
from vyane_cli.kernel.text import neutralise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home


class Notified(NamedTuple):
    """What was sent: ids of entries."""

    sent: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    configured: bool = True


def notify(home: Home, urls: Sequence[str] = ()) -> Notified:
    """Send what nobody was told of. Without an address it does nothing, and says so.

    NotFoundError when the extra is not installed, InvalidInputError for an address that apprise
    does not take; then nothing was claimed.
    """
    addresses = list(urls) or urls_of(home)
    if not addresses:
        return Notified(configured=False)
    if not any(needs.list_entries(home.layout)):
        return Notified()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # apprise loads every plugin, and what they use
        return _tell(home, _sender(addresses))


def _tell(home: Home, sender: Any) -> Notified:
    clock = home.clock()
    sent: list[dict[str, Any]] = []
    failed: list[dict[str, Any]] = []
    for entry in needs.claim_notices(home.layout, clock, home.deadline()):
        (sent if _send(home, sender, entry) else failed).append(entry)
    if failed:
        needs.give_back(home.layout, failed, clock, home.deadline())
    return Notified(tuple(o["id"] for o in sent), tuple(o["id"] for o in failed))


def _sender(addresses: Sequence[str]) -> Any:
    try:
        import apprise
    except ImportError:
        raise NotFoundError(
            "package", "apprise", hint="notifications come with: pip install 'vyane[notify]'"
        ) from None
    logging.getLogger("apprise").addHandler(logging.NullHandler())
    logging.getLogger("apprise").propagate = False  # its lines may hold addresses
    sender = apprise.Apprise()
    for position, address in enumerate(addresses, 1):
        if not sender.add(address):
            raise InvalidInputError(
                f"notify.urls or {URLS}, number {position}",
                address.partition(":")[0] + "://…",
                "an address of apprise's",
                hint="https://appriseit.com lists the forms",
            )
    return sender


def _send(home: Home, sender: Any, entry: dict[str, Any]) -> bool:
    """Whether every address took it. The text of others cannot imitate one of ours."""
    title = home.templates.fill("notice-title", id=entry["id"])
    try:
        return bool(sender.notify(title=title, body=neutralise(sentence(entry))))
    except Exception:  # a plugin of apprise's: whatever it raises, nobody was told
        return False
