"""Channels: which ones are set up, and how one is opened for a run."""

from __future__ import annotations

import difflib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vyane_cli.channels.port import Adapter, Capabilities, Channel, Placement, Surroundings
from vyane_cli.errors import RefusedError, shortened
from vyane_cli.kernel.config import CHANNEL_KEYS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home

NONE = Capabilities(
    placements=(),
    bind=False,
    unbind=False,
    edit=False,
    title=False,
    close=False,
    read=False,
    acknowledge=False,
    exact=False,
)
"""Capabilities of a channel or account that is not set up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelReport:
    """The abilities of a channel, as `bindings channel` prints them."""

    adapter_available: bool
    bind_supported: bool
    unbind_supported: bool
    placements: tuple[Placement, ...]


def configured(home: Home) -> list[str]:
    """Return the channels that have a table in the settings, in the settings' order."""
    return [name for name in home.config.channels if name in (home.channels or {})]


def find_adapter(home: Home, name: str) -> Adapter:
    """Return the adapter of a channel.

    The RefusedError (`adapter_unavailable`) for an unknown channel names the nearest.
    """
    known = home.channels or {}
    if name not in known:
        near = difflib.get_close_matches(name, list(known), 1)
        hint = f"did you mean {near[0]}?" if near else "known: " + ", ".join(known)
        raise RefusedError(
            f"there is no adapter for the channel {name!r}", slug="adapter_unavailable", hint=hint
        )
    return known[name]


def settings_of(home: Home, name: str) -> Mapping[str, Any]:
    """Return every setting of a channel, with defaults for the keys missing from its table."""
    keys = {**find_adapter(home, name).SETTINGS, **CHANNEL_KEYS}
    given: Mapping[str, Any] = home.config.channels.get(name, {})
    return {key: given.get(key, known.default) for key, known in keys.items()}


def open_channel(
    home: Home,
    name: str,
    account: str,
    memory: dict[str, Any],
    *,
    budget_s: float | None = None,
) -> Channel:
    """Return the channel, opened for one run. Raises RefusedError if it is not set up."""
    adapter = find_adapter(home, name)
    if not is_set_up(home, name, account):
        raise RefusedError(
            f"the channel {name} has no settings for the account {account!r}",
            slug="adapter_unavailable",
            hint=f"add a table [channels.{shortened(name)}] to config.toml",
        )
    budget = float(home.config["mirror.budget_s"]) if budget_s is None else budget_s
    now_ms = home.clock().now_ms
    around = Surroundings(
        environ=home.environ,
        now_ms=lambda: home.clock().now_ms,
        sleep=time.sleep,
        deadline_ms=now_ms + int(budget * 1000),
        home=home.layout.root,
    )
    return adapter.open_channel(settings_of(home, name), account, memory, around)


def is_set_up(home: Home, name: str, account: str) -> bool:
    """Return whether the settings have a table for the channel. Each has one account so far."""
    return account == "default" and name in configured(home)


def capabilities(home: Home, name: str, account: str) -> ChannelReport:
    """Return the abilities of a channel; a channel that is not set up has none."""
    there = name in (home.channels or {}) and is_set_up(home, name, account)
    able = open_channel(home, name, account, {}).capabilities if there else NONE
    return ChannelReport(
        adapter_available=there,
        bind_supported=able.bind,
        unbind_supported=able.unbind,
        placements=able.placements,
    )


def check_placement(able: Capabilities, placement: Placement, channel: str) -> None:
    """Raise RefusedError (`capability_unsupported`) for a placement that the channel lacks."""
    if not able.bind or placement not in able.placements:
        raise RefusedError(
            f"the channel {channel} has no {placement} placement",
            slug="capability_unsupported",
            hint="it has: " + (", ".join(able.placements) or "none"),
        )
