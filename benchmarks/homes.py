"""State roots with sessions, driven in the way of a host: by the guard and its payloads."""

import json
import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import vyane_cli
from benchmarks.measure import Command, run
from vyane_cli.home import Home as StateHome
from vyane_cli.mail.mailbox import Head, Op, render_head, render_message
from vyane_cli.mail.send import MessageDraft, send
from vyane_cli.sessions import registry
from vyane_cli.sessions.session import (
    HostSession,
    LogicalSession,
    render_logical_session,
    render_session,
)
from vyane_cli.sessions.speaker import FromKind, Speaker
from vyane_cli.sessions.worker import Worker, WorkerStatus
from vyane_cli.setup.home import initialise
from vyane_cli.storage import document, files

PACKAGE = Path(vyane_cli.__file__).resolve().parents[1]
PERSON = Speaker(FromKind.HUMAN, "person", "person")
PROGRAM = "import sys; sys.path.insert(0, sys.argv.pop(1)); from vyane_cli.hook import main; main()"
"""The program that the guard passes to Python."""
BATCH_BYTES = 2_000
"""Size of the tool output in a payload, in bytes."""
TRANSCRIPT_LINES = 800


class Home:
    """A temporary state root, a user's HOME beside it, and a stand-in for each session's client."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.root, self.user = folder, folder / "vyane", folder / "user"
        self.client_config = self.user / ".claude"
        self.project = self.user / "project"
        for made in (self.client_config / "sessions", self.project):
            made.mkdir(parents=True)
        self.clients: list[subprocess.Popen[bytes]] = []
        self.home = StateHome(str(self.root), environ=self.user_environ())
        initialise(self.home)
        self.guard = self._install()
        self.transcript = self.user / "transcript.jsonl"
        self.transcript.write_text(_transcript())

    def close(self) -> None:
        """End the stand-ins for the clients, and remove the folder."""
        for client in self.clients:
            client.kill()
            client.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def user_environ(self) -> dict[str, str]:
        """Return the environment of a person's shell."""
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.user),
            "LANG": "C.UTF-8",
            "CLAUDE_CONFIG_DIR": str(self.client_config),
        }

    def environ(self) -> dict[str, str]:
        """Return the environment that the client gives to a hook, without the session's part."""
        return {
            **self.user_environ(),
            "CLAUDE_PROJECT_DIR": str(self.project),
            "CLAUDE_CODE_SESSION_ATTENDED": "1",
        }

    def _install(self) -> Path:
        """Run `vyane hooks install`, which writes the guard that a user gets. Return its path."""
        command = [sys.executable, "-P", "-m", "vyane_cli", "--home", str(self.root)]
        env = {**self.user_environ(), "PYTHONPATH": str(PACKAGE)}
        subprocess.run(
            [*command, "hooks", "install", "--scope", "user"],
            env=env,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        return Path(self.home.layout.guard)

    # --- contents ---

    def fill(self, workers: int) -> None:
        """Register workers of closed sessions, in one write of the registry."""
        if not workers:
            return
        layout, now = self.home.layout, self.home.clock().at
        known = registry.Registry(layout)
        for number in range(workers):
            worker, logical = f"w-{number:012x}", f"vs-{number:012x}"
            name, session = f"filler-{number}", str(uuid.uuid5(uuid.NAMESPACE_OID, str(number)))
            known.put(
                Worker(
                    worker,
                    name,
                    "claude",
                    logical,
                    status=WorkerStatus.IDLE,
                    session_id=session,
                    cwd=str(self.project),
                    created_at=now,
                    last_used_at=now,
                )
            )
            owner = LogicalSession(
                id=logical,
                display_name=name,
                worker=worker,
                created_at=now,
                participating_agents=(worker,),
                active_runtime="claude_cli",
            )
            closed = HostSession(
                id=session,
                host="claude-code",
                worker=worker,
                name=name,
                logical_session=logical,
                started_at=now,
                ended="other",
            )
            for path, data in (
                (layout.logical_session(logical), render_logical_session(owner)),
                (layout.session(session), render_session(closed)),
            ):
                document.save(path, data, layout.root, durable=False)
            files.touch(layout.current(worker), session)
        known.save()

    def settle(self, worker: str, count: int) -> None:
        """Put consumed messages into a worker's inbox: sent, claimed, delivered, consumed."""
        self._put(worker, count, (Op.CLAIM, Op.DELIVERED, Op.CONSUMED))

    def queue(self, worker: str, count: int) -> None:
        """Put pending messages into a worker's inbox."""
        self._put(worker, count, ())

    def _put(self, worker: str, count: int, ops: Sequence[Op]) -> None:
        """Write the lines of the messages directly to the file, each in the form of an append."""
        sample = send(
            self.home, MessageDraft(worker, "a message that was here before"), PERSON
        ).message
        path, clock = Path(self.home.layout.inbox(worker)), self.home.clock()
        boot = {"boot": clock.boot, "boot_ms": clock.boot_ms}
        fields = {"at": clock.at, "boot_ms": clock.boot_ms, "session": "s", "turn": "t"}
        offset = path.stat().st_size
        with open(path, "ab") as file:

            def write(record: Mapping[str, Any], unsettled: int) -> None:
                nonlocal offset
                head = render_head(Head(unsettled))
                offset += file.write(document.encode_line({**record, "head": head}))

            for op in ops:
                write({"op": op, "ids": [sample.id], **fields}, offset)
            for _ in range(count - 1):
                message = sample._replace(id=self.home.new_id(clock.now_ms))
                began = offset
                stored = {"op": Op.MESSAGE, "message": render_message(message), **boot}
                write(stored, began if ops else 0)
                for op in ops:
                    last = op is ops[-1]
                    write({"op": op, "ids": [message.id], **fields}, offset if last else began)
            file.flush()
            os.fsync(file.fileno())

    # --- sessions ---

    def client(self) -> int:
        """Start a process that stands for the client of one session. Return its pid."""
        self.clients.append(subprocess.Popen(["sleep", "86400"], start_new_session=True))
        return self.clients[-1].pid

    def session(self) -> "Session":
        """Start a session through the guard, and its first turn, which still runs on return.

        Raises RuntimeError if the guard did not register the session.
        """
        opened = Session(self, str(uuid.uuid4()))
        opened.hook("SessionStart", source="startup", model="a-model")
        known = registry.load_session(self.home.layout, opened.id)
        if known is None:
            log = Path(self.home.layout.log)
            said = log.read_text() if log.exists() else "nothing in its log"
            raise RuntimeError(f"the guard registered no session: {said}")
        opened.worker, opened.logical = known.worker, known.logical_session
        opened.turn()
        return opened

    def tick_argv(self, event: str, *, guard: bool = True) -> Sequence[str]:
        """Return the command line with which the guard starts Python, or one without a guard."""
        words = [sys.executable, "-I", "-S", "-c", PROGRAM, str(PACKAGE)]
        words += ["tick", "--host", "claude-code", "--home", str(self.root)]
        if guard:
            words += ["--guard", str(os.getpid())]
        return [*words, "--event", event]


class Session:
    """One session of the simulated client."""

    def __init__(self, home: Home, session_id: str) -> None:
        self.home, self.id, self.worker, self.logical = home, session_id, "", ""
        self.prompt, self.pid = "", home.client()
        self.folder = home.user / "payloads" / session_id
        self.folder.mkdir(parents=True)
        record = {
            "pid": self.pid,
            "sessionId": session_id,
            "status": "busy",
            "statusUpdatedAt": int(time.time() * 1000),
        }
        live = home.client_config / "sessions" / f"{self.pid}.json"
        live.write_text(json.dumps(record))

    @property
    def env(self) -> dict[str, str]:
        """Return the environment of this session's hooks."""
        own = {"CLAUDE_PID": str(self.pid), "CLAUDE_CODE_SESSION_ID": self.id}
        return {**self.home.environ(), **own}

    def payload(self, event: str, **fields: Any) -> str:
        """Write the payload of an event to a file. Return the file's path."""
        data: dict[str, Any] = {
            "session_id": self.id,
            "transcript_path": str(self.home.transcript),
            "cwd": str(self.home.project),
            "prompt_id": self.prompt,
            "permission_mode": "default",
            "hook_event_name": event,
        }
        tool = {"tool_name": "Bash", "tool_input": {"command": "make test"}}
        tool_id = "toolu_" + uuid.uuid4().hex[:24]
        if event == "PreToolUse":
            data |= {**tool, "tool_use_id": tool_id}
        if event == "PostToolBatch":
            response = {"tool_use_id": tool_id, "tool_response": "x" * BATCH_BYTES}
            data["tool_calls"] = [{**tool, **response}]
        path = self.folder / event
        path.write_text(json.dumps({**data, **fields}))
        return str(path)

    def guarded(self, name: str, event: str, **fields: Any) -> Command:
        """Return the hook as the client runs it: the guard with the event."""
        argv = [str(self.home.guard), event]
        return Command(name, argv, self.env, self.payload(event, **fields), self._out(name))

    def bare(self, name: str, event: str, *, guard: bool = True) -> Command:
        """Return the tick as the guard runs it."""
        argv = self.home.tick_argv(event, guard=guard)
        return Command(name, argv, self.env, self.payload(event), self._out(name))

    def _out(self, name: str) -> str:
        return str(self.folder / f"{name.replace('/', '-')}.out")

    def hook(self, event: str, **fields: Any) -> str:
        """Run the hook of an event. Return its output."""
        command = self.guarded("hook", event, **fields)
        cost = run(command)
        if cost.status:
            raise RuntimeError(f"{event}: the guard ended with {cost.status}")
        return Path(command.stdout).read_text()

    def turn(self) -> None:
        """End the running turn, if one exists, and start another."""
        if self.prompt:
            self.hook("Stop", stop_hook_active=False, last_assistant_message="done")
        self.prompt = str(uuid.uuid4())
        self.hook("UserPromptSubmit", prompt=f"please go on with {self.prompt[:8]}")

    def send(self, text: str) -> str:
        """Send a message to this session's worker. Return the message's id."""
        return send(self.home.home, MessageDraft(self.worker, text), PERSON).message.id


def _transcript() -> str:
    """Return a transcript of the length that some work leaves."""
    line = {
        "type": "assistant",
        "message": {"id": "msg_1", "content": [{"type": "text", "text": "y" * 400}]},
    }
    return f"{json.dumps(line)}\n" * TRANSCRIPT_LINES
