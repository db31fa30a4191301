"""The completion script of a shell, as it was shipped."""

from __future__ import annotations

import os

from vyane_cli.storage.templates import data_folder


def script(shell: str) -> str:
    """The text of `completions/vyane.SHELL`."""
    with open(os.path.join(data_folder("completions"), f"vyane.{shell}"), encoding="utf-8") as file:
        return file.read()
