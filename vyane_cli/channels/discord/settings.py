"""Settings of the Discord channel: the keys of the config, the bot's token, the API address.

Each run reads the token from the environment, or from a file or a command that the environment
names. vyane never stores the token in a file or shows it in an error. The token is sent to the API
address, so the address must be Discord's own host or this machine.
"""

from __future__ import annotations

import hashlib
import ipaddress
import os
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from vyane_cli.errors import InvalidInputError

API = "https://discord.com/api/v10"
HOST = "discord.com"
TAGS_MAX = 5
COMMAND_S = 10
_GUIDE = "set DISCORD_TOKEN_FILE to a file that holds the bot's token"


class DiscordSettings(NamedTuple):
    """All settings that are needed before the first request."""

    guild: str
    forum: str
    tags: tuple[str, ...]
    api: str
    token: str

    @property
    def fingerprint(self) -> str:
        """Return a digest that changes with the settings; it reveals neither them nor the token."""
        words = "\0".join(("vyane", *self[:2], *self.tags, *self[3:]))
        return hashlib.sha256(words.encode()).hexdigest()[:16]


def read_settings(settings: Mapping[str, Any], environ: Mapping[str, str]) -> DiscordSettings:
    """Read the settings and the token. Raises InvalidInputError, which names the invalid one."""
    guild = _snowflake("channels.discord.guild", str(settings["guild"]).strip(), optional=True)
    forum = _snowflake("channels.discord.forum", str(settings["forum"]).strip())
    tags = tuple(dict.fromkeys(str(tag).strip() for tag in settings["tags"]))
    if len(tags) > TAGS_MAX:
        raise InvalidInputError(
            "channels.discord.tags", ", ".join(tags), f"at most {TAGS_MAX} tags: Discord's limit"
        )
    return DiscordSettings(
        guild=guild, forum=forum, tags=tags, api=read_address(environ), token=read_token(environ)
    )


def _snowflake(field: str, text: str, *, optional: bool = False) -> str:
    if (optional and not text) or (text.isascii() and text.isdigit() and 15 <= len(text) <= 20):
        return text
    place = "server" if field.endswith("guild") else "channel"
    hint = (
        f"`vyane config set {field} ID`; in Discord: Settings, Advanced, Developer Mode,"
        f" then Copy ID in the {place}'s menu"
    )
    if not text:
        raise InvalidInputError(field, text, "set", missing=True, hint=hint, slug="forum_unset")
    raise InvalidInputError(field, text, "an id of Discord's: 17 to 20 digits", hint=hint)


def read_address(environ: Mapping[str, str]) -> str:
    """Return the base address of the API: Discord's own, or one on this machine.

    Raises InvalidInputError for any other address.
    """
    given = environ.get("DISCORD_API", "").strip() or API
    try:
        url = urlsplit(given)
        host, _ = url.hostname or "", url.port
    except ValueError:
        host, url = "", urlsplit("")
    plain = not (url.username or url.password or url.query or url.fragment)
    if plain and url.scheme == "https" and host == HOST and url.port in (None, 443):
        return given.rstrip("/")
    if plain and url.scheme in ("http", "https") and is_loopback(host):
        return given.rstrip("/")
    shown = f"{url.scheme}://{host}" if host else given.partition("?")[0].rpartition("@")[2]
    raise InvalidInputError(
        "DISCORD_API",
        shown,
        f"{API}, or an address on this machine",
        hint="the token goes where this points: leave it unset",
    )


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine, judged by its name or number without a lookup."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def read_token(environ: Mapping[str, str]) -> str:
    """Return the bot's token, from the first of the three variables that is set.

    Raises InvalidInputError when the token is missing or malformed.
    """
    source, text = "DISCORD_TOKEN", environ.get("DISCORD_TOKEN", "")
    if not text.strip() and (path := environ.get("DISCORD_TOKEN_FILE", "")):
        source, text = "DISCORD_TOKEN_FILE", _from_file(path)
    elif not text.strip() and (command := environ.get("DISCORD_TOKEN_COMMAND", "")):
        source, text = "DISCORD_TOKEN_COMMAND", _from_command(command)
    token = text.strip().removeprefix("Bot ").strip()
    if not token:
        words = "set" if source == "DISCORD_TOKEN" else "the source of a token: it is empty"
        raise InvalidInputError(source, "", words, missing=True, hint=_GUIDE)
    if not (token.isascii() and token.isprintable() and " " not in token) or len(token) > 256:
        raise InvalidInputError(source, "(not shown)", "a bot's token: one word of ASCII")
    return token


def _from_file(path: str) -> str:
    try:
        with open(os.path.expanduser(path), encoding="utf-8") as file:
            return file.read(4096)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "not text"
        raise InvalidInputError(
            "DISCORD_TOKEN_FILE", path, f"a file with a token: {reason.lower()}"
        ) from None


def _from_command(command: str) -> str:
    import shlex
    import subprocess

    name = "DISCORD_TOKEN_COMMAND"
    try:
        words = shlex.split(command)
        run = subprocess.run(
            words, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=COMMAND_S, check=True
        )
    except subprocess.TimeoutExpired:
        reason = f"it did not end within {COMMAND_S} s"
    except subprocess.CalledProcessError as error:
        reason = f"it ended with {error.returncode}"
    except (OSError, ValueError, IndexError) as error:
        reason = getattr(error, "strerror", None) or str(error)
    else:
        return run.stdout.decode("utf-8", "replace").partition("\n")[0]
    raise InvalidInputError(name, "(not shown)", f"a command that prints a token: {reason}")
