"""Timelines for tests: made by the same calls as a tick's, in a state root of their own."""

import os
from pathlib import Path
from typing import Any

from vyane_cli.cli.render.machine import plain
from vyane_cli.history.queries import check_watch, watch
from vyane_cli.home import Home
from vyane_cli.hosts.port import Trigger
from vyane_cli.kernel.clock import Clock
from vyane_cli.kernel.process import Process
from vyane_cli.storage import document
from vyane_cli.timeline import log, turns
from vyane_cli.timeline import reader as reading
from vyane_cli.timeline.cursors import render_cursor
from vyane_cli.timeline.events import EventKind, TurnOutcome
from vyane_cli.timeline.turns import Transition

SESSION = "vs-0123456789ab"
NOW_MS = 1_800_000_000_000


class Desk:
    """One timeline, opened for each append as by a process of its own."""

    def __init__(self, home: Path, session: str = SESSION) -> None:
        self.home = Home(str(home), environ={})
        self.session = session
        self.path = self.home.layout.timeline(session)
        self.now_ms = NOW_MS
        self.made = 0

    def clock(self) -> Clock:
        self.now_ms += 10
        return Clock(self.now_ms, self.now_ms - NOW_MS + 10_000)

    def opened(self, *, checked: bool = False) -> log.Timeline:
        root = self.home.layout.root
        identity = log.Identity(self.session, "w-0123456789ab")
        return log.Timeline(self.path, root, identity, os.urandom(16).hex(), checked=checked)

    def commit(self, *steps: Any) -> list[int]:
        """Apply steps to the head and append what they give; the seqs."""
        opened = self.opened()
        try:
            state = Transition(opened.head)
            for step in steps:
                state = step(state, self.clock())
            opened.commit(state)
        finally:
            opened.close()
        return [event.seq for event in state.events]

    def start(self, process: Process | None = None, native: str = "") -> Any:
        self.made += 1
        turn, token = f"01{self.made:024}", f"token-{self.made}"

        def step(state: Transition, clock: Clock) -> Transition:
            return turns.start(
                state,
                clock,
                turn=turn,
                token=token,
                trigger=Trigger.HUMAN,
                session="host",
                native=native,
                process=process,
            )

        return step

    @staticmethod
    def tool(name: str = "Bash") -> Any:
        def step(state: Transition, clock: Clock) -> Transition:
            payload = {"tool": name, "outcome": "ok"}
            return turns.emit(state, EventKind.TOOL_OBSERVED, payload, clock)

        return step

    @staticmethod
    def note(code: str = "note") -> Any:
        def step(state: Transition, clock: Clock) -> Transition:
            return turns.emit(state, EventKind.DIAGNOSTIC, {"code": code}, clock, in_turn=False)

        return step

    @staticmethod
    def finish(outcome: TurnOutcome = TurnOutcome.SUCCESS, code: str = "") -> Any:
        def step(state: Transition, clock: Clock) -> Transition:
            return turns.finish(state, clock, outcome, code)

        return step

    def turn(self, tools: int = 2) -> None:
        self.commit(self.start())
        for _ in range(tools):
            self.commit(self.tool())
        self.commit(self.finish())

    def records(self) -> list[dict[str, Any]]:
        with open(self.path, "rb") as file:
            return [document.decode_line(line.rstrip(b"\n")) for line in file]

    def rewrite(self, records: list[dict[str, Any]], tail: bytes = b"") -> bytes:
        """Replace the file by these records, with checksums that fit; its bytes."""
        data = b"".join(document.encode_line(record) for record in records) + tail
        Path(self.path).write_bytes(data)
        return data

    def history(self, **wanted: Any) -> list[dict[str, Any]]:
        os.makedirs(self.home.layout("logical-sessions"), exist_ok=True)
        found = watch(self.home, self.session, check_watch(("history",), **wanted))
        return [plain(event) for event in found]

    def cursor(self, seq: int) -> str:
        seen = reading.event_at(self.path, seq)
        assert seen is not None
        reader = reading.Reader(self.path, self.session)
        list(reader.read())
        return render_cursor(
            reader.cursor._replace(seq=seq, mark=seen.mark, epoch=str(seen.record["epoch"]))
        )
