"""The tick as hosts run it: a process with a payload on its standard input."""

import json
import os
import subprocess
import time
import uuid
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.simulated import (
    EVENTS,
    Host,
    bound_by_modes,
    read_only,
    recorded,
    stopped_holder,
    vyane,
)
from vyane_cli import home
from vyane_cli.delivery import spool
from vyane_cli.hosts import claude_code
from vyane_cli.sessions.speaker import FromKind, Speaker
from vyane_cli.storage import locks, processes

FULL = bool(os.environ.get("VYANE_TEST_FULL"))
STALLED_S = 4.5
"""A hook gives up a lock after 0.8 s, a command after five; a busy machine lies between."""
NO_CONTEXT = (
    "Notification PermissionRequest PreCompact PostCompact SessionEnd StopFailure SubagentStart"
    " SubagentStop TaskCompleted TaskCreated FileChanged FutureEvent"
).split()


@pytest.fixture
def impatient(monkeypatch) -> None:
    """A hook gives up a lock sooner than its 0.8 s, which one test waits out."""
    monkeypatch.setattr(home, "HOOK_BUDGET_S", 0.2)


@pytest.fixture
def busy(host) -> Host:
    """A session in the middle of a turn."""
    one = host()
    one.start()
    one.prompt()
    return one


# ------------------------------------------------------------------ one document or nothing


@pytest.mark.parametrize("name", [*EVENTS, "FutureEvent", "FileChanged", "CwdChanged"])
def test_every_event_gets_one_document_or_nothing(host, name):
    """
    With mail waiting, whatever event comes: exit 0, and all of standard output is one
    JSON document that names the same event, or is empty; an event that takes no
    context leaves the messages pending.
    """
    one = host()
    one.start()
    if name.startswith(("Pre", "Post", "Stop", "Subagent")):
        one.prompt()
    mail = [one.world.send("project", text, kind="context-inject") for text in ("uno", "due")]
    ran = one.hook(name)

    if name in ("FileChanged", "Notification-idle_prompt"):  # these are installed as wakes
        assert ran.status == 2
        assert ran.out == b""
        assert "TurnStarted" not in [e["kind"] for e in one.events()]
        return
    assert ran.status == 0
    assert ran.err == b""
    if ran.out:
        document = json.loads(ran.out)
        specific = document["hookSpecificOutput"]
        assert specific["hookEventName"] == recorded(name)["hook_event_name"]
        assert set(document) <= {"hookSpecificOutput", "continue", "stopReason"}
        assert len(specific.get("additionalContext", "")) <= 9500
    shown = [m for m in mail if m in ran.text]
    if name.split("-")[0] in NO_CONTEXT:
        assert ran.out == b""
    for message in mail:
        expected = "delivered" if message in shown else "pending"
        assert one.world.status(message) == expected


def test_a_call_with_nothing_to_say_prints_no_byte(busy):
    """So that a shell profile that prints something cannot turn it into an error."""
    ran = busy.hook("PostToolBatch")

    assert (ran.status, ran.out, ran.err) == (0, b"", b"")


def test_a_wake_speaks_on_standard_error_and_ends_with_the_status_of_a_wake(host):
    """FileChanged of the wake file: exit 2 begins a turn, and nothing else may."""
    one = host()
    one.start()
    mail = one.world.send("project", "wake up")
    wake = one.world.layout.wake(one.session)
    ran = one.hook("FileChanged", rewake=True, file_path=wake)

    assert ran.status == 2
    assert ran.out == b""
    assert mail in ran.err.decode()


def test_a_guarded_wake_ends_with_its_private_status(host):
    """The guard alone turns 42 into the host's 2: no failure of an interpreter has it."""
    one = host()
    one.start()
    one.world.send("project", "wake up")
    words = ("--guard", str(os.getpid()))

    assert one.hook("FileChanged", rewake=True, words=words).status == 42


def test_unknown_options_are_ignored(busy):
    """A host, or a guard, may be newer than this program."""
    mail = busy.world.send("project", "hello")
    words = ("--from-the-future", "--depth=3")
    ran = busy.hook("PostToolBatch", words=words)

    assert ran.status == 0
    assert mail in ran.text


# ------------------------------------------------------------------ once


def together(hosts: list[Host], name: str, data: bytes, *, rewake: bool = False) -> list[bytes]:
    """Run identical hooks at the same time; what each printed."""
    running = [one.begin(name, rewake=rewake) for one in hosts]
    for process in running:
        process.stdin.write(data)
        process.stdin.flush()
    for process in running:
        process.stdin.close()
    outputs = []
    for process in running:
        outputs.append(process.stdout.read() + process.stderr.read())
        process.stdout.close()
        process.stderr.close()
        assert process.wait() in (0, 2)
    return outputs


@pytest.mark.parametrize("part", range(2))
def test_three_identical_hooks_at_once_show_each_message_once(busy, part):
    """The same hook, installed three times: one output, nothing twice, nothing lost."""
    rounds = 100 if FULL else 10
    shown = Counter()
    for number in range(rounds):
        mail = busy.world.send("project", f"message {number}")
        tool = f"toolu_{number}"
        calls = [{"tool_name": "Bash", "tool_use_id": tool}]
        outputs = together(
            [busy] * 3, "PostToolBatch", busy.payload("PostToolBatch", tool_calls=calls)
        )
        told = [out for out in outputs if out]
        assert len(told) == 1, outputs
        shown[mail] += sum(out.count(f"id {mail}".encode()) for out in outputs)
        assert busy.world.marks(mail) == 0
    assert list(shown.values()) == [1] * rounds
    assert busy.stop().text == ""
    seen = Counter(
        e["payload"]["tool_use_id"] for e in busy.events() if e["kind"] == "ToolObserved"
    )
    assert seen == {f"toolu_{number}": 1 for number in range(rounds)}


@pytest.mark.parametrize(
    "name", ["SessionStart-resume", "UserPromptSubmit", "Stop", "PostToolBatch"]
)
def test_an_event_whose_hook_runs_twice_shows_once(host, name):
    """Whatever the event: settings and plugin both run it, at the same time."""
    one = host()
    one.start()
    if name in ("Stop", "PostToolBatch"):
        one.prompt()
    mail = one.world.send("project", "hello", kind="info" if "Start" in name else "context-inject")
    data = one.payload(name)
    outputs = together([one] * 3, name, data)

    assert sum(out.count(f"id {mail}".encode()) for out in outputs) == 1
    assert one.world.marks(mail) == 0
    again = one.hook(name, data)
    assert mail not in again.text


def test_three_identical_watches_at_once_wake_once(host):
    """One handed over; the others wait for it in silence, or one sleeps for it."""
    one = host()
    one.start()
    mail = one.world.send("project", "wake up")
    wake = one.world.layout.wake(one.session)
    running = [one.begin("FileChanged", rewake=True) for _ in range(3)]
    for process in running:
        process.stdin.write(one.payload("FileChanged", file_path=wake, prompt_id=one.turn))
        process.stdin.close()
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and [p.poll() for p in running].count(2) < 1:
        time.sleep(0.01)
    one.woken(mail)  # the host took it: whoever sleeps for it has nothing left to wait for
    statuses = [process.wait(timeout=30) for process in running]
    said = [process.stderr.read() for process in running]
    for process in running:
        process.stdout.close()
        process.stderr.close()

    assert sorted(statuses) == [0, 0, 2]
    assert sum(mail.encode() in text for text in said) == 1


# ------------------------------------------------------------------ output that got nowhere


def test_an_output_that_could_not_be_written_is_shown_again_marked(busy):
    """The reader of standard output had gone: the message is not lost with it."""
    mail = busy.world.send("project", "hello")
    reader, writer = os.pipe()
    os.close(reader)
    process = busy.begin("PostToolBatch", stdout=writer)
    os.close(writer)
    process.communicate(busy.payload("PostToolBatch"))
    assert process.returncode == 0
    assert busy.world.status(mail) == "pending"
    ran = busy.hook("PostToolBatch")

    assert mail in ran.text
    assert "redelivered" in ran.text


def test_a_wake_that_could_not_be_written_is_offered_again(host):
    """A wake whose text went nowhere is no wake: exit 0, and the next one tells it."""
    one = host()
    one.start()
    mail = one.world.send("project", "hello")
    data = one.payload("FileChanged", file_path=one.world.layout.wake(one.session))
    reader, writer = os.pipe()
    os.close(reader)
    process = one.begin("FileChanged", rewake=True, stderr=writer)
    os.close(writer)
    process.stdin.write(data)
    process.stdin.close()
    with process:
        if process.wait(timeout=30) != 0:
            pytest.fail("a wake without a text")
    ran = one.hook("FileChanged", data, rewake=True)

    assert ran.status == 2
    assert mail in ran.text


def test_a_full_output_is_an_output_that_could_not_be_written(busy):
    """/dev/full takes no byte."""
    mail = busy.world.send("project", "hello")
    with open("/dev/full", "wb") as full:
        process = busy.begin("PostToolBatch", stdout=full)
        process.communicate(busy.payload("PostToolBatch"))

    assert process.returncode == 0
    assert busy.world.status(mail) == "pending"
    assert mail in busy.hook("PostToolBatch").text


# ------------------------------------------------------------------ hostile payloads

DEEP = b"[" * 10_000 + b"]" * 10_000
DEEP_OBJECT = b'{"session_id":' * 10_000
HOSTILE = {
    "empty": b"",
    "blank": b" \r\n\t ",
    "not-json": b"hello",
    "half": b'{"hook_event_name":"Stop","session_',
    "array": b"[]",
    "null": b"null",
    "number": b"12",
    "text": b'"Stop"',
    "nan": b'{"hook_event_name":NaN}',
    "deep": DEEP,
    "deep-object": DEEP_OBJECT,
    "invalid-utf-8": b'\xff\xfe{"hook_event_name":"Stop"}',
    "invalid-inside": b'{"hook_event_name":"Stop","session_id":"\xc3\x28"}',
    "utf-16": '{"hook_event_name":"Stop"}'.encode("utf-16"),
    "nul": b'{"hook_event_name":"Stop\x00"}',
    "two-documents": b'{"hook_event_name":"Stop"}{"hook_event_name":"Stop"}',
    "big-number": b'{"hook_event_name":"Stop","n":' + b"9" * 10_000 + b"}",
    "duplicate-keys": b'{"session_id":"a","session_id":"../b","hook_event_name":"Stop"}',
}
WRONG = [None, True, 7, 1.5, [], {}, ["x"], {"a": "b"}, "", "../../etc", "\ud800", "x" * 100_000]
FIELDS = (
    "session_id transcript_path cwd prompt_id hook_event_name prompt agent_id tool_name tool_use_id"
    " tool_calls stop_hook_active last_assistant_message error source reason file_path"
    " notification_type"
).split()


def litter(home: str) -> set[str]:
    """The names of everything in the state root, logs and locks aside."""
    return {
        str(path.relative_to(home))
        for path in Path(home).rglob("*")
        if path.relative_to(home).parts[0] not in ("log", "locks", "beat")
    }


@pytest.mark.parametrize("name", HOSTILE)
def test_a_payload_that_is_none_does_nothing(host, name):
    """Exit 0, nothing printed, nothing invented: no session, no turn."""
    one = host()
    one.start()
    before, there = one.events(), litter(one.home)
    ran = one.hook("Stop", HOSTILE[name])

    assert (ran.status, ran.out, ran.err) == (0, b"", b"")
    assert one.events() == before
    assert litter(one.home) == there


def test_a_payload_of_ten_megabytes_is_read(busy):
    """A tool's answer may be large: it is passed over, and the mail goes along."""
    mail = busy.world.send("project", "hello")
    calls = [{"tool_name": "Bash", "tool_use_id": "t", "tool_response": "x" * 10_000_000}]
    for _ in range(5):  # on a busy machine it may take longer than a payload is waited for
        ran = busy.hook("PostToolBatch", tool_calls=calls)
        assert ran.status == 0
        if ran.text:
            break

    assert mail in ran.text


def test_a_byte_order_mark_and_other_line_ends_are_read_over(busy):
    """Terminals and wrappers add them."""
    mail = busy.world.send("project", "hello")
    data = busy.payload("PostToolBatch").replace(b", ", b",\r\n")
    ran = busy.hook("PostToolBatch", b"\xef\xbb\xbf\r\n" + data + b"\r\n")

    assert mail in ran.text


def test_a_payload_that_comes_late_and_in_pieces_is_waited_for(busy):
    """Within the budget."""
    mail = busy.world.send("project", "hello")
    data = busy.payload("PostToolBatch")
    with busy.begin("PostToolBatch") as process:
        for start in range(0, len(data), 200):
            process.stdin.write(data[start : start + 200])
            process.stdin.flush()
        out, _ = process.communicate()

    assert mail.encode() in out


@pytest.mark.parametrize("part", [b"", b'{"hook_event_name":"Stop","sess'])
def test_a_payload_that_never_ends_is_not_waited_for(busy, part):
    """The host neither sends the rest nor closes: exit 0 within the budget."""
    with busy.begin("Stop") as process:
        process.stdin.write(part)
        process.stdin.flush()
        began = time.monotonic()
        assert process.wait(timeout=30) == 0
        waited = time.monotonic() - began
        assert process.stdout.read() == b""
        process.stdin.close()

    assert waited < STALLED_S


@pytest.mark.parametrize("field", FIELDS)
def test_fields_of_the_wrong_type_never_break_a_call(host, field):
    """Each field of a payload in each wrong form, in this process: no exception, one answer."""
    one = host()
    one.start()
    one.world.send("project", "hello")
    for wrong in WRONG:
        for name in ("UserPromptSubmit", "PostToolBatch", "PreToolUse", "Stop", "SessionEnd"):
            if (field, name) == ("hook_event_name", "SessionEnd"):
                continue
            seen = one.call(name, **{field: wrong})
            out, _ = claude_code.render(seen.reply)
            assert not out or json.loads(out)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)


@settings(
    max_examples=1000 if FULL else 150,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    name=st.sampled_from(EVENTS),
    changes=st.dictionaries(st.sampled_from([*FIELDS, "unheard_of"]), values, max_size=4),
    cut=st.none() | st.integers(0, 400),
    environ=st.dictionaries(
        st.sampled_from(["CLAUDE_PID", "CLAUDE_CODE_SESSION_ID", "VYANE_WORKER", "HOME"]),
        st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20),
        max_size=2,
    ),
    event=st.sampled_from(["", "Stop", "no such"]),
)
def test_parsing_never_raises(name, changes, cut, environ, event):
    """Whatever a host or a terminal may send: a call comes of it, if only one that does nothing."""
    data = json.dumps(recorded(name, **changes)).encode()[:cut]
    call = claude_code.parse(data, environ, processes.identify, event=event)

    assert call.session == "" or "/" not in call.session
    assert claude_code.parse(data, environ, processes.identify, event=event) == call


@pytest.mark.parametrize(
    "locale",
    [
        {"LC_ALL": "C"},
        {"PYTHONIOENCODING": "cp932"},
        {"PYTHONUTF8": "0", "LC_ALL": "POSIX"},
    ],
    ids=lambda locale: "-".join(locale.values()),
)
def test_text_is_utf_8_whatever_the_locale(host, locale):
    """In, stored and out: byte for byte the same."""
    text = '日本語 😀 café "quoted"'
    one = host(extra=locale)
    one.start()
    home = one.home
    sent = vyane(home, "--json", "send", "project", text, environ=locale)
    assert sent.status == 0, sent.err
    mail = json.loads(sent.out)["id"]
    stdin = vyane(home, "--json", "send", "project", "-", stdin=text.encode(), environ=locale)
    shown = vyane(home, "--json", "show", mail, environ=locale)
    assert json.loads(shown.out.decode("utf-8"))["payload"]["text"] == text
    again = vyane(home, "--json", "show", json.loads(stdin.out)["id"], environ=locale)
    assert json.loads(again.out.decode("utf-8"))["payload"]["text"] == text
    raw = Path(one.world.layout.inbox(one.worker)).read_bytes()
    assert json.dumps(text, ensure_ascii=False).encode() in raw
    ran = one.hook("UserPromptSubmit", popen={"env": {**one.environ(), **locale}})

    assert text in json.loads(ran.out.decode("utf-8"))["hookSpecificOutput"]["additionalContext"]
    one.hook("Stop", last_assistant_message=text, popen={"env": {**one.environ(), **locale}})
    results = [e for e in one.events() if e["kind"] == "ResultObserved"]
    assert results[-1]["payload"]["excerpt"] == text


# ------------------------------------------------------------------ locks and storage


@pytest.mark.parametrize("name", ["PostToolBatch", "UserPromptSubmit", "Stop", "SessionEnd-other"])
def test_a_stopped_holder_of_the_lock_does_not_stall_a_hook(busy, name, monkeypatch):
    """Exit 0 within a second, nothing printed, nothing marked as shown; afterwards shown once."""
    if name != "PostToolBatch":  # it waits the whole budget out, for all of them
        monkeypatch.setattr(home, "HOOK_BUDGET_S", 0.2)
    mail = busy.world.send("project", "hello")
    kind = locks.LockKind.INBOX
    with stopped_holder(busy.home, (kind, busy.worker), (kind, busy.logical)):
        began = time.monotonic()
        ran = busy.hook(name)
        took = time.monotonic() - began
        assert (ran.status, ran.out) == (0, b"")
        assert took < STALLED_S
    assert busy.world.status(mail) == "pending"
    if name == "SessionEnd-other":
        seen = busy.start("resume")
        again = busy.prompt()
    else:
        seen, again = busy.prompt(), busy.batch()

    assert (seen.text + again.text).count(f"id {mail}") == 1
    assert busy.world.marks(mail) == 0


def test_a_turn_whose_events_missed_the_lock_is_told_in_order(busy, impatient):
    """They are spooled, and the session's next call commits them before itself."""
    kind = locks.LockKind.INBOX
    with stopped_holder(busy.home, (kind, busy.worker), (kind, busy.logical)):
        busy.hook("Stop")
        busy.turn = "next"
        busy.hook("UserPromptSubmit")
    busy.stop()

    assert busy.outcomes() == ["success", "success"]
    kinds = [e["kind"] for e in busy.events() if e["kind"].startswith("Turn")]
    assert kinds == ["TurnStarted", "TurnFinished"] * 2
    assert not os.listdir(busy.world.layout.spool(busy.logical))


def test_a_turn_whose_end_missed_the_lock_is_told_after_a_clear(busy, impatient):
    """The session that goes on has another id; what was read before is not given again."""
    mail = busy.world.send("project", "hello")
    busy.batch()
    with stopped_holder(busy.home, (locks.LockKind.INBOX, busy.worker)):
        busy.hook("Stop")
        busy.hook("SessionEnd-other", reason="clear")
    busy.session = str(uuid.uuid4())
    busy.start("clear")

    assert busy.outcomes() == ["success"]
    assert (busy.world.status(mail), busy.world.marks(mail)) == ("consumed", 0)


def test_a_call_of_an_earlier_session_that_came_too_late_is_noted_and_undoes_nothing(busy):
    late = claude_code.parse(busy.payload("Stop", prompt_id="x"), busy.environ(), lambda pid: None)
    busy.stop()
    busy.call("SessionEnd-other", reason="clear")
    busy.session = str(uuid.uuid4())
    busy.start("clear")
    busy.prompt()
    spool.save_call(busy.world.layout, busy.logical, late, busy.world.clock())
    busy.stop()

    assert busy.outcomes() == ["success", "success"]
    notes = [e["payload"]["code"] for e in busy.events() if e["kind"] == "Diagnostic"]
    assert notes == ["call_superseded"]
    assert not os.listdir(busy.world.layout.spool(busy.logical))


@pytest.mark.parametrize("held", [locks.LockKind.REGISTRY, locks.LockKind.INBOX])
def test_a_start_that_missed_its_locks_is_watched_all_the_same(host, held, impatient):
    """The host asks for it once: without it the session could not be woken until `/clear`."""
    one, key = host(), ""
    if held is locks.LockKind.INBOX:
        one.start()
        key = one.worker
    with stopped_holder(one.home, (held, key)):
        ran = one.hook("SessionStart-startup-interactive", source="resume")

    assert ran.status == 0
    said = json.loads(ran.out)["hookSpecificOutput"]
    assert said == {
        "hookEventName": "SessionStart",
        "watchPaths": [one.world.layout.wake(one.session)],
    }
    assert os.path.exists(one.world.layout.wake(one.session))


def test_a_start_on_a_damaged_timeline_is_watched_all_the_same(busy):
    Path(busy.world.layout.timeline(busy.logical)).write_bytes(b"nothing\n")

    ran = busy.hook("SessionStart-startup-interactive", source="resume")

    assert json.loads(ran.out)["hookSpecificOutput"]["watchPaths"]


def test_an_unattended_start_that_missed_its_locks_says_nothing(host, impatient):
    one = host(attended=False)
    with stopped_holder(one.home, (locks.LockKind.REGISTRY, "")):
        ran = one.hook("SessionStart-startup-interactive")

    assert (ran.status, ran.out) == (0, b"")


def test_a_stopped_holder_of_another_inbox_does_not_stall_a_hook(host):
    """The bounce of an expired message is not worth more than the hook's budget: it comes later."""
    one, other = host(), host(cwd="/tmp/elsewhere")
    one.start()
    other.start()
    speaker = Speaker(FromKind.WORKER, one.worker, "project")
    one.world.pass_s(-100)
    sent = one.world.send("elsewhere", "soon gone", speaker, ttl_s=1)
    one.world.pass_s(100)
    with stopped_holder(one.home, (locks.LockKind.INBOX, one.worker)):
        began = time.monotonic()
        ran = other.hook("UserPromptSubmit")
        took = time.monotonic() - began

    assert (ran.status, ran.text) == (0, "")
    assert took < STALLED_S
    assert not one.world.inbox(one.worker).mailbox.entries
    other.hook("Stop")
    (note,) = one.world.inbox(one.worker).mailbox.entries
    assert note.message.payload["bounced"] == sent


def test_a_state_root_that_cannot_be_written_does_no_harm(host):
    """Exit 0, nothing printed: the session goes on without its mail."""
    one = host()
    one.start()
    one.world.send("project", "hello")
    with read_only(one.home):
        for name in ("UserPromptSubmit", "PostToolBatch", "Stop", "SessionEnd-other"):
            ran = one.hook(name, popen={"preexec_fn": bound_by_modes})
            assert (ran.status, ran.out, ran.err) == (0, b"", b"")

    assert "hello" in one.prompt().text


def test_without_a_state_root_a_hook_does_nothing(tmp_path, host):
    """vyane was never set up here, or its state was taken away under live hooks."""
    one = host()
    missing = str(tmp_path / "nowhere")
    ran = one.hook("SessionStart-startup", popen={"env": {**one.environ(), "VYANE_HOME": missing}})

    assert (ran.status, ran.out) == (0, b"")
    assert not os.path.exists(missing)


@pytest.mark.parametrize(
    "environ",
    [
        {"CLAUDE_PID": "9" * 5000},
        {"CLAUDE_PID": "-1"},
        {"CLAUDE_PID": "٣"},
        {"CLAUDE_CODE_SESSION_ID": "../../x"},
        {"VYANE_HOME": "/etc/passwd"},
        {"VYANE_HOME": "/proc/1/mem"},
        {"HOME": "", "VYANE_HOME": "~nobody-of-that-name/x"},
        {"CLAUDE_CONFIG_DIR": "/dev/zero"},
    ],
    ids=lambda environ: "-".join(f"{key}={value[:12]}" for key, value in environ.items()),
)
def test_whatever_the_environment_holds_a_hook_ends_with_0_and_no_word(host, environ):
    """Also where the error comes before anything could be written down."""
    one = host(extra=environ)
    for name in ("SessionStart-startup", "UserPromptSubmit", "PostToolBatch", "Stop"):
        ran = one.hook(name)
        assert (ran.status, ran.err) == (0, b"")
        assert not ran.out or json.loads(ran.out)


@pytest.mark.parametrize(
    "damaged", ["config.toml", "worker-registry.json", "session", "timeline", "inbox"]
)
def test_a_damaged_state_file_harms_no_session(busy, damaged):
    """Exit 0, nothing but one document; what went wrong is in the log."""
    layout = busy.world.layout
    path = {
        "session": layout.session(busy.session),
        "timeline": layout.timeline(busy.logical),
        "inbox": layout.inbox(busy.worker),
    }.get(damaged, layout(damaged))
    busy.world.send("project", "hello")
    with open(path, "ab") as file:
        file.write(b'\x00{"broken\n[[[\n')
    for name in ("PostToolBatch", "Stop", "SessionStart-resume", "UserPromptSubmit"):
        ran = busy.hook(name)
        assert ran.status == 0
        assert ran.err == b""
        assert not ran.out or json.loads(ran.out)


def test_an_error_is_written_down_for_the_doctor(busy):
    """A hook swallows its errors; `log/hook.log` has them."""
    with open(busy.world.layout.timeline(busy.logical), "ab") as file:
        file.write(b"broken\n")
    busy.hook("PostToolBatch", tool_calls=[])
    text = Path(busy.world.layout.log).read_text() if os.path.exists(busy.world.layout.log) else ""
    if not text:  # the markers said that there was nothing to do
        busy.hook("Stop")
        text = Path(busy.world.layout.log).read_text()

    assert "damaged" in text


def test_the_log_of_errors_goes_aside_when_it_grows_large(host):
    one = host()
    log = Path(one.home, "log", "hook.log")
    one.world.log("first")
    one.world.log("second")
    assert [line.split()[1] for line in log.read_text().splitlines()] == ["first", "second"]
    log.write_text("x" * 300_000)
    one.world.log("third")

    assert [line.split()[1] for line in log.read_text().splitlines()] == ["third"]
    assert Path(f"{log}.1").read_text() == "x" * 300_000
    assert log.stat().st_mode & 0o777 == 0o600


def test_a_hook_leaves_no_descriptor_and_no_process_behind(busy):
    """It runs at each step of somebody's session."""
    busy.world.send("project", "hello")
    busy.hook("PostToolBatch")
    found = subprocess.run(
        ["pgrep", "-f", f"vyane_cli.*{busy.session}"], capture_output=True, check=False
    )

    assert found.stdout == b""


# ------------------------------------------------------------------ a rerun, a plan, a generic host


def test_a_rerun_voids_what_the_killed_tick_claimed(busy):
    """The guard runs it after a death by a signal: it prints nothing, and the mail comes again."""
    mail = busy.world.send("project", "hello")
    guard = str(os.getpid())
    with pytest.raises(KeyboardInterrupt):
        busy.batch(show=interrupted, guard=int(guard))
    ran = busy.hook("PostToolBatch", b"", words=("--guard", guard, "--rerun"))
    assert (ran.status, ran.out, ran.err) == (0, b"", b"")
    seen = busy.batch()

    assert mail in seen.text
    assert "redelivered" in seen.text


def interrupted(reply: object) -> None:
    raise KeyboardInterrupt


def test_a_dry_run_prints_the_plan_and_changes_nothing(busy):
    """What the tick would change, as data."""
    mail = busy.world.send("project", "hello")
    before = {p: p.read_bytes() for p in Path(busy.home).rglob("*") if p.is_file()}
    environ = busy.environ()
    words = ("--json", "tick", "--dry-run", "--event", "PostToolBatch")
    data = busy.payload("PostToolBatch")
    ran = vyane(busy.home, *words, stdin=data, environ=environ)
    plan = json.loads(ran.out)

    assert ran.status == 0
    assert mail in plan["reply"]["context"]
    assert [change["op"] for change in plan["mail"]] == ["claim"]
    assert {p: p.read_bytes() for p in Path(busy.home).rglob("*") if p.is_file()} == before


def test_a_host_without_hooks_gets_plain_text_once(host):
    """Its messages are consumed at its next call."""
    one = host()
    one.world.register("bob")
    mail = one.world.send("bob", "hello bob")
    words = ("tick", "--host", "generic", "--worker", "bob")
    first, second = vyane(one.home, *words), vyane(one.home, *words)

    assert first.status == second.status == 0
    assert first.out.decode().count(mail) >= 1
    assert "hello bob" in first.out.decode()
    assert second.out == b""
    assert one.world.status(mail) == "consumed"


def test_a_guard_of_another_protocol_is_not_guessed_at(host):
    """Nothing is appended and nothing said; the log names it, and the host goes on."""
    one = host()
    one.start()
    one.prompt()
    mail = one.world.send("project", "hello")
    ran = one.hook("PostToolBatch", words=("--protocol", "99"))

    assert (ran.status, ran.out, ran.err) == (0, b"", b"")
    assert one.world.status(mail) == "pending"
    assert "hook_protocol_mismatch" in Path(one.world.layout.log).read_text()
    assert mail in one.hook("PostToolBatch", words=("--protocol", "1")).text
