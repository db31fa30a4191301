"""One client of a lab: its project folder, its answers, and what it asked the model."""

import contextlib
import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from hostlab.conversation import Request, load_requests
from hostlab.script import Turn
from hostlab.terminal import Tui
from hostlab.waiting import unchanged, wait_until

if TYPE_CHECKING:
    from hostlab.lab import Lab

FAKE_KEY = "sk-ant-test-fake-0000000000000000000000"
# "default", because the client's own default ("auto") asks a server that is not here about each
# tool, and then stops at a dialog.
PERMISSIONS = {"defaultMode": "default", "allow": ["Bash", "Read", "Write", "Edit", "Agent"]}


class Client:
    """One client: its project folder, its answers, and what it asked the model."""

    def __init__(self, lab: "Lab", name: str, project: Path) -> None:
        self.lab = lab
        self.name = name
        self.project = project
        self._script = lab.wire / f"{name}.script.json"
        self._log = lab.wire / f"{name}.requests.jsonl"
        self._turns: list[Turn] = []

    def hooks(self, **spec: Mapping[str, object]) -> None:
        """Hooks of the project: hooks(Stop={"command": ..., "asyncRewake": True})."""
        hooks = {
            event: [{"hooks": [{"type": "command", **handler}]}] for event, handler in spec.items()
        }
        settings = {"permissions": PERMISSIONS, "hooks": hooks}
        (self.project / ".claude" / "settings.json").write_text(json.dumps(settings))

    def script(self, *turns: Turn) -> None:
        """Add answers behind those that are there. In force when this returns."""
        self._turns += turns
        part = self._script.with_suffix(".part")
        part.write_text(json.dumps(self._turns))
        part.replace(self._script)

    def requests(self, kind: str = "main") -> list[Request]:
        """What reached the model so far, oldest first."""
        return [request for request in load_requests(self._log) if request.kind == kind]

    def request(self, number: int, *, timeout_s: float = 15.0) -> Request:
        """Wait for the request of this number, the first being 1."""
        wait_until(
            lambda: len(self.requests()) >= number,
            f"request {number} of {self.name}",
            timeout_s=timeout_s,
            context=self.log_text,
        )
        return self.requests()[number - 1]

    def request_with(self, text: str, *, after: int = 0, timeout_s: float = 15.0) -> Request:
        """Wait for the first request that holds the text, the first `after` requests aside."""

        def found() -> Request | None:
            return next((r for r in self.requests()[after:] if text in r.text), None)

        request = wait_until(
            found,
            f"a request of {self.name} with {text!r}",
            timeout_s=timeout_s,
            context=self.log_text,
        )
        assert request is not None
        return request

    def last_request(self, *, quiet_s: float = 2.0) -> Request:
        """The latest request, once no other has come for `quiet_s` seconds."""
        unchanged(lambda: len(self.requests()), for_s=quiet_s)
        return self.requests()[-1]

    def log_text(self) -> str:
        """The newest user message of each request, for the message of a failure."""
        return "\n".join(f"{r.at:.2f} turn {r.turn}: {r.newest[-300:]!r}" for r in self.requests())

    # --- running ---

    def environment(self) -> dict[str, str]:
        """What the client is started with."""
        return {
            **self.lab.user_environment(),
            "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{self.lab.port}/{self.name}",
            "ANTHROPIC_API_KEY": FAKE_KEY,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_ERROR_REPORTING": "1",
        }

    def command(self, *args: str) -> list[str]:
        """The command line that runs the client in the lab."""
        return [*self.lab.enter(self.project, self.environment()), self.lab.binary, *args]

    def run(
        self, prompt: str, *args: str, timeout_s: float = 60.0
    ) -> subprocess.CompletedProcess[str]:
        """claude -p PROMPT ARGS"""
        return subprocess.run(
            self.command("-p", prompt, *args),
            text=True,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )

    @contextlib.contextmanager
    def tui(self, *args: str) -> Iterator[Tui]:
        """The interactive client, ready for a prompt; ended on the way out."""
        env = {key: self.lab.user_environment()[key] for key in ("PATH", "TERM", "LANG", "HOME")}
        socket = self.lab.short / f"{self.name}.tmux"
        prefix = self.lab.enter(self.project, env)
        tui = Tui(prefix, socket, self.command(*args), self.lab.config / "sessions")
        try:
            tui.ready()
            yield tui
        finally:
            tui.close()
