"""`vyane bind`, `unbind`, `bindings`, `route` and `mirror`: arguments, exit codes, documents."""

import json
import os
import pwd
import re
from pathlib import Path

import pytest

from tests.simulated import files_of, stopped_holder, vyane
from vyane_cli.conversations.bind import sweep
from vyane_cli.conversations.bindings import touch
from vyane_cli.storage.locks import LockKind

FILE = ("--channel", "file")


@pytest.fixture
def channel(one):
    """The `file` channel, set up, with one thread in it."""
    Path(one.home, "config.toml").write_text('[channels.file]\nsessions = "bound"\n')
    Path(one.home, "threads").mkdir()
    Path(one.home, "threads", "notes.md").write_text("# notes\n")
    return one


def bind(run, *words: str) -> dict:
    code, out, err = run("--json", "bind", "project", *FILE, "--conversation", "notes", *words)
    assert code == 0, err
    return json.loads(out)


def slug(err: str) -> str:
    return json.loads(err)["error"]["code"]


def test_a_binding_is_listed_resolved_touched_and_ended(channel, run):
    bound = bind(run, "--ttl", "60s", "--metadata", '{"label": "x"}')
    listed = json.loads(run("--json", "bindings", "list", "--session", channel.logical)[1])
    resolved = json.loads(run("--json", "bindings", "resolve", *FILE, "--conversation",
                              " notes ")[1])  # fmt: skip
    touched = json.loads(run("--json", "bindings", "touch", bound["binding_id"], "--at",
                             str(bound["bound_at"] - 50))[1])  # fmt: skip
    ended = json.loads(run("--json", "unbind", "--id", bound["binding_id"], "--reason", "x")[1])

    assert bound["expires_at"] == bound["bound_at"] + 60
    assert bound["metadata"] == {"label": "x"}
    assert [each["binding_id"] for each in (*listed, resolved, touched, *ended)] == [
        bound["binding_id"]
    ] * 4
    assert touched["last_activity_at"] == bound["last_activity_at"]
    assert (ended[0]["end_reason"], ended[0]["status"]) == ("x", "ending")
    assert run("bindings", "resolve", *FILE, "--conversation", "notes")[0] == 3
    assert [e["kind"] for e in channel.events()][-2:] == ["BindingChanged"] * 2


@pytest.mark.parametrize(
    "words, said",
    [
        ((), "ends .* unless something happens$"),
        (("--ttl", "60s"), "ends .*, whatever happens$"),
        (("--ttl", "2d"), "ends .* unless something happens, and .* in any case$"),
        (("--idle", "0", "--max-age", "1h"), "ends .*, whatever happens$"),
        (("--idle", "0"), ""),
    ],
)
def test_a_person_reads_which_end_activity_puts_off(words, said, channel, run):
    code, out, _ = run("bind", "project", *FILE, "--conversation", "notes", *words)

    ends = [line for line in out.splitlines() if line.startswith("ends ")]
    assert (code, len(ends)) == (0, 1 if said else 0)
    assert all(re.match(said, line) for line in ends)


@pytest.mark.parametrize("pushed", [False, True])
def test_words_that_were_read_reach_the_session_though_its_binding_ends(channel, run, pushed):
    """They were said in its place; its inbox was locked when they were read."""
    author = pwd.getpwuid(os.getuid()).pw_name
    with Path(channel.home, "config.toml").open("a") as file:
        file.write(f'allow_users = ["{author}"]\n[locks]\nwait_s = 0.3\n')
    bind(run)
    with Path(channel.home, "threads", "notes.md").open("a") as file:
        file.write("\nhello you\n")
    with stopped_holder(channel.home, (LockKind.INBOX, channel.worker)):
        run("mirror", "pull")
    assert channel.world.inbox(channel.worker).mailbox.entries == ()
    assert run("unbind", "--session", "project", "--reason", "x")[0] == 0
    if pushed:
        assert run("mirror", "push")[0] == 0
    assert run("mirror", "pull")[0] == 0

    (entry,) = channel.world.inbox(channel.worker).mailbox.entries
    assert entry.message.payload["text"] == "hello you"
    assert run("mirror", "push")[0] == 0
    assert json.loads(run("--json", "bindings", "list", "--all")[1])[0]["status"] == "ended"


def test_people_are_told_that_a_place_is_another_sessions_by_now(host, channel, run):
    """Once, before anything that it says: they would go on writing to the one before."""
    other = host(cwd="/tmp/other")
    other.start()
    bind(run)
    place = (*FILE, "--conversation", "notes")
    assert run("bind", "other", *place)[0] == 0
    assert run("bind", "other", *place)[0] == 0
    other.prompt()
    other.stop(last_assistant_message="here I am")
    other.world.environ = {}
    assert run("mirror", "push")[0] == 0
    shown = Path(channel.home, "threads", "notes.md").read_text()

    assert shown.count("the place of **other**") == 1
    assert "**project** no more" in shown
    assert shown.index("the place of **other**") < shown.index("here I am")


@pytest.mark.parametrize("words, kept", [((), True), (("--ttl", "2h"), False)])
def test_binding_again_keeps_the_end_that_was_set(words, kept, channel, run):
    """As it keeps the windows; another end takes its place."""
    end = channel.world.clock().at + 500
    first = bind(run, "--expires-at", str(end))
    again = bind(run, *words)

    assert first["expires_at"] == end
    assert (again["expires_at"] == end) is kept


@pytest.mark.parametrize(
    "words, said",
    [
        ((), ["ends after 24h without activity"]),
        (("--idle", "30m", "--ttl", "2h"), ["ends after 30m without", "ends 2h after it began"]),
        (("--idle", "0"), []),
    ],
)
def test_the_first_words_of_a_place_say_when_it_ends(words, said, channel, run):
    assert run("bind", "project", *FILE, *words)[0] == 0

    (thread,) = Path(channel.home, "threads").glob("*.vs-*.md")
    lines = [line for line in thread.read_text().splitlines() if " ends " in line]
    assert len(lines) == len(said)
    assert all(part in line for part, line in zip(said, lines, strict=True))


def test_a_message_to_a_channel_says_what_shows_it(channel, run):
    code, out, _ = run("send", "channel:file", "hi")

    assert code == 0
    assert "the next `vyane mirror push`, or round, shows it" in out.replace("\n", " ")
    assert "hi" in run("inbox", "channel:file")[1]


@pytest.mark.parametrize(
    "name, hint",
    [
        ("fil", "did you mean file?"),
        ("deploy", "set up: file"),
        ("discord", "[channels.discord]"),
    ],
)
def test_a_message_to_a_channel_that_is_not_set_up_is_refused(channel, run, name, hint):
    code, out, error = run("send", f"channel:{name}", "hi")

    assert (code, out) == (3, "")
    assert hint in error.replace("\n", " ")
    assert run("inbox", f"channel:{name}")[0] == 3
    assert not list(Path(channel.home, "messages").rglob("channel-*"))


def test_what_a_channel_got_is_listed_though_it_is_not_set_up_any_more(channel, run):
    run("send", "channel:file", "hi")
    Path(channel.home, "config.toml").write_text("")

    assert "hi" in run("inbox", "channel:file")[1]


def test_a_list_takes_the_whole_key_and_no_beginning_of_it(channel, run):
    bind(run)

    assert run("--json", "bindings", "list", "--session", channel.logical[:8])[:2] == (3, "")
    assert len(json.loads(run("--json", "bindings", "list", "--session", "project")[1])) == 1


def test_two_bindings_of_a_session_are_both_listed_and_both_ended(channel, run):
    Path(channel.home, "threads", "more.md").write_text("")
    bind(run)
    bind(run, "--conversation", "more")
    ended = json.loads(run("--json", "unbind", "--session", "project", "--reason", "x")[1])

    assert sorted(each["conversation"]["conversation_id"] for each in ended) == ["more", "notes"]
    assert json.loads(run("--json", "unbind", "--session", "project", "--reason", "x")[1]) == []


def test_an_expired_binding_is_no_binding(channel, run):
    bind(run, "--ttl", "0")

    code, out, _ = run("--json", "bindings", "resolve", *FILE, "--conversation", "notes")
    assert (code, json.loads(out)) == (3, None)
    route = json.loads(run("--json", "route", "project", *FILE, "--requester", "notes")[1])
    assert (route["mode"], route["reason"], route["binding"]) == (
        "fallback", "no-active-binding", None
    )  # fmt: skip


def test_a_route_names_its_binding_and_its_reason(channel, run):
    bind(run)
    found = json.loads(run("--json", "route", "project", *FILE, "--requester", "folder")[1])
    ref = '{"channel": "File", "accountId": "DEFAULT", "conversationId": " notes "}'
    camel = json.loads(run("--json", "route", "project", "--ref", ref)[1])

    assert (found["mode"], found["reason"]) == ("bound", "requester-match")
    assert found["binding"]["conversation"]["conversation_id"] == "notes"
    assert camel == found


REFUSED = [
    (("bind", "project", *FILE, "--conversation", "x", "--kind", "acp"), 2, "target_kind_deferred"),
    (("bind", "project", *FILE, "--placement", "current"), 2, "invalid_input"),
    (("bind", "nobody", *FILE, "--conversation", "x"), 3, "not_found"),
    (("bind", "project", "--channel", "fiel", "--conversation", "x"), 5, "adapter_unavailable"),
    (("bind", "project", "--conversation", "x"), 2, "invalid_input"),
    (("bind", "project", *FILE, "--conversation", "x", "--expires-at", "5"), 5, "create_failed"),
    (("bind", "project", *FILE, "--conversation", "x", "--metadata", '{"token": "x"}'), 2,
     "secret_in_metadata"),
    (("bind", "project", "--ref", "[]"), 2, "invalid_input"),
    (("unbind", "--reason", "x"), 2, "invalid_input"),
    (("unbind", "--session", "project"), 2, "invalid_input"),
    (("unbind", "--id", "b-nothing", "--reason", "x"), 3, "not_found"),
    (("bindings", "touch", "b-nothing"), 3, "not_found"),
    (("bindings", "resolve", "--channel", "../x", "--conversation", "y"), 2, "invalid_input"),
    (("route", "project", "--event", "status_update"), 2, "event_kind_unsupported"),
    (("route", "project", "--text", "hello"), 2, "usage"),
    (("mirror", "push", "--channel", "smoke"), 3, "not_found"),
]  # fmt: skip


@pytest.mark.parametrize("words, code, name", REFUSED)
def test_what_cannot_be_is_refused_by_name_and_nothing_is_written(
    words, code, name, channel, run
):  # fmt: skip
    before = files_of(channel.home)
    found, _, err = run("--json", *words)

    assert (found, slug(err)) == (code, name)
    assert files_of(channel.home) == before


def test_a_child_placement_is_the_same_conversation_when_it_is_asked_for_twice(channel, run):
    first = json.loads(run("--json", "bind", "project", *FILE)[1])
    again = json.loads(run("--json", "bind", "project", *FILE)[1])

    assert first["placement"] == "child"
    assert first["conversation"] == again["conversation"]
    assert first["generation"] != again["generation"]


@pytest.mark.parametrize("where", ["../../etc/passwd", "nowhere"])
def test_a_conversation_that_is_not_there_is_not_bound(where, channel, run):
    code, _, err = run("--json", "bind", "project", *FILE, "--conversation", where)

    assert (code, slug(err)) == (5, "create_failed")
    assert json.loads(run("--json", "bindings", "list", "--all")[1]) == []


def test_a_channel_that_is_not_set_up_can_do_nothing(channel, run):
    there = json.loads(run("--json", "bindings", "channel", "file")[1])
    other = json.loads(run("--json", "bindings", "channel", "file", "--account", "work")[1])

    assert there["placements"] == ["current", "child"]
    assert other == {
        "adapter_available": False, "bind_supported": False, "unbind_supported": False,
        "placements": [],
    }  # fmt: skip


def test_a_sweep_ends_what_has_expired_and_keeps_what_was_touched(channel, run):
    bound = bind(run, "--idle", "1s")
    world = channel.world
    world.pass_s(3600)
    world.channels = {}
    touch(world, bound["binding_id"], at=world.clock().at)
    kept = sweep(world, world.clock())
    world.pass_s(10)
    ended = sweep(world, world.clock())

    assert (kept.ended, len(ended.ended)) == ((), 1)
    assert ended.ended[0].end_reason == "idle-expired"


def test_a_damaged_session_costs_no_binding_and_holds_up_no_other(channel, run):
    Path(channel.home, "threads", "more.md").write_text("")
    bind(run, "--idle", "1s")
    run("workers", "register", "bob", "--pid", "1")
    run("bind", "bob", "--channel", "file", "--conversation", "more", "--idle", "1s")
    world = channel.world
    path = Path(world.layout.logical_session(channel.logical))
    good = path.read_bytes()
    path.write_text("{")
    world.pass_s(10)
    swept = sweep(world, world.clock())
    again = sweep(world, world.clock())
    path.write_bytes(good)
    mended = sweep(world, world.clock())

    assert [each.conversation.id for each in swept.ended] == ["more"]
    assert [kept.reason for kept in again.kept] == ["corrupt"]
    assert [each.conversation.id for each in mended.ended] == ["notes"]


def test_a_binding_of_a_session_that_is_on_no_record_ends(channel, run):
    bind(run)
    world = channel.world
    Path(world.layout.logical_session(channel.logical)).unlink()
    swept = sweep(world, world.clock())

    assert [each.end_reason for each in swept.ended] == ["no-session"]


def test_a_sweep_that_probes_ends_what_is_gone_and_notes_what_is_locked(channel, run):
    Path(channel.home, "threads", "more.md").write_text("")
    bind(run)
    bind(run, "--conversation", "more")
    Path(channel.home, "threads", "notes.md").unlink()
    Path(channel.home, "threads", "more.md").chmod(0o400)
    swept = json.loads(run("--json", "bindings", "sweep", "--probe")[1])

    assert [(each["end_reason"], each["status"]) for each in swept["ended"]] == [("gone", "ended")]
    (left,) = json.loads(run("--json", "bindings", "list")[1])
    assert left["locked"] is True


@pytest.mark.parametrize(
    "table, names",
    [
        ("[channels.fiel]", "channels.file"),
        ('[channels.file]\nfoldr = "x"', "channels.file.folder"),
        ("channels = 5", "a table"),
        ("[channels]\nfile = 5", "a table"),
        ('[channels.file]\nallow_users = "me"', "a list of texts"),
        ('[channels.file]\nverbosity = "loud"', "quiet, summary, full"),
        ('[channels.file]\nrecreate = "yes"', "true or false"),
    ],
)
def test_a_wrong_setting_of_a_channel_is_named(table, names, one, run):
    Path(one.home, "config.toml").write_text(table + "\n")
    code, _, err = run("mirror", "push")

    assert code == 2
    assert names in err


def test_a_setting_of_a_channel_is_set_by_its_name(one, run):
    assert run("config", "set", "channels.file.allow_users", "ann,bob")[0] == 0
    assert run("config", "set", "channels.file.recreate", "true")[0] == 0

    text = Path(one.home, "config.toml").read_text()
    assert "[channels.file]\n" in text
    assert json.loads(run("--json", "config", "get", "channels.file.allow_users")[1]) == {
        "key": "channels.file.allow_users", "value": ["ann", "bob"]
    }  # fmt: skip


def test_hooks_take_no_notice_of_channels(one):
    Path(one.home, "config.toml").write_text("[channels.nothing]\nx = 1\n")

    assert one.hook("UserPromptSubmit").status == 0
    assert not Path(one.home, "log", "hook.log").exists()


def test_without_a_channel_the_mirror_says_how_to_set_one_up(one, run):
    code, out, _ = run("mirror", "push")

    assert code == 0
    assert "vyane config set channels.file.allow_users" in out


def test_of_two_channels_one_that_cannot_be_opened_holds_up_no_other(one, run):
    Path(one.home, "config.toml").write_text('[channels.file]\n[channels.discord]\nforum = "x"\n')
    code, out, _ = run("--json", "mirror", "push")
    states = {each["channel"]: each["state"] for each in json.loads(out)}
    alone = run("mirror", "push", "--channel", "discord")

    assert (code, states) == (0, {"file": "ok", "discord": "error"})
    assert alone[0] == 2
    assert run("mirror", "push")[1].count("cannot be opened") == 1


def test_two_pushes_at_once_show_everything_once(one):
    import threading

    Path(one.home, "config.toml").write_text("[channels.file]\n")
    for number in range(3):
        one.prompt()
        one.stop(last_assistant_message=f"turn {number}")
    runs = [threading.Thread(target=vyane, args=(one.home, "mirror", "push")) for _ in range(3)]
    for each in runs:
        each.start()
    for each in runs:
        each.join()

    (path,) = Path(one.home, "threads").glob("*.md")
    text = path.read_text()
    assert [text.count(f"✅ turn {number}") for number in range(3)] == [1, 1, 1]
    assert text.index("turn 0") < text.index("turn 1") < text.index("turn 2")


def test_a_binding_of_a_damaged_session_can_be_ended(channel, run):
    bound = bind(run)
    Path(channel.world.layout.logical_session(channel.logical)).write_text("{")
    code, out, err = run("--json", "unbind", "--id", bound["binding_id"], "--reason", "x")

    assert (code, err) == (0, "")
    assert [each["end_reason"] for each in json.loads(out)] == ["x"]
