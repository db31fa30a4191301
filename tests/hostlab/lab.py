"""The real Claude Code client, closed off from every network, against the scripted model.

    with Lab(tmp_path / "lab") as lab:
        bob = lab.client("bob")
        bob.script(turn(bash("vyane send ann hi")), turn("done"))
        bob.run("go")                          # claude -p go
        assert "hi" in bob.requests()[1].text  # what the model was sent
        with bob.tui() as tui:                 # the interactive client, in tmux
            tui.submit("hello")

Everything runs in a network and mount namespace of its own in which only the loopback interface is
up; the mock server holds it open. The client gets an environment made from nothing, and a HOME and
a CLAUDE_CONFIG_DIR under the lab's root. A mount made through `Lab.mount_read_only` is seen inside
only. When the lab closes, every process in its namespace is ended: nothing outlives a test.

Needs Linux, `unshare`, `nsenter`, `mount`, `ip` and tmux; root, or unprivileged user namespaces.
"""

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from hostlab.client import FAKE_KEY, PERMISSIONS, Client
from hostlab.conversation import load_lines
from hostlab.script import Hold
from hostlab.waiting import wait_until

HERE = Path(__file__).resolve().parent
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class ClientMissingError(RuntimeError):
    """HOSTLAB_CLAUDE names no client."""


def find_client() -> str:
    """The client's native binary, from $HOSTLAB_CLAUDE."""
    path = os.environ.get("HOSTLAB_CLAUDE", "")
    if not os.access(path, os.X_OK) or not os.path.isfile(path):
        raise ClientMissingError(
            f"HOSTLAB_CLAUDE must name the native binary of Claude Code, and {path!r} is none:"
            " `make e2e` installs the client and sets it."
        )
    return path


class Lab:
    """The namespace, the mock server, and one user's HOME and client configuration."""

    def __init__(
        self, root: Path, *, path: str = SYSTEM_PATH, env: Mapping[str, str] | None = None
    ) -> None:
        self.binary = find_client()
        self.root = root.resolve()
        self.home = self.root / "home"
        self.config = self.root / "config"
        self.wire = self.root / "wire"  # scripts and request logs
        self.hook_log = self.root / "hooks.jsonl"
        self.path = path
        self.env = dict(env or {})
        self.clients: dict[str, Client] = {}
        self.short = Path()  # sockets lie here: their paths must stay below 108 bytes
        self.port = 0
        self._holds = 0
        self._server: subprocess.Popen[bytes] | None = None

    # --- opening and closing ---

    def __enter__(self) -> "Lab":
        for folder in (self.home, self.config, self.wire):
            folder.mkdir(parents=True)
        self.short = Path(tempfile.mkdtemp(prefix="hl-", dir="/tmp"))
        try:
            self._start()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close()

    def _start(self) -> None:
        # Onboarding and the question about the key, answered beforehand.
        self._write_state(
            {
                "hasCompletedOnboarding": True,
                "theme": "dark",
                "numStartups": 5,
                "installMethod": "native",
                "autoUpdates": False,
                "customApiKeyResponses": {"approved": [FAKE_KEY[-20:]], "rejected": []},
                "projects": {},
            }
        )
        server = [sys.executable, "-B", "-m", "hostlab.mock_anthropic", str(self.wire)]
        inner = "ip link set lo up && exec " + shlex.join(server)
        rootless = [] if os.geteuid() == 0 else ["--map-root-user"]
        self._server = subprocess.Popen(
            ["unshare", *rootless, "--net", "--mount", "sh", "-c", inner],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            cwd=self.root,
            env={"PATH": SYSTEM_PATH, "PYTHONPATH": str(HERE.parent)},
        )
        port = self.wire / "port"
        wait_until(
            lambda: port.exists() or self._process.poll() is not None, "the mock server starts"
        )
        if self._process.poll() is not None:
            raise RuntimeError("the mock server ended: may this user make namespaces?")
        self.port = int(port.read_text())
        links = json.loads(self.inside("ip", "-json", "link"))
        if [link["ifname"] for link in links] != ["lo"]:
            raise RuntimeError(f"refusing to run with a way out: {links}")

    @property
    def _process(self) -> subprocess.Popen[bytes]:
        assert self._server is not None, "the lab is not open"
        return self._server

    def _close(self) -> None:
        if self._server is not None:
            with contextlib.suppress(TimeoutError):  # what does not end by itself is killed below
                self._end_processes()
            self._server.kill()
            self._server.wait()
            self._server = None
        shutil.rmtree(self.short, ignore_errors=True)

    def _end_processes(self) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            for pid in self.processes():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            with contextlib.suppress(TimeoutError):
                wait_until(lambda: not self.processes(), "all processes end", timeout_s=3)
                return

    def processes(self) -> list[int]:
        """Every process in the lab's namespace, the mock server aside."""
        assert self._process.pid
        mine = _namespace_of(self._process.pid)
        found = (int(name) for name in os.listdir("/proc") if name.isdigit())
        return [p for p in found if p != self._process.pid and mine and _namespace_of(p) == mine]

    def processes_left(self, *, timeout_s: float = 5.0) -> list[int]:
        """The processes that do not end by themselves in that time."""
        with contextlib.suppress(TimeoutError):
            wait_until(lambda: not self.processes(), "all processes end", timeout_s=timeout_s)
        return self.processes()

    def _write_state(self, state: dict[str, Any]) -> None:
        (self.config / ".claude.json").write_text(json.dumps(state))

    # --- running something inside ---

    def enter(self, folder: Path, env: Mapping[str, str]) -> list[str]:
        """The command prefix that runs something inside, in `folder`, with only this `env`."""
        rootless = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
        pairs = [f"{name}={value}" for name, value in env.items()]
        target = ["nsenter", "--target", str(self._process.pid), *rootless, "--net", "--mount"]
        # the working directory is lost with the mount namespace: `env -C` sets it again
        return [*target, "env", "-i", "-C", str(folder), *pairs]

    def inside(self, *command: str) -> str:
        """Run a system command inside the namespace and return what it prints."""
        prefix = self.enter(self.root, {"PATH": SYSTEM_PATH})
        return subprocess.run(
            [*prefix, *command], check=True, stdout=subprocess.PIPE, text=True
        ).stdout

    def mount_read_only(self, folder: Path) -> None:
        """Make a folder read-only for everything in the lab, root included."""
        self.inside("mount", "--bind", str(folder), str(folder))
        self.inside("mount", "-o", "remount,bind,ro", str(folder))

    def unmount(self, folder: Path) -> None:
        """Undo `mount_read_only`."""
        self.inside("umount", "--lazy", str(folder))

    def user_environment(self) -> dict[str, str]:
        """What a shell of the lab's user would have, the client's own settings included."""
        return {
            "PATH": self.path,
            "HOME": str(self.home),
            "CLAUDE_CONFIG_DIR": str(self.config),
            "TMPDIR": str(self.short),
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "SHELL": "/bin/bash",
            "USER": "user",
            "HOSTLAB_HOOK_LOG": str(self.hook_log),
            **self.env,
        }

    # --- clients and hooks ---

    def client(self, name: str, *, project: Path | None = None) -> Client:
        """A client of this user with answers and a request log of its own.

        Its folder is a new one of its name, unless it shares one. The name is also a part of a
        URL and of file names.
        """
        folder = project or self.root / "projects" / name
        folder.mkdir(parents=True, exist_ok=True)
        state = json.loads((self.config / ".claude.json").read_bytes())
        state["projects"][str(folder)] = {
            "hasTrustDialogAccepted": True,
            "hasCompletedProjectOnboarding": True,
            "projectOnboardingSeenCount": 3,
        }
        self._write_state(state)
        settings = folder / ".claude" / "settings.json"
        if not settings.exists():
            settings.parent.mkdir()
            settings.write_text(json.dumps({"permissions": PERMISSIONS}))
        self.clients[name] = Client(self, name, folder)
        return self.clients[name]

    def hold(self) -> Hold:
        """A new held tool call."""
        self._holds += 1
        return Hold(self.root / f"hold-{self._holds}")

    def recorder(self, **options: str) -> str:
        """A hook command line for `record_hook.py`: recorder(tag="stop", exit="2")."""
        words = [sys.executable, "-B", str(HERE / "record_hook.py")]
        for name, value in options.items():
            words += ["--" + name.replace("_", "-"), value]
        return shlex.join(words)

    def hook_calls(self, event: str | None = None, *, phase: str = "start") -> list[dict[str, Any]]:
        """What `record_hook.py` saw."""
        return [
            call
            for call in load_lines(self.hook_log)
            if call["phase"] == phase and event in (None, call["payload"].get("hook_event_name"))
        ]


def _namespace_of(pid: int) -> str | None:
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return None
