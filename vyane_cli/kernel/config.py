"""The keys of `config.toml` with their defaults: one table for parsing, docs and `config`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from vyane_cli.errors import InvalidInputError
from vyane_cli.kernel.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class DeliveryLimits(NamedTuple):
    """The delivery limits: thresholds of `[delivery]` in config.toml."""

    too_soon_ms: int = 300_000
    start_wait_ms: int = 300_000
    handed_grace_ms: int = 30_000
    starts_per_hour: int = 30
    stop_continuations: int = 3
    overdue_ms: int = 10_000


class Key(NamedTuple):
    """One setting: its default, its documentation and the values it accepts."""

    default: object
    doc: str
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    secret: bool = False
    """Whether the values may contain passwords. Lists of all settings show them without it."""


# fmt: off
KEYS: Mapping[str, Key] = {
    "language": Key("auto", "Language of what agents read: `auto` follows the locale.",
                    choices=("auto", "en", "zh")),
    "delivery.too_soon_s": Key(300, "Least time between two turns that normal mail starts in one "
                               "session, in seconds.", minimum=0),
    "delivery.start_wait_s": Key(300, "How long a started turn may take to begin before a person "
                                 "is called, in seconds.", minimum=1),
    "delivery.handed_grace_s": Key(30, "How long an idle session may leave a wake unanswered "
                                   "before the message is offered again, in seconds.", minimum=1),
    "delivery.starts_per_hour": Key(30, "Most turns that vyane starts in one session in an hour; "
                                    "beyond it a person is called.", minimum=1),
    "delivery.stop_continuations": Key(3, "Most turns in a row that vyane starts at a Stop; hosts "
                                       "cap it at 8.", minimum=0),
    "delivery.overdue_s": Key(10, "How long startable mail may lie before another session's tick "
                              "rings again, in seconds.", minimum=1),
    "delivery.tmux": Key("unwatched", "Whether a line may be typed into the tmux pane of an idle "
                         "session that cannot be woken otherwise.",
                         choices=("unwatched", "never")),
    "delivery.resume": Key("never", "Which closed sessions vyane may open again by itself: those "
                           "that mail waits for, and children that were broken off.",
                           choices=("never", "children", "all")),
    "workers.stale_after_s": Key(1500, "How long a worker may be at work without a sign before it "
                                 "counts as stale, in seconds.", minimum=1),
    "timeline.excerpt_chars": Key(280, "How much of a result the timeline keeps, in characters; "
                                  "0: none.", minimum=0),
    "ledger.claim_ttl_s": Key(1200, "How long a task stays claimed by a worker that does nothing "
                              "and has not reported, in seconds.", minimum=60),
    "notify.urls": Key([], "Where you are notified of what you are needed for, as addresses of "
                       "apprise's; `VYANE_NOTIFY_URLS` comes before it.", secret=True),
    "notices.stall_after_s": Key(900, "How long nothing of a project moves before its main worker "
                                 "is told of a stall, in seconds.", minimum=1),
    "wake.runtime": Key("claude", "The runtime by which a round starts a worker."),
    "wake.start_wait_s": Key(60, "How long a round waits for the worker that it started to "
                             "register, in seconds.", minimum=1),
    "wake.attempts": Key(3, "Most starts of one task whose workers were killed before they "
                         "reported; beyond it a person is called.", minimum=1),
    "gc.keep_ended_days": Key(30, "How long an ended worker stays in the registry, in days.",
                              minimum=0),
    "locks.wait_s": Key(5, "How long a command waits for a lock, in seconds. Hooks wait 0.8.",
                        minimum=0.1),
    "bindings.idle_s": Key(86_400, "How long a conversation that was bound by hand may be silent "
                           "before it is unbound, in seconds; 0: for ever.", minimum=0),
    "bindings.max_age_s": Key(0, "The same since it was bound; 0: for ever.", minimum=0),
    "bindings.spawn_child": Key(False, "Whether a child of a bound session gets a conversation of "
                                "its own where `sessions` is `bound`."),
    "mirror.budget_s": Key(20, "How long one `mirror` may take for each channel, in seconds; what "
                           "is left waits for the next.", minimum=1),
    "mirror.after_stop": Key(False, "Whether a session's Stop starts `mirror push` beside it."),
    "authority.workers": Key([], "Ids of workers whose agents may use the person's authority; "
                                 "names do not count, since anybody may take one."),
}
# fmt: on


class Config:
    """The settings in force: configured values, and defaults for all other keys."""

    __slots__ = ("values",)

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values

    def __getitem__(self, key: str) -> Any:
        """Return the value of a documented key, or its default."""
        return self.values.get(key, KEYS[key].default)

    @property
    def limits(self) -> DeliveryLimits:
        """Return the delivery limits, with seconds converted to milliseconds."""
        return DeliveryLimits(
            too_soon_ms=int(self["delivery.too_soon_s"] * 1000),
            start_wait_ms=int(self["delivery.start_wait_s"] * 1000),
            handed_grace_ms=int(self["delivery.handed_grace_s"] * 1000),
            starts_per_hour=int(self["delivery.starts_per_hour"]),
            stop_continuations=int(self["delivery.stop_continuations"]),
            overdue_ms=int(self["delivery.overdue_s"] * 1000),
        )

    @property
    def runtimes(self) -> Mapping[str, Any]:
        """Return the `[runtimes.NAME]` tables, as parsed by `kernel.runtimes`."""
        found: Mapping[str, Any] = self.values.get("runtimes", {})
        return found

    @property
    def channels(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the `[channels.NAME]` tables, without defaults for the keys they leave out."""
        found: Mapping[str, Mapping[str, Any]] = self.values.get("channels", {})
        return found


DEFAULTS = Config({})

# fmt: off
CHANNEL_KEYS: Mapping[str, Key] = {
    "sessions": Key("all", "Whose conversations are made: `all` sessions, or only those that are "
                    "`bound` by hand.", choices=("all", "bound")),
    "verbosity": Key("summary", "How much is shown: `quiet` is the end of tasks and what goes "
                     "wrong, `summary` a line for each turn, `full` whole answers.",
                     choices=("quiet", "summary", "full")),
    "allow_users": Key([], "Ids of the people whose words reach sessions. Nobody else's do."),
    "strangers": Key("ignore", "What becomes of other people's words: nothing (`ignore`), or a "
                     "quiet note to the session (`note`).", choices=("ignore", "note")),
    "ping_users": Key([], "Ids of the people who are called by name when something needs them."),
    "recreate": Key(False, "Whether a conversation that was deleted is made anew."),
}
# fmt: on
"""The keys that every `[channels.NAME]` table may have. Each adapter adds keys of its own."""

ChannelKeys = Mapping[str, Mapping[str, Key]]
"""Channel name → the keys that only this channel has."""
NO_CHANNELS: ChannelKeys = {}


def parse_config(
    data: Mapping[str, Any], channels: Callable[[], ChannelKeys] | None = None
) -> Config:
    """Build the settings from a parsed file.

    `channels` returns the keys of each known channel. None means that this process speaks to no
    channel (a hook): the file's channel tables are not checked and not kept. InvalidInputError
    names the wrong key and the nearest known one.
    """
    values: dict[str, Any] = {}
    if "channels" in data:
        if channels is not None:
            values["channels"] = _parse_channels(data["channels"], channels())
        data = {key: value for key, value in data.items() if key != "channels"}
    if "runtimes" in data:  # the user chooses the names in this table
        from vyane_cli.kernel.runtimes import parse_runtimes

        values["runtimes"] = parse_runtimes(data["runtimes"])
        data = {key: value for key, value in data.items() if key != "runtimes"}
    for key, value in _flatten(data):
        check_key(key)
        values[key] = check_value(key, value)
    return Config(values)


def _parse_channels(data: object, channels: ChannelKeys) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for name, table in _table("channels", data).items():
        found[name] = {}
        for key, value in _table(f"channels.{name}", table).items():
            full = check_key(f"channels.{name}.{key}", channels)
            found[name][key] = check_value(full, value, channels)
        if name not in channels:  # an empty table: the loop above checked no key
            check_key(f"channels.{name}.", channels)
    return found


def _table(where: str, data: object) -> Mapping[str, Any]:
    if not isinstance(data, Mapping):
        raise InvalidInputError(where, data, "a table, such as [channels.NAME]")
    return data


def every_key(channels: ChannelKeys) -> dict[str, Key]:
    """Return every key that a file may have, in order, including the keys of these channels."""
    found = dict(KEYS)
    for name, own in channels.items():
        found |= {f"channels.{name}.{key}": known for key, known in {**own, **CHANNEL_KEYS}.items()}
    return found


def check_key(key: str, channels: ChannelKeys = NO_CHANNELS) -> str:
    """Return `key` if it is documented; otherwise raise InvalidInputError with the nearest key."""
    if key not in KEYS:
        known = every_key(channels)
        if key in known:
            return key
        import difflib

        near = difflib.get_close_matches(key, list(known), 1, 0.4)
        hint = f"did you mean {near[0]}?" if near else "`vyane config list` shows every key"
        raise InvalidInputError("config key", key, "a key of config.toml", hint=hint)
    return key


def check_value(key: str, value: Any, channels: ChannelKeys = NO_CHANNELS) -> Any:
    """Return `value` if this key accepts it; otherwise raise InvalidInputError."""
    known = KEYS[key] if key in KEYS else every_key(channels)[key]
    if known.choices and value not in known.choices:
        raise InvalidInputError(key, value, "one of " + ", ".join(known.choices))
    if isinstance(known.default, list):
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise InvalidInputError(key, value, "a list of texts")
    elif isinstance(known.default, bool):
        if not isinstance(value, bool):
            raise InvalidInputError(key, value, "true or false")
    elif isinstance(known.default, (int, float)):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise InvalidInputError(key, value, "a number")
        if value - value != 0:  # NaN and the infinities
            raise InvalidInputError(key, str(value), "a finite number")
        if known.minimum is not None and value < known.minimum:
            raise InvalidInputError(key, value, f"at least {known.minimum}")
    elif not isinstance(value, str):
        raise InvalidInputError(key, value, "a text")
    texts = value if isinstance(value, list) else [value]
    if any(isinstance(text, str) and "\0" in text for text in texts):
        raise InvalidInputError(key, value, "a text without NUL")
    return value


def parse_value(key: str, text: str, channels: ChannelKeys = NO_CHANNELS) -> Any:
    """Parse a value typed on the command line, by the type of the key's default."""
    default = every_key(channels)[check_key(key, channels)].default
    if isinstance(default, list):
        parts = [part.strip() for part in text.split(",") if part.strip()]
        return check_value(key, parts, channels)
    if isinstance(default, bool):
        if text not in ("true", "false"):
            raise InvalidInputError(key, text, "true or false")
        return text == "true"
    if isinstance(default, (int, float)):
        try:
            number = int(text) if text.lstrip("-").isdigit() else float(text)
            return check_value(key, number, channels)
        except ValueError:
            raise InvalidInputError(key, text, "a number") from None
    return check_value(key, text, channels)


def _flatten(data: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    pairs: list[tuple[str, Any]] = []
    for key, value in data.items():
        path = f"{prefix}{key}"
        if isinstance(value, Mapping):
            pairs += _flatten(value, path + ".")
        else:
            pairs.append((path, value))
    return pairs
