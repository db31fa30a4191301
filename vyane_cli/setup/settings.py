"""Settings: listed, read, and set one by one without changing the rest of config.toml."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from vyane_cli.errors import CorruptStateError
from vyane_cli.kernel.config import check_key, every_key, parse_value
from vyane_cli.sessions.authority import require_person
from vyane_cli.sessions.identity import whoami
from vyane_cli.storage import settings
from vyane_cli.storage.locks import Deadline, LockKind, held

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingReport:
    """One setting: its key, its value, its default and its meaning."""

    key: str
    value: Any
    default: Any
    doc: str


def list_settings(home: Home) -> list[SettingReport]:
    """Return every setting, those of channels included. Secret values are masked."""
    return [
        SettingReport(
            key=key,
            value=masked(_value(home, key)) if known.secret else _value(home, key),
            default=known.default,
            doc=known.doc,
        )
        for key, known in every_key(home.channel_keys).items()
    ]


def _value(home: Home, key: str) -> Any:
    """Return the value in force of a key, which may be a channel's key."""
    if not key.startswith("channels."):
        return home.config[key]
    _, name, own = key.split(".", 2)
    default = every_key(home.channel_keys)[key].default
    return home.config.channels.get(name, {}).get(own, default)


def masked(addresses: list[str]) -> list[str]:
    """Return the addresses cut after their scheme, because the rest may hold a password."""
    return [address.partition(":")[0] + "://…" for address in addresses]


def get_setting(home: Home, key: str) -> Any:
    """Return the value in force of a key."""
    return _value(home, check_key(key, home.channel_keys))


def set_setting(home: Home, key: str, text: str) -> Any:
    """Set one key in config.toml. Return the parsed value. Durable on return.

    An agent may not change settings (exit 5).
    """
    value = parse_value(key, text, home.channel_keys)
    require_person(home, whoami(home), "change settings")
    layout = home.layout
    # 5 s fixed: the lock's usual wait is itself a setting, and must not block its own repair
    with held(layout.root, [(LockKind.CONFIG, "")], Deadline(5)):
        text = settings.read_text(layout)
        plain = text.removeprefix(settings.MARK)
        try:
            document = tomlkit.parse(plain)
        except TOMLKitError as error:
            raise CorruptStateError(layout.config, str(error), hint="mend it by hand") from None
        section, _, name = key.rpartition(".")
        table: Any = document
        for part in section.split(".") if section else ():
            if part not in table:
                table.add(part, tomlkit.table(is_super_table=part == "channels"))
            table = table[part]
        table[name] = value
        settings.save_text(layout, text[: len(text) - len(plain)] + tomlkit.dumps(document))
    return value
