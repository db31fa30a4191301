"""Processes that send, tick, read and compact: forked from the test, killed at any moment."""

import os
import signal
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.reliability.history import Log, lines
from tests.simulated import HUMAN, Host, World
from vyane_cli.api import Vyane
from vyane_cli.errors import DurabilityUnknownError, LockTimeoutError, VyaneError
from vyane_cli.mail import inbox
from vyane_cli.mail.send import MessageDraft, send
from vyane_cli.storage import files, journal
from vyane_cli.storage.locks import Deadline
from vyane_cli.upkeep.gc import collect

WAIT_S = 30.0
"""For locks: with many processes on few cores one may wait for long, and that is no fault."""

Work = Callable[[], None]


class Patient(World):
    """It waits longer for locks."""

    def deadline(self, budget_s: float | None = None) -> Deadline:
        return Deadline(WAIT_S)


def fork(work: Work, complaints: Path) -> int:
    """Run the work in a process of its own; its pid."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # 3.12: fork beside execnet's threads
        pid = os.fork()
    if pid:
        return pid
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        work()
        os._exit(0)
    except BaseException:
        with open(complaints, "a") as file:
            file.write(traceback.format_exc())
        os._exit(1)


def kill(pid: int) -> None:
    """SIGKILL, and its end."""
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def wait_for(pids: list[int]) -> None:
    """All of them ended by themselves, and well."""
    statuses = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    assert not any(statuses), statuses


def size_of(path: str) -> int:
    """Bytes of a file that another process may be replacing."""
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


class Stage:
    """One home, its session, and a folder with everybody's logs."""

    def __init__(self, host: Host, folder: Path) -> None:
        self.host, self.world, self.logs = host, host.world, folder
        self.complaints = folder / "complaints"
        folder.mkdir(exist_ok=True)

    def begin(self, role: Work) -> int:
        return fork(role, self.complaints)

    def check_complaints(self) -> None:
        text = self.complaints.read_text() if self.complaints.exists() else ""
        assert not text, text[-3000:]

    # ---------------------------------------------------------------- roles

    def own_world(self) -> World:
        return Patient(Path(self.world.layout.root))

    def sender(self, who: str, count: int, to: str = "project", *, room: int = 0) -> Work:
        """Send until `count` were tried, by this process or one of its name before it.

        `room`: it waits while the session's inbox has more bytes than that; 0: it never does.
        """
        box = self.world.layout.inbox(self.host.worker)

        def work() -> None:
            log, world = Log(self.logs, who), self.own_world()
            tried = [line for line in lines(log.path) if line["event"] == "invoke"]
            for number in range(len(tried), count):
                text = f"{who}:{number}"
                while room and size_of(box) > room:
                    time.sleep(0.01)
                log("invoke", text=text)
                try:
                    message = send(world, MessageDraft(to, text), HUMAN).message
                except DurabilityUnknownError:
                    log("unknown", text=text)
                except VyaneError as error:
                    log("failed", text=text, error=error.message)
                else:
                    log("ok", text=text, id=message.id)

        return work

    def ticker(self, who: str, rounds: int = 10**9, *, ends: Path | None = None) -> Work:
        """Tool batches of the turn that is open, one after another."""

        def work() -> None:
            log = Log(self.logs, who)
            for _ in range(rounds):
                if ends is not None and ends.exists():
                    return
                try:
                    self.host.call("PostToolBatch", show=lambda r: log.shown(r.context + r.wake))
                except LockTimeoutError:
                    log("gave-up")

        return work

    def producer(self, who: str, session: str = "builder") -> Work:
        """Turns of an agent without hooks, 20 tools each; what was recorded is logged."""

        def work() -> None:
            log, vyane = Log(self.logs, who), Vyane(self.own_world())
            number = len(lines(log.path))
            while True:
                with vyane.turn(session) as turn:
                    for _ in range(20):
                        name = f"{who}-{number}"
                        event = turn.tool(name)
                        log("recorded", tool=name, seq=event["seq"])
                        number += 1

        return work

    def reader(self, who: str, session: str = "builder", *, ends: Path | None = None) -> Work:
        """The timeline by its cursor, in pieces; it goes on where its log stops."""

        def work() -> None:
            log, vyane = Log(self.logs, who), Vyane(self.own_world())
            told = [line for line in lines(log.path) if line["event"] == "read"]
            cursor = told[-1]["cursor"] if told else ""
            last = False
            while not last:
                last = ends is not None and ends.exists()
                before = cursor
                for taken, event in enumerate(vyane.history(session, after=cursor)):
                    cursor = event["cursor"]
                    log("read", seq=event["seq"], cursor=cursor)
                    if taken == 6 and not last:
                        break
                if cursor == before and not last:
                    time.sleep(0.01)  # nothing new: leave the cores to those who write

        return work

    def compactor(self, pause_s: float = 0.0, *, ends: Path | None = None) -> Work:
        """Archive and cut, again and again."""

        def work() -> None:
            world = self.own_world()
            while ends is None or not ends.exists():
                collect(world, grace_s=0)
                time.sleep(pause_s)

        return work

    # ---------------------------------------------------------------- afterwards

    def drain(self) -> None:
        """The session takes what is left."""
        log = Log(self.logs, "drain")
        for _ in range(10_000):
            text = self.host.batch().text
            log.shown(text)
            if not text:
                return
        raise AssertionError("the inbox is never empty")

    def stored(self) -> list[tuple[str, str]]:
        """(id, text) of every message: the archive's, then those of the inbox, once each."""
        layout = self.world.layout
        paths = [layout.archive(month) for month in files.listdir(layout("messages", "archive"))]
        inboxes = [
            layout("messages", "inbox", n) for n in files.listdir(layout("messages", "inbox"))
        ]
        found: dict[str, str] = {}
        seen: list[tuple[str, str]] = []
        for path in [*paths, *inboxes]:
            within = set()
            for line in journal.read(path):
                assert line.damage is None, (path, line)
                record = line.record or {}
                if record.get("op") != "message":
                    continue
                message = record["message"]
                known = message["id"] in found
                # killed between the archive and the cut, a message is in both; never twice in one
                if not known or message["id"] in within:
                    seen.append((message["id"], message["payload"]["text"]))
                within.add(message["id"])
                found[message["id"]] = message["payload"]["text"]
        return seen

    def in_inbox(self) -> list[str]:
        """The texts of the inbox, by position."""
        reading = inbox.read(self.world.layout.inbox(self.host.worker), whole=True)
        return [str(entry.message.payload["text"]) for entry in reading.mailbox.entries]


@contextmanager
def ended(pids: dict[str, int]) -> Iterator[None]:
    """Whatever is left of them is killed."""
    try:
        yield
    finally:
        for pid in pids.values():
            kill(pid)
