"""Stages: simulated sessions of Claude Code that exist before a page's first command runs."""

import json
import subprocess
import threading
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

from vyane_cli.setup import simulation


class Session:
    """A process that stands for Claude Code: it calls the hooks, and watches its wake file."""

    def __init__(self, home: Path, environ: Mapping[str, str], project: str) -> None:
        self.folder = home / "src" / project
        git = self.folder / ".git"
        git.mkdir(parents=True)
        (git / "HEAD").write_text("ref: refs/heads/main\n")
        self.id, self.turn = str(uuid.uuid4()), ""
        self.process = simulation.start_process()
        self.environ = {**environ, **simulation.identity(self.id, self.process.pid)}
        self.wake = home / ".config" / "vyane" / "wake" / self.id
        self.ended = threading.Event()
        self.watcher = threading.Thread(target=self._watch, daemon=True)

    def hook(
        self, event: str, *options: str, **payload: object
    ) -> "subprocess.CompletedProcess[bytes]":
        """Run one hook call."""
        data = simulation.placed(
            {"hook_event_name": event, **payload}, self.id, str(self.folder), turn=self.turn
        )
        command = ["vyane", "tick", "--host", "claude-code", "--event", event, *options]
        return subprocess.run(
            command,
            input=json.dumps(data).encode(),
            env=self.environ,
            capture_output=True,
            check=False,
        )

    def prompt(self, text: str) -> None:
        """Start a turn with a prompt."""
        self.turn = str(uuid.uuid4())
        self.hook("UserPromptSubmit", prompt=text)

    def stop(self) -> None:
        """End the turn."""
        self.hook("Stop", stop_hook_active=False, last_assistant_message="Done.")

    def start(self) -> None:
        """Start the session, and the watch of its wake file."""
        self.hook("SessionStart", source="startup")
        self.watcher.start()

    def _watch(self) -> None:
        """Watch the wake file as the host does: a write is a FileChanged, exit 2 starts a turn."""
        seen = self.wake.stat().st_mtime_ns
        while not self.ended.wait(0.02):
            now = self.wake.stat().st_mtime_ns
            if now == seen:
                continue
            seen = now
            done = self.hook("FileChanged", "--rewake", file_path=str(self.wake))
            if done.returncode == 2:
                self.prompt(simulation.wake_prompt(done.stderr.decode()))
                self.stop()  # one tick proves the delivery and ends the turn: no look in between

    def close(self) -> None:
        """End the process that stands for the host."""
        self.ended.set()
        simulation.end(self.process)
        self.watcher.join()  # a sleeping hook ends within a second after the host


class TwoSessions:
    """A stage with two sessions: `api-main` in the middle of a turn, and `web-main` idle."""

    def __init__(self, home: Path, environ: Mapping[str, str]) -> None:
        subprocess.run(["vyane", "init"], env=dict(environ), check=True, capture_output=True)
        self.api, self.web = (Session(home, environ, name) for name in ("api", "web"))
        self.web.start()
        self.web.prompt("what does the cart do?")
        self.web.stop()
        self.api.start()
        self.api.prompt("change the unit of orders.total")

    def close(self) -> None:
        """End both sessions."""
        self.api.close()
        self.web.close()


STAGES: Mapping[str, Callable[[Path, Mapping[str, str]], TwoSessions]] = {
    "README.md": TwoSessions,
    "docs/how-to/why-was-it-not-delivered.md": TwoSessions,
}
