"""`watch`, `timeline` and `turn` as commands: arguments, exit codes, `--json`."""

import io
import json
import os
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from tests.simulated import Ran, bound_by_modes, program, read_only, vyane
from vyane_cli.cli import app
from vyane_cli.storage import document


class Person:
    """Somebody's terminal, with a worker `bob` that has one finished turn."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.json("workers", "register", "bob")
        self.first = self.json("turn", "start", "bob", "--prompt-chars", "12")
        self.token = self.first["token"]
        tool = '{"tool":"Bash","outcome":"failed","tool_use_id":"t1"}'
        self.json("turn", "emit", self.token, "ToolObserved", "--payload", tool)
        usage = '{"model":"opus","input_tokens":3,"output_tokens":5}'
        self.json("turn", "emit", self.token, "UsageObserved", "--payload", usage)
        result = '{"digest":"d","chars":900,"excerpt":"all green"}'
        self.json("turn", "emit", self.token, "ResultObserved", "--payload", result)
        self.end = self.json("turn", "finish", self.token, "--outcome", "success")
        (self.file,) = home.glob("timelines/*/events.jsonl")
        self.session = self.file.parent.name

    def run(self, *words: str, **more: Any) -> Ran:
        """In this process, unless something is to be done to the process."""
        if more:
            return program(self.home, *words, **more)
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            status = app.run(app.hoist([*words, "--home", str(self.home)]))
        return Ran(int(status), out.getvalue().encode(), err.getvalue().encode())

    def json(self, *words: str) -> Any:
        done = self.run(*words, "--json")
        assert done.status == 0, done.err
        return json.loads(done.out)

    def lines(self, *words: str) -> list[dict[str, Any]]:
        done = self.run(*words, "--json")
        assert done.status == 0, done.err
        return [json.loads(line) for line in done.out.splitlines()]

    def refused(self, *words: str) -> tuple[int, str]:
        """Exit code and error code; and nothing is written."""
        before = self.file.read_bytes()
        done = self.run(*words, "--json")
        assert self.file.read_bytes() == before
        assert done.out == b""
        return done.status, json.loads(done.err)["error"]["code"]


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return Person(tmp_path / "vyane")


def test_events_have_the_keys_that_programs_rely_on(person) -> None:
    for words in (("watch", "bob"), ("timeline", "bob"), ("watch", person.session)):
        events = person.lines(*words, "--history")
        assert [event["seq"] for event in events] == [1, 2, 3, 4, 5]
        for event in events:
            assert {"seq", "epoch", "session", "kind", "turn", "at", "cursor"} <= event.keys()
            assert {"trace_id", "span_id", "parent_span_id", "category"} <= event.keys()
            assert not {"head", "crc", "left", "boot"} & event.keys()
    after = person.lines("watch", "bob", "--history", "--after", events[2]["cursor"])
    assert [event["seq"] for event in after] == [4, 5]
    assert person.lines("watch", "bob", "--history", "--kind", "TurnFinished") == [events[4]]
    assert person.lines("watch", "bob", "--history", "--category", "tool") == [events[1]]
    assert person.lines("watch", "bob", "--history", "--turn", "1", "--since", "2h") == events
    assert person.first.items() >= {"turn": events[0]["turn"], "seq": 1}.items()
    assert person.end == events[4]


def test_each_bad_input_has_its_exit_code_and_its_own_code_and_writes_nothing(person) -> None:
    cursor = person.lines("watch", "bob", "--history")[0]["cursor"]
    person.json("workers", "register", "eve")
    eve = person.json("turn", "start", "eve")
    tool = ("--payload", '{"tool":"Bash"}')
    emit = ("turn", "emit", eve["token"], "Diagnostic", "--payload")
    history = ("watch", "bob", "--history")
    for words, expected in {
        ("watch", "bob"): (2, "mode_required"),
        ("timeline", "bob"): (2, "mode_required"),
        ("watch", "bob", "--history", "--follow"): (2, "mode_conflict"),
        (*history, "--after", cursor + "x"): (2, "cursor_malformed"),
        (*history, "--after", "vt1." + cursor[4:]): (2, "cursor_malformed"),
        (*history, "--after", eve["cursor"]): (2, "cursor_session_mismatch"),
        (*history, "--kind", "Nothing"): (2, "unknown_kind"),
        (*history, "--category", "nothing"): (2, "unknown_category"),
        (*history, "--since", "soon"): (2, "invalid_input"),
        (*history, "--replay"): (2, "usage"),
        ("watch", "nobody", "--history"): (3, "not_found"),
        ("watch", "vs-ffffffffffff", "--history"): (3, "not_found"),
        ("watch", "--history"): (2, "invalid_input"),
        ("turn", "start", "bob", "--trigger", "magic"): (2, "unknown_trigger"),
        ("turn", "start", "eve"): (4, "turn_open"),
        ("turn", "emit", eve["token"], "Nothing"): (2, "unknown_kind"),
        ("turn", "emit", eve["token"], "TurnFinished"): (2, "kind_reserved"),
        ("turn", "emit", eve["token"], "CancelSettled"): (2, "kind_reserved"),
        ("turn", "emit", eve["token"], "ToolObserved"): (2, "invalid_input"),
        ("turn", "emit", eve["token"], "ToolObserved", "--payload", '{"tool":"x","seq":1}'): (
            2,
            "extra_key",
        ),
        ("turn", "emit", eve["token"], "ToolObserved", "--payload", "[]"): (2, "invalid_input"),
        (*emit, f'{{"code":"x","text":"{"x" * 2001}"}}'): (2, "invalid_input"),
        ("turn", "emit", person.token, "ToolObserved", *tool): (4, "turn_finished"),
        ("turn", "emit", "x", "ToolObserved", *tool): (2, "unknown_turn"),
        ("turn", "emit", person.token[:-1], "ToolObserved", *tool): (2, "unknown_turn"),
        ("turn", "finish", eve["token"], "--outcome", "done"): (2, "wrong_outcome"),
        ("turn", "finish", person.token, "--outcome", "error"): (4, "terminal_conflict"),
        ("timeline", "export", "bob", "--format", "xml"): (2, "unknown_format"),
        ("timeline", "delete", "bob"): (2, "confirm"),
        ("timeline", "delete", "eve", "--yes"): (4, "turn_open"),
    }.items():
        assert person.refused(*words) == expected, words
    assert person.json("turn", "finish", person.token, "--outcome", "success") == person.end


def test_a_token_of_a_timeline_that_is_gone_names_no_turn(person) -> None:
    person.json("timeline", "delete", "bob", "--yes")
    done = person.run("turn", "finish", person.token, "--outcome", "success", "--json")

    assert (done.status, json.loads(done.err)["error"]["code"]) == (3, "unknown_turn")
    assert list(person.home.glob("timelines/*")) == []
    assert person.lines("watch", "bob", "--history") == []
    again = person.json("turn", "start", "bob")
    assert again["seq"] == 1
    done = person.run("turn", "finish", person.token, "--outcome", "success", "--json")
    assert (done.status, json.loads(done.err)["error"]["code"]) == (3, "unknown_turn")


def test_a_damaged_journal_is_refused_everywhere_with_file_and_line(person) -> None:
    records = [document.decode_line(line) for line in person.file.read_bytes().splitlines()]
    person.file.write_bytes(b"".join(map(document.encode_line, [*records[:1], *records[2:]])))
    for words in (
        ("watch", "bob", "--history"),
        ("timeline", "verify", "bob"),
        ("timeline", "show", "bob"),
        ("turn", "start", "bob"),
    ):
        done = person.run(*words, "--json")
        error = json.loads(done.err)["error"]
        assert (done.status, error["code"]) == (7, "seq_gap"), words
        assert f"{person.file}, line 2" in error["message"]


def test_reading_works_on_a_folder_that_cannot_be_written(person) -> None:
    """A-63: reading changes nothing."""
    before = sorted(person.home.rglob("*"))
    with read_only(person.home):
        for words in (
            ("watch", "bob", "--history"),
            ("timeline", "show", "bob"),
            ("timeline", "verify", "bob"),
            ("timeline", "export", "bob"),
        ):
            done = person.run(*words, "--json", preexec_fn=bound_by_modes)
            assert done.status in (0, 7), done.err  # 7: `read_only` has made the file 0444
            if done.status == 7:
                assert b"insecure_mode" in done.err
        os.chmod(person.file, 0o400)
        done = person.run("watch", "bob", "--history", "--json", preexec_fn=bound_by_modes)
        assert done.status == 0
        assert done.out.count(b"\n") == 5
        done = person.run("watch", "bob", "--history", "--consumer", "c", preexec_fn=bound_by_modes)
        assert done.status == 1
    assert sorted(person.home.rglob("*")) == before


def test_a_story_says_who_asked_what_was_used_and_how_it_ended(person) -> None:
    text = person.run("timeline", "show", "bob").out.decode()

    for words in (
        "bob, 1 turn",
        "turn 1: a program, 12 characters",
        "tools: Bash ×1 (1 failed)",
        "tokens: 3 in, 5 out (opus)",
        "result: all green…",
        "✓ success after",
    ):
        assert words in text
    story = person.json("timeline", "show", "bob")
    assert story["story"][0]["tools"] == [{"tool": "Bash", "count": 1, "failed": 1}]


def test_a_story_of_the_last_turns_leaves_out_the_earlier_ones(person) -> None:
    for _ in range(4):
        token = person.json("turn", "start", "bob")["token"]
        person.json("turn", "finish", token, "--outcome", "error", "--code", "rate_limit")
    story = person.json("timeline", "show", "bob", "--turns", "2")

    assert [chapter["number"] for chapter in story["story"]] == [4, 5]
    assert (story["turns"], story["earlier"]) == (5, 3)


def test_in_a_session_its_own_timeline_needs_no_name(person, monkeypatch) -> None:
    (bob,) = person.json("workers")
    monkeypatch.setenv("VYANE_WORKER", bob["id"])
    assert len(person.lines("watch", "--history")) == 5
    assert len(person.lines("timeline", "--history")) == 5
    started = person.json("turn", "start", "--pid", str(os.getpid()))
    assert started["session"] == person.session


def test_verify_counts_what_it_has_checked(person) -> None:
    facts = person.json("timeline", "verify", "bob")

    assert facts["ok"] is True
    assert (facts["events"], facts["turns"], facts["torn_bytes"]) == (5, 1, 0)
    with person.file.open("ab") as file:
        file.write(b"half")
    assert person.json("timeline", "verify", "bob")["torn_bytes"] == 4


def test_an_export_into_a_pipe_or_through_a_link_takes_neither_away(person, tmp_path) -> None:
    """`--output /dev/stdout`, or a link to where exports are kept."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with os.fdopen(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK), "rb") as reader:
        written = person.json("timeline", "export", "bob", "--output", str(pipe))["bytes"]
        assert len(reader.read()) == written > 0
    assert pipe.is_fifo()

    real, link = tmp_path / "real.jsonl", tmp_path / "link.jsonl"
    real.write_text("old")
    link.symlink_to(real.name)
    person.json("timeline", "export", "bob", "--output", str(link))
    assert link.is_symlink()
    assert real.stat().st_size == written
    assert sorted(path.name for path in tmp_path.glob("*.tmp")) == []


def test_mail_between_turns_is_told_in_the_words_that_it_has_inside_of_one(person) -> None:
    sent = person.json("send", "bob", "hello")
    vyane(person.home, "tick", "--host", "generic", "--worker", "bob")
    told = vyane(person.home, "timeline", "show", "bob").out.decode()

    assert f"  mail: {sent['id'][-8:]} by call (shown)\n" in told
    assert "DeliveryAttempted" not in told


def test_an_export_is_the_events_the_story_or_spans(person, tmp_path) -> None:
    events = person.lines("watch", "bob", "--history")
    lines = person.run("timeline", "export", "bob", "--format", "jsonl").out.splitlines()
    assert [json.loads(line) for line in lines] == events
    assert "## " in person.run("timeline", "export", "bob", "--format", "md").out.decode()

    target = tmp_path / "spans.json"
    words = ("timeline", "export", "bob", "--format", "otlp-json", "--output", str(target))
    assert person.json(*words)["bytes"] == target.stat().st_size
    (resource,) = json.loads(target.read_text())["resourceSpans"]
    turn, tool = resource["scopeSpans"][0]["spans"]

    def attributes(span: dict[str, Any]) -> dict[str, Any]:
        return {one["key"]: next(iter(one["value"].values())) for one in span["attributes"]}

    assert turn["name"] == "invoke_agent bob"
    assert len(turn["traceId"]) == 32
    assert len(turn["spanId"]) == len(tool["spanId"]) == 16
    assert int(turn["endTimeUnixNano"]) >= int(turn["startTimeUnixNano"])
    assert (
        attributes(turn).items()
        >= {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.conversation.id": person.session,
            "gen_ai.request.model": "opus",
            "gen_ai.usage.input_tokens": "3",
            "gen_ai.usage.output_tokens": "5",
        }.items()
    )
    assert turn["status"] == {"code": 1}
    assert tool["parentSpanId"] == turn["spanId"]
    assert attributes(tool)["gen_ai.tool.name"] == "Bash"
    assert tool["status"] == {"code": 2}


def test_an_export_is_for_its_owner_and_makes_no_folder(person, tmp_path) -> None:
    """A slip in the path is an error; a file that was there keeps its mode."""
    target, shared = tmp_path / "events.jsonl", tmp_path / "shared.jsonl"
    shared.write_text("old")
    shared.chmod(0o644)
    for path in (target, shared):
        assert person.run("timeline", "export", "bob", "--output", str(path)).status == 0
    assert target.read_bytes() == shared.read_bytes()
    assert (target.stat().st_mode & 0o777, shared.stat().st_mode & 0o777) == (0o600, 0o644)
    ran = person.run("timeline", "export", "bob", "--output", str(tmp_path / "typo" / "x.jsonl"))

    assert ran.status == 1
    assert b"no such file" in ran.err.lower()
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == [
        "events.jsonl",
        "shared.jsonl",
    ]
    assert not (tmp_path / "typo").exists()


def test_a_consumer_is_kept_beside_the_timeline_and_follows_without_a_mode(person) -> None:
    assert len(person.lines("watch", "bob", "--history", "--consumer", "mirror")) == 5
    assert person.lines("watch", "bob", "--history", "--consumer", "mirror") == []
    stored = json.loads((person.file.parent / "cursors" / "mirror.json").read_text())
    assert stored["seq"] == 5
    again = ("watch", "bob", "--history", "--consumer", "mirror", "--reset", "earliest")
    assert len(person.lines(*again)) == 5


def test_a_program_is_a_citizen_by_a_few_lines_of_python(person, tmp_path, monkeypatch) -> None:
    import vyane_cli
    from vyane_cli.errors import ConflictError, LockTimeoutError
    from vyane_cli.storage.locks import LockKind

    vy = vyane_cli.connect(str(person.home), timeout_s=0.2)
    with vy.turn("bob", prompt_chars=3) as turn:
        turn.tool("Bash", duration_ms=5)
        turn.usage("opus", input_tokens=1)
        turn.result("x" * 500)
        assert (
            vy.resume(turn.token).emit("Diagnostic", {"code": "note"})["turn"]
            == turn.started["turn"]
        )
    with pytest.raises(ConflictError):
        turn.finish("error")
    with pytest.raises(ZeroDivisionError), vy.turn("bob"):
        raise ZeroDivisionError
    ends = [event["payload"] for event in vy.history("bob", kinds=["TurnFinished"])]
    assert [(end["outcome"], end.get("code")) for end in ends] == [
        ("success", None),
        ("success", None),
        ("error", "exception"),
    ]
    assert vy.send("bob", "hello").status == "pending"
    seen = list(vy.follow("bob", kinds=["TurnStarted"], timeout_s=0.1))
    assert [item["kind"] for item in seen] == ["TurnStarted"] * 3 + ["caught_up"]
    with vy.home.held((LockKind.TIMELINE, person.session)), pytest.raises(LockTimeoutError):
        vy.turn("bob")


def test_the_package_itself_imports_nothing() -> None:
    import subprocess
    import sys

    code = "import sys; before = set(sys.modules); import vyane_cli;"
    code += "print(sorted(name for name in set(sys.modules) - before if name != 'vyane_cli'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
