"""Simulated sessions: recorded payloads, a real host process, and the tick.

`Host.call` runs a hook call in this process. `Host.hook` runs a hook call as hosts do: as a process
with the payload on its standard input. The host process is real, so that its death is real too.

Process, identity, session fields of a payload and prompt of a wake are shared with the demo's
sessions (`vyane_cli/setup/simulation.py`). Two things differ. The payloads are recorded ones,
because recordings are the evidence of what the client sends; recordings are not shipped. A hook
runs in this process, on clocks that a test moves, or as `vyane tick`, because most tests are about
the tick and not about the guard.
"""

import ctypes
import importlib
import json
import os
import selectors
import subprocess
import sys
import tempfile
import traceback
import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from pkgutil import walk_packages
from typing import Any, NoReturn

import vyane_cli
from vyane_cli.__main__ import main
from vyane_cli.delivery import ring
from vyane_cli.delivery.plan import TickPlan
from vyane_cli.home import Home
from vyane_cli.hosts import claude_code, generic
from vyane_cli.hosts.port import Reply
from vyane_cli.kernel.clock import Clock
from vyane_cli.mail import inbox
from vyane_cli.mail.lookup import find_message
from vyane_cli.mail.send import MessageDraft, send
from vyane_cli.projects.after_tick import tick_and_supervise
from vyane_cli.sessions import registry
from vyane_cli.sessions.register import register_worker
from vyane_cli.sessions.speaker import FromKind, Speaker
from vyane_cli.sessions.worker import Worker
from vyane_cli.setup import simulation
from vyane_cli.setup.home import initialise
from vyane_cli.storage import locks, processes
from vyane_cli.timeline import log

PAYLOADS = Path(__file__).parent / "hostlab" / "payloads" / "claude-code"
EVENTS = sorted(
    path.stem for path in PAYLOADS.glob("*.json") if not path.stem.startswith(("env-", "sessions-"))
)
HUMAN = Speaker(FromKind.HUMAN, "ann", "ann")
OUTSIDE = Speaker(FromKind.EXTERNAL, "script", "script")


def recorded(name: str, **changes: object) -> dict[str, Any]:
    """Return a recorded payload with some fields changed; None removes a field."""
    path = PAYLOADS / f"{name}.json"
    data = json.loads(path.read_bytes()) if path.exists() else {"hook_event_name": name}
    data.update(changes)
    return {key: value for key, value in data.items() if value is not None}


class World(Home):
    """A home whose clocks a test can move, with queries that tests need."""

    def __init__(self, home: Path, environ: dict[str, str] | None = None) -> None:
        hosts = {host.NAME: host for host in (claude_code, generic)}
        super().__init__(str(home), {} if environ is None else environ, hosts=hosts, ways=ring)
        self.ahead_ms = 0
        self.wall_ahead_ms = 0
        self.slept_ms = 0

    def clock(self) -> Clock:
        real = super().clock()
        return real._replace(
            now_ms=real.now_ms + self.ahead_ms + self.wall_ahead_ms,
            boot_ms=real.boot_ms + self.ahead_ms,
            awake_ms=real.awake_ms + self.ahead_ms - self.slept_ms,
        )

    def pass_s(self, seconds: float) -> None:
        """Let time pass, on the wall clock and on the clocks since boot."""
        self.ahead_ms += int(seconds * 1000)

    def sleep_s(self, seconds: float) -> None:
        """Suspend the machine: time passes, but the awake clock stands still."""
        self.pass_s(seconds)
        self.slept_ms += int(seconds * 1000)

    def send(self, to: str, text: str = "hello", speaker: Speaker = HUMAN, **more: Any) -> str:
        """Store a message. Return the message's id."""
        return send(self, MessageDraft(to, text, **more), speaker).message.id

    def status(self, message_id: str) -> str:
        return str(find_message(self, message_id).entry.status)

    def marks(self, message_id: str) -> int:
        return find_message(self, message_id).entry.marks

    def rules(self, message_id: str) -> list[str]:
        """Return the history of a message, each record as `op:rule`."""
        return [
            f"{record['op']}:{record.get('rule') or record.get('reason') or ''}"
            for record in find_message(self, message_id).records
        ]

    def register(self, name: str, pid: int = 0) -> str:
        """Register a worker of a host without hooks. Return the worker's id."""
        return register_worker(
            self, name, session_id="", cwd="/tmp", pid=pid, worker_type="generic"
        ).id

    def inbox(self, worker: str) -> inbox.InboxReading:
        return inbox.read(self.layout.inbox(worker), whole=True)

    def events(self, logical: str) -> list[dict[str, Any]]:
        return [record for _, record in log.read(self.layout.timeline(logical))]


def new_world(folder: Path) -> World:
    """Make a state root without workers in the folder."""
    world = World(folder / "vyane")
    initialise(world)
    return world


def files_of(home: str) -> dict[str, bytes]:
    """Return the bytes of every file in the state root, except locks and the log."""
    return {
        str(path.relative_to(home)): path.read_bytes()
        for path in Path(home).rglob("*")
        if path.is_file() and path.relative_to(home).parts[0] not in ("locks", "log")
    }


@dataclass
class Seen:
    """The result of one hook call in this process."""

    replies: list[Reply]
    plan: TickPlan | None

    @property
    def reply(self) -> Reply:
        return self.replies[0] if self.replies else Reply()

    @property
    def text(self) -> str:
        """Return all texts that the agent reads."""
        return self.reply.context + self.reply.wake + self.reply.text


@dataclass
class Ran:
    """The result of a process, such as a hook call: its exit status and its output."""

    status: int
    out: bytes
    err: bytes

    @property
    def document(self) -> Any:
        """Return the JSON document on standard output, or {} for empty output."""
        return json.loads(self.out) if self.out else {}

    @property
    def text(self) -> str:
        specific = self.document.get("hookSpecificOutput", {})
        return specific.get("additionalContext", "") + self.err.decode()


def hook_words(name: str, rewake: bool, words: tuple[str, ...]) -> list[str]:
    """Return the words of the `vyane` command that the host runs for an event."""
    event = name.split("-")[0]
    given = ["tick", "--host", "claude-code", "--event", event]
    return [*given, *(["--rewake"] if rewake else []), *words]


@dataclass
class Host:
    """One process of Claude Code, with one session at a time."""

    world: World
    process: "subprocess.Popen[bytes]"
    session: str = field(default_factory=lambda: str(uuid.uuid4()))
    cwd: str = "/tmp/project"
    attended: bool = True
    turn: str = field(default_factory=lambda: str(uuid.uuid4()))
    transcript: str = ""
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def home(self) -> str:
        return self.world.layout.root

    def environ(self) -> dict[str, str]:
        """Return the environment that the client gives to a hook."""
        recorded_environ = json.loads((PAYLOADS / "env-hook-PreToolUse.json").read_bytes())
        return {
            **recorded_environ,
            "HOME": str(Path(self.home).parent),
            "CLAUDE_CONFIG_DIR": str(Path(self.home).parent / "claude"),
            **simulation.identity(self.session, self.process.pid, attended=self.attended),
            "VYANE_HOME": self.home,
            **self.extra,
        }

    def payload(self, name: str, **changes: object) -> bytes:
        turn = self.turn if "prompt_id" in recorded(name) else ""
        data = recorded(name, transcript_path=None, prompt_id=None)
        here = simulation.placed(
            data, self.session, self.cwd, transcript=self.transcript, turn=turn
        )
        here |= changes
        return json.dumps({key: one for key, one in here.items() if one is not None}).encode()

    def call(
        self,
        name: str,
        *,
        rewake: bool = False,
        fails: bool = False,
        rerun: bool = False,
        guard: int = 0,
        show: Callable[[Reply], None] | None = None,
        **changes: object,
    ) -> Seen:
        """Run a hook call in this process; with `fails` its output cannot be written."""
        self.world.environ = environ = self.environ()
        replies: list[Reply] = []

        def shown(reply: Reply) -> None:
            if fails:
                raise BrokenPipeError(32, "broken pipe")
            replies.append(reply)

        call = claude_code.parse(
            self.payload(name, **changes), environ, processes.identify, rewake=rewake
        )
        deadline = locks.Deadline(10)
        plan = tick_and_supervise(
            self.world, call, claude_code, show or shown, deadline, guard=guard, rerun=rerun
        )
        return Seen(replies, plan)

    def start(self, source: str = "startup", **more: Any) -> Seen:
        return self.call("SessionStart-startup-interactive", source=source, **more)

    def prompt(self, turn: str | None = None, text: str = "go on", **more: Any) -> Seen:
        """Prompt the session, in a new turn unless `turn` names one."""
        self.turn = turn or str(uuid.uuid4())
        return self.call("UserPromptSubmit", prompt=text, **more)

    def tool(self, **more: Any) -> Seen:
        return self.call("PreToolUse", **more)

    def batch(self, **more: Any) -> Seen:
        return self.call("PostToolBatch", **more)

    def stop(self, **more: Any) -> Seen:
        return self.call("Stop", **{"last_assistant_message": str(uuid.uuid4()), **more})

    def watch(self, **more: Any) -> Seen:
        """Run the handler of a change of the wake file."""
        changes = {"file_path": self.world.layout.wake(self.session), "prompt_id": self.turn}
        return self.call("FileChanged", rewake=True, **{**changes, **more})

    def woken(self, text: str, **more: Any) -> Seen:
        """Run the prompt event of the turn that a wake started."""
        return self.prompt(text=simulation.wake_prompt(text), **more)

    @property
    def worker(self) -> str:
        known = registry.load_session(self.world.layout, self.session)
        assert known is not None
        return known.worker

    @property
    def logical(self) -> str:
        known = registry.load_session(self.world.layout, self.session)
        assert known is not None
        return known.logical_session

    def events(self) -> list[dict[str, Any]]:
        return self.world.events(self.logical)

    def world_workers(self) -> "list[Worker]":
        return list(registry.Registry(self.world.layout).listing())

    def outcomes(self) -> list[str]:
        """Return the outcome of each finished turn, with its code: `outcome/code`."""
        return [
            "/".join(filter(None, (e["payload"]["outcome"], e["payload"].get("code"))))
            for e in self.events()
            if e["kind"] == "TurnFinished"
        ]

    # ---------------------------------------------------------------- as a process

    def begin(
        self, name: str, *, rewake: bool = False, words: tuple[str, ...] = (), **popen: Any
    ) -> "subprocess.Popen[bytes]":
        """Start a hook as a process. The caller writes the payload."""
        command = [sys.executable, "-I", "-m", "vyane_cli", *hook_words(name, rewake, words)]
        pipe = subprocess.PIPE
        given = {"stdin": pipe, "stdout": pipe, "stderr": pipe, "env": self.environ(), **popen}
        return subprocess.Popen(command, **given)

    def hook(
        self,
        name: str,
        data: bytes | None = None,
        *,
        rewake: bool = False,
        words: tuple[str, ...] = (),
        popen: dict[str, Any] | None = None,
        **changes: object,
    ) -> Ran:
        """Run a hook to its end: in a fork, or with `popen` in a new interpreter."""
        payload = self.payload(name, **changes) if data is None else data
        if popen is None:
            return fork(hook_words(name, rewake, words), payload, self.environ())
        process = self.begin(name, rewake=rewake, words=words, **popen)
        try:
            out, err = process.communicate(payload, timeout=60)
        except BrokenPipeError:
            out, err = process.communicate(timeout=60)
        return Ran(process.returncode, out or b"", err or b"")

    def die(self) -> None:
        """End the host process by SIGKILL, without an event."""
        simulation.end(self.process)


def memory() -> str | None:
    """Return a folder in memory, or None.

    The folder has at least 1 GiB free and allows programs to be started from it.
    """
    folder = "/dev/shm"
    if not os.access(folder, os.W_OK):
        return None
    about = os.statvfs(folder)
    roomy = about.f_bavail * about.f_frsize >= 1 << 30
    return folder if roomy and not about.f_flag & os.ST_NOEXEC else None


@contextmanager
def fast_folder() -> Iterator[Path]:
    """Make a temporary folder, in memory if possible: the cost of a flush is not under test."""
    with tempfile.TemporaryDirectory(prefix="vyane-test-", dir=memory()) as folder:
        yield Path(folder)


@contextmanager
def machine(folder: Path | None = None) -> Iterator[Callable[..., Host]]:
    """Yield a function that makes sessions on one state root; their processes end with the test."""
    with ExitStack() as stack:
        folder = folder or stack.enter_context(fast_folder())
        world = new_world(folder)
        project = folder / "project"
        project.mkdir()

        def host(**more: Any) -> Host:
            process = simulation.start_process()
            stack.callback(simulation.end, process)
            return Host(world, process, **{"cwd": str(project), **more})

        yield host


@contextmanager
def stopped_holder(
    root: str, *wanted: tuple[locks.LockKind, str]
) -> Iterator["subprocess.Popen[bytes]"]:
    """Hold locks in another process that is stopped, as by Ctrl-Z. Kill the process at the end."""
    paths = sorted({locks.lock_path(root, kind, key) for kind, key in wanted})
    program = (
        "import fcntl, os, sys, time\n"
        "held = [os.open(path, os.O_RDWR | os.O_CREAT, 0o600) for path in sys.argv[1:]]\n"
        "[fcntl.flock(fd, fcntl.LOCK_EX) for fd in held]\n"
        "print('held', flush=True)\n"
        "time.sleep(600)\n"
    )
    os.makedirs(os.path.join(root, "locks"), exist_ok=True)
    holder = subprocess.Popen([sys.executable, "-I", "-S", "-c", program, *paths], stdout=-1)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        holder.send_signal(19)  # SIGSTOP
        yield holder
    finally:
        holder.kill()
        holder.wait()
        assert holder.stdout is not None
        holder.stdout.close()


def bound_by_modes() -> None:
    """Make file modes apply to a child process, even as root. Runs before the child's program."""
    if os.getuid() == 0:
        libc = ctypes.CDLL(None)
        for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
            libc.prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP


@contextmanager
def read_only(folder: str | Path) -> Iterator[None]:
    """Make everything in a folder read-only for processes that file modes apply to."""
    paths = [Path(folder), *Path(folder).rglob("*")]
    modes = {path: path.stat().st_mode for path in paths}
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        yield
    finally:
        for path, mode in modes.items():
            path.chmod(mode)


def vyane(
    home: str | Path,
    *words: str,
    stdin: bytes = b"",
    environ: dict[str, str] | None = None,
    cwd: str | Path | None = None,
    first: Callable[[], object] | None = None,
) -> Ran:
    """Run a command as a person's script does: without a terminal and without a host.

    The command's process has its own streams, session and environment. The process is a fork of
    this one, which has already imported everything: it is ten times cheaper than `program`, and
    constants that a test has patched apply in it. `first` is called in the fork before the command.
    """
    return fork(words, stdin, _environ(home, environ), cwd, first)


def fork(
    words: Sequence[str],
    stdin: bytes,
    environ: dict[str, str],
    cwd: str | Path | None = None,
    first: Callable[[], object] | None = None,
) -> Ran:
    """Run `vyane` in a fork of this process, with exactly this environment."""
    _import_all()
    pipes = [os.pipe() for _ in range(3)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # 3.12: fork beside execnet's threads
        child = os.fork()
    if child == 0:
        _become(list(words), pipes, environ, cwd, first)
    (given, into), (out, given_out), (err, given_err) = pipes
    for end in (given, given_out, given_err):
        os.close(end)
    said = _exchange(into, stdin, (out, err))
    return Ran(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), *said)


def program(
    home: str | Path,
    *words: str,
    stdin: bytes = b"",
    environ: dict[str, str] | None = None,
    **more: Any,
) -> Ran:
    """Run a command like `vyane`, in a new interpreter, for tests of the start-up itself."""
    ran = subprocess.run(
        [sys.executable, "-m", "vyane_cli", *words],
        input=stdin,
        capture_output=True,
        env=_environ(home, environ),
        check=False,
        start_new_session=True,
        **more,
    )
    return Ran(ran.returncode, ran.stdout, ran.stderr)


@cache
def _import_all() -> None:
    """Import, once for all forks, the modules that commands import when they run."""
    for module in walk_packages(vyane_cli.__path__, "vyane_cli."):
        importlib.import_module(module.name)
    for name in ("orjson", "rich.console", "rich.table", "typer.rich_utils"):
        importlib.import_module(name)


def _environ(home: str | Path, more: dict[str, str] | None) -> dict[str, str]:
    keep = {key: os.environ[key] for key in ("PATH", "HOME", "LC_ALL") if key in os.environ}
    return {**keep, "VYANE_HOME": str(home), **(more or {})}


def _become(
    words: list[str],
    pipes: list[tuple[int, int]],
    environ: dict[str, str],
    cwd: str | Path | None,
    first: Callable[[], object] | None,
) -> NoReturn:
    """Run the command in the fork and exit, so that no code of the test runs in the fork."""
    status = 1
    try:
        os.setsid()
        for number, (reader, writer) in enumerate(pipes):
            os.dup2(writer if number else reader, number)
        for number in {end for ends in pipes for end in ends} - {0, 1, 2}:
            os.close(number)
        os.environ.clear()
        os.environ.update(environ)
        os.chdir(cwd or ".")
        if first is not None:
            first()
        sys.argv = ["vyane", *words]
        sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False, buffering=1)
        try:
            main()
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 0
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _exchange(into: int, data: bytes, outputs: tuple[int, int]) -> list[bytes]:
    """Write the data, and read both outputs until every process that holds them has closed them."""
    said: dict[int, list[bytes]] = {number: [] for number in outputs}
    left = memoryview(data)
    with selectors.DefaultSelector() as waiting:
        os.set_blocking(into, False)
        waiting.register(into, selectors.EVENT_WRITE)
        for number in outputs:
            waiting.register(number, selectors.EVENT_READ)
        while waiting.get_map():
            for key, _ in waiting.select():
                number = key.fd
                if number == into:
                    with suppress(BlockingIOError):
                        try:
                            left = left[os.write(into, left) :]
                        except BrokenPipeError:
                            left = left[:0]
                    ended = not left
                else:
                    said[number].append(os.read(number, 65536))
                    ended = not said[number][-1]
                if ended:
                    waiting.unregister(number)
                    os.close(number)
    return [b"".join(parts) for parts in said.values()]
