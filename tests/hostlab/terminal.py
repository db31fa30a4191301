"""The interactive client in a private tmux server: keys in, screen and session record out."""

import contextlib
import json
import os
import shlex
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hostlab.waiting import wait_until

SIZE = ("140", "50")


class Tui:
    """One interactive client. Every wait fails with the screen in its message."""

    def __init__(
        self, prefix: Sequence[str], socket: Path, command: Sequence[str], records: Path
    ) -> None:
        """Start `command` in a tmux server that `prefix` starts.

        The socket's path must be short. In `records` the client keeps PID.json while it lives.
        """
        self.socket = str(socket)
        self.records = records
        # `exec`, so that the pane's process becomes the client itself
        columns, lines = SIZE
        start = ["new-session", "-d", "-x", columns, "-y", lines, "exec " + shlex.join(command)]
        subprocess.run([*prefix, *self._tmux(*start)], check=True)
        self.pid = int(self.tmux("display-message", "-p", "#{pane_pid}"))

    def _tmux(self, *args: str) -> list[str]:
        return ["tmux", "-S", self.socket, "-f", "/dev/null", *args]

    def tmux(self, *args: str) -> str:
        """A tmux command and what it prints; nothing when the server is gone."""
        done = subprocess.run(self._tmux(*args), text=True, capture_output=True, check=False)
        return done.stdout

    # --- out ---

    def screen(self) -> str:
        """What a person sees."""
        return self.tmux("capture-pane", "-p")

    def history(self) -> str:
        """The screen and 500 lines above it."""
        return self.tmux("capture-pane", "-p", "-S", "-500")

    def box(self) -> str | None:
        """What stands in the input box, None without one."""
        lines = [line for line in self.screen().splitlines() if line.startswith("❯")]
        return lines[-1].removeprefix("❯").strip() if lines else None

    def record(self) -> dict[str, Any]:
        """The client's own record of the live session; empty while it has none."""
        try:
            found: dict[str, Any] = json.loads((self.records / f"{self.pid}.json").read_bytes())
        except (OSError, ValueError):
            return {}
        return found

    @property
    def session_id(self) -> str:
        """The host's id of the session that is open now."""
        return str(self.record()["sessionId"])

    def status(self) -> str | None:
        """`idle`, `busy` (hooks of a prompt and of Stop included) or `waiting` (a dialog)."""
        return self.record().get("status")

    def alive(self) -> bool:
        """Whether the client still runs."""
        return os.path.exists(f"/proc/{self.pid}") and bool(self.tmux("list-panes").strip())

    # --- in ---

    def keys(self, *names: str) -> None:
        """Press keys, by tmux's names."""
        self.tmux("send-keys", *names)

    def write(self, text: str) -> None:
        """Put text into the input box and see it there.

        The client drops keys in its first moments, so what did not arrive is written again.
        """
        for _ in range(5):
            self.tmux("send-keys", "-l", text)
            with contextlib.suppress(TimeoutError):
                wait_until(lambda: (self.box() or "").startswith(text), "echo", timeout_s=2)
                return
            self.keys("C-u")
        raise TimeoutError(f"{text!r} does not appear in the input box:\n{self.screen()}")

    def submit(self, text: str) -> None:
        """Type a prompt or a slash command, and see it taken."""
        self.write(text)
        for _ in range(5):
            self.keys("Enter")
            with contextlib.suppress(TimeoutError):
                wait_until(lambda: text not in (self.box() or ""), "taken", timeout_s=2)
                return
        raise TimeoutError(f"{text!r} is not taken:\n{self.screen()}")

    def interrupt(self) -> None:
        """Press Esc, and see the turn end."""
        self.keys("Escape")
        self.wait_status("idle")

    # --- waiting ---

    def wait_for(self, text: str, *, timeout_s: float = 15.0) -> None:
        """Wait until the text was on the screen. Choose one that is not in the folder's name."""
        self._wait(lambda: text in self.history(), repr(text), timeout_s)

    def wait_status(self, status: str, *, timeout_s: float = 15.0) -> None:
        """Wait for a status of the session record."""
        self._wait(lambda: self.status() == status, f"status {status}", timeout_s)

    def ready(self) -> None:
        """Wait for the input box of a session that has begun."""
        self._wait(lambda: self.box() is not None and self.status() == "idle", "a prompt", 20.0)

    def gone(self) -> None:
        """Wait until the client has ended."""
        self._wait(lambda: not self.alive(), "the client's end", 15.0)

    def _wait(self, condition: Any, what: str, timeout_s: float) -> None:
        wait_until(condition, what, timeout_s=timeout_s, context=self.screen)

    # --- ending ---

    def leave(self) -> None:
        """Leave as a person does, and wait for the end."""
        self.submit("/exit")
        self.gone()

    def kill(self) -> None:
        """Kill the client: it runs no hook and cleans up nothing."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self.gone()

    def close(self) -> None:
        """Close the terminal; the client gets SIGHUP."""
        self.tmux("kill-server")
