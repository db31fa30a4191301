"""The settings file `config.toml`, and the data files of the package such as templates.

People and `vyane config set` write `config.toml`; every command and hook reads it.
"""

from __future__ import annotations

import os

from vyane_cli.errors import CorruptStateError, InvalidInputError, StorageError
from vyane_cli.kernel.config import DEFAULTS, ChannelKeys, Config, parse_config
from vyane_cli.kernel.text import Templates
from vyane_cli.storage import files
from vyane_cli.storage.layout import Layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


MARK = "\ufeff"
"""The byte order mark that some editors write at the start of a file."""


def load_config(layout: Layout, channels: Callable[[], ChannelKeys] | None = None) -> Config:
    """Load the settings in force. A file with only comments does not import the TOML parser."""
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
    """Return the file's text for `save_text`, with its line ends and any invalid UTF-8 kept.

    Empty if the file is missing.
    """
    try:
        with open(layout.config, encoding="utf-8", errors="surrogateescape", newline="") as file:
            return file.read()
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise StorageError(layout.config, error) from error


def save_text(layout: Layout, text: str) -> None:
    """Replace the file, durably. A crash leaves the old or the new file."""
    files.make_directories(layout.root)
    files.replace(layout.config, text.encode("utf-8", "surrogateescape"))


PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def data_folder(name: str) -> str:
    """Return a data folder: inside the package if installed, beside it in a checkout."""
    inside = os.path.join(PACKAGE, name)
    return inside if os.path.isdir(inside) else os.path.join(os.path.dirname(PACKAGE), name)


def load_templates(language: str, page: str = "envelopes") -> Templates:
    """Load the templates of a language: texts for agents (`envelopes`) or people (`mirror`)."""
    path = os.path.join(data_folder("state_templates"), f"{page}.{language}.txt")
    try:
        with open(path, encoding="utf-8") as file:
            return Templates(parse(file.read()))
    except OSError as error:
        raise StorageError(path, error) from error


def parse(text: str) -> dict[str, str]:
    """Parse a template file. Return the text of each section by name.

    `== NAME ==` begins a section. Its text has no line ends at its start and end. Lines before the
    first section are ignored.
    """
    sections: dict[str, list[str]] = {}
    name = ""
    for line in text.splitlines():
        if line.startswith("== ") and line.endswith(" =="):
            name = line[3:-3]
            sections[name] = []
        elif name:
            sections[name].append(line)
    return {name: "\n".join(lines).strip("\n") for name, lines in sections.items()}
