"""A simulation: sessions that are nothing but their hook calls, on a home of their own.

Each session has a process that is really there, and its hooks run as Claude Code runs them: the
installed guard in exec form, the payload on standard input, the session in the environment. The
agents' commands run as `vyane` does in their shells. The user's state is never touched.

What every simulated session is made of stands first: its process, its part of an environment, where
a payload is from, and the prompt of a wake. The tests build their sessions from the same.
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
"""So long a hook or a command may take before something is wrong."""


WATCH_S = 5.0


class Ran(NamedTuple):
    """What came of a process."""

    status: int
    out: str
    err: str

    @property
    def context(self) -> str:
        """What a hook's answer gives to the model; empty when it says nothing."""
        try:
            answer = json.loads(self.out) if self.out else {}
        except ValueError:
            return ""
        specific = answer.get("hookSpecificOutput", {}) if isinstance(answer, dict) else {}
        return str(specific.get("additionalContext") or "")


# --- what a session is made of ---


def start_process() -> subprocess.Popen[bytes]:
    """Start a process that does nothing but be there, for as long as we are. Ctrl-C is for us."""
    pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
    return subprocess.Popen(["cat"], stdin=pipe, stdout=nowhere, start_new_session=True)


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process that was started here, by SIGKILL."""
    process.kill()
    process.wait()
    if process.stdin is not None:
        process.stdin.close()


def identity(session: str, pid: int, *, attended: bool = True) -> dict[str, str]:
    """Return the variables by which hooks and shells know the client's session and process."""
    return {
        "CLAUDE_PID": str(pid),
        "CLAUDE_CODE_SESSION_ID": session,
        "CLAUDE_CODE_SESSION_ATTENDED": "1" if attended else "0",
    }


def placed(
    payload: Mapping[str, Any], session: str, cwd: str, *, transcript: str = "", turn: str = ""
) -> dict[str, Any]:
    """Return the payload as one of this session, in this folder and turn; "" leaves a field out."""
    where = {"session_id": session, "cwd": cwd, "transcript_path": transcript, "prompt_id": turn}
    return {**payload, **{name: value for name, value in where.items() if value}}


def wake_prompt(text: str) -> str:
    """Return the prompt of the turn that a wake with this text begins."""
    return (
        "<task-notification>\n<summary>FileChanged hook feedback</summary>\n"
        f"</task-notification>\n<system-reminder>\n{text}\n</system-reminder>"
    )


# --- a home and its sessions ---


class DemoStage:
    """A temporary home with its state root, and the processes of the sessions on it."""

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
        """Run `vyane` as a shell does, outside of a terminal."""
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
        """Run a command to its end. `deaf`: nobody reads what it prints, as after a crash."""
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
        """A session in a project's folder, not started yet."""
        folder = os.path.join(self.folder, project)
        head = os.path.join(folder, ".git", "HEAD")
        if not os.path.exists(head):
            files.make_directories(os.path.dirname(head))
            files.replace(head, f"ref: refs/heads/{branch}\n".encode())
        return Session(self, folder)

    def process(self) -> subprocess.Popen[bytes]:
        """A process of a session, which ends with the stage."""
        started = start_process()
        self._processes.append(started)
        return started

    def close(self) -> None:
        """End every process that was started here."""
        for process in self._processes:
            end(process)


class Session:
    """One session of Claude Code, as its hooks see it."""

    def __init__(self, stage: DemoStage, folder: str) -> None:
        self.stage, self.folder = stage, folder
        self.id = str(uuid.uuid4())
        self.turn = ""
        self._tools = 0
        self.process = stage.process()

    @property
    def environ(self) -> dict[str, str]:
        """What the client adds to the environment of its hooks and shells."""
        return {
            **self.stage.environ,
            "CLAUDECODE": "1",
            **identity(self.id, self.process.pid),
            "CLAUDE_PROJECT_DIR": self.folder,
        }

    def vyane(self, *words: str) -> Ran:
        """A command that the session's agent runs in its shell."""
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
        """SessionStart, by its first handler.

        The second one looks again for what a late watch missed, and this watch is never late.
        """
        return self.hook("SessionStart", source=source)

    def prompt(self, text: str) -> Ran:
        """A prompt begins a turn."""
        self.turn = str(uuid.uuid4())
        return self.hook("UserPromptSubmit", prompt=text)

    def before_tool(self) -> Ran:
        """A tool is about to run."""
        self._tools += 1
        return self.hook("PreToolUse", **self._tool())

    def after_tool(self, *, deaf: bool = False) -> Ran:
        """The tools of one step have run."""
        return self.hook("PostToolBatch", deaf=deaf, tool_calls=[self._tool()])

    def _tool(self) -> dict[str, Any]:
        name = f"toolu_{self.id[:8]}{self._tools:04}"
        return {"tool_name": "Bash", "tool_input": {"command": "make"}, "tool_use_id": name}

    def stop(self) -> Ran:
        """The turn is over."""
        return self.hook("Stop", stop_hook_active=False, last_assistant_message="Done.")

    def wake_stamp(self) -> str:
        """What tells one state of the watched file from the next."""
        try:
            found = os.stat(self.stage.layout.wake(self.id))
        except FileNotFoundError:
            return ""
        return f"{found.st_mtime_ns}/{found.st_size}"

    def watch(self, before: str) -> Ran:
        """Wait, as the client does, until the watched file changes; then run its handler."""
        end = time.monotonic() + WATCH_S
        while self.wake_stamp() == before:
            if time.monotonic() > end:
                raise VyaneError("the file that the session watches did not change")
            time.sleep(0.01)
        path = self.stage.layout.wake(self.id)
        return self.hook("FileChanged", "rewake", file_path=path, event="change")

    def woken(self, text: str) -> Ran:
        """The client takes the text of a wake: it is the prompt of a new turn."""
        return self.prompt(wake_prompt(text))

    def close(self) -> None:
        """The person closes the session: SessionEnd, then its process is gone."""
        self.hook("SessionEnd", reason="prompt_input_exit")
        end(self.process)
        self.turn = ""

    def resume(self) -> Ran:
        """`claude --resume`: the same session in a new process."""
        self.process = self.stage.process()
        return self.start("resume")
