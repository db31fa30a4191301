"""A line typed into a session's pane: one submission, to an empty box, after proof. Real tmux."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hostlab.waiting import wait_until
from tests.simulated import Host, machine
from vyane_cli.children import spawn as spawning
from vyane_cli.children.order import Order
from vyane_cli.children.result import settle_child
from vyane_cli.children.result_rules import Ending, Report
from vyane_cli.children.spawn import spawn as spawn
from vyane_cli.delivery import attempts, keystrokes
from vyane_cli.delivery.keystrokes import type_for_mail
from vyane_cli.delivery.ring import nudge
from vyane_cli.errors import LockTimeoutError
from vyane_cli.sessions import registry
from vyane_cli.storage import locks, processes
from vyane_cli.storage.locks import LockKind

pytestmark = pytest.mark.skipif(not shutil.which("tmux"), reason="there is no tmux")

CLIENT = """
import os, sys, time, tty
folder, quirk, box = sys.argv[1], sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else ""
tty.setraw(0)
last, dropped = 0.0, False
def draw():
    rule = "\\u2500" * 60
    text = f"\\x1b[2J\\x1b[H{rule}\\r\\n\\u276f {box}\\r\\n{rule}\\r\\n"
    if quirk == "dialog":
        text = "\\x1b[2J\\x1b[HDo you want to?\\r\\n\\u276f 1. Yes\\r\\n  2. No\\r\\n"
    os.write(1, text.encode())
draw()
open(os.path.join(folder, "ready"), "w").close()
while data := os.read(0, 4096):
    with open(os.path.join(folder, "keys"), "ab") as file:
        file.write(data)
    now = time.monotonic()
    text = data.decode()
    if text == "\\r":
        if quirk == "drops" and not dropped:
            dropped = True
        elif now - last < 0.12:
            box += " "
        else:
            with open(os.path.join(folder, "submitted"), "a") as file:
                file.write(box + "\\n")
            box = ""
    elif quirk != "deaf":
        box += text.replace("\\r", " ")
    last = now
    draw()
"""
"""The interactive client: a box, and Enter that is swallowed as real ones do it."""


class Pane:
    """A session of a host, in a pane of a tmux server of the test's own."""

    def __init__(self, bob: Host, folder: Path) -> None:
        self.bob, self.folder, self.socket = bob, folder, str(folder / "tmux")

    def tmux(self, *words: str) -> str:
        command = ["tmux", "-S", self.socket, "-f", "/dev/null", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def open(self, quirk: str = "", box: str = "", columns: int = 80) -> None:
        (self.folder / "client.py").write_text(CLIENT)
        program = [sys.executable, str(self.folder / "client.py"), str(self.folder), quirk, box]
        environ = ["-e", "LC_ALL=C.UTF-8"]
        self.tmux("new-session", "-d", "-x", str(columns), "-y", "24", *environ, *program)
        wait_until((self.folder / "ready").exists, "the pane is ready", timeout_s=20)
        pane, pid = self.tmux("display-message", "-p", "#{pane_id} #{pane_pid}").split()
        known = registry.load_session(self.bob.world.layout, self.bob.session)
        assert known is not None
        process = processes.identify(int(pid))
        claude = self.folder / "claude"
        registry.save_session(
            self.bob.world.layout,
            known._replace(process=process, terminal=(self.socket, pane), config_dir=str(claude)),
        )
        self.record(claude, int(pid), "idle")

    def record(self, claude: Path, pid: int, status: str) -> None:
        (claude / "sessions").mkdir(parents=True, exist_ok=True)
        record = {"sessionId": self.bob.session, "status": status}
        record["statusUpdatedAt"] = (time.time() - 60) * 1000  # type: ignore[assignment]
        (claude / "sessions" / f"{pid}.json").write_text(json.dumps(record))

    def busy(self) -> None:
        (path,) = (self.folder / "claude" / "sessions").iterdir()
        self.record(self.folder / "claude", int(path.stem), "waiting")

    def change(self, **fields: object) -> None:
        (path,) = (self.folder / "claude" / "sessions").iterdir()
        path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))

    def read(self, name: str) -> str:
        path = self.folder / name
        return path.read_text() if path.exists() else ""

    @property
    def line(self) -> str:
        return self.bob.world.templates.fill("typed-mail")


@pytest.fixture
def pane(tmp_path: Path) -> Iterator[Pane]:
    """A session without a watch: it was open before the hooks were installed."""
    with machine() as make:
        bob = make()
        bob.start()
        os.unlink(bob.world.layout.wake(bob.session))
        found = Pane(bob, tmp_path)
        yield found
        subprocess.run(["tmux", "-S", found.socket, "kill-server"], check=False)


@pytest.mark.parametrize("quirk", ["", "drops"])
def test_mail_for_an_idle_session_without_a_watch_is_one_line_in_its_pane(pane, quirk):
    """Whatever becomes of the first Enter: one submission, of that line alone."""
    pane.open(quirk)
    sent = pane.bob.world.send(pane.bob.worker, "hello")
    assert pane.read("submitted") == pane.line + "\n"
    assert pane.bob.world.rules(sent)[-1] == "attempt:tmux/direct"
    assert pane.bob.world.status(sent) == "pending"  # its own hook hands it over

    assert not type_for_mail(pane.bob.world, pane.bob.worker, pane.bob.world.clock())
    assert pane.read("submitted") == pane.line + "\n"


def test_a_narrow_pane_breaks_the_line_and_it_is_taken_all_the_same(pane):
    """Half a window: the line stands there in two pieces."""
    pane.open(columns=45)
    pane.bob.world.send(pane.bob.worker, "hello")
    assert pane.read("submitted") == pane.line + "\n"


def test_a_line_that_an_earlier_try_left_there_is_sent_and_not_typed_again(pane):
    """Its Enter was swallowed, or the client was too slow to show it in time."""
    pane.open(box=pane.line)
    pane.bob.world.send(pane.bob.worker, "hello")
    assert pane.read("submitted") == pane.line + "\n"


def test_half_typed_text_is_left_alone_and_the_story_says_so(pane):
    """Once; no key is pressed."""
    pane.open(box="half a")
    sent = pane.bob.world.send(pane.bob.worker, "hello")
    nudge(pane.bob.world, pane.bob.worker, pane.bob.world.clock())
    assert pane.read("keys") == ""
    assert pane.bob.world.rules(sent) == ["message:", "attempt:tmux/input-in-use"]


@pytest.mark.parametrize(
    "why", ["dialog", "waiting", "parked", "turn", "watch", "foreground", "never"]
)
def test_without_proof_that_it_is_idle_and_alone_no_key_is_pressed(pane, why):
    """A dialog, the host's record, an open turn, a watch that rings, another program in front."""
    bob = pane.bob
    if why == "turn":
        bob.prompt()
    if why == "watch":
        Path(bob.world.layout.wake(bob.session)).touch()
    if why == "never":
        Path(bob.world.layout.config).write_text('[delivery]\ntmux = "never"\n')
        bob.world._config = None
    pane.open("dialog" if why == "dialog" else "")
    if why == "waiting":
        pane.busy()
    if why == "parked":
        pane.change(parkedJobId="cdfd96d8")
    if why == "foreground":
        known = registry.load_session(bob.world.layout, bob.session)
        assert known is not None
        me = known._replace(process=processes.myself())
        registry.save_session(bob.world.layout, me)
    sent = bob.world.send(bob.worker, "hello")
    assert pane.read("keys") == ""
    assert not [rule for rule in bob.world.rules(sent) if "tmux" in rule]


def test_a_watch_that_has_failed_is_made_up_for(pane):
    """Mail that an idle session has not taken for 10 s."""
    Path(pane.bob.world.layout.wake(pane.bob.session)).touch()
    pane.open()
    pane.bob.world.send(pane.bob.worker, "hello")
    assert pane.read("keys") == ""
    pane.bob.world.pass_s(11)
    assert nudge(pane.bob.world, pane.bob.worker, pane.bob.world.clock())
    assert pane.read("submitted") == pane.line + "\n"


def test_a_line_that_does_not_appear_gets_no_enter(pane):
    """Something else has the keys."""
    pane.open("deaf")
    pane.bob.world.send(pane.bob.worker, "hello")
    assert "\r" not in pane.read("keys")
    assert pane.read("submitted") == ""


def test_what_was_typed_while_a_lock_was_waited_for_is_left_alone(pane, monkeypatch):
    """The box was empty a moment ago: it is looked at again right before the first key."""
    pane.open()
    real = attempts.record_start

    def slow(*rest: object) -> object:
        pane.tmux("send-keys", "-l", "my own words")
        wait_until(lambda: "words" in pane.tmux("capture-pane", "-p"), "it is on the screen")
        return real(*rest)

    monkeypatch.setattr(keystrokes, "record_start", slow)
    pane.bob.world.send(pane.bob.worker, "hello")
    assert pane.read("keys") == "my own words"


@pytest.mark.parametrize("by", ["send", "key", "result"])
def test_no_lock_is_held_while_keys_are_typed(pane, monkeypatch, by):
    """They take seconds, and hooks wait for less than one."""
    world = pane.bob.world
    free: list[bool] = []

    def typed(*rest: object) -> bool:
        kinds = [(kind, key) for kind in LockKind for key in (pane.bob.worker, "", "k")]
        try:
            with world.held(*kinds, deadline=locks.Deadline(0.2)):
                free.append(True)
        except LockTimeoutError:
            free.append(False)
        return True

    monkeypatch.setattr(keystrokes, "type_line", typed)
    monkeypatch.setattr(keystrokes, "read_screen", lambda session: "─" * 9 + "\n❯\n" + "─" * 9)
    monkeypatch.setattr(spawning, "start_launcher", lambda *rest: None)
    pane.open()
    if by == "result":
        world.environ = {}
        child = spawn(world, Order("go", pane.bob.worker, cwd="/tmp"))
        settle_child(world, child.id, Report(Ending.SUCCESS, "done"))
    else:
        world.send(pane.bob.worker, "hello", idempotency_key="k" if by == "key" else None)
    assert free == [True]


def test_older_work_waits_behind_a_takeover_here_too(pane):
    """The line is typed for the order, and for what was sent before it when that is over."""
    world, worker = pane.bob.world, pane.bob.worker
    world.limit = world.deadline()  # as in a hook: stored, and no key
    old = world.send(worker, "the old plan")
    order = world.send(worker, "", kind="takeover", payload={"instruction": "stop"})
    world.limit = None
    pane.open()
    assert type_for_mail(world, worker, world.clock())
    assert world.rules(order)[-1] == "attempt:tmux/control"
    assert world.rules(old) == ["message:"]
    assert not type_for_mail(world, worker, world.clock())


def test_a_cancel_begins_no_turn_in_order_to_stop_it(pane):
    """Nothing runs there."""
    pane.open()
    pane.bob.world.send(pane.bob.worker, "", kind="cancel", payload={"reason": "enough"})
    nudge(pane.bob.world, pane.bob.worker, pane.bob.world.clock())
    assert pane.read("keys") == ""


def test_a_hook_presses_no_keys(pane):
    """It has no time for that."""
    pane.open()
    pane.bob.world.limit = pane.bob.world.deadline(0.8)
    pane.bob.world.send(pane.bob.worker, "hello")
    assert pane.read("keys") == ""


def test_the_line_is_a_wake_and_not_a_persons_prompt():
    """For the timeline: nobody typed it."""
    from vyane_cli.hosts import claude_code

    with machine() as make:
        bob = make()
        bob.start()
        prompt = bob.world.templates.fill("typed-mail")
        payload = bob.payload("UserPromptSubmit", prompt=prompt)
        call = claude_code.parse(payload, bob.environ(), processes.identify)
        assert call.trigger == "wake"
