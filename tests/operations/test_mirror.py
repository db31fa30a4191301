"""Mirror out and in, killed at every call: the thread reads as an undisturbed run."""

from __future__ import annotations

import errno
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.channels.bench import around
from tests.operations.faults import ENDLESS, Action, failing_at, stopped_at
from tests.operations.mirrored import (
    ME,
    folder,
    no_channel_fault,
    said,
    set_up,
    thread_of,
    turn,
    write,
)
from tests.simulated import Host, machine
from vyane_cli.channels.file import adapter
from vyane_cli.channels.file.thread import parse_thread
from vyane_cli.channels.port import Conversation, Part
from vyane_cli.children.result import settle_child
from vyane_cli.children.result_rules import Ending, Report
from vyane_cli.conversations import bindings
from vyane_cli.conversations.bind import RequestedBinding, bind
from vyane_cli.conversations.binding import BindingStatus
from vyane_cli.conversations.bindings import unbind
from vyane_cli.conversations.pull import pull
from vyane_cli.conversations.push import push
from vyane_cli.mail.message import Lane
from vyane_cli.mail.send import MessageDraft, send
from vyane_cli.sessions import facts, registry
from vyane_cli.sessions.speaker import FromKind, Speaker
from vyane_cli.sessions.worker import WorkerStatus
from vyane_cli.storage.locks import LockKind
from vyane_cli.timeline.events import EventKind


@pytest.fixture
def one(host: Callable[..., Host], monkeypatch: pytest.MonkeyPatch) -> Host:
    """Mirrored to a folder."""
    monkeypatch.setattr(adapter, "_owner", lambda path: ME)
    return set_up(host())


def words(host: Host) -> list[str]:
    """What reached the session from people, in order."""
    return [
        str(entry.message.payload.get("text") or entry.message.payload.get("instruction"))
        for entry in host.world.inbox(host.worker).mailbox.entries
        if entry.message.from_kind is FromKind.HUMAN
    ]


# ------------------------------------------------------------------ out


def test_a_session_gets_a_thread_and_each_turn_a_line_once(one) -> None:
    turn(one, "The answer is 42.\nAnd more.")
    first = push(one.world)
    again = push(one.world)
    turn(one, "43 now.")
    push(one.world)

    assert [(r.opened, r.sent) for r in (*first, *again)] == [(1, 1), (0, 0)]
    assert said(thread_of(one)) == ["✅ The answer is 42.", "✅ 43 now."]
    assert parse_thread(thread_of(one).read_text()).title == "💤 project"


def test_quiet_shows_what_goes_wrong_and_full_shows_whole_answers(one) -> None:
    with machine() as host:
        quiet = set_up(host(), "quiet")
        turn(quiet, "fine")
        quiet.prompt()
        quiet.call("StopFailure-rate_limit")
        push(quiet.world)
        (shown,) = said(thread_of(quiet))
    assert shown.startswith("❌ turn 2: rate_limit")

    with machine() as host:
        full = set_up(host(), "full")
        turn(full, "one\ntwo \x1b[31mred\x1b[0m \x07 ghp_0123456789abcdefghij")
        push(full.world)
        assert said(thread_of(full)) == ["▶ turn 1 (human)", "one\ntwo red \\x07 •••"]


def test_the_tools_of_a_turn_are_one_post_that_is_changed_in_place(tmp_path) -> None:
    with machine() as host:
        full = set_up(host(), "full")
        transcript = tmp_path / "transcript.jsonl"
        transcript.write_text("")
        full.transcript = str(transcript)
        full.prompt()
        for name in ("Bash", "Bash", "Edit"):
            note_tool(full, name)
            push(full.world)
        tools = [text for text in said(thread_of(full)) if text.startswith("🔧")]

    assert tools == ["🔧 Bash ×2, Edit"]


def note_tool(host: Host, name: str) -> None:
    """A tool of the open turn, as a tick that ran anyway has seen it."""
    facts.append_fact(
        host.world, host.worker, host.logical, EventKind.TOOL_OBSERVED, {"tool": name},
        host.world.clock(),
    )  # fmt: skip


def test_a_long_history_is_not_poured_out(one) -> None:
    for number in range(9):
        turn(one, f"turn {number}")
    push(one.world)

    assert said(thread_of(one)) == ["✅ turn 6", "✅ turn 7", "✅ turn 8"]


def child_of(host: Host, name: str = "kid") -> str:
    """A child on record, as spawn leaves it, without its process."""
    world = host.world
    child = world.register(name)
    dispatch = world.send(child, "check the tests", kind="task-dispatch")
    book_of = registry.Registry(world.layout)
    parent = book_of.workers[host.worker]
    made = book_of.workers[child]._replace(
        parent_worker_id=parent.id, dispatch_id=dispatch, status=WorkerStatus.RUNNING
    )
    book_of.put(made)
    book_of.put(parent._replace(children_worker_ids=(*parent.children_worker_ids, child)))
    book_of.save()
    return child


def logical_of(host: Host, worker: str) -> str:
    return registry.Registry(host.world.layout).workers[worker].logical_session_id


def test_a_child_s_result_closes_its_own_thread_and_shows_once_in_its_parent_s_overview(
    one,
) -> None:
    child = child_of(one)
    push(one.world)
    overview = said(thread_of(one))[-1]
    settle_child(one.world, child, Report(Ending.SUCCESS, "All 42 tests pass.\nIn 3 s."))
    push(one.world)
    after = said(thread_of(one))[-1]
    push(one.world)

    kid = thread_of(one, logical_of(one, child))
    thread = parse_thread(kid.read_text())
    assert overview.startswith("**Children**\n")
    assert "kid" in overview
    assert after == "**Children**\n✅ kid: All 42 tests pass."
    assert said(thread_of(one))[-1] == "**Children**: none at work"
    assert len([text for text in said(thread_of(one)) if "Children" in text]) == 1
    assert said(kid)[-1] == "✅ **Result**\nAll 42 tests pass.\nIn 3 s."
    assert (thread.closed, thread.title.split()[0]) == (True, "✅")
    statuses = {b.target_session: b.status for b in bindings.load(one.world.layout).values()}
    assert statuses[logical_of(one, child)] is BindingStatus.ENDED
    assert statuses[one.logical] is BindingStatus.ACTIVE


def test_a_child_s_progress_is_one_post_in_its_own_thread_and_a_line_in_its_parent_s(one) -> None:
    child = child_of(one)
    push(one.world)
    for text in ("3 of 9 files", "7 of 9 files\nand more"):
        speaker = Speaker(FromKind.WORKER, child, "kid")
        one.world.send(one.worker, text, speaker, kind="status-update")
        push(one.world)

    assert said(thread_of(one, logical_of(one, child))) == ["🏃 7 of 9 files"]
    assert said(thread_of(one))[-1] == "**Children**\n🏃 kid: 7 of 9 files"


def test_an_interrupt_is_noted_once_each_time_and_in_the_title(one) -> None:
    child = child_of(one)
    path = None
    for status in (WorkerStatus.INTERRUPTED, WorkerStatus.RUNNING, WorkerStatus.INTERRUPTED):
        with one.world.held((LockKind.REGISTRY, "")):
            known = registry.Registry(one.world.layout)
            known.put(known.workers[child]._replace(status=status))
            known.save()
        facts.append_fact(
            one.world, child, logical_of(one, child), EventKind.DIAGNOSTIC, {"code": "x"},
            one.world.clock(),
        )  # fmt: skip
        push(one.world)
        push(one.world)
        path = thread_of(one, logical_of(one, child))

    assert [text[:24] for text in said(path)] == ["⚠️ an interrupt was sent"] * 2
    assert parse_thread(path.read_text()).title.startswith("⚠️")


def test_a_session_that_is_bound_again_goes_on_in_the_same_thread(one) -> None:
    turn(one, "one")
    push(one.world)
    where = Conversation("file", "default", thread_of(one).name.removesuffix(".md"))
    unbind(one.world, session=one.logical, reason="enough")
    turn(one, "two")
    push(one.world)
    bind(one.world, RequestedBinding(one.worker, where))
    turn(one, "three")
    push(one.world)
    unbind(one.world, session=one.logical, reason="again")
    push(one.world)

    farewell = "This is no longer the session's place: what is written here reaches nobody."
    assert said(thread_of(one)) == ["✅ one", farewell, "✅ two", "✅ three", farewell]


def test_two_children_that_finish_at_once_each_speak_in_their_own_thread(one) -> None:
    """Both are threads of the parent's conversation: nothing of them spills into it."""
    push(one.world)
    where = thread_of(one).name.removesuffix(".md")
    kids = [child_of(one, "ann"), child_of(one, "bea")]
    for kid in kids:
        place = Conversation("file", "default", f"of-{kid}", where)
        Path(folder(one), f"of-{kid}.md").write_text("")
        bind(one.world, RequestedBinding(kid, place))
        settle_child(one.world, kid, Report(Ending.SUCCESS, f"done by {kid}"))
    push(one.world)

    for kid in kids:
        path = Path(folder(one), f"of-{kid}.md")
        blocks = parse_thread(path.read_text()).blocks
        assert len(blocks) == 1
        assert path.read_text().count(f"done by {kid}") == 1
    assert said(thread_of(one)) == []


def test_a_child_without_a_place_is_told_in_its_parent_s_and_the_fallback_is_observed() -> None:
    with machine() as host:
        one = set_up(host(), more='sessions = "bound"\n')
        folder(one).mkdir()
        Path(folder(one), "notes.md").write_text("# notes\n")
        bind(one.world, RequestedBinding(one.worker, Conversation("file", "default", "notes")))
        child = child_of(one)
        settle_child(one.world, child, Report(Ending.ERROR, "", "it broke"))
        push(one.world)
        push(one.world)
        text = Path(folder(one), "notes.md").read_text()
        facts = [e["payload"] for e in one.world.events(logical_of(one, child))]

    assert text.count("❌ **kid**: it broke") == 1
    assert text.startswith("# notes\n")
    assert [f["code"] for f in facts if "code" in f] == ["route_fallback"]


def test_a_bound_place_that_cannot_be_reached_is_tried_again_and_never_replaced(one) -> None:
    push(one.world)
    path = thread_of(one)
    path.chmod(0o400)
    turn(one, "while locked")
    (first,) = push(one.world)
    (second,) = push(one.world)
    assert [first.problems[0].code, second.problems[0].code] == ["locked", "locked"]
    assert said(path) == []
    assert len(list(folder(one).iterdir())) == 1

    path.chmod(0o600)
    push(one.world, again=True)
    assert said(path) == ["✅ while locked"]


def test_what_is_shown_is_activity_of_its_place_and_what_could_not_be_shown_is_none(one) -> None:
    """Else a place in which only the session speaks would be silent, and unbound."""

    def active_at() -> float:
        (binding,) = bindings.load(one.world.layout).values()
        return binding.last_activity_at

    push(one.world)
    began = active_at()
    one.world.pass_s(100)
    push(one.world)
    assert active_at() == began, "nothing was shown"
    thread_of(one).chmod(0o400)
    turn(one, "while locked")
    push(one.world)
    assert active_at() == began
    thread_of(one).chmod(0o600)
    push(one.world, again=True)
    assert active_at() >= began + 100


def test_a_deleted_thread_is_left_alone_and_a_new_binding_goes_on_without_a_gap(one) -> None:
    turn(one, "one")
    push(one.world)
    thread_of(one).unlink()
    turn(one, "two")
    push(one.world)
    turn(one, "three")
    push(one.world)
    assert list(folder(one).iterdir()) == []
    (ended,) = bindings.load(one.world.layout).values()
    assert (ended.status, ended.end_reason) == (BindingStatus.ENDED, "gone")

    Path(folder(one), "anew.md").write_text("")
    bind(one.world, RequestedBinding(one.worker, Conversation("file", "default", "anew")))
    push(one.world)
    text = Path(folder(one), "anew.md").read_text()
    assert [w for w in ("one", "two", "three") if f"✅ {w}" in text] == ["two", "three"]


def test_recreate_makes_a_deleted_thread_anew_and_says_what_it_goes_on_from() -> None:
    with machine() as host:
        one = set_up(host(), more="recreate = true\n")
        turn(one, "one")
        push(one.world)
        thread_of(one).unlink()
        turn(one, "two")
        push(one.world)
        push(one.world)
        text = thread_of(one).read_text()

    assert "This goes on from project.vs-" in text
    assert ("✅ one" in text, "✅ two" in text) == (False, True)


def test_an_unbound_session_gets_its_farewell_and_no_other_thread(one) -> None:
    push(one.world)
    unbind(one.world, session=one.logical, reason="enough")
    turn(one, "unheard")
    push(one.world)
    push(one.world)

    assert said(thread_of(one)) == [
        "This is no longer the session's place: what is written here reaches nobody."
    ]
    assert parse_thread(thread_of(one).read_text()).closed


def test_a_stop_starts_a_push_where_the_settings_say_so_and_waits_for_none(one) -> None:
    text = Path(one.home, "config.toml").read_text()
    one.prompt()
    one.hook("Stop", last_assistant_message="silent")
    assert not folder(one).exists()

    Path(one.home, "config.toml").write_text("[mirror]\nafter_stop = true\n" + text)
    one.world._config = None
    one.prompt()
    ran = one.hook("Stop", last_assistant_message="shown by itself")
    assert ran.status == 0
    for _ in range(600):
        if list(folder(one).glob("*.md")) and "shown by itself" in thread_of(one).read_text():
            break
        time.sleep(0.05)
    assert said(thread_of(one))[-1] == "✅ shown by itself"


# ------------------------------------------------------------------ in


def test_what_a_person_writes_is_direct_mail_of_theirs_once(one) -> None:
    push(one.world)
    write(thread_of(one), "please do B")
    first, second = pull(one.world), pull(one.world)

    (entry,) = one.world.inbox(one.worker).mailbox.entries
    assert [r.taken for r in (*first, *second)] == [1, 0]
    assert (entry.message.lane, entry.message.from_kind) == (Lane.DIRECT, FromKind.HUMAN)
    assert (entry.message.from_id, entry.message.payload["text"]) == (f"file:{ME}", "please do B")


def test_nobody_is_heard_who_is_not_on_the_list(one) -> None:
    Path(one.world.layout.config).write_text("[channels.file]\n")
    one.world._config = None
    push(one.world)
    write(thread_of(one), "/takeover and obey")
    (report,) = pull(one.world)

    assert (report.taken, report.refused) == (0, 1)
    assert words(one) == []
    assert said(thread_of(one)) == []


def test_a_stranger_s_words_are_a_quiet_note_where_the_settings_say_so(one) -> None:
    Path(one.world.layout.config).write_text('[channels.file]\nstrangers = "note"\n')
    one.world._config = None
    push(one.world)
    write(thread_of(one), "/takeover and obey")
    pull(one.world)

    (entry,) = one.world.inbox(one.worker).mailbox.entries
    assert (entry.message.lane, entry.message.from_kind) == (Lane.QUIET, FromKind.EXTERNAL)


def test_commands_are_answered_in_the_thread_and_an_edit_runs_none(one) -> None:
    push(one.world)
    path = thread_of(one)
    for line in ("/takeover stop it", "/topology", "/relay nobody hi", "/relay project hi",
                 "/takeover", "/help", "/etc/hosts is a file"):  # fmt: skip
        write(path, line)
        pull(one.world)
    path.write_text(path.read_text().replace("/takeover stop it", "/takeover stop all"))
    pull(one.world)

    answers = said(path)
    assert [bool(re.search(p, a)) for p, a in zip(
        ("taken over", r"\*\*project\*\*", "there is no worker", "passed on to project",
         "needs TEXT", "breaks in"), answers, strict=True)] == [True] * 6  # fmt: skip
    assert words(one)[:3] == ["stop it", "hi", "/etc/hosts is a file"]
    assert words(one)[3].startswith("[system] The user edited an earlier message")
    assert len(words(one)) == 4


def test_a_command_that_is_not_followed_is_told_in_the_thread(one) -> None:
    push(one.world)
    path = thread_of(one)
    write(path, "/topology\n\n/takeover now this")
    pull(one.world)
    write(path, "please do B\n\n/cancel it")
    pull(one.world)

    tree, message = said(path)
    assert "**project**" in tree
    assert "not followed: `/takeover now this`" in tree
    assert "not followed: `/cancel it`" in message
    assert words(one) == ["please do B\n\n/cancel it"]


def test_no_answer_to_a_command_shows_a_secret(one) -> None:
    secret = "ghp_abcdefghijklmnopqrstuvwxyz012345"
    kid = child_of(one)
    send(
        one.world,
        MessageDraft("project", secret, "status-update"),
        Speaker(FromKind.WORKER, kid, "kid"),
    )
    push(one.world)
    for line in ("/topology", f"/relay {secret} hi"):
        write(thread_of(one), line)
        pull(one.world)

    assert len(said(thread_of(one))) > 1
    assert secret not in thread_of(one).read_text().replace(f"/relay {secret}", "")


def test_an_edit_is_in_the_chain_of_what_it_changes(one) -> None:
    push(one.world)
    path = thread_of(one)
    for before, after in (("please do B", "please do C"), ("/takeover stop", "/takeover go on")):
        write(path, before)
        pull(one.world)
        write(path, "> a post in between")
        path.write_text(path.read_text().replace(before, after))
        pull(one.world)

    first, note, taken, again = [e.message for e in one.world.inbox(one.worker).mailbox.entries]
    assert (note.parent_message_id, note.summary) == (first.id, "please do C")
    assert (again.parent_message_id, again.summary) == (taken.id, "/takeover go on")


def test_an_edit_of_what_is_on_record_no_more_is_told_all_the_same(one) -> None:
    push(one.world)
    write(thread_of(one), "please do B")
    pull(one.world)
    Path(one.world.layout.inbox(one.worker)).unlink()
    thread_of(one).write_text(thread_of(one).read_text().replace("do B", "do C"))
    pull(one.world)

    (note,) = one.world.inbox(one.worker).mailbox.entries
    assert note.message.parent_message_id is None


def test_an_edit_is_told_in_the_language_of_the_settings(one) -> None:
    text = Path(one.world.layout.config).read_text()
    Path(one.world.layout.config).write_text('language = "zh"\n' + text)
    one.world._config = None
    push(one.world)
    write(thread_of(one), "one")
    pull(one.world)
    thread_of(one).write_text(thread_of(one).read_text().replace("\none\n", "\nuno\n"))
    pull(one.world)

    assert words(one)[1].startswith("[系统] 用户编辑了之前的消息")


def test_what_stood_there_before_a_session_was_bound_is_not_for_it(one) -> None:
    folder(one).mkdir()
    path = Path(folder(one), "notes.md")
    path.write_text("/cancel everything\n")
    bind(one.world, RequestedBinding(one.worker, Conversation("file", "default", "notes")))
    pull(one.world)
    assert words(one) == []

    write(path, "now this")
    pull(one.world)
    assert words(one) == ["now this"]


def test_a_reply_wakes_the_idle_session_within_one_pull(one) -> None:
    turn(one, "done")
    push(one.world)
    write(thread_of(one), "go on with C")
    pull(one.world)

    assert "go on with C" in one.watch(turn=None).text


# ------------------------------------------------------------------ killed, and refused


def story(host: Host) -> Action:
    """One life of a thread, from its making to a command's answer."""

    def action(say) -> None:
        world = host.world
        push(world)
        if not list(folder(host).glob("*.md")):
            return  # it could not be made this time
        path = thread_of(host)
        if "please do B" not in path.read_text():
            write(path, "please do B")
            write(path, "")
        pull(world)
        if "/relay" not in path.read_text():
            write(path, "/relay project hello")
        pull(world)
        push(world)

    return action


def outcome(host: Host) -> tuple[list[str], list[str], str, int]:
    thread = parse_thread(thread_of(host).read_text())
    answers = [re.sub(r"`01\w+`", "ID", text) for text in said(thread_of(host))]
    return answers, words(host), thread.title, len(list(folder(host).glob("*.md")))


def test_killed_at_every_call_the_thread_reads_as_an_undisturbed_run(monkeypatch) -> None:
    """A kill before the k-th changing call of push or pull, then the same again."""
    monkeypatch.setattr(adapter, "_owner", lambda path: ME)
    no_channel_fault(monkeypatch)
    expected = None
    for k in [0, *range(1, ENDLESS)]:
        with machine() as host:
            one = set_up(host())
            turn(one, "first\nmore")
            turn(one, "second")
            run = stopped_at(k, story(one)) if k else None
            if run is not None and run.surprise:
                pytest.fail(f"{run.at}: {run.error}")
            story(one)(print)
            story(one)(print)
            found = outcome(one)
        if expected is None:
            expected = found
            assert found[1] == ["please do B", "hello"]
            assert found[0][:2] == ["✅ first", "✅ second"]
        assert found == expected, run.at if run else "undisturbed"
        if run is not None and run.finished:
            return


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_refused_at_every_call_nothing_is_lost_and_nothing_comes_twice(number, monkeypatch) -> None:
    monkeypatch.setattr(adapter, "_owner", lambda path: ME)
    no_channel_fault(monkeypatch)
    for k in range(1, ENDLESS, 3):
        with machine() as host:
            one = set_up(host())
            turn(one, "first\nmore")
            run = failing_at(k, story(one), number)
            assert not run.surprise, (run.at, run.error)
            one.world.pass_s(120)
            for _ in range(2):
                push(one.world, again=True)
                story(one)(print)
            found = outcome(one)
        heard = "\n".join(found[1])  # what waits meanwhile is read as one message
        assert [heard.count(w) for w in ("please do B", "hello")] == [1, 1], (run.at, found)
        assert "✅ first" in found[0], (run.at, found)
        assert len(found[0]) == len(set(found[0])), (run.at, found)
        if run.finished:
            return


def test_a_post_that_a_crash_cut_short_is_made_whole_and_stands_once(one) -> None:
    push(one.world)
    turn(one, "a line of some length")
    path = thread_of(one)
    push(one.world)
    whole = path.read_text()
    at = whole.index("> ✅ a line of")
    for cut in (at + 3, at - 5, at + 12):
        text = whole[:cut]
        path.write_text(text)
        assert parse_thread(text).unfinished
        settings = {"folder": str(folder(one))}
        channel = adapter.open_channel(settings, "default", {}, around(Path(one.home)))
        (binding,) = bindings.load(one.world.layout).values()
        channel.post(binding.conversation, Part("✅ a line of some length"), "n9")
        assert said(path) == ["✅ a line of some length"]


def test_a_thread_that_is_there_again_goes_on_where_it_was(one) -> None:
    turn(one, "one")
    push(one.world)
    path = thread_of(one)
    away = path.rename(Path(one.home, "away.md"))
    turn(one, "two")
    push(one.world)
    away.rename(path)
    push(one.world)
    assert said(path) == ["✅ one"]
    (report,) = push(one.world, again=True)
    write(path, "and now?")
    pull(one.world)

    assert report.problems == ()
    assert said(path) == ["✅ one", "✅ two"]
    assert words(one) == ["and now?"]
    (binding,) = bindings.load(one.world.layout).values()
    assert (binding.status, binding.end_reason) == (BindingStatus.ACTIVE, "")


def test_a_thread_that_stays_away_is_told_once_more_and_stays_ended(one) -> None:
    push(one.world)
    thread_of(one).unlink()
    turn(one, "one")
    push(one.world)
    push(one.world, again=True)

    (binding,) = bindings.load(one.world.layout).values()
    assert (binding.status, binding.end_reason) == (BindingStatus.ENDED, "gone")
    assert list(folder(one).iterdir()) == []
