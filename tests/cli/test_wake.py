"""`vyane wake` and `vyane schedule` as processes: as a timer runs them, and as a person does."""

import json
import os
import plistlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.projects import NAME, Scene, Table, make_project
from tests.simulated import World, fast_folder, vyane
from vyane_cli.sessions import registry
from vyane_cli.setup.home import initialise
from vyane_cli.storage import locks

BARE = {"PATH": "/usr/bin:/bin"}
CRONTAB = """#!/bin/sh
case $1 in
-l) [ -e "$CRONTAB" ] || { echo "no crontab for user" >&2; exit 1; }; exec cat "$CRONTAB" ;;
-) exec cat >"$CRONTAB" ;;
esac
"""


class Home:
    """A project whose main worker is a process that does nothing."""

    def __init__(self, folder: Path, pid: int) -> None:
        self.folder = folder
        self.world = World(folder / "a home" / "vyane")
        initialise(self.world)
        self.main = self.world.register("ann", pid)
        (folder / "work").mkdir()
        project = make_project(self.world, self.main, str(folder / "work"))
        self.stage = Scene(self.world, None, Table(), project)  # type: ignore[arg-type]
        self.runtime("echo begun >begun; exec sleep 600")
        programs = folder / "programs"
        programs.mkdir()
        (programs / "crontab").write_text(CRONTAB)
        (programs / "crontab").chmod(0o755)
        self.tab = folder / "crontab"
        self.environ = {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "HOME": str(folder),
            "CRONTAB": str(self.tab),
        }

    def runtime(self, script: str) -> None:
        """What a round starts."""
        words = json.dumps(["sh", "-c", script])
        with open(self.world.layout.config, "w") as file:
            file.write(f'[wake]\nruntime = "x"\nstart_wait_s = 20\n[runtimes.x]\nspawn = {words}\n')

    def run(self, *words: str, environ: dict[str, str] | None = None) -> Any:
        here = str(self.folder / "work")
        return vyane(self.world.layout.root, *words, environ=environ or self.environ, cwd=here)

    def json(self, *words: str) -> Any:
        ran = self.run(*words, "--json")
        assert ran.status == 0, ran.err.decode()
        return json.loads(ran.out)

    def cell(self, *words: str) -> str:
        made = self.json("wake", *words)
        return f"{made['cell']}/{made['reason']}/{made['action']}"

    def workers(self) -> list[Any]:
        return [w for w in registry.Registry(self.world.layout).listing() if w.dispatch_id]

    def stop_workers(self) -> None:
        for worker in self.workers():
            self.run("cancel", worker.id, "--force", "--from-kind", "human", "--wait", "20s")


@pytest.fixture
def home() -> Iterator[Home]:
    process = subprocess.Popen(["sleep", "600"])
    try:
        with fast_folder() as folder:
            made = Home(folder, process.pid)
            yield made
            made.stop_workers()
    finally:
        process.kill()
        process.wait()


# ------------------------------------------------------------------ every cell


def test_a_project_that_cannot_be_read_stops_no_round_of_another(home):
    """The person is called for it once, by any round, its own included."""
    home.stage.add("one")
    path = Path(home.world.layout.project("other"))
    path.parent.mkdir()
    path.write_text("{")

    assert home.cell("--project", "p", "--dry-run") == "A/work-and-nobody-works/dispatch-one"
    assert home.stage.needs() == []
    assert home.cell("--project", "p") == "A/work-and-nobody-works/dispatch-one"
    assert home.cell() == "skip/executing/nothing"
    ran = home.run("wake", "--project", "other")
    assert (ran.status, str(path) in ran.err.decode()) == (7, True)
    assert home.stage.needs() == [f"project:{path}"]

    assert home.run("task", "list").status == 0
    seen = home.json("status")
    assert [one["project"] for one in seen["projects"]] == ["p"]
    assert [str(path) in one for one in seen["unreadable"]] == [True]
    ran = home.run("project", "list")
    assert (ran.status, b" p " in ran.out, str(path) in ran.err.decode()) == (7, True, True)
    ran = home.run("project", "create", "third", "--dir", str(home.folder))
    assert ran.status == 7, "whose folder it is cannot be told"


def test_cell_a_starts_one_worker_and_the_next_round_skips(home):
    home.stage.add("one")
    home.stage.add("two")
    made = home.json("wake", "--schedule", "A")

    assert (made["cell"], made["reason"], made["action"]) == (
        "A",
        "work-and-nobody-works",
        "dispatch-one",
    )
    (worker,) = home.workers()
    assert made["done"] == {
        "outcome": "started",
        "detail": f"{worker.name} works on T1",
        "task": "T1",
        "worker": worker.id,
        "stuck": [],
        "called": False,
    }
    assert home.cell("--schedule", "B") == "skip/executing/nothing"
    assert home.cell() == "skip/executing/nothing"
    assert len(home.workers()) == 1


def test_cell_b_tells_the_main_worker_what_is_missing(home):
    home.stage.add("one")
    home.stage.ask_for("tests")
    home.stage.report("T1", "done")

    assert home.cell() == "B/goal-open/feed-back"
    (message,) = home.json("inbox", "ann")
    assert "Left: tests" in message["payload"]["text"]
    assert message["lane"] == "normal"
    assert home.cell() == "B/goal-open/feed-back"
    assert len(home.json("inbox", "ann")) == 1


def test_cell_c_calls_the_person_and_pauses_and_resume_goes_on(home):
    home.stage.add("one")
    home.stage.report("T1", "blocked", reason="no key")

    assert home.cell("--schedule", "A") == "C/only-blocked-is-left/call-and-pause"
    status = home.json("status")
    assert [one["key"].split(":")[0] for one in status["need_user"]] == ["blocked"]
    assert status["projects"][0]["next"]["paused"] is True
    assert home.cell("--schedule", "B") == "skip/paused/nothing"
    home.stage.report("T1", "pending")
    assert home.json("schedule", "resume")["changed"] is True
    assert home.cell("--schedule", "A", "--dry-run") == "A/work-and-nobody-works/dispatch-one"


def test_a_question_is_what_the_person_is_called_for_and_its_end_says_that_rounds_are_paused(home):
    home.stage.add("one")
    home.stage.report("T1", "done")
    asked = home.json("need-user", "add", "--reason", "no key", "--ask", "put it there")
    done = home.json("wake", "--schedule", "A")["done"]
    assert done == {"called_for": [asked["id"]], "paused": True}
    resume = f"A and B of {NAME} are paused: vyane schedule resume --project {NAME}"

    assert resume in home.run("need-user", "resolve", asked["id"]).out.decode()
    assert resume in home.run("task", "add", "two").out.decode()
    home.json("schedule", "resume")
    assert "paused" not in home.run("task", "add", "three").out.decode()


def test_the_status_alerts_when_nobody_works_and_no_round_comes_soon(home):
    def alert() -> str:
        found: str = home.json("status")["projects"][0]["alert"]
        return found

    assert alert() == "", "nothing is left to do"
    home.stage.add("one")
    assert f"vyane schedule install --project {NAME}" in alert()
    assert alert() in home.run("status").out.decode().replace("\n", " ")
    home.json("schedule", "install", "--with", "cron")
    assert alert() == ""
    home.json("schedule", "pause")
    assert f"vyane schedule resume --project {NAME}" in alert()


def test_cell_d_pauses_because_the_goal_is_met(home):
    home.stage.add("one")
    home.stage.ask_for("tests")
    home.stage.report("T1", "done")
    home.stage.accept("tests")

    assert home.cell("--schedule", "B") == "D/goal-complete/pause"
    listed = home.json("schedule", "list")
    assert [(one["schedule"], one["status"], one["next_at"]) for one in listed] == [
        ("A", "PAUSED", None),
        ("B", "PAUSED", None),
    ]


def test_cell_e_names_the_file_and_is_no_error(home):
    home.stage.add("one")
    Path(home.world.layout.tasks(NAME)).write_text('{"tasks": [{"id": "T1", "title": 3}]}')
    made = home.json("wake", "--schedule", "A")

    assert (made["cell"], made["reason"], made["action"]) == ("E", "unreadable", "feed-back")
    (why,) = made["done"]["why"]
    assert "tasks[0] (T1).title: 3 is not a text" in why
    assert why.count(home.world.layout("projects", NAME)) == 1, "it is named once"
    assert [one["status"] for one in home.json("schedule", "list")] == ["ACTIVE", "ACTIVE"]
    assert not home.workers()


def test_a_round_beside_another_ends_at_once(home):
    lock = locks.take_now(home.world.layout.domain(NAME))

    assert home.cell() == "skip/domain-locked/nothing"
    assert lock is not None
    locks.give_back(lock)


@pytest.mark.parametrize(
    "words, status, code",
    [
        (("wake", "--schedule", "C"), 2, "unknown_schedule"),
        (("wake", "--project", "q"), 3, "not_found"),
        (("schedule", "set", "C", "FREQ=HOURLY"), 2, "unknown_schedule"),
        (("schedule", "set", "A", "now and then"), 2, "invalid_input"),
        (("schedule", "install", "--every", "7m", "--print"), 2, "invalid_input"),
        (("schedule", "install", "--every", "90s", "--print"), 2, "invalid_input"),
        (("schedule", "install", "--with", "at", "--print"), 2, "invalid_input"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name_and_changes_nothing(home, words, status, code):
    before = sorted(str(path) for path in Path(home.world.layout.root).rglob("*"))
    ran = home.run(*words, "--json")

    assert ran.status == status, ran.err
    assert json.loads(ran.err)["error"]["code"] == code
    assert sorted(str(path) for path in Path(home.world.layout.root).rglob("*")) == before


def test_a_program_that_is_not_there_is_an_error_with_the_round(home):
    """On standard output the round, on standard error what is wrong; nothing is paused."""
    home.stage.add("one")
    with open(home.world.layout.config, "w") as file:
        file.write('[wake]\nruntime = "x"\n[runtimes.x]\nspawn = ["/no/such/program"]\n')
    for words in (("--dry-run",), ()):
        ran = home.run("wake", "--json", *words)
        assert ran.status == 3
        assert json.loads(ran.out)["error"]["code"] == json.loads(ran.err)["error"]["code"]
        assert json.loads(ran.out)["cell"] == "A"
        assert "/no/such/program" in ran.err.decode()
    assert "/no/such/program" in home.json("status")["projects"][0]["problem"]
    assert not home.workers()
    assert [one["status"] for one in home.json("schedule", "list")] == ["ACTIVE", "ACTIVE"]


@pytest.mark.parametrize("script, outcome", [("exit 1", "started"), ("kill -9 $$", "started")])
def test_a_worker_that_ends_at_once_has_ended_and_not_been_forgotten(home, script, outcome):
    home.runtime(script)
    home.stage.add("one")
    made = home.json("wake")

    assert made["done"]["outcome"] in (outcome, "not-started")
    assert len(home.workers()) == 1


# ------------------------------------------------------------------ timers


def cron_commands(home: Home) -> list[str]:
    """The commands of the crontab as cron gives them to a shell."""
    lines = [line for line in home.tab.read_text().splitlines() if "vyane" in line]
    return [line.split(" ", 5)[5].replace("\\%", "%") for line in lines]


def run_as_cron(home: Home, command: str, **more: Any) -> "subprocess.CompletedProcess[bytes]":
    """Cron's environment: no HOME, no language, a bare PATH, no terminal."""
    return subprocess.run(
        ["/usr/bin/env", "-i", "PATH=/usr/bin:/bin", "/bin/sh", "-c", command],
        cwd="/",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        start_new_session=True,
        check=False,
        **more,
    )


def test_the_line_of_the_crontab_starts_a_worker_in_crons_environment(home):
    """A program that only the installing shell finds is found; `vyane` is, too."""
    tool = home.folder / "programs" / "agent"
    tool.write_text('#!/bin/sh\necho "HOME=$HOME" >begun; command -v vyane >>begun; exec sleep 600')
    tool.chmod(0o755)
    with open(home.world.layout.config, "w") as file:
        file.write('[wake]\nruntime = "x"\n[runtimes.x]\nspawn = ["agent"]\n')
    home.stage.add("one")
    home.tab.write_text("# mine\n0 5 * * * backup 50\\% \n")
    home.json("schedule", "install", "--with", "cron")
    assert home.tab.read_text().startswith("# mine\n0 5 * * * backup 50\\% \n")
    first, second = cron_commands(home)
    ran = run_as_cron(home, first)

    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"", b"")
    log = Path(home.world.layout.round_log)
    assert not log.read_text()
    (worker,) = home.workers()
    assert worker.project == NAME
    begun = home.folder / "work" / "begun"
    while not begun.exists() or len(begun.read_text().splitlines()) < 2:
        pass
    home_line, found = begun.read_text().splitlines()
    assert home_line == f"HOME={home.folder}"
    assert os.access(found, os.X_OK)
    assert run_as_cron(home, second).returncode == 0
    assert len(home.workers()) == 1


def test_the_line_says_what_is_missing(home):
    """The agent's program is not there any more: the log of rounds and the doctor name it."""
    tool = home.folder / "programs" / "agent"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    with open(home.world.layout.config, "w") as file:
        file.write('[wake]\nruntime = "x"\n[runtimes.x]\nspawn = ["agent"]\n')
    home.stage.add("one")
    home.json("schedule", "install", "--with", "cron")
    doctor = {one["check"]: one for one in json.loads(home.run("doctor", "--json").out)}
    assert doctor["rounds"]["ok"], doctor["rounds"]
    assert doctor["schedule_timers"]["ok"], doctor["schedule_timers"]
    tool.unlink()

    ran = run_as_cron(home, cron_commands(home)[0])
    assert ran.returncode == 3
    assert "there is no program 'agent'" in Path(home.world.layout.round_log).read_text()
    doctor = {one["check"]: one for one in json.loads(home.run("doctor", "--json").out)}
    assert not doctor["rounds"]["ok"]
    assert "agent" in doctor["rounds"]["detail"]
    assert "vyane schedule install" in doctor["rounds"]["fix"]


def test_an_account_without_an_entry_and_without_a_home_is_told_what_to_set():
    program = (
        "import pwd, sys\n"
        "pwd.getpwuid = {}.__getitem__\n"  # raises KeyError, as for an id that is in no file
        "sys.argv[1:] = ['status']\n"
        "from vyane_cli.cli.app import main\n"
        "main()\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env={"PATH": "/usr/bin:/bin"},
        cwd="/",
        capture_output=True,
        check=False,
    )

    assert ran.returncode == 2
    assert b"VYANE_HOME" in ran.stderr
    assert b"Traceback" not in ran.stderr
    assert not Path("/~").exists()


def test_a_second_install_replaces_and_remove_takes_only_ours_away(home):
    home.tab.write_text("MAILTO=ann\n*/5 * * * * other\n")
    home.json("schedule", "install", "--with", "cron")
    home.json("schedule", "install", "--with", "cron", "--every", "2h")
    ours = [line for line in home.tab.read_text().splitlines() if "vyane" in line]

    assert [" ".join(line.split()[:5]) for line in ours] == [
        "0 0,2,4,6,8,10,12,14,16,18,20,22 * * *",
        "30 0,2,4,6,8,10,12,14,16,18,20,22 * * *",
    ]
    assert home.json("schedule", "remove")["removed"] is True
    assert home.tab.read_text() == "MAILTO=ann\n*/5 * * * * other\n"
    assert home.json("schedule", "remove")["removed"] is False


def test_an_uninstall_takes_the_timers_away(home):
    home.tab.write_text("0 5 * * * other\n")
    home.json("schedule", "install", "--with", "cron")
    done = home.json("uninstall")

    assert done["timers"] == [NAME]
    assert home.tab.read_text() == "0 5 * * * other\n"


def test_damaged_schedules_and_notices_are_named_by_the_doctor(home):
    Path(home.world.layout.schedules(NAME)).write_text("{")
    Path(home.world.layout.notices(NAME)).write_text('{"told": 3}')
    found = {one["check"]: one for one in json.loads(home.run("doctor", "--json").out)}

    assert not found["books"]["ok"]
    assert "projects/p/schedules.json" in found["books"]["detail"]
    assert "projects/p/notices.json" in found["books"]["detail"]


@pytest.mark.parametrize("words", [
    ("schedule", "install", "--with", "cron"), ("schedule", "remove"), ("schedule", "next"),
])  # fmt: skip
def test_a_kind_of_timer_that_is_none_is_named_and_mended_by_hand(home, words):
    """A hand in the file breaks no doctor either; no command sets a document aside by itself."""
    path = Path(home.world.layout.schedules(NAME))
    home.json("schedule", "pause")
    data = json.loads(path.read_text())
    data["installed"] = {"timer": "foo", "environment": {}, "at": 0}
    path.write_text(json.dumps(data))
    ran = home.run(*words, "--project", NAME, "--json")
    doctor = {one["check"]: one for one in json.loads(home.run("doctor", "--json").out)}

    assert ran.status == 7
    error = json.loads(ran.err)["error"]
    assert error["code"] == "corrupt"
    assert "installed.timer: 'foo' is not one of cron, systemd, launchd" in error["message"]
    assert error["hint"].startswith("mend it by hand")
    assert "installed.timer" in doctor["books"]["detail"]
    assert not doctor["schedule_timers"]["ok"]


def test_a_print_makes_nothing(home):
    before = sorted(str(path) for path in home.folder.rglob("*"))
    made = home.json("schedule", "install", "--with", "cron", "--print")

    assert [entry["place"] for entry in made["entries"]] == ["crontab", "crontab"]
    assert sorted(str(path) for path in home.folder.rglob("*")) == before


def test_a_print_needs_no_program_that_makes_timers(home, tmp_path):
    """It is what a person without one is told to look at."""
    environ = {"PATH": str(tmp_path), "HOME": str(home.folder)}
    words = ("schedule", "install", "--every", "1h")
    ran = home.run(*words, "--print", environ=environ)

    assert ran.status == 0, ran.err.decode()
    assert "wake --project p --schedule A" in ran.out.decode()
    refused = home.run(*words, environ=environ)
    assert refused.status == 3
    assert "--print" in refused.err.decode()


def test_a_pause_is_kept_over_an_install_and_times_over_a_pause(home):
    home.json("schedule", "set", "A", "FREQ=DAILY;BYHOUR=9;BYMINUTE=30")
    home.json("schedule", "pause")
    home.json("schedule", "install", "--with", "cron")

    listed = home.json("schedule", "next")
    assert [one["status"] for one in listed] == ["PAUSED", "PAUSED"]
    assert "FREQ=DAILY;BYHOUR=9;BYMINUTE=30" in [one["rrule"] for one in listed]
    assert home.json("schedule", "pause")["changed"] is False


def test_a_timer_of_systemd_is_one_that_systemd_takes(home, tmp_path):
    made = home.json("schedule", "install", "--with", "systemd", "--print")
    names = [Path(entry["place"]).name for entry in made["entries"]]

    assert len(names) == len(set(names)) == 4
    assert all(str(home.folder) in entry["place"] for entry in made["entries"])
    for entry in made["entries"]:
        (tmp_path / Path(entry["place"]).name).write_text(entry["text"])
    words = next(e["text"] for e in made["entries"] if e["place"].endswith("A.service"))
    assert f'"{home.world.layout.root}"' in words, "a path with a blank is one word"
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd is not here")
    script = Path(home.world.layout.guard).parent / "vyane"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    timers = [str(tmp_path / name) for name in names if name.endswith(".timer")]
    ran = subprocess.run(
        ["systemd-analyze", "--user", "verify", *timers],
        capture_output=True,
        text=True,
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path), "SYSTEMD_UNIT_PATH": f"{tmp_path}:"},
        check=False,
    )
    ours = [line for line in ran.stderr.splitlines() if "vyane" in line]
    assert (ran.returncode, ours) == (0, []), ran.stderr


def test_systemd_is_asked_to_enable_and_to_disable(home):
    """What it is asked stands here; files of a removed timer are gone."""
    asked = home.folder / "asked"
    tool = home.folder / "programs" / "systemctl"
    tool.write_text(f'#!/bin/sh\necho "$@" >>{asked}\n')
    tool.chmod(0o755)
    home.json("schedule", "install", "--with", "systemd")
    units = home.folder / ".config" / "systemd" / "user"
    names = sorted(path.name for path in units.iterdir())
    assert len(names) == 4
    doctor = {one["check"]: one for one in json.loads(home.run("doctor", "--json").out)}
    assert doctor["schedule_timers"]["detail"] == "p by systemd"
    home.json("schedule", "remove")
    assert not list(units.iterdir())
    lines = asked.read_text().splitlines()
    timers = " ".join(name for name in names if name.endswith(".timer"))
    assert f"--user enable --now {timers}" in lines
    assert f"--user disable --now {timers}" in lines


def no_bus(home: Home) -> None:
    tool = home.folder / "programs" / "systemctl"
    tool.write_text("#!/bin/sh\necho 'Failed to connect to bus' >&2\nexit 1\n")
    tool.chmod(0o755)


def test_a_system_that_refuses_is_named_and_nothing_says_that_rounds_run(home):
    no_bus(home)
    ran = home.run("schedule", "install", "--with", "systemd", "--every", "1h", "--json")

    assert ran.status == 5
    error = json.loads(ran.err)["error"]
    assert error["code"] == "timer"
    assert "Failed to connect to bus" in error["message"]
    assert [one["timer"] for one in home.json("schedule", "next")] == [None, None]
    assert not list(home.folder.rglob("*.timer"))


def test_a_refused_install_leaves_the_timers_of_another_kind_and_their_times(home):
    no_bus(home)
    home.json("schedule", "install", "--with", "cron")
    before, listed = home.tab.read_text(), home.json("schedule", "next")
    assert home.run("schedule", "install", "--with", "systemd", "--every", "1h").status == 5

    assert home.tab.read_text() == before
    again = home.json("schedule", "next")
    assert [(o["timer"], o["rrule"]) for o in again] == [(o["timer"], o["rrule"]) for o in listed]
    assert json.loads(Path(home.world.layout.schedules(NAME)).read_text())["installed"]


def test_a_timer_that_is_not_enabled_is_not_there(home):
    """The files are as they were written, and nobody fires them."""
    tool = home.folder / "programs" / "systemctl"
    tool.write_text("#!/bin/sh\nexit 0\n")
    tool.chmod(0o755)
    home.json("schedule", "install", "--with", "systemd")
    tool.write_text('#!/bin/sh\n[ "$2" != is-enabled ]\n')
    found = {one["check"]: one for one in json.loads(home.run("doctor", "--json").out)}

    assert not found["schedule_timers"]["ok"]
    assert "the timers of p are not there" in found["schedule_timers"]["detail"]


def test_what_does_not_answer_is_not_chosen(home):
    """A systemd without a bus of the user's, and a crontab that is not for them."""
    no_bus(home)
    tab = home.folder / "programs" / "crontab"
    tab.write_text("#!/bin/sh\necho 'you are not allowed to use this program' >&2\nexit 1\n")
    ran = home.run("schedule", "install", "--json")
    assert ran.status == 3
    assert "--with systemd" in json.loads(ran.err)["error"]["hint"]
    tab.write_text(CRONTAB)

    assert home.json("schedule", "install")["timer"] == "cron"


def test_a_property_list_is_one_that_launchd_takes(home):
    made = home.json("schedule", "install", "--with", "launchd", "--print")

    for entry, name in zip(made["entries"], "AB", strict=True):
        data = plistlib.loads(entry["text"].encode())
        assert entry["place"].endswith(f"Library/LaunchAgents/{data['Label']}.plist")
        assert data["ProgramArguments"][1:] == [
            "--home",
            home.world.layout.root,
            "wake",
            "--project",
            NAME,
            "--schedule",
            name,
        ]
        assert [set(one) for one in data["StartCalendarInterval"]] == [{"Minute"}, {"Minute"}]


def test_an_agent_makes_no_timers(home):
    ran = home.run(
        "schedule", "install", "--with", "cron", "--json",
        environ={**home.environ, "CLAUDECODE": "1"},
    )  # fmt: skip

    assert ran.status == 5
    assert json.loads(ran.err)["error"]["code"] == "direction"
    assert not home.tab.exists()


# ------------------------------------------------------------------ at once, and killed


def test_rounds_at_once_start_one_worker(home):
    """Ten, as after a night: one dispatch; the others skip."""
    home.stage.add("one")
    home.stage.add("two")
    command = [sys.executable, "-m", "vyane_cli", "wake", "--project", NAME, "--json"]
    environ = {**home.environ, "VYANE_HOME": home.world.layout.root}
    running = [
        subprocess.Popen([*command, "--schedule", "AB"[n % 2]], env=environ, stdout=-1)
        for n in range(10)
    ]
    cells = [json.loads(process.communicate()[0])["cell"] for process in running]

    assert cells.count("A") == 1
    assert cells.count("skip") == 9
    assert len(home.workers()) == 1


def test_the_screen_says_the_cell_and_what_was_read(home):
    home.stage.add("write the readme")
    said = home.run("wake", "--dry-run").out.decode()

    assert said.startswith(
        "p: A (work-and-nobody-works), would start one worker for T1 (write the readme)\n"
    )
    for name in ("schedule", "lock", "queue", "executing", "goal", "main"):
        assert f"\n{name} " in said
    status = home.run("status").out.decode()
    assert "p: goal open" in status
    assert "no timer runs rounds" in status


def test_the_screen_says_that_you_are_called_when_nothing_can_start(home):
    home.stage.add("write the readme")
    home.stage.report("T1", "running")
    said = home.run("wake").out.decode()

    assert said.startswith("p: A (work-and-nobody-works), call you, and start nobody\n")


# ------------------------------------------------------------------ those who follow sessions


def test_a_round_takes_in_what_people_wrote_and_shows_what_happened(home):
    """Bindings that are over end, too; a channel that cannot be opened holds up no round."""
    with open(home.world.layout.config, "a") as file:
        owner = home.folder.owner()
        file.write(f'[channels.file]\nallow_users = ["{owner}"]\n[channels.discord]\n')
    home.json("wake")
    (thread,) = Path(home.world.layout.root, "threads").glob("ann.*.md")
    with thread.open("a") as file:
        file.write("mind the tests\n")
    Path(home.world.layout.root, "threads", "notes.md").touch()
    home.run("bind", "ann", "--channel", "file", "--conversation", "notes", "--ttl", "0")
    kept = home.json("wake")["maintenance"]

    assert (kept["taken_in"], kept["unbound"], kept["skipped"]) == (1, 1, [])
    assert home.json("inbox", "ann")[-1]["payload"]["text"] == "mind the tests"
