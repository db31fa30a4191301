"""A user's machine with vyane on it: the lab, an installation, a state root, and a person."""

import json
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hostlab.client import Client
from hostlab.lab import SYSTEM_PATH, Lab
from hostlab.terminal import Tui
from hostlab.waiting import wait_until

from e2e.installation import Installation

HUMAN = ("--from-kind", "human")
QUIET = ("--kind", "info")
MARK = "redelivered"
"""How the envelope of a message that comes again says so, in English."""


@dataclass(frozen=True, slots=True)
class Sent:
    """An acknowledged message."""

    id: str
    lane: str
    returned_at: float
    """Unix seconds at which `send` had returned."""


class CommandFailedError(AssertionError):
    """A vyane command ended with another status than 0."""


class World:
    """What a test of the whole works with. The lab is open."""

    def __init__(self, lab: Lab, installation: Installation, home: Path) -> None:
        self.lab = lab
        self.installation = installation
        self.home = home
        self.sent: list[str] = []

    # --- the person at a terminal ---

    def run(self, *args: str, timeout_s: float = 30.0) -> subprocess.CompletedProcess[str]:
        """A vyane command as the person's script runs it: no terminal, nothing of a host."""
        return subprocess.run(
            [str(self.installation.bin / "vyane"), *args],
            env=self.lab.user_environment(),
            cwd=self.lab.home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            start_new_session=True,
            check=False,
        )

    def vyane(self, *args: str) -> str:
        """The same, for a command that must succeed: what it prints."""
        done = self.run(*args)
        if done.returncode:
            command = " ".join(args)
            raise CommandFailedError(f"vyane {command}: {done.returncode}\n{done.stderr}")
        return done.stdout

    def json(self, *args: str) -> Any:
        """The one JSON document that a command prints."""
        return json.loads(self.vyane(*args, "--json"))

    def send(self, to: str, text: str, *options: str) -> Sent:
        """A message from outside, or with HUMAN from the person."""
        sent = self.json("send", to, text, *options)
        self.sent.append(sent["id"])
        return Sent(sent["id"], sent["lane"], time.time())

    # --- what a person may look at ---

    def workers(self) -> list[dict[str, Any]]:
        """All workers."""
        found: list[dict[str, Any]] = self.json("workers")
        return found

    def worker(self, session_id: str) -> str:
        """The name of the worker that runs in a host session; waits until it has registered."""

        def found() -> str | None:
            # which field holds the host's id is not this test's business
            names = [w["name"] for w in self.workers() if session_id in json.dumps(w)]
            return names[0] if names else None

        name = wait_until(found, f"a worker of session {session_id}", context=self.state)
        assert name is not None
        return name

    def message(self, worker: str, message_id: str) -> dict[str, Any] | None:
        """One message of an inbox, None when the inbox does not list it."""
        listed = self.json("inbox", worker)
        return next((entry for entry in listed if entry["id"] == message_id), None)

    def wait_message(self, worker: str, message_id: str, *statuses: str) -> None:
        """Wait until the inbox says one of the statuses of a message."""

        def reached() -> bool:
            entry = self.message(worker, message_id)
            return entry is not None and entry["status"] in statuses

        wait_until(
            reached,
            f"{message_id} is {' or '.join(statuses)}",
            context=lambda: self.explain(message_id),
        )

    def explain(self, message_id: str) -> str:
        """What `why` says, errors included: for the message of a failure."""
        done = self.run("why", message_id)
        return done.stdout + done.stderr

    def events(self, worker: str, kind: str | None = None) -> list[dict[str, Any]]:
        """The worker's timeline."""
        lines = self.vyane("timeline", worker, "--history", "--json").splitlines()
        events = [json.loads(line) for line in lines]
        return [event for event in events if kind in (None, event["kind"])]

    def state(self) -> str:
        """The files below the state root: for the message of a failure."""
        return "\n".join(str(p.relative_to(self.home)) for p in sorted(self.home.rglob("*")))

    def story(self) -> str:
        """Workers, mail and files as far as vyane can still tell: for a failed test."""
        parts = []
        for args in (["workers"], *(["inbox", name] for name in self._names())):
            try:
                done = self.run(*args)
            except (OSError, subprocess.SubprocessError) as error:  # a test may have broken it
                return f"{error}\n{self.state()}"
            parts.append(f"$ vyane {' '.join(args)}\n{done.stdout}{done.stderr}")
        parts += [self.explain(message_id) for message_id in self.sent]
        return "\n".join([*parts, self.state()])

    def _names(self) -> list[str]:
        try:
            return [worker["name"] for worker in self.workers()]
        except (AssertionError, OSError, ValueError):
            return []

    # --- sessions ---

    def greet(self, client: Client, tui: Tui) -> str:
        """Run a first turn, so that the session is idle after one; return the worker's name."""
        before = len(client.requests())
        client.script({"blocks": ["Hello."]})
        tui.submit("hello")
        client.request(before + 1)
        tui.wait_status("idle")
        return self.worker(tui.session_id)


def open_world(lab: Lab, installation: Installation, home: Path) -> World:
    """Set vyane up for the lab's user: `vyane init`, then the hooks in the user's settings."""
    lab.path = f"{installation.bin}:{SYSTEM_PATH}"
    lab.env["VYANE_HOME"] = str(home)
    world = World(lab, installation, home)
    world.vyane("init")
    world.vyane("hooks", "install", "--scope", "user")
    return world


def clear(world: World, tui: Tui) -> None:
    """Run `/clear`, and wait for the new session that it makes."""
    before = tui.session_id
    tui.submit("/clear")
    wait_until(lambda: tui.session_id != before, "a new session", context=tui.screen)
    world.worker(tui.session_id)
    tui.wait_status("idle")
