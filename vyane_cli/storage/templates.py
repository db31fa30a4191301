"""The texts of `state_templates/`: shipped with the package, read as they are needed."""

from __future__ import annotations

import os

from vyane_cli.errors import StorageError
from vyane_cli.kernel.text import Templates

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def data_folder(name: str) -> str:
    """A data folder: inside the package when installed, beside it in a checkout."""
    inside = os.path.join(PACKAGE, name)
    return inside if os.path.isdir(inside) else os.path.join(os.path.dirname(PACKAGE), name)


def load(language: str, page: str = "envelopes") -> Templates:
    """The texts of a language: what agents read (`envelopes`), or people (`mirror`)."""
    path = os.path.join(data_folder("state_templates"), f"{page}.{language}.txt")
    try:
        with open(path, encoding="utf-8") as file:
            return Templates(parse(file.read()))
    except OSError as error:
        raise StorageError(path, error) from error


def parse(text: str) -> dict[str, str]:
    """Sections by name; a section's text is without its final line end. `#` begins a comment."""
    sections: dict[str, list[str]] = {}
    name = ""
    for line in text.splitlines():
        if line.startswith("== ") and line.endswith(" =="):
            name = line[3:-3]
            sections[name] = []
        elif name:
            sections[name].append(line)
    return {name: "\n".join(lines).strip("\n") for name, lines in sections.items()}
