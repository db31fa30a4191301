"""`vyane doctor`: it names what is wrong and what to do, and changes nothing unless asked to."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.simulated import Host, World, machine, stopped_holder, vyane
from vyane_cli.attention import needs
from vyane_cli.health.doctor import CHECKS, Check, examine
from vyane_cli.health.repairs import repair
from vyane_cli.hosts import claude_settings
from vyane_cli.mail.mailbox import Op
from vyane_cli.mail.message import Lane
from vyane_cli.sessions import registry
from vyane_cli.setup import hooks
from vyane_cli.storage import document, files, journal, locks
from vyane_cli.storage.layout import Layout

PAGES = Path(__file__).resolve().parents[2] / "docs" / "reference"


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Callable[..., Host]]:
    with machine(tmp_path) as host:
        yield host


@pytest.fixture
def bob(hosts: Callable[..., Host]) -> Host:
    found = hosts()
    found.start()
    return found


def found_by(world: World) -> dict[str, Check]:
    world.environ = {"HOME": str(Path(world.layout.root).parent), "PATH": os.environ["PATH"]}
    return {check.check: check for check in examine(world, claude_settings, "/")}


def one(world: World, name: str) -> Check:
    check = found_by(world)[name]
    assert bool(check.fix) is not check.ok, "a failing check says what to do, another says nothing"
    return check


def fix(world: World) -> list[str]:
    world.environ = {"HOME": str(Path(world.layout.root).parent), "PATH": os.environ["PATH"]}
    repairs = repair(world, claude_settings, "/")
    assert all(one.ok for one in repairs), repairs
    return [one.done for one in repairs]


def kept(world: World) -> list[bytes]:
    return [Path(one["file"]).read_bytes() for one in journal.list_quarantined(world.layout.root)]


def snapshot(root: str | Path) -> dict[str, Any]:
    found = {}
    for path in [Path(root), *Path(root).rglob("*")]:
        status = path.lstat()
        data = path.read_bytes() if path.is_file() else b""
        found[str(path)] = (status.st_mode, status.st_mtime_ns, data)
    return found


def append(path: str, data: bytes) -> None:
    with open(path, "ab") as file:
        file.write(data)


# ------------------------------------------------------------------ the whole


def test_a_sound_state_passes_every_check_but_those_of_the_installation(bob):
    failed = [name for name, check in found_by(bob.world).items() if not check.ok]

    assert set(failed) <= {"hooks", "guard"}  # nothing was installed here


def test_an_installation_passes_its_checks(bob, tmp_path):
    world = bob.world
    settings = tmp_path / ".claude" / "settings.json"
    settings.parent.mkdir()
    hooks.install(world, claude_settings, str(settings))

    found = found_by(world)

    assert found["hooks"].ok
    assert found["guard"].ok
    assert found["shell_noise"].ok


def test_nothing_is_written(bob, monkeypatch):
    bob.world.send(bob.worker)
    append(bob.world.layout.inbox(bob.worker), b"half a li")
    before = snapshot(bob.home)

    def step(name: str, path: str) -> None:
        raise AssertionError(f"{name} {path}")

    monkeypatch.setattr(files, "step", step)
    found_by(bob.world)

    assert snapshot(bob.home) == before


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="needs a mount")
def test_it_works_on_a_read_only_file_system_and_says_so(bob):
    script = (
        f"mount --bind {bob.home} {bob.home} && mount -o remount,bind,ro {bob.home} && "
        f"exec {sys.executable} -m vyane_cli --home {bob.home} doctor --json"
    )
    ran = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, check=False)
    if ran.returncode == 1 and not ran.stdout:
        pytest.skip(f"no mounts here: {ran.stderr.decode()}")

    checks = {check["check"]: check for check in json.loads(ran.stdout)}

    assert not checks["state_folder"]["ok"]
    assert "cannot be written" in checks["state_folder"]["detail"]
    assert checks["damaged_lines"]["ok"]


def test_a_missing_state_folder_is_the_finding_and_is_not_made(tmp_path):
    ran = vyane(tmp_path / "none", "doctor", "--json")

    (check,) = [one for one in json.loads(ran.out) if one["check"] == "state_folder"]
    assert (ran.status, check["ok"]) == (1, False)
    assert "vyane init" in check["fix"]
    assert not (tmp_path / "none").exists()


def test_a_person_reads_failures_last_with_the_next_step(tmp_path):
    home = tmp_path / "state"
    assert vyane(home, "init").status == 0
    (home / "config.toml").chmod(0o644)

    ran = vyane(home, "doctor")
    lines = ran.out.decode().splitlines()

    assert ran.status == 1
    rows = [line.split()[0] for line in lines if line.startswith(("ok ", "FAIL "))]
    assert rows == sorted(rows, reverse=True)
    assert "config.toml (0644)" in ran.out.decode()
    assert "modes: run `vyane doctor --fix`" in lines
    assert lines[-1].endswith(f"of {len(CHECKS)}")


def test_the_json_document_is_a_list_of_checks(tmp_path):
    vyane(tmp_path, "init")

    checks = json.loads(vyane(tmp_path, "doctor", "--json").out)

    assert [set(check) for check in checks] == [{"check", "ok", "detail", "fix"}] * len(CHECKS)


def test_a_check_that_cannot_be_made_fails_and_the_others_are_made(bob):
    Path(bob.world.layout.registry).write_text("{")

    found = found_by(bob.world)

    assert set(found) == set(CHECKS)
    assert not found["documents"].ok
    assert "worker-registry.json" in found["documents"].detail
    assert not found["dead_workers"].ok


def test_the_page_has_each_check_and_no_other():
    page = (PAGES / "doctor.md").read_text()

    assert re.findall(r"^### `(\w+)`$", page, re.MULTILINE) == list(CHECKS)
    for name, check in CHECKS.items():
        meaning = (check.__doc__ or "").strip()
        assert f"### `{name}`\n\n{meaning}\n" in page


# ------------------------------------------------------------------ the folder


def test_a_mode_that_is_open_to_others_is_named_and_mended(bob):
    path, folder = Path(bob.world.layout.registry), Path(bob.world.layout("sessions"))
    path.chmod(0o644)
    folder.chmod(0o755)

    check = one(bob.world, "modes")
    fix(bob.world)

    assert "worker-registry.json (0644)" in check.detail
    assert "sessions (0755)" in check.detail
    assert path.stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700
    assert one(bob.world, "modes").ok


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_account_is_named_and_left_to_its_owner(bob):
    """A command once run with sudo leaves a lock that keeps everybody else out."""
    lock = Path(locks.lock_path(bob.home, locks.LockKind.QUEUE))
    lock.touch(0o644)
    os.chown(lock, 12345, 12345)
    found = one(bob.world, "modes")
    fix(bob.world)

    assert not found.ok
    assert f"{lock.relative_to(bob.home)} (user 12345)" in found.detail
    assert f"sudo chown -R $USER {bob.home}" in found.fix
    assert lock.stat().st_mode & 0o777 == 0o644
    os.chown(lock, 0, 0)
    assert fix(bob.world)
    assert one(bob.world, "modes").ok


def test_what_a_link_points_to_keeps_its_mode(bob, tmp_path):
    theirs = tmp_path / "dotfiles.toml"
    theirs.touch(0o644)
    theirs.chmod(0o644)
    config = Path(bob.world.layout.config)
    config.unlink()
    config.symlink_to(theirs)

    fix(bob.world)

    assert theirs.stat().st_mode & 0o777 == 0o644


def test_a_setting_that_cannot_be_read_is_named_with_its_place(bob):
    Path(bob.world.layout.config).write_text("[delivery]\ntoo_son_s = 3\n")

    check = one(World(Path(bob.home)), "config")

    assert not check.ok
    assert "too_son_s" in check.detail
    assert "too_soon_s" in check.fix


def test_little_space_is_named(bob, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda path: shutil._ntuple_diskusage(10, 9, 1))

    assert not one(bob.world, "disk_space").ok


# ------------------------------------------------------------------ the installation


def test_a_profile_that_prints_is_named(bob, tmp_path):
    (tmp_path / ".bash_profile").write_text("echo ready\n")

    check = one(bob.world, "shell_noise")

    assert not check.ok
    assert "bash -lc" in check.detail
    assert "ready" in check.detail
    assert "profile" in check.fix


def test_a_guard_whose_interpreter_is_gone_is_named(bob, tmp_path):
    settings = tmp_path / "settings.json"
    hooks.install(bob.world, claude_settings, str(settings))
    guard = Path(bob.world.layout.guard)
    guard.write_text(guard.read_text().replace(sys.executable, "/nonexistent/python"))

    check = one(bob.world, "guard")

    assert not check.ok
    assert "hooks install" in check.fix


def transcript(bob: Host, tmp_path: Path, count: int, at_s: float) -> None:
    """So many tool results at a moment."""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(at_s))
    record = {
        "type": "user",
        "timestamp": stamp,
        "message": {"content": [{"type": "tool_result", "tool_use_id": "t"}]},
    }
    path = tmp_path / "transcript.jsonl"
    path.write_text((json.dumps(record) + "\n") * count)
    bob.transcript = str(path)


def test_hooks_that_missed_the_last_20_tool_events_are_dead(hosts, tmp_path):
    bob = hosts()
    transcript(bob, tmp_path, 20, time.time() + 30)
    bob.start()

    check = one(bob.world, "hooks_alive")

    assert not check.ok
    assert "last 20 tool events" in check.detail


@pytest.mark.parametrize("count, later_s", [(19, 30), (20, -30), (500, -3600)])
def test_hooks_that_ran_since_are_alive(hosts, tmp_path, count, later_s):
    bob = hosts()
    transcript(bob, tmp_path, count, time.time() + later_s)
    bob.start()

    assert one(bob.world, "hooks_alive").ok


def test_hooks_that_missed_five_minutes_of_work_are_dead(hosts, tmp_path):
    bob = hosts()
    transcript(bob, tmp_path, 1, time.time() + 400)
    bob.start()
    bob.world.pass_s(600)

    assert not one(bob.world, "hooks_alive").ok


def test_a_session_without_a_watch_cannot_be_woken(bob):
    assert one(bob.world, "transports").ok
    os.unlink(bob.world.layout.wake(bob.session))

    check = one(bob.world, "transports")

    assert not check.ok
    assert "/clear" in check.fix


# ------------------------------------------------------------------ damage


def test_a_damaged_inbox_line_is_named_by_its_number_set_aside_and_its_neighbours_stay(bob):
    path = Path(bob.world.layout.inbox(bob.worker))
    first = bob.world.send(bob.worker, "one")
    append(str(path), b'{"mixed":"up"}\n')
    append(str(path), document.encode_line({"op": Op.ATTEMPT, "ids": [first], "head": {"open": 0}}))

    check = one(bob.world, "damaged_lines")
    done = fix(bob.world)

    assert "line 2: no checksum" in check.detail
    assert any("1 damaged lines" in words for words in done)
    assert kept(bob.world) == [b'{"mixed":"up"}\n']
    assert bob.world.status(first) == "pending"
    assert one(bob.world, "damaged_lines").ok


def test_half_a_line_of_an_inbox_is_set_aside(bob):
    sent = bob.world.send(bob.worker)
    append(bob.world.layout.inbox(bob.worker), b"x" * 37)

    check = one(bob.world, "torn_tails")
    fix(bob.world)

    assert "(37 bytes)" in check.detail
    assert kept(bob.world) == [b"x" * 37]
    assert bob.world.status(sent) == "pending"
    assert one(bob.world, "torn_tails").ok
    assert "1 repairs" in one(bob.world, "quarantine").detail


@pytest.mark.parametrize("name", ["outbox", "archive", "need_user"])
def test_damage_in_another_journal_is_set_aside_and_its_good_lines_stay(bob, name):
    layout: Layout = bob.world.layout
    path = {
        "outbox": layout.outbox(bob.worker),
        "archive": layout.archive("2026-01"),
        "need_user": layout.need_user,
    }[name]
    good = document.encode_line({"op": "open", "key": "k", "text": "look", "at": 1.0})
    files.make_directories(os.path.dirname(path))
    append(path, good + b"rubbish\n" + good + b"half")
    os.chmod(path, 0o600)

    assert not one(bob.world, "damaged_lines").ok
    fix(bob.world)

    assert Path(path).read_bytes() == good + good
    assert sorted(kept(bob.world)) == [b"half", b"rubbish\n"]
    assert one(bob.world, "damaged_lines").ok


def test_a_line_of_a_newer_version_is_not_touched(bob):
    path = bob.world.layout.need_user
    files.make_directories(os.path.dirname(path))
    line = document.encode_line({"op": "open", "key": "k", "text": "t", "at": 1.0})
    body = line[: line.index(b',"crc"')].replace(b'"v":1', b'"v":9')
    import zlib

    newer = b'%b,"crc":"%08x"}\n' % (body, zlib.crc32(body))
    append(path, newer + b"rubbish\n")
    os.chmod(path, 0o600)

    fix(bob.world)

    assert Path(path).read_bytes() == newer
    assert "newer vyane" in one(bob.world, "damaged_lines").fix


def turns(bob: Host, count: int) -> None:
    for _ in range(count):
        bob.prompt()
        bob.stop()


@pytest.mark.parametrize("at", [0, 1, 4, -1])
def test_a_damaged_timeline_keeps_its_sound_beginning_and_goes_on(bob, at):
    turns(bob, 3)
    path = Path(bob.world.layout.timeline(bob.logical))
    lines = path.read_bytes().splitlines(keepends=True)
    at = at % len(lines)
    broken = b"".join([*lines[:at], b"rubbish\n", *lines[at + 1 :]])
    path.write_bytes(broken)

    check = one(bob.world, "damaged_lines")
    fix(bob.world)

    assert f"events.jsonl, line {at + 1}" in check.detail
    assert kept(bob.world) == [broken]
    assert one(bob.world, "damaged_lines").ok
    if at:
        events = bob.events()
        assert path.read_bytes().startswith(b"".join(lines[:at]))
        assert len(events) == at + 1
        assert events[-1]["payload"]["code"] == "timeline_cut"
    turns(bob, 1)
    assert bob.events()[-1]["kind"] == "TurnFinished"
    assert one(bob.world, "damaged_lines").ok


def test_half_a_line_of_a_timeline_is_set_aside_and_nothing_else_is_lost(bob):
    turns(bob, 1)
    before = bob.events()
    append(bob.world.layout.timeline(bob.logical), b"half")

    fix(bob.world)

    assert bob.events() == before
    assert kept(bob.world) == [b"half"]


def test_a_repair_that_is_stopped_at_any_call_loses_no_message_and_no_damaged_byte(
    bob, monkeypatch
):
    class StoppedError(BaseException):
        pass

    path = Path(bob.world.layout.inbox(bob.worker))
    sent = bob.world.send(bob.worker)
    broken = path.read_bytes() + b"rubbish\n" + b"half"
    for at in range(1000):
        path.write_bytes(broken)
        left = [None] * at

        def step(name: str, path: str, left: list[None] = left) -> None:
            if not left:
                raise StoppedError
            left.pop()

        with monkeypatch.context() as patch:
            patch.setattr(files, "step", step)
            try:
                repair(bob.world, claude_settings, "/")
            except (StoppedError, OSError):
                stopped = True
            else:
                stopped = False
        assert bob.world.status(sent) == "pending"
        there = path.read_bytes() + b"".join(kept(bob.world))
        assert b"rubbish\n" in there
        assert b"half" in there
        fix(bob.world)
        assert one(bob.world, "damaged_lines").ok
        assert sorted(kept(bob.world)) == [b"half", b"rubbish\n"]
        if not stopped:
            break
    assert at > 3


def test_a_repair_waits_for_the_lock_of_what_it_changes(bob):
    bob.world.send(bob.worker)
    append(bob.world.layout.inbox(bob.worker), b"half")
    Path(bob.world.layout.config).write_text("[locks]\nwait_s = 0.2\n")
    world = World(Path(bob.home))
    before = Path(world.layout.inbox(bob.worker)).read_bytes()

    with stopped_holder(bob.home, (locks.LockKind.INBOX, bob.worker)):
        repairs = repair(world, claude_settings, "/")

    assert [one.ok for one in repairs if "worker-" in one.what] == [False]
    assert Path(world.layout.inbox(bob.worker)).read_bytes() == before


def test_a_damaged_document_is_named_and_left_for_a_person(bob):
    path = Path(bob.world.layout.session(bob.session))
    path.write_text("{")

    check = one(bob.world, "documents")
    fix(bob.world)

    assert f"sessions/{bob.session}.json: not JSON" in check.detail
    assert path.read_text() == "{"


# ------------------------------------------------------------------ the machine


def test_a_stopped_holder_of_a_lock_is_named_and_how_to_let_it_go_on(bob):
    with stopped_holder(bob.home, (locks.LockKind.REGISTRY, "")) as holder:
        check = one(bob.world, "locks")

    assert not check.ok
    assert f"registry-00.lock is held by process {holder.pid}" in check.detail
    assert "stopped" in check.detail
    assert f"kill -CONT {holder.pid}" in check.fix


def test_a_lock_that_is_held_for_a_moment_is_no_finding(bob, monkeypatch):
    """The holder lets go while the doctor waits to look once more."""
    held = [locks.take_now(locks.lock_path(bob.home, locks.LockKind.REGISTRY))]

    def wait(seconds: float) -> None:
        locks.give_back(held.pop())

    slow = SimpleNamespace(monotonic=time.monotonic, sleep=wait)
    monkeypatch.setattr("vyane_cli.health.machine.time", slow)

    assert one(bob.world, "locks").ok
    assert held == [], "it was seen"


def test_a_wall_clock_behind_the_newest_record_is_named(bob):
    bob.world.send(bob.worker)
    bob.world.wall_ahead_ms = -3_600_000

    check = one(bob.world, "clock")

    assert not check.ok
    assert "behind the newest record" in check.detail


def test_a_boot_that_cannot_be_told_is_named(bob, monkeypatch):
    clock = bob.world.clock()
    monkeypatch.setattr(World, "clock", lambda self: clock._replace(boot=""))

    assert not one(bob.world, "clock").ok


# ------------------------------------------------------------------ the sessions


def test_a_worker_that_died_with_unread_mail_is_named(bob):
    name = registry.Registry(bob.world.layout).workers[bob.worker].name
    bob.world.send(bob.worker)
    bob.die()

    check = one(bob.world, "dead_workers")

    assert "1 dead worker with unread mail" in check.detail
    assert f"{name} (1 pending)" in check.detail
    assert f"claude --resume {bob.session}" in check.fix


def test_a_dead_worker_of_a_host_without_hooks_is_brought_back_by_registering_it(bob):
    process = subprocess.Popen(["sleep", "600"])
    worker = bob.world.register("carl", process.pid)
    bob.world.send(worker)
    process.kill()
    process.wait()
    check = one(bob.world, "dead_workers")

    assert "vyane workers register carl --pid PID" in check.fix
    assert "claude" not in check.fix
    assert bob.world.register("carl", os.getpid()) == worker, "with its mail"


def test_a_session_that_was_closed_is_not_dead_though_mail_waits(bob):
    bob.world.send(bob.worker)
    bob.call("SessionEnd-other", reason="other")
    bob.die()

    check = one(bob.world, "dead_workers")

    assert check.ok
    assert "(1 pending)" in check.detail


def test_two_processes_on_one_session_are_named(hosts, bob):
    other = hosts(session=bob.session)
    other.start("resume")

    check = one(bob.world, "ambiguous_sessions")

    assert not check.ok
    assert str(other.process.pid) in check.detail


def test_mail_past_its_time_is_named(bob):
    bob.world.send(bob.worker)
    assert one(bob.world, "overdue").ok
    bob.world.pass_s(200)

    assert not one(bob.world, "overdue").ok


def test_startable_mail_that_waits_for_a_quarter_of_an_hour_is_named(bob):
    sent = bob.world.send(bob.worker)
    bob.world.pass_s(800)
    assert one(bob.world, "oldest_unshown").ok
    bob.world.pass_s(101)

    check = one(bob.world, "oldest_unshown")

    assert sent in check.detail
    assert "vyane why" in check.fix


def test_quiet_mail_may_wait(bob):
    bob.world.send(bob.worker, kind="info")
    assert bob.world.inbox(bob.worker).mailbox.entries[0].message.lane is Lane.QUIET
    bob.world.pass_s(3000)

    assert one(bob.world, "oldest_unshown").ok


def test_more_than_ten_workers_are_many(bob):
    for number in range(9):
        bob.world.register(f"w{number}")
    assert one(bob.world, "many_workers").ok
    bob.world.register("one-more")

    check = one(bob.world, "many_workers")

    assert "many_workers" in check.detail
    assert "11" in check.detail


def test_a_missing_marker_and_one_left_over_are_named_and_set_by_the_inbox(bob):
    bob.world.send(bob.worker)
    layout = bob.world.layout
    os.unlink(layout.pending(bob.session))
    Path(layout.control(bob.session)).touch()

    check = one(bob.world, "markers")
    fix(bob.world)

    assert "pending is missing" in check.detail
    assert "control is left over" in check.detail
    assert os.path.exists(layout.pending(bob.session))
    assert not os.path.exists(layout.control(bob.session))
    assert one(bob.world, "markers").ok


def test_names_are_written_anew_from_the_registry(bob):
    path = Path(bob.world.layout.names)
    before = path.read_text()
    path.write_text("somebody\n")

    assert not one(bob.world, "names").ok
    fix(bob.world)

    assert path.read_text() == before


def test_the_page_of_needs_is_written_anew_from_its_journal(bob):
    world = bob.world
    needs.add(world.layout, "k", "look at this", world.clock(), world.deadline())
    page = Path(world.layout("queue", "NEED-USER.md"))
    before = page.read_text()
    page.write_text("")

    assert not one(world, "need_user_page").ok
    fix(world)

    assert page.read_text() == before


def test_hook_calls_that_wait_are_named(bob):
    folder = Path(bob.world.layout.spool(bob.logical))
    folder.mkdir(parents=True)
    (folder / "000000000000001-1.json").write_text("{}\n")

    check = one(bob.world, "spool")

    assert f"{bob.logical} (1)" in check.detail


@pytest.mark.parametrize("ago_s, ok", [(60, False), (90_000, True)])
def test_errors_of_hooks_within_a_day_are_named(bob, ago_s, ok):
    log = Path(bob.world.layout.log)
    log.parent.mkdir(mode=0o700)
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(time.time() - ago_s))
    log.write_text(f"{stamp} Stop: no space left\n")
    log.chmod(0o600)

    check = one(bob.world, "hook_log")

    assert check.ok is ok
    assert ok or "no space left" in check.detail


def test_a_session_whose_worker_is_on_no_list_is_named(bob):
    workers = registry.Registry(bob.world.layout)
    del workers.workers[bob.worker]
    workers.save()

    assert bob.session in one(bob.world, "unregistered").detail


def test_a_second_repair_finds_nothing_to_do(bob):
    turns(bob, 2)
    bob.world.send(bob.worker)
    append(bob.world.layout.inbox(bob.worker), b"rubbish\nhalf")
    append(bob.world.layout.timeline(bob.logical), b"rubbish\n")
    os.chmod(bob.world.layout.registry, 0o644)

    assert fix(bob.world)
    assert fix(bob.world) == []
