"""Simulated sessions: hook calls without an agent, on a temporary home.

Each session has a real process, and its hooks run as Claude Code runs them: the installed guard in
exec form, the payload on standard input, the session in the environment. The agents' commands run
`vyane` as in their shells. The user's own state is never touched.

The building blocks of every simulated session come first: its process, its environment variables,
the session fields of a payload, and the prompt of a wake. The tests build their sessions from the
same blocks.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping
from typing import Any, NamedTuple

from vyane_cli.errors import VyaneError
from vyane_cli.storage import files, settings
from vyane_cli.storage.layout import Layout

PROGRAM = (
    'import sys; sys.path.insert(0, sys.argv.pop(1)); sys.argv[0] = "vyane"\n'
    "from vyane_cli.__main__ import main; main()"
)
PATIENCE_S = 60.0
"""Longest time, in seconds, that a hook or a command may take."""


WATCH_S = 5.0


class Ran(NamedTuple):
    """The result of a process: its exit status and its output."""

    status: int
    out: str
    err: str

    @property
    def context(self) -> str:
        """Return the text that a hook's answer gives to the model, or an empty text."""
        try:
            answer = json.loads(self.out) if self.out else {}
        except ValueError:
            return ""
        specific = answer.get("hookSpecificOutput", {}) if isinstance(answer, dict) else {}
        return str(specific.get("additionalContext") or "")


# --- building blocks of a session ---


def start_process() -> subprocess.Popen[bytes]:
    """Start a process that does nothing and ends with this one. Ctrl-C does not reach it."""
    pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
    return subprocess.Popen(["cat"], stdin=pipe, stdout=nowhere, start_new_session=True)


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process of `start_process` by SIGKILL."""
    process.kill()
    process.wait()
    if process.stdin is not None:
        process.stdin.close()


def identity(session: str, pid: int, *, attended: bool = True) -> dict[str, str]:
    """Return the environment variables that identify the client's session and process."""
    return {
        "CLAUDE_PID": str(pid),
        "CLAUDE_CODE_SESSION_ID": session,
        "CLAUDE_CODE_SESSION_ATTENDED": "1" if attended else "0",
    }


def placed(
    payload: Mapping[str, Any], session: str, cwd: str, *, transcript: str = "", turn: str = ""
) -> dict[str, Any]:
    """Return the payload with the fields of a session, a folder and a turn; "" omits a field."""
    where = {"session_id": session, "cwd": cwd, "transcript_path": transcript, "prompt_id": turn}
    return {**payload, **{name: value for name, value in where.items() if value}}


def wake_prompt(text: str) -> str:
    """Return the prompt of the turn that a wake with this text starts."""
    return (
        "<task-notification>\n<summary>FileChanged hook feedback</summary>\n"
        f"</task-notification>\n<system-reminder>\n{text}\n</system-reminder>"
    )


# --- a home and its sessions ---


class DemoStage:
    """A temporary home with its state root, and the processes of its sessions."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.layout = Layout(os.path.join(folder, "vyane"))
        self.environ = {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "HOME": folder,
            "VYANE_HOME": self.layout.root,
            "CLAUDE_CONFIG_DIR": os.path.join(folder, "claude"),
            "LC_ALL": "C.UTF-8",
        }
        self._processes: list[subprocess.Popen[bytes]] = []

    def vyane(self, *words: str, environ: Mapping[str, str] | None = None) -> Ran:
        """Run a `vyane` command as a shell does, without a terminal."""
        package = os.path.dirname(settings.PACKAGE)
        command = [sys.executable, "-P", "-c", PROGRAM, package, *words]
        return self.run(command, environ or self.environ, self.folder)

    def run(
        self,
        command: list[str],
        environ: Mapping[str, str],
        cwd: str,
        data: bytes = b"",
        *,
        deaf: bool = False,
    ) -> Ran:
        """Run a command to its end. With `deaf` its output pipe has no reader, as after a crash."""
        out: int = subprocess.PIPE
        if deaf:
            reader, out = os.pipe()
            os.close(reader)
        try:
            ran = subprocess.run(
                command,
                input=data,
                stdout=out,
                stderr=subprocess.PIPE,
                env=dict(environ),
                cwd=cwd,
                timeout=PATIENCE_S,
                check=False,
                start_new_session=True,
            )
        finally:
            if deaf:
                os.close(out)
        said = (ran.stdout or b"").decode("utf-8", "replace")
        return Ran(ran.returncode, said, ran.stderr.decode("utf-8", "replace"))

    def session(self, project: str, branch: str = "main") -> Session:
        """Return a new session in a project's folder; the session is not started yet."""
        folder = os.path.join(self.folder, project)
        head = os.path.join(folder, ".git", "HEAD")
        if not os.path.exists(head):
            files.make_directories(os.path.dirname(head))
            files.replace(head, f"ref: refs/heads/{branch}\n".encode())
        return Session(self, folder)

    def process(self) -> subprocess.Popen[bytes]:
        """Start the process of a session, which ends with the stage."""
        started = start_process()
        self._processes.append(started)
        return started

    def close(self) -> None:
        """End every process that the stage started."""
        for process in self._processes:
            end(process)


class Session:
    """One simulated session of Claude Code, as its hooks see it."""

    def __init__(self, stage: DemoStage, folder: str) -> None:
        self.stage, self.folder = stage, folder
        self.id = str(uuid.uuid4())
        self.turn = ""
        self._tools = 0
        self.process = stage.process()

    @property
    def environ(self) -> dict[str, str]:
        """Return the environment that the client gives to the session's hooks and shells."""
        return {
            **self.stage.environ,
            "CLAUDECODE": "1",
            **identity(self.id, self.process.pid),
            "CLAUDE_PROJECT_DIR": self.folder,
        }

    def vyane(self, *words: str) -> Ran:
        """Run a `vyane` command as the session's agent does, in its shell."""
        return self.stage.vyane(*words, environ=self.environ)

    def hook(self, name: str, /, *words: str, deaf: bool = False, **fields: Any) -> Ran:
        """Run the guard for an event, as the client does."""
        transcript = os.path.join(self.folder, "transcript.jsonl")
        payload = placed(
            {"hook_event_name": name, "permission_mode": "default", **fields},
            self.id, self.folder, transcript=transcript, turn=self.turn,
        )  # fmt: skip
        command = [self.stage.layout.guard, name, *words]
        data = json.dumps(payload).encode()
        return self.stage.run(command, self.environ, self.folder, data, deaf=deaf)

    def start(self, source: str = "startup") -> Ran:
        """Run the first handler of SessionStart.

        The second handler checks for changes that a late watch missed. The watch of a simulated
        session is never late, so that handler is left out.
        """
        return self.hook("SessionStart", source=source)

    def prompt(self, text: str) -> Ran:
        """Start a turn with a prompt."""
        self.turn = str(uuid.uuid4())
        return self.hook("UserPromptSubmit", prompt=text)

    def before_tool(self) -> Ran:
        """Run the hook before a tool call."""
        self._tools += 1
        return self.hook("PreToolUse", **self._tool())

    def after_tool(self, *, deaf: bool = False) -> Ran:
        """Run the hook after the tool calls of one step."""
        return self.hook("PostToolBatch", deaf=deaf, tool_calls=[self._tool()])

    def _tool(self) -> dict[str, Any]:
        name = f"toolu_{self.id[:8]}{self._tools:04}"
        return {"tool_name": "Bash", "tool_input": {"command": "make"}, "tool_use_id": name}

    def stop(self) -> Ran:
        """End the turn."""
        return self.hook("Stop", stop_hook_active=False, last_assistant_message="Done.")

    def wake_stamp(self) -> str:
        """Return a stamp that changes with each write of the watched file; "" without a file."""
        try:
            found = os.stat(self.stage.layout.wake(self.id))
        except FileNotFoundError:
            return ""
        return f"{found.st_mtime_ns}/{found.st_size}"

    def watch(self, before: str) -> Ran:
        """Wait, as the client does, until the watched file changes; then run its handler.

        Raises VyaneError when the file has not changed after WATCH_S seconds.
        """
        end = time.monotonic() + WATCH_S
        while self.wake_stamp() == before:
            if time.monotonic() > end:
                raise VyaneError("the file that the session watches did not change")
            time.sleep(0.01)
        path = self.stage.layout.wake(self.id)
        return self.hook("FileChanged", "rewake", file_path=path, event="change")

    def woken(self, text: str) -> Ran:
        """Start the turn of a wake: the client makes a prompt of the wake's text."""
        return self.prompt(wake_prompt(text))

    def close(self) -> None:
        """Close the session as the person does: SessionEnd, then the end of its process."""
        self.hook("SessionEnd", reason="prompt_input_exit")
        end(self.process)
        self.turn = ""

    def resume(self) -> Ran:
        """Resume the session in a new process, as `claude --resume` does."""
        self.process = self.stage.process()
        return self.start("resume")
