"""`vyane send`, `reply` and `relay`: what is taken, what is refused, and how."""

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.simulated import files_of, stopped_holder, vyane
from tests.workers import grow
from vyane_cli.mail.send import block
from vyane_cli.sessions import registry
from vyane_cli.sessions.worker import WorkerStatus
from vyane_cli.storage import journal, locks
from vyane_cli.storage.locks import LockKind
from vyane_cli.upkeep.gc import collect

# ------------------------------------------------------------------ what it says


def test_a_sent_message_is_pending_at_once(one, run):
    """Stored, not delivered: the answer has id, status, target and lane."""
    code, out, _ = run("--json", "send", "project", "hello")
    sent = json.loads(out)

    assert code == 0
    assert sent["status"] == "pending"
    assert sent["to_id"] == one.worker
    assert sent["lane"] == "normal"
    _, listed, _ = run("--json", "inbox", "project")
    (row,) = json.loads(listed)
    assert row["id"] == sent["id"]
    assert row["status"] == "pending"
    assert row["ttl_seconds"] == 86_400.0
    assert row["summary"] == "hello"


def test_a_person_is_told_what_will_happen(one, run):
    """Stored and being woken are two things; delivered is never claimed."""
    _, out, _ = run("send", "project", "hello")

    assert "stored" in out
    assert "idle" in out
    assert "delivered" not in out


def test_json_is_one_document_and_home_and_json_stand_anywhere(one, run, monkeypatch):
    """Before the command, behind it, or between its arguments."""
    monkeypatch.delenv("VYANE_HOME")
    home = one.home
    for words in (
        ("--json", "--home", home, "send", "project", "hello"),
        ("send", "--json", "project", "--home", home, "hello"),
        ("send", "project", "hello", f"--home={home}", "--json"),
    ):
        code, out, err = run(*words)
        assert (code, err) == (0, "")
        assert json.loads(out)["to_id"] == one.worker


def test_words_after_two_dashes_are_text(one, run):
    """`--json` may be what somebody wants to say."""
    code, out, _ = run("--json", "send", "--", "project", "--json")

    assert code == 0
    message = one.world.inbox(one.worker).mailbox.entries[-1].message
    assert message.payload["text"] == "--json"
    assert json.loads(out)["id"] == message.id


# ------------------------------------------------------------------ unknown targets


@pytest.mark.parametrize(
    "target", ["w-1", "W1", " w1 ", "../w1", "", "reviewer", "w1/", "~", "w1\n"]
)
def test_an_unknown_target_is_an_error_that_names_the_nearest_and_stores_nothing(one, run, target):
    """A typing error or a role's name makes no inbox that nobody reads."""
    for name in ("w1", "w2", "lead"):
        one.world.register(name)
    before = files_of(one.home)
    code, out, err = run("--json", "send", target, "hello")
    error = json.loads(err)["error"]

    assert code in (2, 3)
    assert out == ""
    assert files_of(one.home) == before
    assert any(name in error["message"] + error["hint"] for name in ("w1", "w2", "lead"))


def test_an_unknown_logical_session_or_empty_family_is_not_found(one, run):
    """Exit 3 or 2, and nothing stored."""
    before = files_of(one.home)
    assert run("send", "vs-0123456789ab", "x")[0] == 3
    assert run("send", "parent", "x")[0] in (2, 3)
    assert run("send", "children", "x")[0] in (2, 3)
    assert run("send", "channel:", "x")[0] == 2

    assert files_of(one.home) == before


def test_no_name_of_a_channel_leads_out_of_the_state(one, run):
    """Exit 3, nothing stored, and the next step."""
    before = files_of(one.home)
    for name in ("general", "../../etc", "ä b"):
        code, _, error = run("send", f"channel:{name}", "x")
        assert (code, "[channels.file]" in error) == (3, True)

    assert files_of(one.home) == before


# ------------------------------------------------------------------ bad input

BAD_WORDS = {
    "kind": ("send", "project", "x", "--kind", "order"),
    "ttl-zero": ("send", "project", "x", "--ttl", "0"),
    "ttl-negative": ("send", "project", "x", "--ttl", "-5s"),
    "ttl-text": ("send", "project", "x", "--ttl", "soon"),
    "ttl-ages": ("send", "project", "x", "--ttl", "5000d"),
    "from-kind": ("send", "project", "x", "--from-kind", "robot"),
    "from-kind-worker": ("send", "project", "x", "--from-kind", "worker"),
    "payload-array": ("send", "project", "--payload", "[]"),
    "payload-text": ("send", "project", "--payload", '"x"'),
    "payload-broken": ("send", "project", "--payload", "{"),
    "payload-nan": ("send", "project", "--kind", "info", "--payload", '{"n":NaN}'),
    "payload-infinity": ("send", "project", "--kind", "info", "--payload", '{"n":-Infinity}'),
    "payload-deep": ("send", "project", "--kind", "info", "--payload", '{"n":' * 5000),
    "payload-nested": (
        "send", "project", "--kind", "info", "--payload", '{"n":' * 900 + "1" + "}" * 900,
    ),
    "payload-big": ("send", "project", "--payload", json.dumps({"text": "x" * 65_600})),
    "text-and-payload": ("send", "project", "x", "--payload", '{"text":"y"}'),
    "nothing": ("send", "project"),
    "blank": ("send", "project", "   "),
    "nothing-told": ("send", "project", "--kind", "info"),
    "empty-told": ("send", "project", "--kind", "info", "--payload", '{"text":"","n":[]}'),
    "summary-lines": ("send", "project", "x", "--summary", "a\nb"),
    "summary-long": ("send", "project", "x", "--summary", "y" * 513),
    "task-id-long": ("send", "project", "x", "--task-id", "y" * 257),
    "position": ("send", "project", "x", "--payload", '{"position":"later"}'),
    "unknown-option": ("send", "project", "x", "--colour", "red"),
    "no-words": ("send",),
    "key-long": ("send", "project", "x", "--idempotency-key", "k" * 257),
    "from-json-missing": ("send", "--from-json", "/no/such/file"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_WORDS)
def test_bad_input_is_refused_before_anything_is_written(one, run, name):
    """Exit 2 with one JSON error on standard error; the state is untouched."""
    before = files_of(one.home)
    code, out, err = run("--json", *BAD_WORDS[name])
    error = json.loads(err)["error"]

    assert code == 2, error
    assert out == ""
    assert set(error) >= {"code", "message", "hint"}
    assert files_of(one.home) == before


@pytest.mark.parametrize(
    "body",
    [
        {"to": "project", "text": "x", "ts": 1},
        {"to": "project", "text": "x", "id": "01ARZ3NDEKTSV4RRFFQ69G5FAV"},
        {"to": "project", "text": "x", "status": "consumed"},
        {"to": "project", "text": "x", "lane": "control"},
        {"to": "project", "text": "x", "delivered_at": 1},
        {"to": "project", "text": "x", "to_kind": "planet"},
        {"to": "*", "text": "x", "to_kind": "worker"},
        {"to": "all", "text": "x", "to_kind": "worker"},
        {"to": "project", "text": "x", "to_kind": "logical_session"},
        {"to": "project", "text": "x", "to_kind": "broadcast"},
        {"to": "project", "text": "x", "from_kind": "robot"},
        {"to": "project", "text": 5},
        {"to": "project", "text": "x", "kind": ["info"]},
        {"to": "project", "text": "x", "summary": 5},
        {"to": "project", "text": "x", "ttl_seconds": 0},
        {"to": "project", "text": "x", "ttl_seconds": -1},
        {"to": "project", "text": "x", "ttl_seconds": "1h"},
        {"to": "project", "text": "x", "ttl_seconds": True},
        {"to": "project", "payload": []},
        {"to": "project", "payload": "x"},
        {"to": "project", "text": "x", "idempotency_key": 5},
        {"to": "project", "text": "x", "correlation_id": {}},
        {"to": "project", "text": "x", "task_id": 7},
        {"to": 5, "text": "x"},
        {"text": "x"},
        [],
        "x",
    ],
    ids=lambda body: json.dumps(body)[:60],
)
def test_a_json_body_that_a_sender_may_not_set_is_refused(one, run, tmp_path, body):
    """The system sets id, time, lane and state; every other field has its type."""
    path = tmp_path / "body.json"
    path.write_text(json.dumps(body))
    before = files_of(one.home)
    code, _, err = run("--json", "send", "--from-json", str(path))

    assert code == 2, err
    assert json.loads(err)["error"]["code"]
    assert files_of(one.home) == before


def test_a_json_body_and_options_make_the_same_message(one, run, tmp_path):
    """Both ways in are one."""
    path = tmp_path / "body.json"
    body = {
        "to": "project",
        "kind": "context-inject",
        "payload": {"text": "hello", "position": "before_next_turn"},
        "ttl_seconds": 7200,
        "task_id": "T-1",
        "summary": "short",
    }
    path.write_text(json.dumps(body))
    assert run("send", "--from-json", str(path))[0] == 0
    options = ("--ttl", "2h", "--task-id", "T-1", "--summary", "short")
    position = '{"position":"before_next_turn"}'
    assert run("send", "project", "hello", "--payload", position, *options)[0] == 0
    first, second = (
        e.message._replace(id="", ts=0.0) for e in one.world.inbox(one.worker).mailbox.entries
    )

    assert first == second


@pytest.mark.parametrize(
    "text", ["\ud800 alone", "nul \x00 inside", "日本語 😀", "\u202e turned", "a" * 60_000]
)
def test_whatever_text_was_acknowledged_is_read_back(one, run, tmp_path, text):
    """Also texts that UTF-8 cannot say: nothing that was stored is later taken for damage."""
    path = tmp_path / "body.json"
    path.write_text(json.dumps({"to": "project", "text": text}))
    code, out, err = run("--json", "send", "--from-json", str(path))
    assert code == 0, err
    assert run("send", "project", "another")[0] == 0
    _, shown, _ = run("--json", "show", json.loads(out)["id"])

    told = json.loads(shown)["payload"]["text"]
    assert told.replace("\ufffd", "?") == text.replace("\ud800", "?").replace("\ufffd", "?")
    assert all(line.damage is None for line in journal.read(one.world.layout.inbox(one.worker)))
    assert (one.prompt().text + one.batch().text).count("another") == 1


@pytest.mark.parametrize("number", [2**63, 2**64, -(2**64), 10**30, 10**400])
def test_a_number_is_refused_or_read_back_as_it_was(one, run, number):
    """The quick reader makes a float of an integer beyond 64 bits."""
    payload = json.dumps({"n": number})
    code, out, _ = run("--json", "send", "project", "--kind", "info", "--payload", payload)
    if code == 2:
        return
    assert code == 0
    assert run("send", "project", "another")[0] == 0
    _, shown, _ = run("--json", "show", json.loads(out)["id"])
    assert json.loads(shown)["payload"] == {"n": number}


# ------------------------------------------------------------------ authority


@pytest.mark.parametrize(
    "words",
    [
        ("send", "other", "x", "--from-kind", "human"),
        ("send", "other", "x", "--kind", "takeover"),
        ("send", "other", "x", "--kind", "cancel"),
    ],
)
def test_an_agent_cannot_use_the_persons_authority(host, words):
    """Exit 5 with the rule, and a Diagnostic in its own timeline; nothing is stored."""
    one, other = host(), host(cwd="/tmp/other")
    one.start()
    other.start()
    ran = vyane(one.home, "--json", *words, environ=one.environ())
    error = json.loads(ran.err)["error"]

    assert ran.status == 5
    assert error["code"] == "direction"
    assert (
        not os.path.exists(one.world.layout.inbox(other.worker))
        or not other.world.inbox(other.worker).mailbox.entries
    )
    notes = [e["payload"] for e in one.events() if e["kind"] == "Diagnostic"]
    assert [note["code"] for note in notes] == ["direction"]


def test_a_session_speaks_as_its_worker(host):
    """By its environment, or by the process that runs it."""
    one, other = host(), host(cwd="/tmp/other")
    one.start()
    other.start()
    assert vyane(one.home, "send", "other", "hi", environ=one.environ()).status == 0
    (entry,) = other.world.inbox(other.worker).mailbox.entries

    assert entry.message.from_kind == "worker"
    assert entry.message.from_id == one.worker
    assert entry.message.from_name == "project"


def test_without_a_terminal_and_a_host_the_sender_is_external(one):
    """A cron job is no person, unless a person's script says so."""
    assert vyane(one.home, "send", "project", "hi").status == 0
    assert vyane(one.home, "send", "project", "hi", "--from-kind", "human").status == 0
    kinds = [e.message.from_kind for e in one.world.inbox(one.worker).mailbox.entries]

    assert kinds == ["external", "human"]
    assert vyane(one.home, "send", "project", "stop", "--kind", "takeover").status == 5


# ------------------------------------------------------------------ idempotency and broadcast


def test_the_same_key_and_content_is_the_same_message(one, run):
    """The existing id, exit 0; other content under the key is a conflict."""
    words = ("--json", "send", "project", "hello", "--idempotency-key", "k1")
    first, second = json.loads(run(*words)[1]), json.loads(run(*words)[1])
    code, _, err = run("--json", "send", "project", "other", "--idempotency-key", "k1")

    assert first["id"] == second["id"]
    assert code == 4
    assert json.loads(err)["error"]["code"] == "conflict"
    assert len(one.world.inbox(one.worker).mailbox.entries) == 1


def test_a_retry_does_not_take_half_a_line_for_its_message(one, run):
    """The key is on disk, and of the message only what the crash left: its id is in that."""
    words = ("--json", "send", "project", "hello", "--idempotency-key", "k1")
    first = run(*words)
    path = Path(one.world.layout.inbox(one.worker))
    data = path.read_bytes()
    path.write_bytes(data[: -(len(data.splitlines()[-1]) // 2)])

    code, out, _ = run(*words)

    assert code == 0
    assert json.loads(out)["id"] == json.loads(first[1])["id"]
    (kept,) = one.world.inbox(one.worker).mailbox.entries
    assert kept.message.id == json.loads(out)["id"]


def test_a_retry_after_the_message_was_shown_shows_it_no_more(one, run):
    """Also when it has been archived since."""
    words = ("--json", "send", "project", "hello", "--idempotency-key", "k1")
    mail = json.loads(run(*words)[1])["id"]
    one.prompt()
    one.batch()
    assert run("gc")[0] == 0
    assert json.loads(run(*words)[1])["id"] == mail
    assert mail not in one.batch().text


def test_keys_belong_to_their_sender(host):
    """Two agents that choose the same key do not meet."""
    one, other = host(), host(cwd="/tmp/other")
    one.start()
    other.start()
    for sender in (one, other):
        words = ("send", "project", sender.session, "--idempotency-key", "k")
        assert vyane(one.home, *words, environ=sender.environ()).status == 0

    assert len(one.world.inbox(one.worker).mailbox.entries) == 2


def test_a_broadcast_reaches_each_active_worker_once_a_minute(host, run):
    """The second within the minute is refused, with the time that is left."""
    others = [host(cwd=f"/tmp/o{n}") for n in range(3)]
    for other in others:
        other.start()
    others[2].die()
    code, out, _ = run("--json", "send", "all", "to all")
    assert code == 0
    assert json.loads(out)["lane"] == "quiet"
    code, _, err = run("--json", "send", "all", "again")

    assert code == 5
    assert json.loads(err)["error"]["code"] == "broadcast_limit"
    counts = [len(o.world.inbox(o.worker).mailbox.entries) for o in others]
    assert counts == [1, 1, 0]


def test_a_takeover_of_all_does_not_say_that_it_waits(one, run):
    """It is control mail like that to one: nothing holds it back."""
    words = ("send", "all", "stop", "--kind", "takeover", "--from-kind", "human")
    assert "is stopped for it" in run(*words)[1]


def test_a_keyed_broadcast_that_is_repeated_completes_and_doubles_nothing(host, one, run):
    """Whoever was missed gets it; with another text it is a conflict."""
    other = host(cwd="/tmp/other")
    other.start()
    words = ("--json", "send", "all", "to all", "--idempotency-key", "b")
    assert run(*words)[0] == 0
    shutil.rmtree(Path(one.home, "messages", "inbox"))  # as if it had stopped before the first
    assert run(*words)[0] == 0
    assert run(*words)[0] == 0
    assert run("send", "all", "something else", "--idempotency-key", "b")[0] == 4

    for each in (one, other):
        (entry,) = each.world.inbox(each.worker).mailbox.entries
        assert entry.message.payload["text"] == "to all"


@pytest.mark.parametrize("key", [(), ("--idempotency-key", "k")])
def test_a_copy_that_cannot_be_stored_holds_up_no_other_and_the_error_says_who_has_it(
    host, one, run, key
):
    """A locked inbox: the others get theirs, and nobody is sent it twice for want of words."""
    others = [one]
    while len(others) < 3:  # two inboxes may share a lock: that one is another's turn
        other = host(cwd=f"/tmp/{len(others)}")
        other.start()
        paths = {locks.lock_path(one.home, LockKind.INBOX, o.worker) for o in (*others, other)}
        if len(paths) > len(others):
            others.append(other)
        else:
            other.call("SessionEnd", reason="other")
    named = {worker.id: worker.name for worker in one.world_workers()}
    names = [named[other.worker] for other in others]
    Path(one.world.layout.config).write_text("[locks]\nwait_s = 0.3\n")
    with stopped_holder(one.home, (LockKind.INBOX, others[1].worker)):
        code, _, err = run("--json", "send", "all", "to all", *key)
    counts = [len(o.world.inbox(o.worker).mailbox.entries) for o in others]
    error = json.loads(err)["error"]

    assert (code, error["code"]) == (6, "lock_timeout")
    assert counts == [1, 0, 1]
    told = "the same command again completes it" if key else "send it to them alone"
    assert error["hint"] == f"{names[0]}, {names[2]} got it, not {names[1]}: {told}"
    if key:
        assert run("send", "all", "to all", *key)[0] == 0
        assert [len(o.world.inbox(o.worker).mailbox.entries) for o in others] == [1, 1, 1]


def test_children_are_those_that_have_not_ended_also_for_a_retry(one, run, monkeypatch):
    """What is sent to a child that has ended would be read by nobody, and come back."""
    ids = grow(one.world, 3)
    monkeypatch.setenv("VYANE_WORKER", ids[0])
    words = ("--json", "send", "children", "x", "--idempotency-key", "K")
    first = json.loads(run(*words)[1])
    assert [copy["to_id"] for copy in first["copies"]] == ids[1:]

    end(one, ids[1], WorkerStatus.COMPLETED)
    again = json.loads(run(*words)[1])
    assert [copy["id"] for copy in again["copies"]] == [copy["id"] for copy in first["copies"]]
    assert json.loads(run("--json", "send", "children", "y")[1])["to_id"] == ids[2]
    end(one, ids[2], WorkerStatus.KILLED)
    assert run("send", "children", "z")[0] == 3


def end(one, worker: str, status: WorkerStatus) -> None:
    book = registry.Registry(one.world.layout)
    book.put(book.workers[worker]._replace(status=status))
    book.save()


# ------------------------------------------------------------------ reply, relay


def asked(host):
    """Two sessions, and the id of a question of the first to the second."""
    one, other = host(), host(cwd="/tmp/other")
    one.start()
    other.start()
    ran = vyane(one.home, "--json", "send", "other", "question", environ=one.environ())
    return one, other, json.loads(ran.out)["id"]


def test_a_reply_goes_to_the_sender_in_the_chain(host):
    """`reply` sets the parent, which must exist."""
    one, other, mail = asked(host)
    ran = vyane(one.home, "--json", "reply", mail, "answer", environ=other.environ())
    assert ran.status == 0, ran.err
    (entry,) = one.world.inbox(one.worker).mailbox.entries

    assert entry.message.parent_message_id == mail
    assert entry.message.payload["text"] == "answer"
    missing = vyane(one.home, "reply", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "x", environ=other.environ())
    assert missing.status == 3


@pytest.mark.parametrize("kind, told", [("human", "own session"), ("external", "has no inbox")])
def test_a_message_that_no_worker_sent_cannot_be_replied_to(one, run, kind, told):
    """Exit 2; only a person sits at the session and reads it there."""
    mail = json.loads(run("--json", "send", "project", "hi", "--from-kind", kind)[1])["id"]

    code, _, err = run("reply", mail, "answer")
    assert (code, told in err) == (2, True)


# ------------------------------------------------------------------ an answer that is waited for


def blocked(one, worker: str) -> str | None:
    return registry.Registry(one.world.layout).workers[worker].blocked_on_message_id


def test_an_answer_that_is_waited_for_is_direct_and_ends_the_wait(host, one, run, monkeypatch):
    """Another one has the lane of its kind; the same key again waits for no second answer."""
    other = host(cwd="/tmp/other")
    other.start()
    ask = ("--json", "send", "other", "which?", "--await-reply", "--idempotency-key", "K")
    monkeypatch.setenv("VYANE_WORKER", one.worker)
    asked = json.loads(run(*ask)[1])
    assert blocked(one, one.worker) == asked["id"]

    monkeypatch.setenv("VYANE_WORKER", other.worker)
    assert json.loads(run("--json", "send", "project", "by the way")[1])["lane"] == "normal"
    assert json.loads(run("--json", "reply", asked["id"], "this")[1])["lane"] == "direct"
    assert blocked(one, one.worker) is None
    assert json.loads(run("--json", "reply", asked["id"], "or that")[1])["lane"] == "normal"

    monkeypatch.setenv("VYANE_WORKER", one.worker)
    assert json.loads(run(*ask)[1])["id"] == asked["id"]
    assert blocked(one, one.worker) is None


def test_a_wait_for_an_answer_lapses_with_the_question(host, one, run, monkeypatch):
    """By `gc`, which says so in the timeline. A wait for a child ends with its result alone."""
    other = host(cwd="/tmp/other")
    other.start()
    monkeypatch.setenv("VYANE_WORKER", one.worker)
    body = {"to": "other", "text": "which?", "await_reply": True, "ttl_seconds": 60}
    Path(one.home, "body.json").write_text(json.dumps(body))
    assert run("send", "--from-json", str(Path(one.home, "body.json")))[0] == 0
    assert collect(one.world)[0]["lapsed"] == 0
    assert blocked(one, one.worker)
    one.world.pass_s(61)
    assert collect(one.world, dry_run=True)[0]["lapsed"] == 1
    assert collect(one.world)[0]["lapsed"] == 1
    assert blocked(one, one.worker) is None
    assert one.events()[-1]["payload"]["code"] == "reply_timeout"

    dispatch = one.world.send("other", "do it", kind="task-dispatch")
    block(one.world, one.worker, dispatch)
    monkeypatch.setenv("VYANE_WORKER", other.worker)
    again = ("--json", "send", "project", "what?", "--reply-to", dispatch)
    assert json.loads(run(*again)[1])["lane"] == "direct"
    one.world.pass_s(2 * 86_400)
    assert collect(one.world)[0]["lapsed"] == 0
    assert blocked(one, one.worker) == dispatch


@pytest.mark.parametrize(
    "to, more", [("all", ()), ("project", ()), ("other", ("--kind", "info")), ("children", ())]
)
def test_an_answer_is_waited_for_from_one_other_worker(host, one, run, monkeypatch, to, more):
    """Exit 2 or 3, and nothing is stored; nor can a person wait."""
    other = host(cwd="/tmp/other")
    other.start()
    before = files_of(one.home)
    assert run("send", "other", "x", "--await-reply", "--from-kind", "human")[0] == 2
    monkeypatch.setenv("VYANE_WORKER", one.worker)
    assert run("send", to, "x", "--await-reply", *more)[0] in (2, 3)
    assert files_of(one.home) == before


def test_a_reply_to_ones_own_message_is_refused_and_says_how_to_add_to_it(host):
    """It would come to the writer, and whom it was meant for would never see it."""
    one, _, mail = asked(host)
    ran = vyane(one.home, "--json", "reply", mail, "I mean", environ=one.environ())
    words = ("send", "other", "I mean", "--reply-to", mail)

    assert ran.status == 2
    assert "--reply-to" in json.loads(ran.err)["error"]["hint"]
    assert one.world.inbox(one.worker).mailbox.entries == ()
    assert vyane(one.home, *words, environ=one.environ()).status == 0


def test_relay_from_a_worker_reaches_its_children_alone(host):
    """To anybody else it is refused, and `send` is named."""
    one, other = host(), host(cwd="/tmp/other")
    one.start()
    other.start()
    ran = vyane(one.home, "--json", "relay", "other", "x", environ=one.environ())

    assert ran.status == 5
    assert json.loads(ran.err)["error"]["code"] == "direction"
