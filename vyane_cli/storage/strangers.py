"""What lies in the state folder and is not vyane's: VYANE_HOME may name a repository by mistake."""

from __future__ import annotations

import os

from vyane_cli.storage import files

SIGNS = frozenset({"worker-registry.json", "timelines", "wake", "beat"})
"""What tells a state folder from any other folder: each has one of them from its first day."""

OURS = SIGNS | {
    "bindings.json", "config.toml", "current", "due", "hooks", "launches", "locks", "log",
    "logical-sessions", "logs", "messages", "mirror", "processes", "projects", "quarantine",
    "queue", "sessions", "threads", "worker-names",
}  # fmt: skip
"""All that vyane makes directly in it."""


def strangers(root: str) -> list[str]:
    """Names of what vyane did not make directly in the folder.

    Beside them nothing is ours for its name alone: a repository has `hooks` and `projects` too.
    """
    return sorted(name for name in set(os.listdir(root)) - OURS if not files.is_temporary(name))
