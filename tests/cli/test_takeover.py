"""`vyane takeover`: who may, what is stored, what is said; and a session that is taken over."""

import json
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from tests.hostlab.waiting import wait_until
from tests.simulated import HUMAN, files_of, vyane
from vyane_cli.delivery import takeover
from vyane_cli.delivery.takeover import take_over
from vyane_cli.errors import RefusedError, VyaneError
from vyane_cli.hosts import claude_code
from vyane_cli.kernel.process import Process
from vyane_cli.sessions import registry
from vyane_cli.sessions import tmux as terminals
from vyane_cli.storage import processes

PERSON = ("--from-kind", "human")


def kinds(one) -> list[str]:
    return [event["kind"] for event in one.events()]


def row_of(run) -> dict:
    (row,) = json.loads(run("--json", "workers")[1])
    return row


def test_a_takeover_is_in_the_timeline_before_its_message_and_shown_until_it_is_over(one, run):
    """TakeoverInitiated first; `workers` names the message until its carrying turn has ended."""
    one.prompt()
    code, out, _ = run(
        "--json", "takeover", "project", "do B instead", *PERSON, "--timeout", "0.1s"
    )
    taken = json.loads(out)

    assert code == 0
    assert taken["status"] == "pending"
    assert taken["interrupt"] == "timed_out"
    assert kinds(one)[-1] == "TakeoverInitiated"
    assert row_of(run)["pending_takeover_message_id"] == taken["message_id"]
    one.world.environ = {}
    reply = one.tool().reply
    assert reply.deny
    assert "do B instead" in reply.context
    one.batch()
    assert row_of(run)["pending_takeover_message_id"] == taken["message_id"]
    one.stop()
    assert row_of(run)["pending_takeover_message_id"] is None
    assert kinds(one)[-2:] == ["TurnFinished", "TakeoverConsumed"]
    assert run("timeline", "verify", "project")[0] == 0


def test_the_command_waits_for_the_tool_call_that_it_stops(one, run):
    """It says `delivered` only when the host has it."""
    one.prompt()
    hook = threading.Timer(0.4, lambda: one.hook("PreToolUse"))
    hook.start()
    code, out, _ = run("--json", "takeover", "project", "stop", *PERSON, "--timeout", "20s")
    hook.join()

    assert code == 0
    assert json.loads(out)["status"] == "delivered"
    assert json.loads(out)["interrupt"] == "requested_by_hook"


def test_an_idle_session_is_rung_at_once(one, run):
    """Nothing has to be interrupted; the wake file is written for the watch."""
    wake = one.world.layout.wake(one.session)
    before = Path(wake).read_text()
    code, out, _ = run("--json", "takeover", "project", "go", *PERSON, "--timeout", "0.1s")

    assert code == 0
    assert json.loads(out)["interrupt"] == "not_needed"
    assert Path(wake).read_text() != before
    assert "go" in one.watch().reply.wake


def test_without_an_interrupt_no_tool_is_stopped(one, run):
    """--interrupt none: the order waits for the next turn."""
    one.prompt()
    _, out, _ = run(
        "--json", "takeover", "project", "later", *PERSON, "--interrupt", "none",
        "--timeout", "0.1s",
    )  # fmt: skip

    assert json.loads(out)["interrupt"] == "none"
    assert one.tool().reply.empty
    assert "later" in one.stop().reply.context


def test_an_agent_may_not_take_over_and_its_timeline_says_so(host, one, run):
    """Exit 5, direction; nothing is stored at the target."""
    other = host()
    other.start()
    before = one.world.inbox(other.worker)
    found = vyane(
        one.home, "--json", "takeover", other.worker, "obey", environ={"VYANE_WORKER": one.worker}
    )

    assert found.status == 5
    assert json.loads(found.err)["error"]["code"] == "direction"
    assert kinds(one)[-1] == "Diagnostic"
    assert one.world.inbox(other.worker) == before


@pytest.mark.parametrize(
    "words, code",
    [
        (("takeover", "project", "  "), 2),
        (("takeover", "project", "x", "--interrupt", "loud"), 2),
        (("takeover", "nobody", "x"), 3),
        (("takeover", "project", "x", "--timeout", "2h"), 2),
        (("takeover", "project", "x", "--decision", "y"), 2),
        (("takeover", "project", "--resolve", "01ABCDEFGHJKMNPQRSTVWXYZ01", "--decision", "y"), 3),
    ],
)
def test_a_bad_takeover_stores_nothing(one, run, words, code):
    """Everything is checked before anything is written."""
    before = files_of(one.home)
    assert run(*words, *PERSON)[0] == code
    assert files_of(one.home) == before


def test_a_decision_answers_the_takeover_and_opens_the_fence(one, run):
    """A context-inject whose parent is the takeover, with an envelope of its own."""
    one.prompt()
    old = one.world.send("project", "the old plan")
    _, out, _ = run("--json", "takeover", "project", "wait", *PERSON, "--timeout", "0.1s")
    taken = json.loads(out)["message_id"]
    one.tool()
    one.batch()
    assert one.world.status(old) == "pending"
    assert "takeover-fence" in run("why", old)[1]
    code, out, _ = run(
        "--json", "takeover", "project", "--resolve", taken, "--decision", "the old one", *PERSON
    )
    assert code == 0
    assert json.loads(out)["kind"] == "context-inject"
    text = one.batch().text

    assert "[TAKEOVER DECISION]" in text
    assert "the old plan" in text
    assert "<" not in text
    assert row_of(run)["pending_takeover_message_id"] is None


# ------------------------------------------------------------------ tmux


@pytest.fixture
def pane(tmp_path, one):
    """A pane with a program that keeps what is typed; the session's process is that program."""
    if not shutil.which("tmux"):
        pytest.skip("there is no tmux")
    socket, typed = str(tmp_path / "tmux"), tmp_path / "typed"
    program = f"stty raw -echo; exec dd bs=1 of={typed} status=none"
    tmux = ("tmux", "-S", socket, "-f", "/dev/null")
    subprocess.run([*tmux, "new-session", "-d", "-x", "80", "-y", "24", program], check=True)
    shown = subprocess.run(
        [*tmux, "display-message", "-p", "#{pane_id} #{pane_pid}"], capture_output=True, text=True,
        check=True,
    ).stdout.split()  # fmt: skip
    wait_until(typed.exists, "the program in the pane reads")
    session = registry.load_session(one.world.layout, one.session)
    assert session is not None
    session = session._replace(
        process=processes.identify(int(shown[1])), terminal=(socket, shown[0])
    )
    yield session, typed
    subprocess.run([*tmux, "kill-server"], check=False)


def test_exactly_one_escape_is_typed_in_the_proven_pane(pane):
    """And nothing else."""
    session, typed = pane
    terminals.type_escape(session)
    wait_until(typed.read_bytes, "something is typed")

    assert typed.read_bytes() == b"\x1b"


@pytest.mark.parametrize("change", ["process", "reused", "pane", "server", "none"])
def test_without_proof_nothing_is_typed(pane, change):
    """Another process, a reused pid, a pane or server that is gone, or no pane on record."""
    session, typed = pane
    me = processes.myself()
    assert session.process is not None
    changed = {
        "process": session._replace(process=me),
        "reused": session._replace(
            process=Process(me.boot, me.namespace, session.process.pid, session.process.start + 1)
        ),
        "pane": session._replace(terminal=(session.terminal[0], "%99")),
        "server": session._replace(terminal=(session.terminal[0] + "x", "%0")),
        "none": session._replace(terminal=()),
    }[change]
    with pytest.raises(RefusedError, match="no Escape was typed"):
        terminals.type_escape(changed)

    assert typed.read_bytes() == b""


def test_a_session_that_is_not_in_the_foreground_of_its_pane_gets_no_key(pane, tmp_path):
    """Suspended, or in the background: whoever has the keys now would get the Escape."""
    session, _ = pane
    child, typed = tmp_path / "child", tmp_path / "other"
    tmux = ("tmux", "-S", session.terminal[0])
    program = (
        f"set -m; sleep 600 & echo $! >{child}; stty raw -echo; exec dd bs=1 of={typed} status=none"
    )
    made = subprocess.run(
        [*tmux, "new-window", "-P", "-F", "#{pane_id}", "bash", "-c", program],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    wait_until(typed.exists, "the program in the foreground reads")
    process = processes.identify(int(child.read_text()))
    behind = session._replace(process=process, terminal=(session.terminal[0], made))
    with pytest.raises(RefusedError, match="in the foreground"):
        terminals.type_escape(behind)

    assert typed.read_bytes() == b""


@pytest.mark.parametrize(
    "state, word",
    [
        (("set-option", "-w", "synchronize-panes", "on"), "shares its keys"),
        (("copy-mode",), "copy mode"),
        (("select-pane", "-d"), "takes no keys"),
    ],
)
def test_a_pane_whose_keys_go_elsewhere_gets_none(pane, state, word):
    """To the panes beside it (a shell would run the line), to tmux itself, or nowhere."""
    session, typed = pane
    socket, own = session.terminal
    command, *rest = state
    subprocess.run(["tmux", "-S", socket, command, "-t", own, *rest], check=True)
    with pytest.raises(RefusedError, match=word):
        terminals.type_escape(session)
    with pytest.raises(RefusedError, match=word):
        terminals.type_line(session, "a line", lambda screen: "")

    assert typed.read_bytes() == b""


def test_a_takeover_by_tmux_without_proof_is_refused_and_nothing_is_stored(one, run):
    """The session's environment named no pane."""
    one.prompt()
    before = files_of(one.home)
    code, _, err = run("takeover", "project", "x", "--interrupt", "tmux", *PERSON)

    assert code == 5
    assert "no Escape was typed" in err
    assert files_of(one.home) == before


RULE = "─" * 40
SCREEN = f"""● Running a tool

{RULE}
❯ drop the
  table 表
{RULE}
  manual mode
"""


def test_half_typed_text_is_in_the_timeline_before_escape_is_typed(one, pane, monkeypatch):
    """And is told to who takes over; an empty box says nothing."""
    session, _ = pane
    one.prompt()
    registry.save_session(one.world.layout, session)
    one.world.environ = {}
    seen: list[list[str]] = []

    def escape(session: object) -> None:
        seen.append([e["payload"].get("text") for e in one.events() if e["kind"] == "Diagnostic"])

    monkeypatch.setattr(takeover, "type_escape", escape)
    monkeypatch.setattr(takeover, "_await_idle", lambda *rest: None)
    for screen, text in (
        (SCREEN, "drop the\ntable 表"),
        (SCREEN.replace("drop the", ""), "table 表"),
    ):
        monkeypatch.setattr(takeover, "read_screen", lambda session, shown=screen: shown)
        taken = take_over(
            one.world, one.worker, "stop", interrupt="tmux", timeout_s=0, speaker=HUMAN
        )
        assert (taken.interrupt, taken.typed) == ("escape_sent", text)
        assert seen[-1][-1] == text


def test_a_pane_that_is_lost_after_the_order_is_stored_is_no_refusal(one, pane, monkeypatch):
    """Whoever reads "refused" gives the order again; the next tool call is stopped instead."""
    session, typed = pane
    one.prompt()
    registry.save_session(one.world.layout, session)
    one.world.environ = {}
    proofs = iter([SCREEN])
    monkeypatch.setattr(takeover, "read_screen", lambda session: next(proofs))
    tmux = ("tmux", "-S", session.terminal[0])
    subprocess.run([*tmux, "copy-mode", "-t", session.terminal[1]], check=True)
    taken = take_over(one.world, one.worker, "stop", interrupt="tmux", timeout_s=0, speaker=HUMAN)

    assert (taken.status, taken.interrupt) == ("pending", "requested_by_hook")
    assert typed.read_bytes() == b""
    assert one.world.status(taken.sent.message.id) == "pending"


def test_a_terminal_that_shows_another_session_gets_no_escape(one, pane, tmp_path):
    """It would end that one's turn. Nothing is stored."""
    session, typed = pane
    one.prompt()
    records = tmp_path / "claude" / "sessions"
    records.mkdir(parents=True)
    (records / f"{session.process.pid}.json").write_text('{"parkedJobId": "cdfd96d8"}')
    shown = session._replace(config_dir=str(records.parent))
    registry.save_session(one.world.layout, shown)
    one.world.environ = {}
    with pytest.raises(RefusedError, match="another session"):
        take_over(one.world, one.worker, "stop", interrupt="tmux", timeout_s=0, speaker=HUMAN)
    assert one.world.inbox(one.worker).mailbox.entries == ()
    assert typed.read_bytes() == b""


def test_text_that_cannot_be_kept_is_not_put_at_risk(one, pane, monkeypatch):
    """Nothing is stored and no key is typed."""
    session, typed = pane
    registry.save_session(one.world.layout, session)
    one.world.environ = {}
    one.prompt()
    monkeypatch.setattr(takeover, "read_screen", lambda session: SCREEN)
    Path(one.world.layout.timeline(one.logical)).write_bytes(b"damage\n")
    with pytest.raises(VyaneError):
        take_over(one.world, one.worker, "stop", interrupt="tmux", timeout_s=0, speaker=HUMAN)
    assert one.world.inbox(one.worker).mailbox.entries == ()
    assert typed.read_bytes() == b""


@pytest.mark.parametrize(
    "screen, text",
    [
        (SCREEN, "drop the\ntable 表"),
        (f"{RULE}\n❯ \n{RULE}\n", ""),
        (f"{RULE} my-session ─\n❯ half a\n{RULE}{'─' * 13}\n", "half a"),  # it has a name
        (f"❯ work\n\n{RULE}\n❯ next\n{RULE}", "next"),  # the prompt before it, in the history
        (f"{RULE}\n❯ one\n\n  three\n{RULE}", "one\n\nthree"),
        # the list of sessions, where a line would begin another one: measured, it is never empty
        (
            f"{RULE}\n❯ describe a task\n  for it\n{RULE}\n  enter to return",
            "describe a task\nfor it",
        ),
        ("❯ 1. Yes\n  2. No\n", None),  # a dialog
        (f"{RULE}\n Do you want to?\n ❯ 1. Yes\n", None),
        (f"{RULE}\n❯ cut off", None),
        ("", None),
    ],
)
def test_the_input_box_is_found_on_the_screen(screen, text):
    """Between its rules; a dialog is none."""
    assert claude_code.input_text(screen) == text


def test_the_pane_is_recorded_when_a_session_starts(host):
    """From TMUX and TMUX_PANE, as a hint that is proven on use."""
    made = host(extra={"TMUX": "/tmp/tmux-0/default,123,0", "TMUX_PANE": "%7"})
    made.start()
    known = registry.load_session(made.world.layout, made.session)

    assert known is not None
    assert known.terminal == ("/tmp/tmux-0/default", "%7")


def test_a_worker_that_has_ended_is_not_taken_over(one, run):
    """Exit 4."""
    workers = registry.Registry(one.world.layout)
    worker = workers.workers[one.worker]
    workers.put(worker._replace(status=type(worker.status)("COMPLETED")))
    workers.save()

    assert run("takeover", one.worker, "x", *PERSON)[0] == 4


def test_a_takeover_through_the_library_needs_a_person(one):
    """The check is the operation's, not the command's."""
    one.world.environ = {}
    assert take_over(one.world, "project", "x", timeout_s=0, speaker=HUMAN).status == "pending"
