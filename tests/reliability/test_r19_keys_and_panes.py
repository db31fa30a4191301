"""Keys go to a pane that is proven to be the session's, or nowhere."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hostlab.waiting import wait_until
from tests.reliability.scale import dice, size
from tests.simulated import machine
from vyane_cli.errors import RefusedError
from vyane_cli.kernel.process import Process
from vyane_cli.sessions import registry, tmux
from vyane_cli.sessions.session import HostSession
from vyane_cli.storage import processes

ROUNDS = size(20, 200)

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="there is no tmux")


class Panes:
    """A server of its own, and two panes in it whose programs keep what is typed."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.socket = folder, str(folder / "tmux")
        self.tmux = ("tmux", "-S", self.socket, "-f", "/dev/null")

    def open(self, name: str) -> tuple[str, int, Path]:
        """(pane, pid of its program, where what is typed goes)."""
        typed = self.folder / name
        program = f"stty raw -echo; exec dd bs=1 of={typed} status=none"
        words = [*self.tmux, "new-session", "-d", "-P", "-F", "#{pane_id} #{pane_pid}"]
        ran = subprocess.run(
            [*words, "-x", "80", "-y", "24", program], capture_output=True, text=True, check=True
        )
        pane, pid = ran.stdout.split()
        wait_until(typed.exists, "the pane is ready", timeout_s=20)
        return pane, int(pid), typed

    def close(self) -> None:
        subprocess.run([*self.tmux, "kill-server"], check=False, capture_output=True)


@pytest.fixture
def panes(tmp_path) -> Iterator[Panes]:
    made = Panes(tmp_path)
    yield made
    made.close()


def test_each_escape_is_typed_once_and_in_no_other_pane(panes, count):
    """
    Proven: exactly one. The pid is another's, the pane is gone or another process's: none, and the
    command says so. The pane beside it never gets a key.
    """
    random = dice("R19")
    wrong = typed_keys = refused = 0
    with machine() as make:
        host = make()
        host.start()
        known = registry.load_session(host.world.layout, host.session)
        assert known is not None
        _, _, beside = panes.open("beside")
        for number in range(ROUNDS):
            pane, pid, typed = panes.open(f"typed-{number}")
            process = processes.identify(pid)
            session = known._replace(process=process, terminal=(panes.socket, pane))
            way = random.choice(["proven", "proven", "reused", "stranger", "gone", "server"])
            session = falsified(way, session)
            if way == "gone":
                subprocess.run([*panes.tmux, "kill-pane", "-t", pane], check=True)
            if way == "proven":
                tmux.type_escape(session)
                wait_until(lambda typed=typed: typed.read_bytes(), "it is typed", timeout_s=20)
                assert typed.read_bytes() == b"\x1b"
                typed_keys += 1
            else:
                with pytest.raises(RefusedError):
                    tmux.type_escape(session)
                assert typed.read_bytes() == b"", way
                refused += 1
            if way != "gone":
                subprocess.run([*panes.tmux, "kill-pane", "-t", pane], check=True)
        wrong = len(beside.read_bytes())
    count(typed=typed_keys, refused=refused, wrong_pane=wrong)

    assert wrong == 0
    assert typed_keys
    assert refused


def falsified(way: str, session: HostSession) -> HostSession:
    """The session as `way` leaves it."""
    process = session.process
    assert process is not None
    match way:
        case "reused":
            later = Process(process.boot, process.namespace, process.pid, process.start + 1)
            return session._replace(process=later)
        case "stranger":
            return session._replace(process=processes.myself())
        case "server":
            return session._replace(terminal=(session.terminal[0] + "-none", session.terminal[1]))
        case _:
            return session
