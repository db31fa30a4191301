"""Sessions that are continued, forked, killed, cleared, reused; names with a past."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulated import Host, vyane
from vyane_cli.sessions import registry
from vyane_cli.sessions.worker import WorkerStatus
from vyane_cli.storage.locks import LockKind


def rows(one: Host, *more: str) -> list[dict]:
    return json.loads(vyane(one.home, "--json", "workers", *more).out)


def beside(one: Host, host) -> Host:
    """Another process with the same session."""
    other = host(session=one.session)
    other.turn = one.turn
    return other


# ------------------------------------------------------------------ one session, two processes


def test_a_continued_session_gets_its_mail_in_its_new_process(host):
    """The old process has ended; the new one says the same session id: shown there, once."""
    one = host()
    one.start()
    one.die()
    mail = one.world.send("project", "hello")
    again = beside(one, host)
    texts = [again.start("resume").text, again.prompt().text, again.batch().text]

    assert "\n".join(texts).count(f"id {mail}") == 1
    assert again.worker == one.worker
    assert [row["name"] for row in rows(one)] == ["project"]


def test_a_second_live_process_on_one_session_gets_no_mail_and_is_listed(host):
    """A fork whose start still reports its parent's id: ambiguous, and one delivery."""
    one = host()
    one.start()
    fork = beside(one, host)
    fork.start("resume")
    mail = one.world.send("project", "hello")
    texts = [fork.prompt().text, fork.batch().text, fork.stop().text]
    assert "".join(texts) == ""
    assert one.prompt().text.count(f"id {mail}") == 1

    (row,) = rows(one)
    assert row["ambiguous"] == [fork.process.pid]
    assert row["pid"] == one.process.pid


def test_when_the_owner_dies_the_other_process_takes_its_place(host):
    """It is the session now."""
    one = host()
    one.start()
    fork = beside(one, host)
    fork.start("resume")
    one.die()
    mail = one.world.send("project", "hello")

    assert mail in fork.prompt().text
    assert rows(one)[0]["ambiguous"] == []


def test_a_fork_with_an_id_of_its_own_is_another_worker(host):
    """A new name and a new logical session; the parent's mail stays with the parent."""
    one = host()
    one.start()
    mail = one.world.send("project", "hello")
    fork = host()
    fork.start("fork")

    assert fork.worker != one.worker
    assert fork.logical != one.logical
    assert mail not in fork.prompt().text
    assert mail in one.prompt().text


# ------------------------------------------------------------------ /clear


def cleared(one: Host) -> str:
    """`/clear` in the session; the id that it had before."""
    before = one.session
    one.call("SessionEnd-clear")
    one.session = "after-" + before
    one.start("clear")
    return before


def test_clear_keeps_worker_name_inbox_and_logical_session(host):
    """The same process under a new id."""
    one = host()
    one.start()
    worker, logical = one.worker, one.logical
    mail = one.world.send("project", "hello")
    cleared(one)

    assert (one.worker, one.logical) == (worker, logical)
    known = registry.load_logical_session(one.world.layout, logical)
    assert known is not None
    assert known.runtime_sessions["claude_cli"]["runtime_session_id"] == one.session
    assert mail in one.prompt().text


@pytest.mark.parametrize("event", ["batch", "watch", "tool", "stop"])
def test_a_late_call_of_a_replaced_session_takes_nothing(host, event):
    """A background task's event, or a sleeper: the new session keeps its place and its mail."""
    one = host()
    one.start()
    one.prompt()
    old = cleared(one)
    mail = one.world.send("project", "hello")
    new, one.session = one.session, old
    assert getattr(one, event)().text == ""
    one.session = new

    assert registry.read_current(one.world.layout, one.worker) == new
    assert mail in one.prompt().text


def test_a_process_that_goes_on_with_another_session_has_left_the_one_before(host):
    """`/resume` whose SessionEnd was cut short: mail to the first waits for it, and says so."""
    one, other = host(), host(cwd="/tmp/other")
    for each in (one, other):
        each.start()
    other.call("SessionEnd-other")
    other.die()
    here = Host(one.world, one.process, session=other.session, cwd=other.cwd)
    here.start("resume")
    told = json.loads(vyane(one.home, "--json", "send", "project", "hello").out)
    assert told["liveness"] == "exited"
    assert "closed" in told["outlook"]
    assert [row["liveness"] for row in rows(one)] == ["exited", "idle"]

    mail = one.world.send("project", "hello again")
    one.start("resume")
    assert mail in one.prompt().text
    assert [row["liveness"] for row in rows(one)] == ["busy", "exited"]


def test_a_late_call_of_an_ended_session_does_not_bring_it_back(host):
    """A hook that was still running at SessionEnd: the session stays closed, the mail stays."""
    one = host()
    one.start()
    one.call("SessionEnd-other")
    mail = one.world.send("project", "hello")
    one.watch()
    one.batch()

    assert one.world.status(mail) == "pending"
    assert rows(one)[0]["liveness"] == "exited"


# ------------------------------------------------------------------ no end is announced


def test_a_killed_session_is_seen_as_exited_by_the_next_command_and_keeps_its_mail(host):
    """SIGKILL fires no hook: its process is gone, and that is proof."""
    one = host()
    one.start()
    one.prompt()
    mail = [one.world.send("project", text) for text in ("uno", "due")]
    one.die()

    (row,) = rows(one)
    assert row["liveness"] == "exited"
    assert row["pending"] == 2
    again = beside(one, host)
    texts = [again.start("resume").text, again.prompt().text, again.batch().text]
    for message in mail:
        assert "\n".join(texts).count(f"id {message}") == 1
    assert again.outcomes()[0] == "interrupted/runtime_restart"


def test_the_clock_alone_declares_nobody_dead(host):
    """After a night of sleep all are there: heartbeat age is no evidence of death."""
    living = [host(cwd=f"/tmp/live{n}") for n in range(3)]
    gone = [host(cwd=f"/tmp/gone{n}") for n in range(2)]
    for one in (*living, *gone):
        one.start()
        one.prompt()
        os.utime(one.world.layout.beat(one.session), (0, 0))
    for one in gone:
        one.die()

    states = {row["name"]: row["liveness"] for row in rows(living[0])}
    assert states == {
        **{f"live{n}": "busy" for n in range(3)},
        "gone0": "exited",
        "gone1": "exited",
    }


@pytest.mark.parametrize("step_s", [-86_400, -3_600, 3_600, 86_400, 315_360_000])
def test_a_step_of_the_clock_makes_no_live_session_look_recycled(host, step_s):
    """A process is told by its start on the boot clock."""
    one = host()
    one.start()
    one.world.wall_ahead_ms = step_s * 1000
    mail = one.world.send("project", "hello")
    from vyane_cli.delivery.view import list_workers

    (row,) = list_workers(one.world)
    assert row.liveness == "idle"
    assert mail in one.prompt().text


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="needs a mount")
@pytest.mark.parametrize("hidden", ["the list of processes", "other processes"])
def test_a_session_whose_process_cannot_be_looked_at_is_neither_dead_nor_alive(host, hidden):
    """No start tick, or another namespace of pids: unknown, and nothing is done about it."""
    one = host()
    one.start()
    mail = one.world.send("project", "hello")
    inside = "mount -t tmpfs none /proc && exec" if hidden.startswith("the") else "exec"
    command = [sys.executable, "-m", "vyane_cli", "--json"]
    how = ["-m"] if hidden.startswith("the") else ["--pid", "--fork", "--mount-proc"]

    def blind(*words: str) -> "subprocess.CompletedProcess[bytes]":
        return subprocess.run(
            ["unshare", *how, "sh", "-c", f'{inside} "$@"', "sh", *command, *words],
            env={"PATH": os.environ["PATH"], "VYANE_HOME": one.home},
            capture_output=True,
            check=False,
        )

    (row,) = json.loads(blind("workers").stdout)
    assert row["liveness"] == "unknown"
    collected = json.loads(blind("gc").stdout)
    assert {key for key, n in collected.items() if n and key != "dry_run"} == set()
    person = ("--from-kind", "human", "--wait", "0.1s")
    cancelled = blind("cancel", "project", "--force", *person)
    assert cancelled.returncode == 5
    assert one.process.poll() is None
    assert rows(one)[0]["liveness"] == "idle"
    assert one.world.status(mail) == "pending"


def test_the_end_of_a_session_releases_its_files_and_keeps_its_worker(host):
    """SessionEnd: no wake file, no marker; the mail is for its return."""
    one = host()
    one.start()
    mail = one.world.send("project", "hello")
    assert one.hook("SessionEnd-other").status == 0
    left = [p.name for p in Path(one.home, "wake").iterdir() if p.name.startswith(one.session)]

    assert left == []
    assert rows(one)[0]["liveness"] == "exited"
    assert (one.start("resume").text + one.prompt().text).count(f"id {mail}") == 1


# ------------------------------------------------------------------ one store, whatever the folder


def test_a_worktree_a_subfolder_and_a_bare_repository_share_one_store(host, tmp_path):
    """The store does not depend on the folder, the project variable, or either being there."""
    main = tmp_path / "main"
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@t", "-C"]
    subprocess.run(["git", "init", "-q", "-b", "trunk", str(main)], check=True)
    subprocess.run([*git, str(main), "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    tree, bare = tmp_path / "tree", tmp_path / "bare.git"
    subprocess.run([*git, str(main), "worktree", "add", "-q", "-b", "topic", str(tree)], check=True)
    subprocess.run(["git", "clone", "-q", "--bare", str(main), str(bare)], check=True)
    (main / "src").mkdir()
    folders = [main, tree, main / "src", bare]
    variables = [str(main), "/deleted/folder", "", None]
    hosts = []
    for folder, project in zip(folders, variables, strict=True):
        extra = {} if project is None else {"CLAUDE_PROJECT_DIR": project}
        one = host(cwd=str(folder), extra=extra)
        one.start()
        hosts.append(one)
    names = [row["name"] for row in rows(hosts[0])]
    assert names[:3] == ["main-trunk", "tree-topic", "main-trunk-2"]
    arrived = 0
    for sender in hosts:
        for name, receiver in zip(names, hosts, strict=True):
            if sender is receiver:
                continue
            sent = vyane(
                sender.home, "--json", "send", name, "hello", environ=sender.environ(),
                cwd=sender.cwd,
            )  # fmt: skip
            arrived += json.loads(sent.out)["id"] in receiver.prompt().text

    assert arrived == 12
    states = list(tmp_path.rglob("worker-registry.json"))
    assert states == []


# ------------------------------------------------------------------ a name with a past


def test_a_reused_name_is_the_next_generation_and_old_mail_says_so(host):
    """What the former owner did not get is offered once, with a note."""
    one = host()
    first = subprocess.Popen(["sleep", "600"])
    one.world.register("bob", first.pid)
    mail = one.world.send("bob", "for the first")
    first.kill()
    first.wait()
    words = ("--json", "workers", "register", "bob", "--pid", str(one.process.pid))
    bob = json.loads(vyane(one.home, *words).out)
    assert bob["generation"] == 2
    later = one.world.send("bob", "for the second")
    tick = ("tick", "--host", "generic", "--worker", "bob")
    text = vyane(one.home, *tick).out.decode()
    assert vyane(one.home, *tick).out == b""

    assert text.count(f"id {mail}") == text.count(f"id {later}") == 1
    lines = {line for line in text.split("\n") if "id " in line}
    assert "earlier owner" in next(line for line in lines if f"id {mail}" in line)
    assert "earlier owner" not in next(line for line in lines if f"id {later}" in line)


def test_a_name_that_is_taken_up_again_is_not_cancelled_any_more(host):
    """What its former owner was asked for, and how that ended, is over."""
    one = host()
    one.world.register("bob")
    with one.world.held((LockKind.REGISTRY, "")):
        book = registry.Registry(one.world.layout)
        (bob,) = book.listing()
        over = {"cancel_propagated_from": "w-1", "failure_reason": "why", "dispatch_id": "01"}
        book.put(bob._replace(status=WorkerStatus.KILLED, **over))
        book.save()
    words = ("--json", "workers", "register", "bob", "--pid", str(one.process.pid))
    bob = json.loads(vyane(one.home, *words).out)

    assert bob["status"] == "IDLE"
    assert [bob[key] for key in over] == [None] * 3


def test_a_new_session_in_the_folder_of_an_exited_one_is_a_stranger(host):
    """It gets a name of its own, and not the mail of the one that may come back."""
    one = host()
    one.start()
    mail = one.world.send("project", "private")
    one.die()
    stranger = host()
    seen = stranger.start()

    assert stranger.worker != one.worker
    assert mail not in seen.text + stranger.prompt().text
    assert {row["name"] for row in rows(one)} == {"project", "project-2"}
    assert one.world.status(mail) == "pending"


# ------------------------------------------------------------------ mail for the idle


def test_an_idle_session_is_rung_at_once_and_a_busy_one_is_not_interrupted(host):
    """The answer of `send` is honest, and the wake file is what rings."""
    one = host()
    one.start()
    wake = one.world.layout.wake(one.session)
    before = os.stat(wake).st_mtime_ns
    ran = vyane(one.home, "--json", "send", "project", "hello")
    told = json.loads(ran.out)
    assert told["status"] == "pending"
    assert told["liveness"] == "idle"
    assert "woken" in told["outlook"]
    assert os.stat(wake).st_mtime_ns > before
    one.prompt()
    told = json.loads(vyane(one.home, "--json", "send", "project", "hello").out)
    assert told["liveness"] == "busy"
    assert one.watch().text == ""


def test_mail_that_lies_is_rung_for_by_any_other_session(host):
    """Nothing waits for a retry that nobody makes: overdue after ten seconds, at most three."""
    asleep = [host(cwd=f"/tmp/asleep{n}") for n in range(5)]
    for one in asleep:
        one.start()
        one.world.send(Path(one.cwd).name, "hello")
    layout = asleep[0].world.layout
    for one in asleep:
        long_ago = 1_000_000_000
        for path in (layout.due(one.worker), layout.armed(one.session), layout.wake(one.session)):
            if os.path.exists(path):
                os.utime(path, (long_ago, long_ago))
        Path(layout.due(one.worker)).write_text("0")
        os.utime(layout.due(one.worker), (long_ago, long_ago))
    awake = host()
    awake.start()
    rung = [one for one in asleep if os.stat(layout.wake(one.session)).st_mtime > 1_000_000_001]

    assert 1 <= len(rung) <= 3
    awake.prompt()
    awake.stop()
    rung = [one for one in asleep if os.stat(layout.wake(one.session)).st_mtime > 1_000_000_001]
    assert len(rung) == 5


def test_forty_messages_wake_an_idle_session_once_and_not_forty_times(host):
    """One start at a time; what was read before is not announced again."""
    one = host()
    one.start()
    mail = [one.world.send("project", f"n {n}") for n in range(40)]
    wakes = [one.watch().text for _ in range(5)]
    assert sum(1 for text in wakes if text) == 1
    seen = one.woken(mail[0]).text + one.batch().text
    one.stop()
    assert [seen.count(f"id {m}") for m in mail] == [0] + [1] * 39
    one.world.pass_s(3 * 86_400)

    assert [one.watch().text for _ in range(3)] == ["", "", ""]
