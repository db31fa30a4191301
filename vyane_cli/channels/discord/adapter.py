"""The `discord` channel: one forum post for each session, through the REST API, as one bot.

It uses neither a gateway connection nor webhooks: Discord does not deduplicate webhook messages,
so a message sent twice would show twice. The modules for requests are imported when the first
channel is opened.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from vyane_cli.errors import VyaneError
from vyane_cli.kernel.config import Key

if TYPE_CHECKING:
    from vyane_cli.channels.port import Channel, Surroundings

NAME = "discord"
# fmt: off
SETTINGS: Mapping[str, Key] = {
    "guild": Key("", "Id of the Discord server; empty: that of the forum."),
    "forum": Key("", "Id of the forum channel in which the posts are made."),
    "tags":  Key([], "Names of tags of the forum for new posts, at most five."),
}
# fmt: on


class NotInstalledError(VyaneError):
    """The extra `vyane[discord]` is not installed."""

    slug = "not_installed"
    hint = "pip install 'vyane[discord]'"


def open_channel(
    settings: Mapping[str, Any], account: str, memory: dict[str, Any], around: Surroundings
) -> Channel:
    """Open the channel with these settings. Sends no request.

    Raises NotInstalledError without urllib3.
    """
    import importlib.util

    if importlib.util.find_spec("urllib3") is None:
        raise NotInstalledError("the Discord channel needs urllib3, which is not installed")
    from vyane_cli.channels.discord.channel import DiscordChannel
    from vyane_cli.channels.discord.settings import read_settings

    return DiscordChannel(NAME, account, read_settings(settings, around.environ), memory, around)
