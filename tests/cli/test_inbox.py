"""`vyane inbox`, `show` and `why`: looking changes nothing."""

import json
from pathlib import Path
from zlib import crc32

import pytest

from tests.simulated import files_of
from vyane_cli.sessions.speaker import FromKind, Speaker
from vyane_cli.upkeep.gc import collect


def test_looking_changes_nothing(one, run):
    """Only a delivery settles a message."""
    mail = one.world.send("project", "hello")
    before = files_of(one.home)
    for words in (("inbox", "project"), ("show", mail), ("why", mail), ("workers",), ("status",)):
        assert run(*words)[0] == 0
        assert run("--json", *words)[0] == 0

    assert files_of(one.home) == before
    assert one.world.status(mail) == "pending"


def test_the_newest_messages_are_listed_by_time(one, run):
    """`--limit` takes 1 to 1000, 100 by default."""
    sent = [one.world.send("project", f"n {n}") for n in range(5)]
    rows = json.loads(run("--json", "inbox", "project", "--limit", "3")[1])

    assert [row["id"] for row in rows] == sent[-3:]
    for limit in ("0", "1001", "-1", "many"):
        assert run("inbox", "project", "--limit", limit)[0] == 2


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_line_that_is_no_message_is_named_and_the_others_are_listed(one, run, form):
    """The list is not whole then, and says so; its document stays a list."""
    mail = one.world.send("project", "hello")
    path = Path(one.world.layout.inbox(one.worker))
    with path.open("ab") as file:
        file.write(b"{}\n")
    status, out, err = run(*form, "inbox", "project")

    assert status == 0
    assert mail in out
    assert f"{path}, line 2: no checksum; what it held is not listed" in err
    assert "vyane doctor" in err


@pytest.mark.parametrize(
    "words", [("--kind", "order"), ("--status", "lost"), ("--since", "yesterday")]
)
def test_a_filter_that_is_none_is_refused(one, run, words):
    """Rather than an empty list, which would be a wrong answer."""
    assert run("inbox", "project", *words)[0] == 2


def test_filters_take_what_they_name(one, run):
    """By kind, by status."""
    info = one.world.send("project", "i", kind="info")
    text = one.world.send("project", "t")
    one.prompt()
    later = one.world.send("project", "l")

    def ids(*words: str) -> list[str]:
        return [row["id"] for row in json.loads(run("--json", "inbox", "project", *words)[1])]

    assert ids("--kind", "info") == [info]
    assert ids("--status", "pending") == [later]
    assert ids("--status", "delivered") == [info, text]
    assert ids("--since", "1h") == [info, text, later]


def test_an_unknown_worker_has_no_inbox(one, run):
    """Exit 3 with the nearest name."""
    code, _, err = run("--json", "inbox", "projekt")

    assert code == 3
    assert "project" in json.loads(err)["error"]["hint"]


def test_a_message_is_shown_whole_though_its_envelope_was_cut(one, run):
    """25,000 characters: the tick shows the head and names this command."""
    text = "".join(f"{n:05} " for n in range(4167))[:25_000]
    mail = one.world.send("project", text)
    seen = one.prompt().text
    assert f"vyane show {mail}" in seen
    assert "25000" in seen
    assert len(seen) <= 9500

    assert json.loads(run("--json", "show", mail)[1])["payload"]["text"] == text
    assert json.loads(run("--json", "show", mail.lower()[-8:])[1])["id"] == mail


def test_an_archived_message_is_still_found(one, run):
    """With its final status and its story."""
    mail = one.world.send("project", "hello")
    one.prompt()
    one.batch()
    collect(one.world, grace_s=0)
    assert one.world.inbox(one.worker).mailbox.entries == ()

    assert json.loads(run("--json", "show", mail)[1])["status"] == "consumed"
    steps = json.loads(run("--json", "why", mail)[1])["steps"]
    assert [step["step"] for step in steps] == ["stored", "claimed", "delivered", "consumed"]


def test_an_unknown_message_is_not_found(one, run):
    """Exit 3; what cannot be an id is exit 2."""
    assert run("show", "01ARZ3NDEKTSV4RRFFQ69G5FAV")[0] == 3
    assert run("why", "01ARZ3NDEKTSV4RRFFQ69G5FAV")[0] == 3
    assert run("show", "../x")[0] == 2


def test_why_names_the_rule_and_the_readings_behind_each_attempt(one, run):
    """Held as target-busy, then delivered at a batch."""
    one.prompt()
    mail = one.world.send("project", "hello")
    one.watch()
    one.batch()
    one.stop()
    story = json.loads(run("--json", "why", mail)[1])
    told = [(step["step"], step["rule"]) for step in story["steps"]]

    assert told == [
        ("stored", ""),
        ("held", "target-busy"),
        ("claimed", "batch/direct"),
        ("delivered", "batch/direct"),
        ("consumed", "Stop"),
    ]
    assert story["steps"][1]["readings"] == {"liveness": "busy"}
    assert all(step["at"] for step in story["steps"])


def test_an_expired_message_says_so_and_its_sender_is_told(host, run):
    """It bounces as an info with the reason."""
    asker, other = host(), host(cwd="/tmp/other")
    asker.start()
    other.start()
    sender = Speaker(FromKind.WORKER, asker.worker, "project-2")
    mail = other.world.send("other", "soon over", sender, ttl_s=60)
    other.world.pass_s(61)
    assert mail not in other.prompt().text
    story = json.loads(run("--json", "why", mail)[1])
    assert story["status"] == "expired"
    assert story["steps"][-1]["rule"] == "ttl"
    seen = asker.prompt().text

    assert mail in seen
    assert "ttl" in seen


def test_a_stored_message_of_an_unknown_kind_is_named(one, run):
    """A later version's message is not passed over in silence."""
    one.world.send("project", "hello")
    path = Path(one.world.layout.inbox(one.worker))
    body = path.read_bytes().replace(b'"kind":"context-inject"', b'"kind":"from-the-future"')
    body = body[: body.rindex(b',"crc":')]
    path.write_bytes(b'%b,"crc":"%08x"}\n' % (body, crc32(body)))
    code, out, err = run("--json", "inbox", "project")

    assert (code, out) == (7, "")
    assert "line 1" in err
    assert "from-the-future" in err
