"""Entry of the command `vyane`: host calls go to `hook`, everything else to `cli.app`."""

from __future__ import annotations

import os
import sys

HOSTS_WITH_HOOKS = ("claude-code",)


def main() -> None:
    """Run the command `vyane`."""
    words = sys.argv[1:]
    asks = {"--dry-run", "--help", "-h"} & set(words) or _typed(words)
    if _command(words) == "tick" and not asks and _host(words) in HOSTS_WITH_HOOKS:
        from vyane_cli import hook

        hook.main(words)
    from vyane_cli.cli.app import main as people

    people()


def _typed(words: list[str]) -> bool:
    """Return whether a person typed the command: hosts call through the guard, or on a pipe."""
    return "--guard" not in words and os.isatty(0)


def _command(words: list[str]) -> str:
    """Return the first word that is not a global option or its value."""
    waiting = False
    for word in words:
        if not (waiting or word.startswith("-")):
            return word
        waiting = word == "--home" and not waiting
    return ""


def _host(words: list[str]) -> str:
    for position, word in enumerate(words):
        if word == "--host":
            return words[position + 1] if position + 1 < len(words) else HOSTS_WITH_HOOKS[0]
        if word.startswith("--host="):
            return word[len("--host=") :]
    return HOSTS_WITH_HOOKS[0]


if __name__ == "__main__":
    main()
