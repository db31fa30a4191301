"""Checks of the state folder: modes, settings, space, damage, derived files, waiting hook calls."""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from vyane_cli.attention import needs
from vyane_cli.errors import CorruptStateError, InvalidInputError, TooNewError, VyaneError
from vyane_cli.health.subject import Finding, Subject, some
from vyane_cli.kernel.ids import is_safe_id
from vyane_cli.projects import claims, ledger, notices, projects, schedule
from vyane_cli.sessions import registry
from vyane_cli.storage import document, files, journal
from vyane_cli.storage.layout import Layout, strangers
from vyane_cli.timeline import log

LITTLE_BYTES = 64 * 1024 * 1024
DAY_S = 86_400.0
FIX = "run `vyane doctor --fix`"


def state_folder(subject: Subject) -> Finding:
    """The state folder is there, is yours, and can be written."""
    root = subject.layout.root
    try:
        found = os.stat(root)
    except OSError as error:
        reason = "is not there" if isinstance(error, FileNotFoundError) else str(error.strerror)
        return Finding(False, f"{root} {reason}", "run `vyane init`")
    if not os.path.isdir(root):
        return Finding(False, f"{root} is no folder", "move it away, then run `vyane init`")
    if found.st_uid != os.geteuid():
        return Finding(
            False,
            f"{root} belongs to user {found.st_uid}, not to you ({os.geteuid()})",
            f"run `sudo chown -R $USER {root}`, or set VYANE_HOME to a folder of yours",
        )
    if os.statvfs(root).f_flag & os.ST_RDONLY or not os.access(root, os.W_OK | os.X_OK):
        return Finding(
            False,
            f"{root} cannot be written: messages cannot be stored or shown",
            "mount it writable, or set VYANE_HOME to a folder that is",
        )
    return Finding(True, root)


def modes(subject: Subject) -> Finding:
    """Every file of the state is yours, and no other account can read or write one."""
    root = subject.layout.root
    foreign = [
        f"{os.path.relpath(path, root)} (user {found.st_uid})"
        for path, found in _files(root)
        if found.st_uid != os.geteuid()
    ]
    if foreign:  # as after a run with sudo: a lock that root owns keeps every other command out
        fix = f"run `sudo chown -R $USER {root}`"
        return Finding(False, f"of another account: {some(foreign)}", fix)
    wrong = [path for path, _ in wrong_modes(subject.layout)]
    if not wrong:
        return Finding(True, "folders 0700, files 0600")
    others = strangers(root)
    fix = FIX
    if others:
        fix = f"give vyane a folder of its own: no mode is changed beside {some(others)}"
    shown = [
        f"{os.path.relpath(path, root)} ({os.lstat(path).st_mode & 0o7777:04o})" for path in wrong
    ]
    return Finding(False, f"open to others or closed to you: {some(shown)}", fix)


def wrong_modes(layout: Layout) -> Iterator[tuple[str, int]]:
    """Yield each file or folder of this user with a wrong mode, and the right mode."""
    for path, found in _files(layout.root):
        if found.st_uid != os.geteuid():
            continue
        runs = path.startswith(layout("hooks") + os.sep) and found.st_mode & 0o100
        right = 0o700 if stat.S_ISDIR(found.st_mode) or runs else 0o600
        if stat.S_IMODE(found.st_mode) != right:
            yield path, right


def _files(root: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield each file and folder that belongs to vyane, except symbolic links."""
    others = set(strangers(root)) if os.path.isdir(root) else set()
    for folder, below, names in os.walk(root):
        if folder == root:
            below[:] = [name for name in below if name not in others]
            names = [name for name in names if name not in others]
        for path in (folder, *(os.path.join(folder, name) for name in names)):
            try:
                found = os.lstat(path)
            except OSError:
                continue
            if not stat.S_ISLNK(found.st_mode):
                yield path, found


def config(subject: Subject) -> Finding:
    """`config.toml` can be read, and every key in it is known."""
    try:
        subject.home.config  # noqa: B018 - reading it is the check
    except VyaneError as error:
        hint = error.hint or "mend it by hand"
        return Finding(False, error.message, f"{hint}; or `mv {subject.layout.config} config.old`")
    there = os.path.exists(subject.layout.config)
    return Finding(True, subject.layout.config if there else "no config.toml: defaults hold")


def disk_space(subject: Subject) -> Finding:
    """There is room to store messages."""
    folder = subject.layout.root
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    free = shutil.disk_usage(folder).free
    found = os.statvfs(folder)
    inodes = found.f_favail if found.f_files else 1000
    detail = f"{free // 1_000_000} MB free"
    if free >= LITTLE_BYTES and inodes >= 100:
        return Finding(True, detail)
    if inodes < 100:
        detail += f", {inodes} inodes"
    return Finding(False, f"{detail} in {folder}", "free some space; `vyane gc` frees a little")


# ------------------------------------------------------------------ damage


class Flaw(NamedTuple):
    """Damage in a journal: its line, and the reason."""

    path: str
    line: int
    reason: str
    newer: bool = False


def journals(layout: Layout) -> Iterator[str]:
    """Yield every append-only file of lines, except timelines."""
    for folder in ("inbox", "outbox"):
        for name in files.listdir(layout("messages", folder)):
            if name.endswith(".jsonl") and not name.startswith("."):
                yield layout("messages", folder, name)
    for month in files.listdir(layout("messages", "archive")):
        yield layout.archive(month)
    yield layout.need_user
    for name in files.listdir(layout("projects")):
        if is_safe_id(name):
            yield layout.tasks_events(name)
            yield layout.deliveries(name)
            yield layout.rounds(name)
            yield layout.gaps(name)


def timelines(layout: Layout) -> Iterator[tuple[str, str]]:
    """Yield each timeline: its logical session and its file."""
    for session in files.listdir(layout("timelines")):
        path = layout("timelines", session, "events.jsonl")
        if os.path.exists(path):
            yield session, path


def flaws(path: str) -> list[Flaw]:
    """Return the damaged lines of a journal."""
    return [
        Flaw(path, number, line.damage.reason, line.damage.newer)
        for number, line in enumerate(journal.read(path), 1)
        if line.damage is not None
    ]


def timeline_flaw(session: str, path: str) -> Flaw | None:
    """Return the first damage of a timeline: from there on, readers refuse it."""
    try:
        log.check(path, session)
    except CorruptStateError as error:
        newer = error.slug in ("unknown_version", "unknown_kind")
        return Flaw(path, error.line or 1, error.reason, newer)
    return None


def damaged_lines(subject: Subject) -> Finding:
    """Every whole line of inbox, outbox, archive and timeline is a record."""
    found = [flaw for path in journals(subject.layout) for flaw in flaws(path)]
    for session, path in timelines(subject.layout):
        flaw = timeline_flaw(session, path)
        if flaw is not None:
            found.append(flaw)
    if not found:
        return Finding(True, "every line is sound")
    shown = [
        f"{os.path.relpath(one.path, subject.layout.root)}, line {one.line}: {one.reason}"
        for one in found
    ]
    if all(one.newer for one in found):
        return Finding(False, some(shown), TooNewError.hint)
    return Finding(False, some(shown), f"{FIX}: damaged bytes go to the quarantine, whole")


def torn(path: str) -> int:
    """Return the number of bytes after the last newline.

    They come from a writer that died, or from one that is writing at this moment.
    """
    try:
        size = os.path.getsize(path)
        with open(path, "rb") as file:
            file.seek(max(size - journal.CHUNK, 0))
            tail = file.read(journal.CHUNK)
    except FileNotFoundError:
        return 0
    return len(tail) - (tail.rfind(b"\n") + 1)


def torn_tails(subject: Subject) -> Finding:
    """No journal ends in half a line."""
    layout = subject.layout
    paths = [*journals(layout), *(path for _, path in timelines(layout))]
    found = [path for path in paths if torn(path)]
    if found:
        time.sleep(0.1)  # a writer may be in the middle of its line
        found = [path for path in found if torn(path)]
    if not found:
        return Finding(True, "every journal ends with a whole line")
    shown = [f"{os.path.relpath(path, layout.root)} ({torn(path)} bytes)" for path in found]
    return Finding(False, some(shown), f"{FIX}; the next append to the file does it too")


def documents(subject: Subject) -> Finding:
    """The registry and the other JSON documents can be read."""
    layout = subject.layout
    wrong = []
    for path in _documents(layout):
        try:
            document.load(path)
        except VyaneError as error:
            wrong.append(f"{os.path.relpath(path, layout.root)}: {getattr(error, 'reason', error)}")
    readers: tuple[Callable[[], object], ...] = (lambda: registry.Registry(layout),)
    for read in readers:
        try:
            read()
        except CorruptStateError as error:
            line = f"{os.path.relpath(error.path, layout.root)}: {error.reason}"
            if line not in wrong:
                wrong.append(line)
    if not wrong:
        return Finding(True, "every document is sound")
    return Finding(
        False,
        some(wrong),
        "put a copy from your backup in its place, or move the file away, such as "
        f"`mv {layout.root}/FILE {layout.root}/FILE.damaged`: what it held is made anew",
    )


def _documents(layout: Layout) -> Iterator[str]:
    yield layout.registry
    yield layout.broadcast()
    yield layout.bindings
    yield layout.installed
    folders = [layout("sessions"), layout("logical-sessions"), layout("messages", "keys")]
    folders += [layout("launches"), layout("queue", "cancels"), layout("queue", "untold")]
    folders += [layout("timelines", one, "cursors") for one in files.listdir(layout("timelines"))]
    folders += [
        layout("mirror", channel, account)
        for channel in files.listdir(layout("mirror"))
        for account in files.listdir(layout("mirror", channel))
    ]
    for folder in folders:
        for name in files.json_names(folder):
            yield os.path.join(folder, name + ".json")


def books(subject: Subject) -> Finding:
    """The files of each project can be read, and keep the ledger's rules."""
    layout = subject.layout
    wrong, count = [], 0
    for name in files.listdir(layout("projects")):
        if not is_safe_id(name):
            continue
        count += 1
        try:
            projects.load(layout, name)
        except CorruptStateError as error:
            wrong.append(f"{os.path.relpath(error.path, layout.root)}: {error.reason}")
        for reading in ledger.read(layout, name).readings:
            if not reading.read:
                path = os.path.relpath(reading.path, layout.root)
                wrong.append(f"{path}: {reading.state}: {reading.detail}")
        for load in (schedule.load, notices.load):
            try:
                load(layout, name)
            except CorruptStateError as error:
                wrong.append(f"{os.path.relpath(error.path, layout.root)}: {error.reason}")
        for task in claims.list_claims(layout, name):
            try:
                claims.load(layout, name, task)
            except (CorruptStateError, InvalidInputError) as error:
                wrong.append(f"claim of {task} in {name}: {error.message}")
    if not wrong:
        return Finding(True, f"{count} project{'s' * (count > 1)}" if count else "no projects")
    return Finding(
        False, some(wrong), "mend it by hand; until then nothing is started or paused by it"
    )


def quarantined(subject: Subject) -> Finding:
    """The quarantine has not grown large."""
    kept = journal.list_quarantined(subject.layout.root)
    if not kept:
        return Finding(True, "empty")
    size = sum(one["bytes"] for one in kept)
    names = some([os.path.basename(one["file"]) for one in kept])
    detail = f"{len(kept)} repairs, {size} bytes set aside: {names}"
    if size <= journal.LIMIT_BYTES:
        return Finding(True, detail)
    return Finding(
        False, detail, f"look through {subject.layout.quarantine}, then remove what you do not need"
    )


# ------------------------------------------------------------------ derived files, logs and spool


def names(subject: Subject) -> Finding:
    """The list of names for completion agrees with the registry."""
    wanted = names_text(subject.layout)
    found = files.read_text(subject.layout.names)
    if found == wanted[:4096].strip() or (not wanted and not found):
        return Finding(True, f"{len(wanted.splitlines())} names")
    return Finding(False, "worker-names is not what the registry says", FIX)


def names_text(layout: Layout) -> str:
    """Return the text that `worker-names` must hold."""
    workers = registry.Registry(layout).listing()
    return "".join(f"{name}\n" for name in sorted({w.name for w in workers if not w.final}))


def need_user_page(subject: Subject) -> Finding:
    """The page NEED-USER.md agrees with its journal."""
    entries = needs.list_entries(subject.layout)
    page = _page(subject.layout)
    agrees = not entries if page is None else page == needs.page(entries)
    if agrees:
        return Finding(True, f"{len(entries)} entries" if entries else "you are not needed")
    return Finding(False, "queue/NEED-USER.md is not what its journal says", FIX)


def _page(layout: Layout) -> str | None:
    try:
        with open(layout("queue", "NEED-USER.md"), encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return None


def hook_log(subject: Subject) -> Finding:
    """No hook has had to swallow an error within a day."""
    recent = []
    try:
        with open(subject.layout.log, encoding="utf-8", errors="replace") as file:
            for line in file:
                at = _stamp(line)
                if at is not None and subject.clock.at - at < DAY_S:
                    recent.append(line.strip())
    except OSError:
        pass
    if not recent:
        return Finding(True, "no errors within a day")
    return Finding(
        False,
        f"{len(recent)} errors within a day, the last: {recent[-1][:300]}",
        f"read `tail {subject.layout.log}`",
    )


def _stamp(line: str) -> float | None:
    from datetime import datetime

    try:
        return datetime.strptime(line.partition(" ")[0], "%Y-%m-%dT%H:%M:%S%z").timestamp()
    except ValueError:
        return None


def spool(subject: Subject) -> Finding:
    """No hook call waits to be committed."""
    waiting: list[str] = []
    for session in files.listdir(subject.layout("timelines")):
        folder = subject.layout("timelines", session, "spool")
        if calls := files.json_names(folder):
            waiting.append(f"{session} ({len(calls)})")
    if not waiting:
        return Finding(True, "nothing waits")
    return Finding(
        False,
        f"hook calls that missed the lock wait: {some(waiting)}",
        "the session's next hook commits them: give it a prompt",
    )
