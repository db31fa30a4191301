"""Notifications of open need entries, once per entry, by the library apprise (`vyane[notify]`).

Addresses come from an argument, the environment or a setting; none is written into the state or a
log. An entry is claimed before it is sent. A failed notification is retried by the next call, three
times in all; a crash in the middle leaves an entry unsent, and the entry stays on the page.
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
    """The ids of the entries that were sent and that failed."""

    sent: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    configured: bool = True


def notify(home: Home, urls: Sequence[str] = ()) -> Notified:
    """Send the notifications that are not sent yet.

    Without an address nothing is sent, and the result says so (`configured`). NotFoundError when
    the extra is not installed, InvalidInputError for an address that apprise rejects; in both cases
    no entry was claimed.
    """
    addresses = list(urls) or urls_of(home)
    if not addresses:
        return Notified(configured=False)
    if not any(needs.listing(home.layout)):
        return Notified()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # apprise loads every plugin, and their dependencies warn
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
    logging.getLogger("apprise").propagate = False  # its log lines may contain addresses
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
    """Send one entry. Return whether every address accepted it.

    The entry's text is neutralised, so that text written by others cannot imitate vyane's own.
    """
    title = home.templates.fill("notice-title", id=entry["id"])
    try:
        return bool(sender.notify(title=title, body=neutralise(sentence(entry))))
    except Exception:  # a plugin of apprise may raise anything: the entry was not sent
        return False
