"""Short forms of scripted answers: what the model says, and where a turn stands still."""

import shlex
from pathlib import Path
from typing import Any

from hostlab.waiting import wait_until

Block = str | dict[str, Any]
Turn = dict[str, Any]


def turn(*blocks: Block, **options: object) -> Turn:
    """One scripted answer; the options are those of `mock_anthropic`, such as `delay=2`."""
    return {"blocks": list(blocks), **options}


def bash(command: str) -> Block:
    """A call of the Bash tool."""
    return {"tool": "Bash", "input": {"command": command}}


class Hold:
    """A Bash call that lasts until it is let go: a turn that stands still at a known place."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._reached, self._free = folder / "reached", folder / "free"
        reached, free = shlex.quote(str(self._reached)), shlex.quote(str(self._free))
        self.call = bash(
            f"touch {reached}; until [ -e {free} ]; do read -t 0.05 <> <(:); done; echo released"
        )
        """The block for a script."""

    def reached(self) -> None:
        """Wait until the tool runs."""
        wait_until(self._reached.exists, "the held tool call runs")

    def release(self) -> None:
        """Let the tool end."""
        self._free.touch()


def subagent(prompt: str) -> Block:
    """A call of the Agent tool. The interactive client runs it in the background."""
    task = {"description": "Look", "prompt": prompt, "subagent_type": "general-purpose"}
    return {"tool": "Agent", "input": task}
