"""`vyane need-user`: who waits, why, what is needed; told of once, until it is resolved."""

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.operations.faults import ENDLESS, stopped_at
from tests.simulated import files_of
from vyane_cli.attention import needs
from vyane_cli.attention.call import call_person
from vyane_cli.attention.kinds import NeedCall
from vyane_cli.attention.need import TRIES, fold, to_tell
from vyane_cli.attention.notify import notify
from vyane_cli.health.projects import notifications
from vyane_cli.health.subject import Subject


def test_two_reasons_are_two_entries_and_one_resolved_leaves_one(run):
    """The list, the page, and the journal agree."""
    run("need-user", "add", "--reason", "no key", "--ask", "put the key into .env")
    run("need-user", "add", "--reason", "which form?", "--ask", "say json or toml", "--who", "api")
    run("need-user", "add", "--reason", "no key", "--ask", "put the key into .env")
    rows = json.loads(run("--json", "need-user")[1])
    assert [(row["id"], row["text"], row["ask"], row["who"]) for row in rows] == [
        ("N1", "no key", "put the key into .env", ""),
        ("N2", "which form?", "say json or toml", "api"),
    ]
    page = Path(os.environ["VYANE_HOME"], "queue", "NEED-USER.md")
    assert "api waits: which form? — say json or toml" in page.read_text()

    done = json.loads(run("--json", "need-user", "resolve", "n1")[1])
    assert ([entry["id"] for entry in done["resolved"]], done["left"]) == (["N1"], 1)
    assert [row["id"] for row in json.loads(run("--json", "need-user", "list")[1])] == ["N2"]
    assert "no key" not in page.read_text()
    code, _, err = run("need-user", "resolve", "N1")
    assert code == 3
    assert "N2" in err


def test_of_several_to_resolve_all_are_or_none(run):
    run("need-user", "add", "--reason", "a", "--ask", "b")
    before = files_of(os.environ["VYANE_HOME"])

    assert run("need-user", "resolve", "N1", "N7")[0] == 3
    assert files_of(os.environ["VYANE_HOME"]) == before


@pytest.mark.parametrize("words", [("--reason", " ", "--ask", "x"), ("--reason", "x", "--ask", ""),
                                   ("--reason", "x" * 501, "--ask", "x")])  # fmt: skip
def test_a_call_without_a_reason_or_an_ask_is_refused(run, words):
    assert run("need-user", "add", *words)[0] == 2


def test_a_number_is_not_used_again_after_it_was_resolved(world):
    for key in "ab":
        call_person(world, NeedCall(key, key))
    needs.resolve(world.layout, ["N2"], "ann", world.clock(), world.deadline())
    call_person(world, NeedCall("b", "again"))

    assert [(e["id"], e["text"]) for e in needs.list_entries(world.layout)] == [
        ("N1", "a"), ("N3", "again"),
    ]  # fmt: skip


def test_to_be_told_of_an_entry_does_not_resolve_it(world):
    call_person(world, NeedCall("a", "a"))
    needs.claim_notices(world.layout, world.clock(), world.deadline())
    assert not needs.was_resolved(world.layout, "a")
    assert not needs.was_resolved(world.layout, "b")

    needs.resolve(world.layout, ["N1"], "ann", world.clock(), world.deadline())
    assert needs.was_resolved(world.layout, "a")
    call_person(world, NeedCall("a", "again"))
    assert not needs.was_resolved(world.layout, "a")


records = st.lists(st.fixed_dictionaries({
    "op": st.sampled_from(["open", "notify", "notify-failed", "resolve", "later"]),
    "key": st.sampled_from("abc"),
}), max_size=30)  # fmt: skip


@given(records)
def test_whatever_the_journal_holds_an_entry_is_open_once_and_told_of_at_most_so_often(drawn):
    entries, _ = fold(drawn)

    assert len({e["id"] for e in entries}) == len({e["key"] for e in entries}) == len(entries)
    for entry in entries:
        last = [r["op"] for r in drawn if r["key"] == entry["key"] and r["op"] != "later"]
        assert "open" in last
        assert last[-1] != "resolve"
    assert all(e["tries"] < TRIES and not e["notified"] for e in to_tell(entries))


# ------------------------------------------------------------------ notifications


class Listener:
    """An address of apprise's `json://` kind: what it was told, and whether it takes it."""

    def __init__(self) -> None:
        heard: list[dict] = []
        self.heard = heard
        self.status = 200
        listener = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                heard.append(json.loads(body))
                self.send_response(listener.status)
                self.end_headers()

            def log_message(self, *words: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"json://user:secret@127.0.0.1:{self.server.server_port}/"
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def listener():
    made = Listener()
    yield made
    made.close()


def test_an_entry_is_told_of_once_and_no_address_is_kept(world, listener, capfd):
    call_person(world, NeedCall("a", "no key", ask="put it into .env", who="api", project="shop"))

    assert notify(world, [listener.url]).sent == ("N1",)
    assert notify(world, [listener.url]).sent == ()
    (heard,) = listener.heard
    assert "N1" in heard["title"]
    assert heard["message"] == "[shop] api waits: no key — put it into .env"
    kept = b"".join(files_of(world.layout.root).values())
    assert b"secret" not in kept
    assert b"127.0.0.1" not in kept
    assert capfd.readouterr() == ("", "")


def test_what_fails_is_tried_again_and_in_the_end_left(world, listener, capfd):
    call_person(world, NeedCall("a", "no key"))
    listener.status = 500
    for _ in range(TRIES):
        assert notify(world, [listener.url]).failed == ("N1",)
    assert notify(world, [listener.url]) == ((), (), True)
    assert capfd.readouterr() == ("", "")

    call_person(world, NeedCall("b", "no coffee"))
    listener.status = 200
    assert notify(world, [listener.url]).sent == ("N2",)


def test_addresses_come_from_the_environment_before_the_settings(world, listener):
    Path(world.layout.config).write_text('[notify]\nurls = ["json://127.0.0.1:1/"]\n')
    world.environ = {"VYANE_NOTIFY_URLS": listener.url}
    needs.add(world.layout, "a", "no key", world.clock(), world.deadline())

    assert notify(world).sent == ("N1",)


def test_without_an_address_nothing_is_sent_or_claimed(world):
    call_person(world, NeedCall("a", "no key"))

    assert notify(world).configured is False
    assert needs.list_entries(world.layout)[0]["notified"] is False


def test_an_address_that_is_none_is_refused_without_its_text(run):
    run("need-user", "add", "--reason", "a", "--ask", "b")
    code, _, err = run("need-user", "notify", "--url", "nonsense://secret")

    assert code == 2
    assert "secret" not in err
    assert json.loads(run("--json", "need-user")[1])[0]["notified"] is False


def test_without_the_extra_the_next_step_is_named(run, monkeypatch):
    run("need-user", "add", "--reason", "a", "--ask", "b")
    monkeypatch.setitem(sys.modules, "apprise", None)
    code, _, err = run("need-user", "notify", "--url", "json://127.0.0.1")

    assert code == 3
    assert "vyane[notify]" in err


def test_a_call_from_a_hook_is_told_of_by_a_process_that_nobody_waits_for(world, listener):
    world.environ = {"VYANE_NOTIFY_URLS": listener.url, "PATH": "/usr/bin:/bin"}
    call_person(world, NeedCall("a", "no key"))
    os.wait()  # only this test does

    assert [heard["message"] for heard in listener.heard] == ["no key"]


class Fake:
    """A sender that keeps what it was told in a file, which outlives a kill."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def notify(self, title: str, body: str) -> bool:
        with self.path.open("a") as file:
            file.write(body + "\n")
        return True


def test_a_kill_at_any_step_of_a_notification_never_tells_twice(world, tmp_path, monkeypatch):
    told = tmp_path / "told"
    monkeypatch.setattr("vyane_cli.attention.notify._sender", lambda addresses: Fake(told))
    for k in range(1, ENDLESS):
        key = f"k{k}"
        needs.add(world.layout, key, key, world.clock(), world.deadline())
        outcome = stopped_at(k, lambda say: notify(world, ["x"]) and None)
        notify(world, ["x"])
        assert told.read_text().split().count(key) <= 1, outcome.at
        if outcome.finished:
            break


def test_doctor_says_when_an_address_leads_nowhere(world, monkeypatch):
    subject = Subject(world, None, "/")  # type: ignore[arg-type]
    assert notifications(subject) == (True, "no address is set", "")
    world.environ = {"VYANE_NOTIFY_URLS": "json://127.0.0.1:1/secret"}
    assert notifications(subject) == (True, "an address is set", "")

    call = {"key": "a", "text": "no key"}
    needs.add(world.layout, call["key"], call["text"], world.clock(), world.deadline())
    for _ in range(TRIES):
        told = needs.claim_notices(world.layout, world.clock(), world.deadline())
        needs.give_back(world.layout, told, world.clock(), world.deadline())
    assert "N1 could not be sent" in notifications(subject).detail
    monkeypatch.setattr("vyane_cli.health.projects.find_spec", lambda name: None)
    assert "vyane[notify]" in notifications(subject).fix


def test_addresses_are_masked_where_settings_are_listed(run):
    home = os.environ["VYANE_HOME"]
    with Path(home, "config.toml").open("a") as file:
        file.write('\n[notify]\nurls = ["tgram://secret/1"]\n')

    assert "secret" not in run("--json", "config", "list")[1]
    assert "tgram://…" in run("config", "list")[1]


def test_the_library_is_loaded_by_a_notification_alone():
    program = "import sys, vyane_cli.cli.need_user; print('apprise' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "False"
