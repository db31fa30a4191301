"""Repairs: the changes that `vyane doctor --fix` makes without asking.

Each repair takes the lock of what it changes, looks again under it, and keeps a copy of every byte
that it removes. What only a person can decide (a damaged document, a dead worker) is left alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from vyane_cli.attention import needs
from vyane_cli.errors import LockTimeoutError, TooNewError, VyaneError
from vyane_cli.health import sessions, state
from vyane_cli.health.subject import Subject
from vyane_cli.home import Home
from vyane_cli.mail import inbox
from vyane_cli.sessions import markers, registry
from vyane_cli.setup.hooks import HostSettings
from vyane_cli.storage import files, journal, locks
from vyane_cli.storage.layout import strangers
from vyane_cli.storage.locks import LockKind
from vyane_cli.timeline import log, turns
from vyane_cli.timeline.check import Checker
from vyane_cli.timeline.events import EventKind
from vyane_cli.upkeep.expire import all_boxes


class Repair(NamedTuple):
    """One repair that was made, or that failed."""

    what: str
    done: str
    ok: bool = True


def repair(home: Home, host: HostSettings, folder: str) -> list[Repair]:
    """Make every safe repair. An error of one does not stop the others.

    A second run finds nothing to do.
    """
    subject = Subject(home, host, folder)
    done: list[Repair] = []
    if not subject.there:
        return done
    for step in (
        mend_modes, mend_inboxes, mend_journals, mend_timelines, mend_names, mend_page, mend_markers
    ):  # fmt: skip
        try:
            for one in step(subject):
                done.append(one)
        except VyaneError as error:
            done.append(Repair(step.__name__.removeprefix("mend_"), error.message, ok=False))
        except OSError as error:
            reason = f"{error.filename or ''}: {error.strerror or error}".lstrip(": ")
            done.append(Repair(step.__name__.removeprefix("mend_"), reason, ok=False))
    return done


def _each(what: str, action: Callable[[], str]) -> Iterator[Repair]:
    """Yield the report of the action if it did something, or its error."""
    try:
        done = action()
    except VyaneError as error:
        yield Repair(what, error.message, ok=False)
        return
    if done:
        yield Repair(what, done)


def mend_modes(subject: Subject) -> Iterator[Repair]:
    """Set folders to 0700 and files to 0600, unless the root holds files that are not vyane's."""
    if os.path.isdir(subject.layout.root) and strangers(subject.layout.root):
        return
    for path, right in list(state.wrong_modes(subject.layout)):
        files.step("chmod", path)
        try:
            before = os.lstat(path).st_mode & 0o7777
            os.chmod(path, right)
        except FileNotFoundError:
            continue  # a marker or a temporary file that was removed meanwhile
        yield Repair(path, f"mode {before:04o} is {right:04o} now")


def mend_inboxes(subject: Subject) -> Iterator[Repair]:
    """Move damaged lines and torn tails of inboxes to the quarantine; the good lines stay."""
    for box in all_boxes(subject.home):
        if state.flaws(box.path) or state.torn(box.path):

            def action(path: str = box.path, lock: str = box.lock) -> str:
                with subject.home.held((LockKind.INBOX, lock)):
                    return _mend_inbox(path, subject.layout.root)

            yield from _each(box.path, action)


def _mend_inbox(path: str, root: str) -> str:
    found, tail = state.flaws(path), state.torn(path)
    box = inbox.Inbox(path, root)  # raises for lines of a newer vyane
    try:
        if any(line.damage is not None for line in journal.read(path)):
            box.repair()  # repairs a torn tail, too
        elif box.writer.torn:
            box.writer.append([])
    finally:
        box.close()
    return _report(len(found), tail)


def mend_journals(subject: Subject) -> Iterator[Repair]:
    """Repair outboxes, archives, projects' journals and the person's list in the same way."""
    layout, inboxes = subject.layout, subject.layout("messages", "inbox") + os.sep
    for path in state.journals(layout):
        if path.startswith(inboxes) or not (state.flaws(path) or state.torn(path)):
            continue
        yield from _each(path, partial(_mend_alone, subject.home, path))


def _mend_alone(home: Home, path: str) -> str:
    """Repair a journal under its writers' lock, so that no line they append meanwhile is lost."""
    layout = home.layout
    folder, name = os.path.split(path)
    if not path.startswith(layout("projects") + os.sep):
        lock = (LockKind.ARCHIVE, "")
        if path == layout.need_user:
            lock = (LockKind.QUEUE, "")
        elif folder == layout("messages", "outbox"):
            lock = (LockKind.OUTBOX, name.removesuffix(".jsonl").removeprefix("worker-"))
        with home.held(lock):
            return _mend_journal(path, layout.root)
    project = os.path.basename(folder)
    if path in (layout.rounds(project), layout.gaps(project)):
        domain, patience_s = layout.domain(project), home.deadline().budget_s
        alone = locks.take_soon(domain, patience_s)
        if alone is None:
            raise LockTimeoutError(domain, patience_s)
        try:
            return _mend_journal(path, layout.root)
        finally:
            locks.give_back(alone)
    kind = LockKind.NOTICES if path == layout.deliveries(project) else LockKind.LEDGER
    with home.held((kind, project)):
        return _mend_journal(path, layout.root)


def _mend_journal(path: str, root: str) -> str:
    found, tail = state.flaws(path), state.torn(path)
    with open(path, "rb") as file:
        data = file.read()
    good, kept = [], 0
    for line in journal.read(path):
        end = data.index(b"\n", line.offset) + 1
        kept = end
        if line.damage is None or line.damage.newer:
            good.append(data[line.offset : end])
        else:
            journal.save_damaged(
                root, path, data[line.offset : end], line.offset, line.damage.reason
            )
    if tail:
        journal.save_damaged(root, path, data[kept:], kept, "torn tail")
    if not tail and all(one.newer for one in found):
        return ""
    files.replace(path, b"".join(good), mode=files.FILE_MODE)
    return _report(sum(not one.newer for one in found), tail)


def _report(lines: int, tail: int) -> str:
    parts = [f"{lines} damaged lines"] if lines else []
    parts += [f"half a line ({tail} bytes)"] if tail else []
    return " and ".join(parts) + " set aside in quarantine/" if parts else ""


# ------------------------------------------------------------------ timelines


def mend_timelines(subject: Subject) -> Iterator[Repair]:
    """Cut a damaged timeline before its first damage, and record the cut in it.

    What follows the damage is kept in the quarantine, with the whole file: its events rely on an
    order that can no longer be proven, and a reader must never see a story with a gap.
    """
    for session, path in state.timelines(subject.layout):
        if state.torn(path) or state.timeline_flaw(session, path) is not None:

            def action(session: str = session, path: str = path) -> str:
                with subject.home.held((LockKind.TIMELINE, session)):
                    return _mend_timeline(subject.home, session, path)

            yield from _each(path, action)


def _mend_timeline(home: Home, session: str, path: str) -> str:
    root, tail = home.layout.root, state.torn(path)
    flaw = state.timeline_flaw(session, path)
    if flaw is None:
        if not tail:
            return ""  # repaired in the meantime
        writer = journal.open_writer(path, root)
        try:
            writer.append([])
        finally:
            writer.close()
        return _report(0, tail)
    if flaw.newer:
        raise TooNewError(path, flaw.reason, line=flaw.line)
    with open(path, "rb") as file:
        data = file.read()
    kept = journal.save_damaged(root, path, data, 0, f"line {flaw.line}: {flaw.reason}")
    end, last = _sound_prefix(session, path)
    if not end or last is None:
        files.remove(path)
        files.sync_directory(os.path.dirname(path))
        return f"no line of it is sound: begun anew; all of it is in {kept}"
    note = _note(home, session, last, flaw, os.path.relpath(kept, root))
    files.replace(path, data[:end] + note, mode=files.FILE_MODE)
    return f"cut before line {flaw.line} ({flaw.reason}); all of it is in {kept}"


def _sound_prefix(session: str, path: str) -> tuple[int, journal.JournalLine | None]:
    """Return the offset after the last line before the damage, and that line."""
    checker = Checker(session)
    last: journal.JournalLine | None = None
    for line in journal.read(path):
        if line.record is None or checker.check(line.record) is not None:
            return line.offset, last
        last = line
    return (os.path.getsize(path) - state.torn(path)), last


def _note(
    home: Home, session: str, last: journal.JournalLine, flaw: state.Flaw, kept: str
) -> bytes:
    """Return the line of a diagnostic that follows the last sound line."""
    from vyane_cli.storage import document

    record = last.record or {}
    head = log.head_of(record) or turns.TimelineHead(str(record.get("epoch") or ""))
    identity = log.Identity(
        session,
        str(record.get("worker") or ""),
        record.get("trace_id"),
        record.get("parent_span_id"),
    )
    text = f"line {flaw.line} was damaged ({flaw.reason}); what followed is in {kept}"
    clock = home.clock()._replace(now_ms=max(home.clock().now_ms, int(head.at * 1000)))
    state_after = turns.emit(
        turns.Transition(head),
        EventKind.DIAGNOSTIC,
        {"code": "timeline_cut", "text": text},
        clock,
        in_turn=head.open is not None,
    )
    boot = str(record.get("boot") or "")
    rendered = log.render_event(state_after.events[-1], state_after.head, identity, boot)
    return document.encode_line(rendered)


# ------------------------------------------------------------------ derived files


def mend_names(subject: Subject) -> Iterator[Repair]:
    """Rewrite the names for completion from the registry."""
    if state.names(subject).ok:
        return
    with subject.home.held((LockKind.REGISTRY, "")):
        text = state.names_text(subject.layout).encode("utf-8", "replace")
        files.replace(subject.layout.names, text, durable=False)
    yield Repair(subject.layout.names, "written anew from the registry")


def mend_page(subject: Subject) -> Iterator[Repair]:
    """Rewrite NEED-USER.md from its journal."""
    if state.need_user_page(subject).ok:
        return
    with subject.home.held((LockKind.QUEUE, "")):
        needs.project_page(subject.layout)
    yield Repair(subject.layout("queue", "NEED-USER.md"), "written anew from its journal")


def mend_markers(subject: Subject) -> Iterator[Repair]:
    """Set the markers that the guard reads from the inboxes."""
    home, layout = subject.home, subject.layout
    for session_id in dict.fromkeys(one.session for one in sessions.wrong_markers(subject)):
        session = registry.load_session(layout, session_id)
        if session is None:
            continue
        with home.held((LockKind.INBOX, session.worker), (LockKind.INBOX, session.logical_session)):
            if registry.read_current(layout, session.worker) != session.id:
                continue
            wanted = sessions.planned(home, session)
            markers.save(layout, session.id, session.worker, wanted, home.clock().now_ms)
        yield Repair(layout.wake(session.id), f"markers of {session.name} set by its inbox")
