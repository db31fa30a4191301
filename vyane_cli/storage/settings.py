"""`config.toml`: written by people and by `vyane config set`, read by everything."""

from __future__ import annotations

from vyane_cli.errors import CorruptStateError, InvalidInputError, StorageError
from vyane_cli.kernel.config import DEFAULTS, ChannelKeys, Config, parse_config
from vyane_cli.storage import files
from vyane_cli.storage.layout import Layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


MARK = "\ufeff"
"""The byte order mark that some editors write first."""


def load(layout: Layout, channels: Callable[[], ChannelKeys] | None = None) -> Config:
    """The settings in force. A file of comments alone costs no TOML parser."""
    text = read_text(layout).removeprefix(MARK)
    text = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if all(line.lstrip()[:1] in ("", "#") for line in text.splitlines()):
        return DEFAULTS
    import tomllib

    try:
        return parse_config(tomllib.loads(text), channels)
    except tomllib.TOMLDecodeError as error:
        raise CorruptStateError(
            layout.config, str(error), hint="mend it by hand, or move it away for the defaults"
        ) from None
    except InvalidInputError as error:
        raise InvalidInputError(
            f"{layout.config}: {error.field}", error.value, error.expected, hint=error.hint
        ) from None


def read_text(layout: Layout) -> str:
    """The file as it is, for `save_text`: its line ends, and bytes that are no UTF-8, too.

    Empty when there is none.
    """
    try:
        with open(layout.config, encoding="utf-8", errors="surrogateescape", newline="") as file:
            return file.read()
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise StorageError(layout.config, error) from error


def save_text(layout: Layout, text: str) -> None:
    """Replace the file, durably; a crash leaves the old or the new one."""
    files.make_directories(layout.root)
    files.replace(layout.config, text.encode("utf-8", "surrogateescape"))
