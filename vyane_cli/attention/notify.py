"""Notifications: each open entry is sent to the person once, by the library apprise.

The library comes with `vyane[notify]`. The addresses are arguments, or come from the environment
or a setting; no address is written to the state or a log. An entry is claimed before it is sent.
The next call retries a failed entry, three attempts in all; a crash in between leaves an entry
unsent, which stays on the page.
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
    """The result of a notification run: ids of the sent and of the failed entries."""

    sent: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    configured: bool = True


def notify(home: Home, urls: Sequence[str] = ()) -> Notified:
    """Send the entries that are not yet notified. Returns which were sent.

    Without an address nothing is sent, and `configured` is False. NotFoundError if the extra is
    missing, InvalidInputError for an address that apprise rejects; both before any entry is
    claimed.
    """
    addresses = list(urls) or urls_of(home)
    if not addresses:
        return Notified(configured=False)
    if not any(needs.list_entries(home.layout)):
        return Notified()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # apprise imports every plugin and its dependencies
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

    The text is neutralised, so that text of others cannot imitate a text of vyane.
    """
    title = home.templates.fill("notice-title", id=entry["id"])
    try:
        return bool(sender.notify(title=title, body=neutralise(sentence(entry))))
    except Exception:  # an apprise plugin may raise any error: the entry was not sent
        return False
