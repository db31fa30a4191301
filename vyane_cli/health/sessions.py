"""Checks of the sessions: hooks that do not run, workers that died, overdue mail, wrong markers."""

from __future__ import annotations

import json
import os
from datetime import datetime
from typing import NamedTuple

from vyane_cli.delivery.deliver import plan_markers
from vyane_cli.delivery.view import transports_of
from vyane_cli.health.subject import ExaminedWorker, Finding, Subject, some
from vyane_cli.home import Home
from vyane_cli.mail import inbox
from vyane_cli.mail.inbox import boxes_of
from vyane_cli.mail.mailbox import MailEntry
from vyane_cli.sessions import markers, registry
from vyane_cli.sessions.liveness_rules import Liveness
from vyane_cli.sessions.session import HostSession, Markers

LAST_EVENTS = 20
"""Tool events of a session after which hooks that missed them all count as dead."""
SILENT_S = 300.0
"""Seconds of any other work of a session after which hooks that missed it count as dead."""
SETTLED_S = 30.0
TAIL_BYTES = 4 * 1024 * 1024
LONG_S = 900.0
MANY = 10


def hooks_alive(subject: Subject) -> Finding:
    """The hooks of every session that runs have run since it last did something."""
    dead, ages = [], []
    for seen in subject.live:
        session = seen.look.session
        if session is None or session.host == "generic":
            continue
        beat = markers.modified(subject.layout.beat(session.id))
        missed = missed_since(session, max(beat, session.started_at), subject.clock.at)
        if missed:
            dead.append(f"{seen.worker.name}: {missed}")
        elif beat:
            ages.append(f"{seen.worker.name} {max(subject.clock.at - beat, 0):.0f} s ago")
    if dead:
        return Finding(
            False,
            some(dead),
            "run `vyane hooks install`, then restart the session (`claude --resume`)",
        )
    return Finding(True, "last hook: " + some(ages) if ages else "no session runs")


def missed_since(session: HostSession, beat_s: float, now_s: float) -> str:
    """Return the work of a session that its hooks missed, by its transcript; empty if none."""
    tools, latest = activity(session.transcript, beat_s)
    if tools >= LAST_EVENTS:
        return f"its hooks have not run over its last {tools} tool events"
    if latest - beat_s > SILENT_S and now_s - latest > SETTLED_S:
        return f"its hooks have not run for the last {latest - beat_s:.0f} s of its work"
    return ""


def activity(transcript: str, since_s: float) -> tuple[int, float]:
    """Return the activity at the end of a transcript.

    That is (tool results after a moment, time of the last answer or prompt). A transcript has one
    JSON object a line, with `timestamp` in ISO 8601; a line without a timestamp gets the file's
    time.
    """
    try:
        modified = os.stat(transcript).st_mtime
        with open(transcript, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - TAIL_BYTES, 0))
            lines = file.read().splitlines()
    except (OSError, ValueError):
        return 0, 0.0
    tools, latest = 0, 0.0
    for line in lines:
        if b'"user"' not in line and b'"assistant"' not in line:
            continue
        try:
            record = json.loads(line)
            stamp = record.get("timestamp")
            at = datetime.fromisoformat(stamp).timestamp() if stamp else modified
            content = (record.get("message") or {}).get("content")
        except (ValueError, AttributeError, TypeError, RecursionError):
            continue
        if record.get("type") not in ("user", "assistant") or record.get("isSidechain"):
            continue
        latest = max(latest, at)
        blocks = content if isinstance(content, list) else []
        if at > since_s + 1:
            tools += sum(isinstance(b, dict) and b.get("type") == "tool_result" for b in blocks)
    return tools, latest


def transports(subject: Subject) -> Finding:
    """Every session that runs can be woken."""
    deaf, listed = [], []
    for seen in subject.live:
        session = seen.look.session
        ways = transports_of(subject.home, seen.worker, seen.look)
        listed.append(f"{seen.worker.name}: {' '.join(ways) or 'none'}")
        attended = session is not None and session.attended and session.host != "generic"
        if attended and "watch" not in ways:
            deaf.append(seen.worker.name)
    if deaf:
        return Finding(
            False,
            f"cannot be woken while idle: {some(deaf)} (of {some(listed)})",
            "type /clear in the session, or restart it with `claude --resume`: it was open before "
            "the hooks were installed",
        )
    return Finding(True, some(listed) or "no session runs")


def dead_workers(subject: Subject) -> Finding:
    """No worker died with mail that nobody has read."""
    dead: list[tuple[str, ExaminedWorker]] = []
    closed: list[tuple[str, ExaminedWorker]] = []
    for seen in subject.workers:
        if seen.look.liveness is not Liveness.EXITED:
            continue
        count = len(_waiting(subject.home, seen))
        if count:
            line = f"{seen.worker.name} ({count} pending)"
            (dead if seen.died else closed).append((line, seen))
    waits = f"; closed, with mail for when they come back: {some([c for c, _ in closed])}"
    if not dead:
        return Finding(True, "none" + (waits if closed else ""))
    first, session = dead[0][1].worker, dead[0][1].look.session
    where = ""
    if session is not None and session.host == "generic":
        where = f": `vyane workers register {first.name} --pid PID`"
    elif session is not None:
        where = f" in {session.cwd}: `claude --resume {session.id}`"
    number = f"{len(dead)} dead worker{'s' if len(dead) > 1 else ''} with unread mail: "
    return Finding(
        False,
        number + some([line for line, _ in dead]) + (waits if closed else ""),
        f"bring it back{where}, or read it: `vyane inbox {first.name}`",
    )


def ambiguous_sessions(subject: Subject) -> Finding:
    """No session id is claimed by two processes."""
    found = [
        f"{seen.worker.name} ({', '.join(str(p.pid) for p in session.others)} beside "
        f"{session.process.pid if session.process else '?'})"
        for seen in subject.live
        if (session := seen.look.session) is not None and session.others
    ]
    if not found:
        return Finding(True, "none")
    return Finding(
        False,
        f"two processes on one session, only the first gets mail: {some(found)}",
        "close one of them, or fork it: `claude --resume ID --fork-session`",
    )


def overdue(subject: Subject) -> Finding:
    """Nobody who runs has startable mail lying past its time."""
    grace = subject.config.limits.overdue_ms + 60_000  # overdue mail is rung again once a minute
    late = set(markers.overdue(subject.layout, subject.clock.now_ms, grace, 1000))
    found = [seen.worker.name for seen in subject.live if seen.worker.id in late]
    if not found:
        return Finding(True, "nothing is overdue")
    return Finding(
        False,
        f"mail that should have started a turn lies: {some(found)}",
        f"run `vyane inbox {found[0]}` for the ids, then `vyane why ID`; any prompt in the session "
        "delivers it",
    )


def oldest_unshown(subject: Subject) -> Finding:
    """Startable mail to a session that runs is shown within a quarter of an hour."""
    oldest: tuple[float, str, MailEntry] | None = None
    everything = [
        (entry.message.ts, seen, entry)
        for seen in subject.workers
        for entry in _waiting(subject.home, seen)
    ]
    for ts, seen, entry in everything:
        if seen.live and entry.message.startable and (oldest is None or ts < oldest[0]):
            oldest = ts, seen.worker.name, entry
    if oldest is not None and subject.clock.at - oldest[0] > LONG_S:
        age = (subject.clock.at - oldest[0]) / 60
        return Finding(
            False,
            f"{oldest[2].message.id} to {oldest[1]} has waited for {age:.0f} min",
            f"run `vyane why {oldest[2].message.id}`",
        )
    if not everything:
        return Finding(True, "nothing waits")
    first = min(ts for ts, _, _ in everything)
    return Finding(
        True, f"{len(everything)} pending, the oldest since {subject.clock.at - first:.0f} s"
    )


def many_workers(subject: Subject) -> Finding:
    """Ten workers at once is what vyane is made for."""
    count = sum(seen.look.liveness is not Liveness.EXITED for seen in subject.workers)
    if count <= MANY:
        return Finding(True, f"{count} of {MANY}")
    return Finding(
        False,
        f"many_workers: {count} workers, made for {MANY} at once",
        "close sessions that you do not need: `vyane workers` lists them",
    )


def _waiting(home: Home, seen: ExaminedWorker) -> list[MailEntry]:
    paths = boxes_of(home, seen.worker.id, seen.worker.logical_session_id)
    return [entry for path in paths for entry in inbox.read(path).mailbox.pending]


# ------------------------------------------------------------------ markers


class Mark(NamedTuple):
    """A worker whose markers disagree with its inbox."""

    worker: str
    session: str
    logical_session: str
    what: str


def marker_files(subject: Subject) -> Finding:
    """The small files that the guard looks at agree with the inboxes."""
    found = wrong_markers(subject)
    if found:
        found = [one for one in found if one in wrong_markers(subject)]  # a tick was running
    if not found:
        return Finding(True, "all as the inboxes say")
    names = {seen.worker.id: seen.worker.name for seen in subject.workers}
    shown = [f"{names[one.worker]}: {one.what}" for one in found]
    return Finding(False, some(shown), "run `vyane doctor --fix`; the session's next tick does it")


def wrong_markers(subject: Subject) -> list[Mark]:
    """Return the wrong markers of live sessions, as far as visible without their locks."""
    found = []
    for seen in subject.live:
        session = seen.look.session
        if session is None or session.host == "generic":
            continue
        home, layout = subject.home, subject.layout
        wanted = planned(home, session)
        pairs = (
            ("pending", layout.pending(session.id), wanted.pending),
            ("control", layout.control(session.id), wanted.control),
            ("proof", layout.proof(session.id), wanted.proof),
            ("due", layout.due(session.worker), wanted.due_ms is not None),
        )
        for name, path, there in pairs:
            if os.path.exists(path) != there:
                what = f"{name} is {'missing' if there else 'left over'}"
                found.append(Mark(session.worker, session.id, session.logical_session, what))
    return found


def planned(home: Home, session: HostSession) -> Markers:
    """Return the markers that a session must have."""
    boxes = [
        inbox.read(path).mailbox for path in boxes_of(home, session.worker, session.logical_session)
    ]
    return plan_markers(boxes, home.clock(), home.config.limits)


def unregistered(subject: Subject) -> Finding:
    """Every session that is on record has its worker in the registry."""
    workers = registry.Registry(subject.layout).workers
    found = [
        session.id
        for session in registry.known_sessions(subject.layout)
        if session.worker not in workers and not session.ended
    ]
    if not found:
        return Finding(True, "all are registered")
    return Finding(
        False,
        f"their workers are on no list, so nobody can write to them: {some(found)}",
        "restart the session: a start was killed before it was registered",
    )
