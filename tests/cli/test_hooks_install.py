"""Installing the hooks: the guard, the settings file with its links and mode, and the status."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulated import vyane
from vyane_cli.errors import CorruptStateError, InvalidInputError, StorageError
from vyane_cli.home import Home
from vyane_cli.hosts import claude_settings
from vyane_cli.setup import guard as guards
from vyane_cli.setup import hooks
from vyane_cli.setup.hooks import HooksState, Scope
from vyane_cli.storage import files

TEXT = '{\n    "model": "x",\n    "hooks": {}\n}'


@pytest.fixture
def home(tmp_path) -> Home:
    return Home(str(tmp_path / "vyane"))


@pytest.fixture
def settings(tmp_path) -> Path:
    return tmp_path / "claude" / "settings.json"


def install(home, path, **options) -> hooks.HooksChange:
    return hooks.install(home, claude_settings, str(path), **options)


def uninstall(home, path, **options) -> hooks.HooksChange:
    return hooks.uninstall(home, claude_settings, str(path), **options)


def written(text: str, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, newline="")
    return path


def everything(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b""
        for path in folder.rglob("*")
    }


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_install_makes_the_file_its_folder_and_the_guard(home, settings) -> None:
    change = install(home, settings)
    guard = Path(home.layout.guard)

    assert change.changed
    assert change.guard_changed
    assert set(change.events) == {row.event for row in claude_settings.TABLE}
    assert mode(guard) == 0o700
    assert (mode(settings), mode(settings.parent)) == (0o600, 0o700)
    found = claude_settings.find(settings.read_text())
    assert {one.handler["command"] for one in found} == {str(guard)}


def test_install_twice_changes_nothing_the_second_time(home, settings, monkeypatch) -> None:
    install(home, settings, allow=True)
    before = everything(settings.parent), Path(home.layout.guard).stat().st_ino
    change = install(home, settings, allow=True)

    assert not change.changed
    assert not change.guard_changed
    assert (everything(settings.parent), Path(home.layout.guard).stat().st_ino) == before


def test_an_install_into_a_file_that_turns_hooks_off_promises_nothing(tmp_path) -> None:
    """Each time, also when the entries are there already."""
    config = tmp_path / "claude"
    written('{"disableAllHooks": true}', config / "settings.json")
    environ = {"CLAUDE_CONFIG_DIR": str(config), "HOME": str(tmp_path)}
    for _ in range(2):
        ran = vyane(tmp_path / "vyane", "hooks", "install", environ=environ)
        assert ran.status == 0
        assert b"turns all hooks off" in ran.out
        assert b"take part: " not in ran.out


def test_uninstall_gives_back_the_bytes_and_leaves_the_guard(home, settings) -> None:
    written(TEXT, settings)
    install(home, settings)
    change = uninstall(home, settings)

    assert change.changed
    assert change.events == ()
    assert settings.read_text() == TEXT
    assert Path(home.layout.guard).exists()


def record(home) -> dict:
    return json.loads(Path(home.layout.installed).read_text())["settings"]


def test_what_is_made_in_each_settings_file_is_recorded_until_it_is_out_again(
    home, settings, tmp_path
) -> None:
    project = written("{ }", tmp_path / "project" / ".claude" / "settings.json")
    written(TEXT, settings)
    install(home, settings)
    install(home, project, allow=True)

    assert record(home)[str(settings)] == {
        "hooks": "",
        **dict.fromkeys(f"hooks.{row.event}" for row in claude_settings.TABLE),
    }
    assert record(home)[str(project)][""] == " "

    uninstall(home, settings)
    assert list(record(home)) == [str(project)]
    uninstall(home, project)
    assert set(record(home)[str(project)]) == {"", "permissions", "permissions.allow"}
    uninstall(home, project, disallow=True)
    assert record(home) == {}
    assert project.read_text() == "{ }"


@pytest.mark.parametrize("verb", [install, uninstall])
def test_a_crash_at_any_step_leaves_bytes_that_can_be_given_back(
    verb, tmp_path, monkeypatch
) -> None:
    class Crash(BaseException):
        pass

    for steps in range(1000):
        home = Home(str(tmp_path / str(steps) / "vyane"))
        path = written(TEXT, tmp_path / str(steps) / "settings.json")
        if verb is uninstall:
            install(home, path)
        left = iter(range(steps))

        def step(_name, _path, left=left):
            if next(left, None) is None:
                raise Crash

        monkeypatch.setattr(files, "step", step)
        try:
            verb(home, path)
        except Crash:
            done = False
        else:
            done = True
        monkeypatch.setattr(files, "step", lambda _name, _path: None)
        if verb is install and steps % 2:
            install(home, path)
        uninstall(home, path)

        assert path.read_text() == TEXT
        if done:
            break
    assert done


def test_entries_of_a_version_without_a_record_come_out_and_leave_nothing(home, settings) -> None:
    """That version had marked in white space that `hooks` was there; the mark is not read."""
    guard = home.layout.guard
    handler = json.dumps({"type": "command", "command": guard, "args": ["Stop"]})
    groups = f'[\n      {{"hooks": [{handler}]}}\n    ]'
    old = f'{{\n  "model": "x",\n  "hooks": {{\n    "Stop": {groups}}}\n}}\n'
    for upgraded in (False, True):
        written(old, settings)
        if upgraded:
            install(home, settings)
        uninstall(home, settings)

        assert settings.read_text() == '{\n  "model": "x"\n}\n'


@pytest.mark.parametrize("text", ["{", "[]", '{"v": 1, "settings": {"PATH": {"hooks": "rm"}}}'])
def test_a_damaged_record_stops_an_install_and_no_uninstall(home, settings, text) -> None:
    written(TEXT, settings)
    install(home, settings)
    damaged = text.replace("PATH", str(settings))
    Path(home.layout.installed).write_text(damaged)
    uninstall(home, settings)

    assert json.loads(settings.read_text()) == {"model": "x"}
    assert Path(home.layout.installed).read_text() == damaged
    with pytest.raises(CorruptStateError, match=r"installed\.json"):
        install(home, settings)
    assert json.loads(settings.read_text()) == {"model": "x"}


def test_uninstall_of_a_file_that_is_not_there_makes_none(home, settings) -> None:
    assert not uninstall(home, settings).changed
    assert not settings.exists()


@pytest.mark.parametrize("umask", [0o000, 0o077, 0o777])
@pytest.mark.parametrize("given", [0o600, 0o644, 0o640])
def test_the_settings_file_keeps_its_mode_whatever_the_umask(home, settings, given, umask) -> None:
    written(TEXT, settings).chmod(given)
    old = os.umask(umask)
    try:
        install(home, settings)
    finally:
        os.umask(old)

    assert mode(settings) == given
    assert mode(Path(home.layout.guard)) == 0o700


def test_two_links_stay_and_only_the_real_file_is_replaced(home, tmp_path, monkeypatch) -> None:
    """The folder between them is read-only, so nothing may be written beside either link."""
    real = written(TEXT, tmp_path / "dotfiles" / "settings.json")
    real.chmod(0o600)
    between = tmp_path / "between" / "settings.json"
    between.parent.mkdir()
    between.symlink_to(real)
    first = tmp_path / "claude" / "settings.json"
    first.parent.mkdir()
    first.symlink_to(between)
    between.parent.chmod(0o500)
    touched: list[str] = []
    monkeypatch.setattr(files, "step", lambda _name, path: touched.append(path))
    try:
        install(home, first)
    finally:
        between.parent.chmod(0o700)

    assert first.is_symlink()
    assert between.is_symlink()
    assert mode(real) == 0o600
    assert len(claude_settings.find(real.read_text())) == len(claude_settings.TABLE)
    assert [p.name for p in real.parent.iterdir()] == ["settings.json"]
    beside = {os.path.dirname(path) for path in touched} - {os.path.dirname(str(tmp_path))}
    assert str(between.parent) not in beside
    assert str(first.parent) not in beside


def test_a_link_to_a_file_that_is_not_there_yet_stays_a_link(home, tmp_path, settings) -> None:
    target = tmp_path / "dotfiles" / "claude.json"
    settings.parent.mkdir()
    settings.symlink_to(target)
    install(home, settings)

    assert settings.is_symlink()
    assert claude_settings.find(target.read_text())


@pytest.mark.parametrize("verb", [install, uninstall])
def test_a_dry_run_writes_nothing_and_shows_the_difference(verb, home, settings, tmp_path) -> None:
    written(TEXT, settings)
    if verb is uninstall:
        install(home, settings)
    before = everything(tmp_path)
    change = verb(home, settings, dry_run=True)

    assert everything(tmp_path) == before
    assert change.changed
    sign = "+" if verb is install else "-"
    assert f'\n{sign}        "Stop": [' in change.diff


UNREADABLE = [
    b"{",
    b"[]",
    b'{"hooks": 5}',
    b'{"hooks": {"Stop": {}}}',
    b'// mine\n{"a": 1}',
    b'{"a": "\xff"}',
    '{"a": 1}'.encode("utf-16"),
]


@pytest.mark.parametrize("data", UNREADABLE)
def test_a_settings_file_that_cannot_be_read_is_left_alone(data, home, settings, tmp_path) -> None:
    written("", settings).write_bytes(data)
    before = everything(tmp_path)
    with pytest.raises(InvalidInputError, match=r"settings\.json, line 1"):
        install(home, settings)

    assert everything(tmp_path) == before


@pytest.mark.parametrize("kind", ["a folder", "below a file", "a loop of links"])
def test_a_path_that_is_no_file_is_refused(kind, home, settings) -> None:
    if kind == "a folder":
        settings.mkdir(parents=True)
    elif kind == "below a file":
        settings.parent.write_text("")
    else:
        settings.parent.mkdir()
        settings.symlink_to(settings)

    with pytest.raises(StorageError):
        install(home, settings)
    assert not Path(home.layout.guard).exists()


def test_what_the_host_wrote_in_between_is_not_lost(home, settings, monkeypatch) -> None:
    written(TEXT, settings)
    real, writes = claude_settings.add, ["", "", '{"model": "theirs"}']

    def add(text, wanted, path, known):
        if writes and (theirs := writes.pop(0)):
            settings.write_text(theirs)
        return real(text, wanted, path, known)

    monkeypatch.setattr(claude_settings, "add", add)
    writes.pop(0)
    install(home, settings)

    assert json.loads(settings.read_text())["model"] == "theirs"
    assert claude_settings.find(settings.read_text())


def test_the_rule_is_added_only_when_asked_and_removed_only_when_asked(home, settings) -> None:
    assert not install(home, settings).allowed
    assert install(home, settings, allow=True).allowed
    assert uninstall(home, settings).allowed
    assert not uninstall(home, settings, disallow=True).allowed
    assert json.loads(settings.read_text()) == {}


def test_the_interpreter_is_recorded_as_it_was_called(home, settings, tmp_path, monkeypatch):
    """Resolved, the link in a virtual environment would lead out of the environment."""
    link = tmp_path / "venv" / "bin" / "python"
    link.parent.mkdir(parents=True)
    link.symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(link))
    install(home, settings)

    assert f"python='{link}'" in Path(home.layout.guard).read_text()


def test_an_install_by_another_interpreter_replaces_the_guard(home, settings, monkeypatch):
    install(home, settings)
    monkeypatch.setattr(sys, "executable", "/elsewhere/python")
    change = install(home, settings)

    assert change.guard_changed
    assert not change.changed
    assert "python='/elsewhere/python'" in Path(home.layout.guard).read_text()


def test_two_roots_share_a_settings_file(home, settings, tmp_path) -> None:
    other = Home(str(tmp_path / "other root"))
    install(other, settings)
    first = settings.read_text()
    change = install(home, settings)

    assert change.foreign == (other.layout.guard,)
    assert uninstall(home, settings).changed
    assert settings.read_text() == first


def test_a_root_that_no_settings_file_can_name_is_refused(settings, tmp_path) -> None:
    home = Home(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))

    with pytest.raises(InvalidInputError):
        install(home, settings)


# --- where the files are ------------------------------------------------------------------


@pytest.mark.parametrize(
    "scope, environ, path",
    [
        (Scope.USER, {"HOME": "/h"}, "/h/.claude/settings.json"),
        (Scope.USER, {"HOME": "/h", "CLAUDE_CONFIG_DIR": "/c"}, "/c/settings.json"),
        (Scope.USER, {"HOME": "/h", "CLAUDE_CONFIG_DIR": ""}, "/h/.claude/settings.json"),
        (Scope.PROJECT, {"CLAUDE_CONFIG_DIR": "/c"}, "/w/.claude/settings.json"),
        (Scope.LOCAL, {"CLAUDE_CONFIG_DIR": "/c"}, "/w/.claude/settings.local.json"),
    ],
)
def test_a_scope_has_its_file(scope, environ, path) -> None:
    assert hooks.settings_path(scope, environ, "/w") == path


# --- status -------------------------------------------------------------------------------


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def states(home, folder) -> dict[Scope, HooksState]:
    status = hooks.status(home, claude_settings, str(folder))
    return {one.scope: one.state for one in status.scopes}


def test_status_tells_for_each_scope_what_is_installed(project, tmp_path) -> None:
    home = Home(str(tmp_path / "vyane"))
    user = tmp_path / "claude" / "settings.json"
    assert set(states(home, project).values()) == {HooksState.ABSENT}

    install(home, user)
    install(Home(str(tmp_path / "other")), project / ".claude" / "settings.json")
    written("{", project / ".claude" / "settings.local.json")
    assert states(home, project) == {
        Scope.USER: HooksState.INSTALLED,
        Scope.PROJECT: HooksState.FOREIGN,
        Scope.LOCAL: HooksState.UNREADABLE,
    }

    value = json.loads(user.read_text())
    del value["hooks"]["Stop"]
    value |= {"enabledPlugins": {"vyane@local": True}, "disableAllHooks": True}
    user.write_text(json.dumps(value))
    (first, *_) = hooks.status(home, claude_settings, str(project)).scopes
    assert (first.state, first.missing) == (HooksState.PARTLY, ("Stop",))
    assert first.plugins == ("vyane@local",)
    assert first.off


def test_status_runs_the_guard_and_says_what_is_wrong_with_it(project, tmp_path, monkeypatch):
    home = Home(str(tmp_path / "vyane"))
    guard = Path(home.layout.guard)
    assert not guards.guard_status(home).present

    install(home, tmp_path / "claude" / "settings.json")
    status = hooks.status(home, claude_settings, str(project))
    assert status.guard == guards.GuardStatus(
        path=str(guard),
        present=True,
        executable=True,
        current=True,
        protocol=guards.PROTOCOL,
        works=True,
        detail="",
    )
    assert status.live

    guard.write_text(guard.read_text().replace(f"guard {guards.PROTOCOL} ready", "guard 99 ready"))
    seen = guards.guard_status(home)
    assert (seen.current, seen.protocol, seen.works) == (False, 99, False)

    guard.write_text(guard.read_text().replace(sys.executable, "/nowhere/python"))
    seen = guards.guard_status(home)
    assert (seen.protocol, seen.works) == (None, False)
    assert seen.detail

    guard.chmod(0o600)
    if not os.access(guard, os.X_OK):
        assert not guards.guard_status(home).executable


def test_status_names_an_interpreter_that_does_not_find_vyane(home, settings, tmp_path) -> None:
    install(home, settings)
    guard = Path(home.layout.guard)
    text = guard.read_text()
    (package,) = [line for line in text.splitlines() if line.startswith("package=")]
    guard.write_text(text.replace(package, f"package='{tmp_path}'"))

    assert "No module named 'vyane_cli'" in guards.guard_status(home).detail


def test_status_writes_nothing(project, tmp_path) -> None:
    home = Home(str(tmp_path / "vyane"))
    install(home, tmp_path / "claude" / "settings.json")
    before = everything(tmp_path)
    hooks.status(home, claude_settings, str(project))

    assert everything(tmp_path) == before


# --- the real guard -----------------------------------------------------------------------


@pytest.mark.parametrize("event", sorted({row.event for row in claude_settings.TABLE}))
def test_the_installed_guard_ends_with_0_on_every_event(event, home, settings) -> None:
    install(home, settings)
    payload = json.dumps({"session_id": "s-1", "hook_event_name": event})
    done = subprocess.run(
        [home.layout.guard, event],
        input=payload,
        env={"PATH": os.environ["PATH"], "CLAUDE_CODE_SESSION_ID": "s-1"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
