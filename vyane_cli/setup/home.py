"""Init: the state folder and a config.toml in which every key stands with its default."""

from __future__ import annotations

import os
from dataclasses import dataclass

from vyane_cli.kernel.config import KEYS
from vyane_cli.storage import files, settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Runtime

FOLDERS = ("sessions", "processes", "current", "wake", "beat", "due", "locks")


@dataclass(frozen=True, slots=True, kw_only=True)
class Initialised:
    """The state folder, and whether it was made."""

    home: str
    created: bool
    config: str


def initialise(runtime: Runtime) -> Initialised:
    """Make what is missing. A crash leaves some of it; the next run makes the rest."""
    layout = runtime.layout
    created = not os.path.isdir(layout.root)
    for folder in ("", *FOLDERS):
        path = layout(folder) if folder else layout.root
        if not os.path.isdir(path):
            files.make_directories(path)
    if not os.path.exists(layout.config):
        settings.save_text(layout, default_text())
    return Initialised(home=layout.root, created=created, config=layout.config)


def default_text() -> str:
    """The commented settings file."""
    lines = [
        "# Settings of vyane. Each key stands here with its default; take the # away to set it."
    ]
    section = None
    for key, known in KEYS.items():
        head, _, name = key.rpartition(".")
        if head != section:
            lines += [""] + ([f"# [{head}]"] if head else [])
            section = head
        lines += [f"# {known.doc}", f"# {name} = {_toml(known.default)}"]
    return "\n".join(lines) + "\n"


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)
