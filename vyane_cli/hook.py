"""Entry for hosts: payload → operation → reply. Always exits 0, except for a wake.

Only built-in modules are imported until it is known that work exists. A host treats exit status 2
as "block", so nothing here may raise: errors are written to `log/hook.log`, and the session
continues.
"""

from __future__ import annotations

import gc
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType
    from typing import NoReturn

    from vyane_cli.home import Home
    from vyane_cli.hosts.port import HookCall, Reply
    from vyane_cli.storage.locks import Deadline


WAKE_STATUS = 42
"""Exit status that the guard turns into the host's exit 2. A failing interpreter never uses it."""
PROTOCOL = "1"
"""Version of the call from guard to tick. A call of a guard with another version is refused."""
STDIN_MAX = 64 * 1024 * 1024
STDIN_WAIT_S = 0.5


class Options:
    """The options of the host path. Unknown options are ignored: the host may be newer."""

    __slots__ = ("again", "event", "guard", "home", "host", "protocol", "rerun", "rewake")

    def __init__(self, words: Sequence[str]) -> None:
        self.host, self.home, self.event, self.protocol = "claude-code", "", "", PROTOCOL
        self.guard, self.rewake, self.rerun, self.again = 0, False, False, False
        waiting = ""
        for word in words:
            if waiting:
                if waiting == "guard":
                    self.guard = int(word) if word.isdecimal() else 0
                else:
                    setattr(self, waiting, word)
                waiting = ""
            elif word in ("--host", "--home", "--event", "--guard", "--protocol"):
                waiting = word[2:]
            elif word.startswith(("--host=", "--home=", "--event=")):
                name, _, value = word[2:].partition("=")
                setattr(self, name, value)
            elif word == "--rewake":
                self.rewake = True
            elif word == "--rerun":
                self.rerun = True
            elif word == "--again":
                self.again = True


def main(words: Sequence[str] | None = None) -> NoReturn:
    """Run one hook call and end the process with its status."""
    status = 0
    gc.disable()  # the process lives 30 ms, and garbage collection would cost one
    try:
        status = run(Options(sys.argv[1:] if words is None else words))
    except BaseException:  # also SystemExit and KeyboardInterrupt: a host acts on the status
        status = 0
    os._exit(status)  # no interpreter shutdown: it costs time, and may still fail


def run(options: Options) -> int:
    """Handle one hook call. Return the exit status for the host: 0, or the status of a wake."""
    if nothing_to_do(options):
        return 0
    from vyane_cli.delivery import ring
    from vyane_cli.home import HOOK_BUDGET_S, WATCH_BUDGET_S, Home
    from vyane_cli.hosts import claude_code

    home = Home(options.home, hosts={claude_code.NAME: claude_code}, ways=ring)
    if not os.path.isdir(home.layout.root):
        return 0  # never set up, or removed while hooks are active
    if options.protocol != PROTOCOL:
        home.log(f"hook_protocol_mismatch: the guard speaks {options.protocol}, not {PROTOCOL}")
        return 0  # `doctor` reports it too; `vyane hooks install` rewrites the guard
    deadline = home.limit = home.deadline(HOOK_BUDGET_S)
    said = not (options.rerun or options.again)
    call = claude_code.parse(
        read_stdin(deadline.left_s) if said else b"{}",
        home.environ,
        home.identify,
        event=options.event,
        rewake=options.rewake,
        host_pid=home.parent_of(options.guard) if options.guard else 0,
    )
    if options.rerun:
        from vyane_cli.hosts.port import HostEvent

        call = call._replace(event=HostEvent.RERUN)
    if call.problem:
        home.log(f"{options.event or call.name}: {call.problem}")
    if call.rewake:  # an asynchronous handler: the session does not wait for it
        deadline = home.limit = home.deadline(WATCH_BUDGET_S)
    return serve(home, options, call, claude_code, deadline)


def serve(
    home: Home,
    options: Options,
    call: HookCall,
    host: ModuleType,
    deadline: Deadline,
) -> int:
    """Run the tick, then sleep for the session if its mail must wait. Return the exit status."""
    from vyane_cli.delivery.tick import spool_call
    from vyane_cli.errors import LockTimeoutError, VyaneError
    from vyane_cli.projects.after_tick import tick_and_supervise

    out = Out(host)
    try:
        try:
            plan = tick_and_supervise(
                home, call, host, out.show, deadline, guard=options.guard, rerun=options.rerun
            )
            sleeps = plan is not None and plan.sleeps
        except LockTimeoutError as error:
            home.log(f"{call.name}: {error.message}")
            sleeps = call.rewake and call.attended  # the host does not repeat a ring
            if not (out.shown or sleeps):
                spool_call(home, call)
        if call.event == "stop" and home.config["mirror.after_stop"]:
            from vyane_cli.conversations.after_stop import start_push

            start_push(home)
        if sleeps and not out.woke:
            from vyane_cli.delivery.tick import sleep_and_tick

            sleep_and_tick(home, call, host, out.show, tick_and_supervise)
    except VyaneError as error:
        home.log(f"{call.name}: {error.message}")
    except Exception as error:
        import traceback

        home.log(f"{call.name}: {error!r}\n{traceback.format_exc()}")
    wake = WAKE_STATUS if options.guard else host.WAKE_STATUS
    return wake if out.woke else 0


class Out:
    """The unbuffered standard output and error: one document, or the text of a wake."""

    def __init__(self, host: ModuleType) -> None:
        self.host, self.woke, self.shown = host, False, False

    def show(self, reply: Reply) -> None:
        """Write the reply; OSError if it could not be written completely."""
        out, err = self.host.render(reply)
        for fd, data in ((1, out), (2, err)):
            while data:
                data = data[os.write(fd, data) :]
        self.shown = self.shown or not reply._replace(watch=()).empty  # a watch is not a delivery
        self.woke = bool(reply.wake)


def nothing_to_do(options: Options) -> bool:
    """Return whether the markers show that no work exists, before anything is imported.

    The guard makes the same test.
    """
    if options.event not in ("PreToolUse", "PostToolBatch") or options.rerun:
        return False
    session = os.environ.get("CLAUDE_CODE_SESSION_ID", "")
    home = options.home or os.environ.get("VYANE_HOME", "")
    if not home or not session or "/" in session or session.startswith("."):
        return False
    wake = os.path.join(home, "wake", session)
    names = (".control", ".proof") if options.event == "PreToolUse" else (
        ".control", ".proof", ".pending"
    )  # fmt: skip
    return not any(os.path.exists(wake + name) for name in names)


def read_stdin(wait_s: float) -> bytes:
    """Read the payload from standard input. Return it, or the part that arrived in time.

    Wait at most `wait_s`, and at most `STDIN_WAIT_S`, for the host to send it and close the pipe.
    """
    import select
    import time

    end = time.monotonic() + min(wait_s, STDIN_WAIT_S)
    parts: list[bytes] = []
    size = 0
    try:
        if os.isatty(0):
            return b""
        while size < STDIN_MAX:
            ready = select.select([0], [], [], max(end - time.monotonic(), 0))[0]
            if not ready:
                break
            part = os.read(0, 1 << 20)
            if not part:
                break
            parts.append(part)
            size += len(part)
    except (OSError, ValueError):
        pass
    return b"".join(parts)
