"""Checks of notifications: an address without the library, and what could not be sent."""

from __future__ import annotations

from importlib.util import find_spec

from vyane_cli.attention import needs
from vyane_cli.attention.call import urls_of
from vyane_cli.attention.need import TRIES
from vyane_cli.health.subject import Finding, Subject, some


def notifications(subject: Subject) -> Finding:
    """What you are needed for reaches the addresses that are set."""
    addresses = urls_of(subject.runtime)
    if not addresses:
        return Finding(True, "no address is set")
    if find_spec("apprise") is None:
        return Finding(
            False,
            "an address is set, and the library apprise is not installed",
            "pip install 'vyane[notify]'",
        )
    lost = [
        entry["id"]
        for entry in needs.listing(subject.layout)
        if not entry["notified"] and entry["tries"] >= TRIES
    ]
    if lost:
        return Finding(
            False,
            f"{some(lost)} could not be sent, {TRIES} times",
            "look at `vyane need-user`; try the addresses with apprise itself",
        )
    return Finding(True, "an address is set" if len(addresses) == 1 else "addresses are set")
