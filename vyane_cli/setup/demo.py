"""Demo: simulated sessions that talk to each other, and a check of what each step expects.

Only the sessions are simulated; guard, ticks and commands are the real ones.
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from vyane_cli.errors import VyaneError
from vyane_cli.home import Home
from vyane_cli.mail.lookup import find_message
from vyane_cli.setup.simulation import DemoStage, Session


class SceneLine(NamedTuple):
    """One line of a scene: who acted, what the actor did, and the text it wrote or saw."""

    who: str
    what: str
    text: str = ""


class Expectation(NamedTuple):
    """An expectation of a scene: whether it was met, and what was expected."""

    ok: bool
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SceneReport:
    """A scene as `demo` prints it."""

    title: str
    ok: bool
    lines: tuple[SceneLine, ...]
    checks: tuple[Expectation, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoReport:
    """The report of the whole demo: every scene, and whether all expectations were met."""

    ok: bool
    home: str | None
    """The state root if it was kept, else None."""
    scenes: tuple[SceneReport, ...]


class Scene:
    """One step of the demo: what happened, and the expectations about it."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.lines: list[SceneLine] = []
        self.checks: list[Expectation] = []

    @property
    def ok(self) -> bool:
        """Return whether every expectation of the scene was met."""
        return all(held for held, _ in self.checks)

    def say(self, who: str, what: str, text: str = "") -> None:
        """Append a line about something that happened."""
        self.lines.append(SceneLine(who, what, text.strip()))

    def expect(self, held: bool, what: str) -> None:
        """Append an expectation, and whether it was met."""
        self.checks.append(Expectation(held, what))

    def report(self) -> SceneReport:
        """Return the scene as `demo` prints it."""
        return SceneReport(
            title=self.title, ok=self.ok, lines=tuple(self.lines), checks=tuple(self.checks)
        )


REMOVE_S = 5.0
"""Seconds for which the removal of a temporary home is retried while processes write to it."""


@contextmanager
def stage_at(*, keep: bool) -> Iterator[DemoStage]:
    """Make a stage on a temporary home.

    The home is removed afterwards, also after SIGTERM, SIGHUP or an error, unless `keep` is set.
    """
    folder = os.path.realpath(tempfile.mkdtemp(prefix="vyane-demo-"))
    stage = DemoStage(folder)
    before = {one: signal.signal(one, _leave) for one in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield stage
    finally:
        stage.close()
        if not keep:
            _remove(folder)
        for one, handler in before.items():
            signal.signal(one, handler)


def _remove(folder: str) -> None:
    """Remove a folder, and retry for REMOVE_S: detached processes may still write to it."""
    end = time.monotonic() + REMOVE_S
    shutil.rmtree(folder, ignore_errors=True)
    while os.path.isdir(folder) and time.monotonic() < end:
        time.sleep(0.05)
        shutil.rmtree(folder, ignore_errors=True)


def _leave(number: int, frame: object) -> None:
    """End as after Ctrl-C, when the terminal is closed or the process is asked to end."""
    raise KeyboardInterrupt


def play(stage: DemoStage) -> Iterator[Scene]:
    """Play the scenes and yield each one when it has ended.

    Raises VyaneError when a command that the scenes depend on fails.
    """
    yield _set_up(stage)
    alice, bob = stage.session("api"), stage.session("web")
    yield _start(alice, bob)
    yield _busy(alice, bob)
    yield _idle(alice, bob)
    yield _closed(alice, stage.session("docs"))
    scene, message = _lost_output(alice, bob)
    yield scene
    yield _why(stage, message)
    yield _thread(stage, bob)
    yield _files(stage)


def _set_up(stage: DemoStage) -> Scene:
    scene = Scene("set up")
    for words in (("init",), ("hooks", "install", "--scope", "user")):
        ran = stage.vyane(*words)
        scene.say("you", "$ vyane " + " ".join(words))
        if ran.status:
            raise VyaneError(f"vyane {' '.join(words)} ended with {ran.status}: {ran.err.strip()}")
    scene.expect(os.access(stage.layout.guard, os.X_OK), "the guard is in place")
    return scene


def _start(alice: Session, bob: Session) -> Scene:
    scene = Scene("two sessions start, and register themselves by folder and branch")
    for name, session, wanted in (("alice", alice, "api-main"), ("bob", bob, "web-main")):
        ran = session.start()
        scene.say(name, "SessionStart; the model reads:", _excerpt(ran.context))
        scene.expect(wanted in ran.context, f"{name} is called {wanted}")
        scene.expect("watchPaths" in ran.out, f"{name}'s client watches the wake file")
    return scene


def _busy(alice: Session, bob: Session) -> Scene:
    scene = Scene("a message to a session that is working")
    bob.prompt("please run the tests")
    quiet = bob.before_tool()
    scene.say("bob", "is in the middle of a turn: a tool runs")
    scene.expect(not quiet.out and quiet.status == 0, "a hook with nothing to do prints nothing")
    before = bob.wake_stamp()
    sent = _send(scene, alice, "web-main", "The token endpoint moved to /v2/token.")
    seen = bob.after_tool()
    scene.say("bob", "PostToolBatch, the tool has run; the model reads:", seen.context)
    scene.expect(sent in seen.context, "bob got it after the tool call")
    late = bob.watch(before)  # the client reports the write 0.45 s after it
    again = bob.after_tool()
    bob.stop()
    scene.expect(late.status == 0 and sent not in late.err + again.context, "and only once")
    _expect_status(scene, alice, sent, "consumed")
    return scene


def _idle(alice: Session, bob: Session) -> Scene:
    scene = Scene("a message to an idle session: it wakes")
    before = bob.wake_stamp()
    sent = _send(scene, alice, "web-main", "Can you review my change to the token client?")
    woke = bob.watch(before)
    scene.say("bob", f"FileChanged, exit {woke.status} begins a turn; the model reads:", woke.err)
    scene.expect(woke.status == 2 and sent in woke.err, "bob was woken with the message")
    bob.woken(woke.err)
    bob.stop()
    scene.say("bob", "UserPromptSubmit names it: that is the receipt")
    _expect_status(scene, alice, sent, "consumed")
    return scene


def _closed(alice: Session, carol: Session) -> Scene:
    scene = Scene("a message to a session that is closed")
    carol.start()
    carol.close()
    scene.say("carol", "docs-main starts, and is closed: its process is gone")
    sent = _send(scene, alice, "docs-main", "The docs still name the old endpoint.")
    _expect_status(scene, alice, sent, "pending")
    seen = carol.resume()
    scene.say("carol", "claude --resume; the model reads:", _messages(seen.context))
    scene.expect(sent in seen.context, "carol got it when she came back")
    return scene


def _lost_output(alice: Session, bob: Session) -> tuple[Scene, str]:
    scene = Scene("a hook dies before its output is read: the message comes again, marked")
    bob.prompt("go on")
    bob.before_tool()
    sent = _send(scene, alice, "web-main", "The release is on Thursday.")
    bob.after_tool(deaf=True)
    scene.say("bob", "PostToolBatch, but nobody reads what the hook prints")
    _expect_status(scene, alice, sent, "pending")
    bob.before_tool()
    seen = bob.after_tool()
    scene.say("bob", "the next PostToolBatch; the model reads:", seen.context)
    scene.expect(sent in seen.context and "redelivered" in seen.context, "shown again, marked")
    bob.stop()
    _expect_status(scene, alice, sent, "consumed")
    return scene, sent


def _why(stage: DemoStage, message: str) -> Scene:
    scene = Scene("why: what became of that message")
    ran = stage.vyane("why", message)
    scene.say("you", f"$ vyane why {message}", ran.out or ran.err)
    scene.expect(ran.status == 0 and "output-failed" in ran.out, "every attempt with its rule")
    return scene


def _thread(stage: DemoStage, bob: Session) -> Scene:
    scene = Scene("a thread for each session: read it, and write to it, with any editor")
    folder = os.path.join(stage.folder, "threads")
    me = pwd.getpwuid(os.getuid()).pw_name
    stage.vyane("config", "set", "channels.file.folder", folder)
    stage.vyane("config", "set", "channels.file.allow_users", me)
    shown = stage.vyane("mirror", "push")
    scene.say("you", "$ vyane mirror push", shown.out or shown.err)
    threads = [name for name in sorted(os.listdir(folder)) if name.startswith("web-main.")]
    scene.expect(len(threads) == 1, "bob has a thread of his own")
    path = os.path.join(folder, threads[0] if threads else "web-main.md")
    with open(path, "a", encoding="utf-8") as thread:
        thread.write("Please write the release notes.\n")
    scene.say("you", '$ echo "Please write the release notes." >> web-main.*.md')
    bob.watch("")  # the client also reports the write of an earlier scene
    before = bob.wake_stamp()
    taken = stage.vyane("mirror", "pull")
    scene.say("you", "$ vyane mirror pull", taken.out or taken.err)
    woke = bob.watch(before)
    scene.say("bob", f"FileChanged, exit {woke.status} begins a turn; the model reads:", woke.err)
    scene.expect("release notes" in woke.err, "what you wrote woke bob")
    bob.woken(woke.err)
    bob.stop()
    stage.vyane("mirror", "push")
    with open(path, encoding="utf-8") as thread:
        text = thread.read()
    seen = "\n".join(line for line in text.splitlines() if "<!--" not in line)
    scene.say("you", "$ grep -v '<!--' web-main.*.md", seen)
    stage.vyane("mirror", "push")
    with open(path, encoding="utf-8") as thread:
        scene.expect(thread.read() == text, "a second push shows nothing twice")
    return scene


def _files(stage: DemoStage) -> Scene:
    scene = Scene("all state is plain files")
    root = stage.layout.root
    scene.say("you", f"$ ls {root}", listing(root))
    lines = os.path.join(root, "messages", "inbox")
    scene.expect(len(os.listdir(lines)) == 3, "three inboxes")
    return scene


def _send(scene: Scene, sender: Session, to: str, text: str) -> str:
    """Send a message as a session's agent does, in its shell. Return the message's id."""
    ran = sender.vyane("send", to, text, "--json")
    if ran.status:  # the scene needs the message
        raise VyaneError(f"vyane send ended with {ran.status}: {ran.err.strip()}")
    stored = json.loads(ran.out)
    scene.say("alice", f'$ vyane send {to} "{text}"', f"stored {stored['id']}: {stored['outlook']}")
    return str(stored["id"])


def _expect_status(scene: Scene, session: Session, message: str, status: str) -> None:
    stage = session.stage
    found = find_message(Home(stage.layout.root, stage.environ), message).entry.status
    scene.expect(
        found == status, f"it is {status}" if found == status else f"{found}, not {status}"
    )


def _excerpt(text: str, limit: int = 160) -> str:
    return text if len(text) <= limit else text[:limit].rpartition(" ")[0] + " …"


def _messages(context: str) -> str:
    """Return the messages in the context of a session start, without the introduction."""
    _, found, rest = context.rpartition("Message from")
    return found + rest


def listing(root: str) -> str:
    """Return the names in a folder, one a line, with the number of files in each subfolder.

    Empty subfolders and `locks` are left out.
    """
    lines = []
    for name in sorted(os.listdir(root)):
        path = os.path.join(root, name)
        if name == "locks":
            continue
        if not os.path.isdir(path):
            lines.append(name)
        elif held := sum(len(files) for _, _, files in os.walk(path)):
            lines.append(f"{name + '/':<20} {held} {'file' if held == 1 else 'files'}")
    return "\n".join(lines)
