"""What a reader sees: each event once, in order, and none that a crash takes away again."""

import os
import stat
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.store.timelines import SESSION, Desk
from vyane_cli.cli.render.machine import plain
from vyane_cli.errors import CorruptStateError, InvalidInputError, NotFoundError, StorageError
from vyane_cli.history.queries import check_watch, watch
from vyane_cli.storage import files, journal
from vyane_cli.timeline import log, turns
from vyane_cli.timeline import reader as reading
from vyane_cli.timeline.cursors import parse_cursor, render_cursor


class Disk:
    """What a power loss leaves: all that was flushed, and any part of what was not."""

    def __init__(self) -> None:
        self.durable = 0
        self.real = os.fsync

    def fsync(self, fd: int) -> None:
        self.real(fd)
        if stat.S_ISREG(os.fstat(fd).st_mode):
            self.durable = max(self.durable, os.fstat(fd).st_size)


@contextmanager
def flushes_seen(disk: Disk):
    os.fsync = disk.fsync
    try:
        yield
    finally:
        os.fsync = disk.real


def fail_in_the_middle(desk: Desk, share: float, look) -> None:
    """An append of several events that runs out of space after a share of its bytes."""
    real_write, real_step = os.pwrite, files.step
    state = {"calls": 0}

    def pwrite(fd: int, data: bytes, at: int) -> int:
        return real_write(fd, data[: max(int(len(data) * share), 1)], at)

    def step(call: str, path: str) -> None:
        if call == "write" and path == desk.path:
            state["calls"] += 1
            if state["calls"] == 2:
                look()
                raise OSError(28, "no space left on device")

    os.pwrite, files.step = pwrite, step
    try:
        desk.commit(desk.note("a"), desk.note("b"), desk.note("c"), desk.note("d"))
    except StorageError:
        pass
    finally:
        os.pwrite, files.step = real_write, real_step


actions = st.lists(
    st.one_of(
        st.just(("turn",)),
        st.just(("observe",)),
        st.just(("batch",)),
        st.just(("read",)),
        st.just(("resume",)),
        st.tuples(st.just("full disk"), st.floats(0, 1)),
        st.tuples(st.just("power loss"), st.floats(0, 1)),
    ),
    max_size=25,
)


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=60)
@given(actions)
def test_a_reader_neither_skips_nor_repeats_what_a_crash_leaves(steps) -> None:
    """
    Appends, full disks, power losses (which keep any part of what was not flushed)
    and readers that stop and go on from their cursor, in any order: what was shown is,
    byte for byte and in order, what is in the file at the end, each event once.
    """
    disk = Disk()
    with TemporaryDirectory() as folder, flushes_seen(disk):
        desk = Desk(Path(folder, "vyane"))
        reader = reading.Reader(desk.path, SESSION)
        shown: list[tuple[int, str]] = []

        def look() -> None:
            shown.extend((seen.record["seq"], seen.mark) for seen in reader.read())

        for name, *share in steps:
            match name:
                case "turn":
                    opened = desk.opened()
                    running = opened.head.open is not None
                    opened.close()
                    desk.commit(desk.finish() if running else desk.start())
                case "observe":
                    desk.commit(desk.tool())
                case "batch":
                    desk.commit(desk.tool("A"), desk.tool("B"), desk.tool("C"))
                case "read":
                    look()
                case "resume":
                    cursor = parse_cursor(render_cursor(reader.cursor))
                    reader = reading.Reader(desk.path, SESSION)
                    reader.seek(cursor)
                case "full disk":
                    fail_in_the_middle(desk, share[0], look)
                case _ if os.path.exists(desk.path):
                    size = os.path.getsize(desk.path)
                    kept = disk.durable + round((size - disk.durable) * share[0])
                    os.truncate(desk.path, kept)
                    disk.durable = kept
        if os.path.exists(desk.path):
            desk.commit(desk.note())  # what a crash cut short is decided by the next append
            look()
            there = [
                (line.record["seq"], f"{data[-11:-3].decode()}")
                for line, data in zip(
                    journal.read(desk.path),
                    Path(desk.path).read_bytes().splitlines(keepends=True),
                    strict=True,
                )
                if line.record is not None
            ]
            assert shown == there
            assert [seq for seq, _ in there] == list(range(1, len(there) + 1))


def test_what_a_reader_has_shown_is_on_the_disk(tmp_path) -> None:
    """Observations are not flushed by their writer: the reader does it before it shows them."""
    disk = Disk()
    with flushes_seen(disk):
        desk = Desk(tmp_path)
        desk.commit(desk.start())
        desk.commit(desk.tool())
        assert disk.durable < os.path.getsize(desk.path)
        next(reading.Reader(desk.path, SESSION).read())
        assert disk.durable == os.path.getsize(desk.path)
        desk.commit(desk.tool())
        reading.Reader(desk.path, SESSION).seek_end()
        assert disk.durable == os.path.getsize(desk.path)


def test_events_of_one_append_are_shown_together_or_not_at_all(tmp_path) -> None:
    desk = Desk(tmp_path)
    desk.commit(desk.note("first"))
    whole = Path(desk.path).stat().st_size
    desk.commit(desk.note("a"), desk.note("b"))
    lines = Path(desk.path).read_bytes().splitlines(keepends=True)
    os.truncate(desk.path, whole + len(lines[1]))
    reader = reading.Reader(desk.path, SESSION)

    assert [seen.record["seq"] for seen in reader.read()] == [1]
    desk.commit(desk.note("next"))  # the append was cut short by a crash: what is there stays
    assert [seen.record["payload"]["code"] for seen in reader.read()] == ["a", "next"]


def test_half_a_line_is_not_shown_and_does_no_harm(tmp_path) -> None:
    desk = Desk(tmp_path)
    desk.turn()
    with open(desk.path, "ab") as file:
        file.write(b'{"v":1,"epoch":"')

    assert len(desk.history()) == 4
    desk.commit(desk.note())
    assert [event["seq"] for event in desk.history()] == [1, 2, 3, 4, 5]
    assert os.listdir(tmp_path / "quarantine")


def test_history_from_a_cursor_is_what_comes_after_it(tmp_path) -> None:
    """A-59: events after the cursor, then the end."""
    desk = Desk(tmp_path)
    desk.turn(tools=3)
    whole = desk.history()

    for position, event in enumerate(whole):
        assert desk.history(after=event["cursor"]) == whole[position + 1 :]


def test_a_cursor_outlives_the_process_and_finds_its_place(tmp_path) -> None:
    desk = Desk(tmp_path)
    for _ in range(40):
        desk.turn(tools=1)
    for seq in (1, 2, 60, 119, 120):
        again = Desk(tmp_path)
        assert [event["seq"] for event in again.history(after=desk.cursor(seq))][:1] in (
            [],
            [seq + 1],
        )


def test_a_cursor_whose_event_is_another_one_now_is_refused(tmp_path) -> None:
    desk = Desk(tmp_path)
    desk.turn()
    cursor = desk.cursor(4)
    records = desk.records()
    desk.rewrite(records[:3])
    desk.commit(desk.finish(), desk.note())

    with pytest.raises(InvalidInputError) as caught:
        desk.history(after=cursor)
    assert caught.value.slug == "cursor_lost"


def test_a_cursor_past_the_end_is_of_the_future(tmp_path) -> None:
    desk = Desk(tmp_path)
    desk.turn()
    cursor = desk.cursor(4)
    desk.rewrite(desk.records()[:2])

    with pytest.raises(InvalidInputError) as caught:
        desk.history(after=cursor)
    assert caught.value.slug == "cursor_future"


def test_a_timeline_that_was_begun_anew_has_another_epoch(tmp_path) -> None:
    desk = Desk(tmp_path)
    desk.turn()
    cursor = desk.cursor(2)
    os.unlink(desk.path)
    desk.turn()

    with pytest.raises(InvalidInputError) as caught:
        desk.history(after=cursor)
    assert caught.value.slug == "cursor_epoch_mismatch"


def test_a_file_that_goes_away_or_shrinks_ends_a_reader(tmp_path) -> None:
    desk = Desk(tmp_path)
    desk.turn()
    gone, cut = reading.Reader(desk.path, SESSION), reading.Reader(desk.path, SESSION)
    list(gone.read())
    list(cut.read())
    os.truncate(desk.path, 10)
    with pytest.raises(CorruptStateError, match="cut to 10 bytes"):
        list(cut.read())
    os.unlink(desk.path)
    with pytest.raises(NotFoundError):
        list(gone.read())


def test_a_file_that_others_may_read_is_refused(tmp_path) -> None:
    """A-74: 0600, or exit 7 `insecure_mode`."""
    desk = Desk(tmp_path)
    desk.turn()
    os.chmod(desk.path, 0o644)

    with pytest.raises(CorruptStateError) as caught:
        desk.history()
    assert caught.value.slug == "insecure_mode"


def change(records, line, **fields):
    records[line] = {**records[line], **fields}
    return records


DAMAGE = {
    "unknown_version": lambda records: change(records, 2, v=9),
    "unknown_kind": lambda records: change(records, 2, kind="ToolHeard"),
    "envelope_mismatch": lambda records: change(records, 2, epoch="f" * 32),
    "seq_gap": lambda records: records[:2] + records[3:],
    "invalid_lifecycle": lambda records: change(records, 2, turn="01" + "9" * 24),
}


@pytest.mark.parametrize("slug", DAMAGE)
def test_each_kind_of_damage_is_refused_with_file_and_line_and_nothing_is_changed(
    slug, tmp_path
) -> None:
    """A-66: unknown version or kind, envelope mismatch, seq gap, invalid life cycle."""
    desk = Desk(tmp_path)
    desk.turn()
    data = desk.rewrite(DAMAGE[slug](desk.records()))

    for refused in (
        lambda: list(desk.history()),
        lambda: log.check(desk.path, SESSION),
        lambda: desk.opened(checked=True),
    ):
        with pytest.raises(CorruptStateError, match=r"line 3") as caught:
            refused()
        assert caught.value.slug == slug
        assert desk.path in caught.value.message
    assert Path(desk.path).read_bytes() == data


@pytest.mark.parametrize("slug", DAMAGE)
@pytest.mark.parametrize("unclean", ["torn", "other boot"])
def test_after_an_unclean_stop_nobody_gets_a_timeline_that_is_not_sound(
    slug, unclean, tmp_path
) -> None:
    """A-64: a torn tail, or a last line of another boot, has the whole checked first."""
    desk = Desk(tmp_path)
    desk.turn()
    records = DAMAGE[slug](desk.records())
    if unclean == "other boot":
        records = [{**record, "boot": "00000000"} for record in records]
    desk.rewrite(records, b"half a li" if unclean == "torn" else b"")

    with pytest.raises(CorruptStateError) as caught:
        desk.opened()
    assert caught.value.slug == slug


def test_an_unclean_stop_of_a_sound_timeline_keeps_its_open_turn_and_its_counters(tmp_path) -> None:
    """A-64: counters are restored and an unfinished turn stays open."""
    desk = Desk(tmp_path)
    desk.turn()
    desk.commit(desk.start())
    before = log.read_head(desk.path)
    records = [{**record, "boot": "00000000"} for record in desk.records()]
    desk.rewrite(records, b"half a li")
    opened = desk.opened()
    opened.close()

    assert before is not None
    assert opened.head == before
    assert opened.head.open is not None
    desk.commit(desk.finish())
    assert desk.history()[-1]["seq"] == 6


def test_the_epoch_stays_for_the_life_of_a_timeline(tmp_path) -> None:
    """A-54: created with the session, kept across restarts."""
    desk = Desk(tmp_path)
    for _ in range(3):
        Desk(tmp_path).turn()

    assert len({event["epoch"] for event in desk.history()}) == 1


def test_an_observation_that_does_not_fit_becomes_a_note_and_hurts_no_turn(tmp_path) -> None:
    desk = Desk(tmp_path)
    desk.commit(desk.start())
    desk.commit(desk.tool(""))
    desk.commit(desk.finish())

    assert [event["kind"] for event in desk.history()] == [
        "TurnStarted",
        "Diagnostic",
        "TurnFinished",
    ]


def test_an_append_that_fails_uses_up_no_seq(tmp_path) -> None:
    desk = Desk(tmp_path)
    desk.turn()
    data = Path(desk.path).read_bytes()
    fail_in_the_middle(desk, 0.6, lambda: None)

    assert Path(desk.path).read_bytes() == data
    assert desk.commit(desk.note()) == [5]


def test_an_observation_costs_no_flush(tmp_path, monkeypatch) -> None:
    """A-83: only life cycle and control facts are flushed."""
    desk = Desk(tmp_path)
    desk.commit(desk.start())
    flushed = []
    monkeypatch.setattr(os, "fsync", lambda fd: flushed.append(fd))
    desk.commit(desk.tool())
    assert not flushed
    desk.commit(desk.finish())
    assert flushed


def test_filters_show_a_part_and_lose_no_place(tmp_path) -> None:
    desk = Desk(tmp_path)
    desk.turn()
    desk.turn()
    desk.commit(desk.note())
    second = desk.history()[4]

    assert [e["seq"] for e in desk.history(kinds=("TurnFinished",))] == [4, 8]
    assert [e["seq"] for e in desk.history(category="tool")] == [2, 3, 6, 7]
    assert [e["seq"] for e in desk.history(turn="2")] == [5, 6, 7, 8]
    assert [e["seq"] for e in desk.history(turn=second["turn"])] == [5, 6, 7, 8]
    assert [e["seq"] for e in desk.history(since=second["at"])] == [5, 6, 7, 8, 9]


@pytest.mark.parametrize(
    "modes, more, slug",
    [
        ((), {}, "mode_required"),
        (("history", "tail"), {}, "mode_conflict"),
        (("tail",), {"after": "x"}, "mode_conflict"),
        (("follow",), {"after": "x", "consumer": "c"}, "mode_conflict"),
        (("history",), {"after": "x"}, "cursor_malformed"),
        (("history",), {"kinds": ("Nothing",)}, "unknown_kind"),
        (("history",), {"category": "nothing"}, "unknown_category"),
        (("replay",), {}, "wrong_mode"),
        (("history",), {"consumer": "../x"}, "invalid_input"),
        (("history",), {"reset": "latest"}, "invalid_input"),
        (("follow",), {"reset": "now", "consumer": "c"}, "invalid_input"),
    ],
)
def test_each_bad_wish_has_its_own_code(modes, more, slug) -> None:
    with pytest.raises(InvalidInputError) as caught:
        check_watch(modes, **more)
    assert caught.value.slug == slug


def follow(desk: Desk, mode: str, steps, **wanted):
    """A follower whose waits are the steps: each appends something; it ends after the last."""
    left = list(steps)

    def pause(changes) -> bool:
        left.pop(0)()
        return bool(left)

    os.makedirs(desk.home.layout("logical-sessions"), exist_ok=True)
    modes = (mode,) if mode else ()
    found = watch(desk.home, SESSION, check_watch(modes, **wanted), pause=pause)
    return (plain(item) for item in found)


def test_follow_shows_what_was_there_one_mark_and_what_comes(tmp_path) -> None:
    """A-60: every seq once, the mark exactly once."""
    desk = Desk(tmp_path)
    desk.turn()
    seen = list(follow(desk, "follow", [desk.turn, lambda: None, desk.turn]))

    assert [item.get("seq", item["kind"]) for item in seen] == [
        *range(1, 5),
        "caught_up",
        *range(5, 13),
    ]
    assert seen[4]["watermark"] == 4
    assert seen[4]["lag"] == 0
    assert seen[4]["cursor"] == seen[3]["cursor"]


def test_events_that_come_while_history_is_read_stand_before_the_mark_or_after_it(tmp_path) -> None:
    desk = Desk(tmp_path)
    desk.turn()
    stream = follow(desk, "follow", [lambda: None])
    first = [next(stream) for _ in range(2)]
    desk.turn()
    rest = list(stream)

    assert [item.get("seq", item["kind"]) for item in [*first, *rest]] == [
        *range(1, 5),
        "caught_up",
        *range(5, 9),
    ]
    assert rest[2]["lag"] == 4


def test_tail_shows_only_what_comes(tmp_path) -> None:
    """A-61: five old events, then two appends: only those two."""
    desk = Desk(tmp_path)
    desk.turn(tools=3)
    two = [lambda: desk.commit(desk.note("a")), lambda: desk.commit(desk.note("b"))]

    assert [item["seq"] for item in follow(desk, "tail", two)] == [6, 7]


def test_follow_waits_for_a_timeline_that_is_not_there_yet(tmp_path) -> None:
    desk = Desk(tmp_path)
    os.makedirs(os.path.dirname(desk.path))
    seen = list(follow(desk, "follow", [desk.turn]))

    assert [item.get("seq", item["kind"]) for item in seen] == ["caught_up", 1, 2, 3, 4]
    again = list(follow(desk, "history", [], after=seen[0]["cursor"]))
    assert [item["seq"] for item in again] == [1, 2, 3, 4]


def test_a_consumer_goes_on_where_it_was_and_repeats_what_was_not_done_with(tmp_path) -> None:
    """At least once: an event counts when the next one is asked for."""
    desk = Desk(tmp_path)
    desk.turn()

    first = follow(desk, "history", [], consumer="mirror")
    assert [next(first)["seq"] for _ in range(3)] == [1, 2, 3]
    first.close()  # it died: nothing was stored
    assert [e["seq"] for e in follow(desk, "history", [], consumer="mirror")] == [1, 2, 3, 4]
    assert list(follow(desk, "history", [], consumer="mirror")) == []
    desk.turn()
    assert [e["seq"] for e in follow(desk, "history", [], consumer="mirror")] == [5, 6, 7, 8]
    assert [e["seq"] for e in follow(desk, "history", [], consumer="other", reset="latest")] == []
    again = follow(desk, "history", [], consumer="mirror", reset="earliest")
    assert [e["seq"] for e in again] == list(range(1, 9))


def test_a_consumer_without_a_mode_follows(tmp_path) -> None:
    desk = Desk(tmp_path)
    desk.turn()
    seen = list(follow(desk, "", [desk.turn], consumer="mirror"))

    assert [item.get("seq", item["kind"]) for item in seen] == [
        *range(1, 5),
        "caught_up",
        *range(5, 9),
    ]


def test_a_filter_does_not_hold_a_consumer_back(tmp_path) -> None:
    desk = Desk(tmp_path)
    desk.turn()
    wanted = {"consumer": "mirror", "kinds": ("TurnStarted",)}

    assert [e["seq"] for e in follow(desk, "history", [], **wanted)] == [1]
    assert list(follow(desk, "history", [], consumer="mirror")) == []


def test_a_consumer_of_a_timeline_that_was_begun_anew_is_told(tmp_path) -> None:
    desk = Desk(tmp_path)
    desk.turn()
    list(follow(desk, "history", [], consumer="mirror"))
    os.unlink(desk.path)
    desk.turn()

    with pytest.raises(InvalidInputError) as caught:
        list(follow(desk, "history", [], consumer="mirror"))
    assert caught.value.slug == "cursor_epoch_mismatch"


def test_a_position_is_found_by_few_reads_in_a_long_file(tmp_path, monkeypatch) -> None:
    desk = Desk(tmp_path)
    opened = desk.opened()
    for _ in range(300):
        state = turns.Transition(opened.head)
        for _ in range(10):
            state = desk.note()(state, desk.clock())
        opened.commit(state)
    opened.close()
    parsed = []
    real = journal.parse_line
    monkeypatch.setattr(journal, "parse_line", lambda *line: parsed.append(1) or real(*line))

    for seq in (1, 2, 1499, 3000):
        parsed.clear()
        with open(desk.path, "rb") as file:
            file.seek(log.offset_of(desk.path, seq))
            assert b'"seq":%d,' % seq in file.readline()
        assert len(parsed) <= 25
    assert log.offset_of(desk.path, 3001) == os.path.getsize(desk.path)
