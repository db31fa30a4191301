"""When a schedule is due, and its timer as text: the same minutes in every form, the same words."""

import shlex
import subprocess
from datetime import UTC, datetime, timedelta
from shutil import which
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vyane_cli.errors import InvalidInputError
from vyane_cli.projects.recurrence import (
    DAYS,
    EVERY_DAY,
    EVERY_HOUR,
    Recurrence,
    Timer,
    cron_line,
    every,
    label_of,
    mark_of,
    next_after,
    parse_rrule,
    property_list,
    service_unit,
    to_cron,
    to_launchd,
    to_systemd,
    unit_name,
    with_lines,
    without_lines,
)

BERLIN = ZoneInfo("Europe/Berlin")


def some(values: range) -> st.SearchStrategy[tuple[int, ...]]:
    return st.sets(st.sampled_from(list(values)), min_size=1).map(lambda s: tuple(sorted(s)))


recurrences = st.builds(Recurrence, some(range(7)), some(range(24)), some(range(60)))


def in_zone(zone: ZoneInfo):
    def local(at: float) -> tuple[int, int, int]:
        there = datetime.fromtimestamp(at, zone)
        return there.weekday(), there.hour, there.minute

    return local


@pytest.mark.parametrize(
    "text, days, hours, minutes",
    [
        ("FREQ=MINUTELY;INTERVAL=30", EVERY_DAY, EVERY_HOUR, (0, 30)),
        ("RRULE:FREQ=HOURLY;BYMINUTE=15,45", EVERY_DAY, EVERY_HOUR, (15, 45)),
        ("freq=hourly;interval=6", EVERY_DAY, (0, 6, 12, 18), (0,)),
        ("FREQ=DAILY;BYHOUR=9,18;BYMINUTE=30", EVERY_DAY, (9, 18), (30,)),
        ("FREQ=WEEKLY;BYDAY=MO,FR;BYHOUR=9", (0, 4), (9,), (0,)),
        ("FREQ=HOURLY;BYDAY=SU", (6,), EVERY_HOUR, (0,)),
    ],
)
def test_a_rule_is_the_minutes_that_it_names(text, days, hours, minutes):
    assert parse_rrule(text) == Recurrence(days, hours, minutes)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "every day",
        "FREQ=YEARLY",
        "FREQ=MINUTELY;INTERVAL=7",
        "FREQ=MINUTELY;INTERVAL=0",
        "FREQ=HOURLY;INTERVAL=5",
        "FREQ=HOURLY;BYMINUTE=60",
        "FREQ=DAILY",
        "FREQ=DAILY;INTERVAL=2;BYHOUR=1",
        "FREQ=WEEKLY;BYHOUR=9",
        "FREQ=WEEKLY;BYDAY=XX;BYHOUR=9",
        "FREQ=HOURLY;COUNT=3",
        "FREQ=HOURLY;FREQ=DAILY",
        "FREQ=HOURLY;BYMINUTE=1\n* * * * * rm",
    ],
)
def test_a_rule_that_no_timer_can_do_is_refused_by_name(text):
    with pytest.raises(InvalidInputError) as refused:
        parse_rrule(text)
    assert refused.value.field == "rrule"
    assert "FREQ=HOURLY" in refused.value.hint


@pytest.mark.parametrize("minutes", [10, 12, 20, 30, 60, 120, 180, 240, 360, 480, 720])
def test_the_two_schedules_share_a_step_and_never_a_minute(minutes):
    a, b = (parse_rrule(rule) for rule in every(minutes))
    local = in_zone(ZoneInfo("UTC"))

    first = next_after(a, 0.0, local)
    assert first is not None
    assert next_after(a, first, local) == first + minutes * 60
    assert not set(a.minutes) & set(b.minutes)


@pytest.mark.parametrize("minutes", [0, 7, 15, 45, 90, 1440, -30])
def test_a_step_that_does_not_divide_is_refused(minutes):
    with pytest.raises(InvalidInputError):
        every(minutes)


@given(recurrences, st.integers(0, 2_000_000_000))
def test_the_next_time_is_the_first_due_minute_after_now(due, now):
    local = in_zone(BERLIN)
    found = next_after(due, now, local)

    assert found is not None
    assert found > now
    assert found % 60 == 0
    weekday, hour, minute = local(found)
    assert weekday in due.days
    assert hour in due.hours
    assert minute in due.minutes


def test_an_hour_that_the_clock_leaves_out_is_passed_over_and_one_that_comes_twice_counts_twice():
    """Berlin: 2026-03-29 has no 02:30, 2026-10-25 has two."""
    due = parse_rrule("FREQ=DAILY;BYHOUR=2;BYMINUTE=30")
    local = in_zone(BERLIN)
    spring = datetime(2026, 3, 28, 12, tzinfo=BERLIN).timestamp()
    autumn = datetime(2026, 10, 24, 12, tzinfo=BERLIN).timestamp()

    after_gap = next_after(due, spring, local)
    once = next_after(due, autumn, local)
    assert after_gap is not None
    assert once is not None
    assert datetime.fromtimestamp(after_gap, BERLIN).day == 30
    assert next_after(due, once, local) == once + 3600


@given(recurrences)
def test_cron_and_launchd_name_the_same_minutes(due):
    """Read back by their own rules: Sunday is 0, what is left out is any."""
    minutes, hours, day, month, days = to_cron(due).split()

    def read(field: str, full: range) -> set[int]:
        return set(full) if field == "*" else {int(one) for one in field.split(",")}

    assert (day, month) == ("*", "*")
    assert read(minutes, range(60)) == set(due.minutes)
    assert read(hours, range(24)) == set(due.hours)
    assert {(number - 1) % 7 for number in read(days, range(7))} == set(due.days)
    named = {
        (weekday, hour, one["Minute"])
        for one in to_launchd(due)
        for weekday in ([one["Weekday"]] if "Weekday" in one else range(7))
        for hour in ([one["Hour"]] if "Hour" in one else range(24))
    }
    wanted = {((d + 1) % 7, h, m) for d in due.days for h in due.hours for m in due.minutes}
    assert named == wanted


@pytest.mark.skipif(which("systemd-analyze") is None, reason="systemd is not here")
@pytest.mark.parametrize(
    "rule",
    [
        "FREQ=HOURLY;BYMINUTE=0,30",
        "FREQ=DAILY;BYHOUR=9,18;BYMINUTE=5",
        "FREQ=WEEKLY;BYDAY=MO,WE,SU;BYHOUR=23;BYMINUTE=59",
    ],
)
def test_systemd_says_the_same_next_time(rule):
    due = parse_rrule(rule)
    base = datetime.now(UTC) + timedelta(days=3)
    stamp = base.strftime("%Y-%m-%d %H:%M:%S UTC")
    said = subprocess.run(
        ["systemd-analyze", "calendar", f"--base-time={stamp}", to_systemd(due)],
        capture_output=True,
        text=True,
        env={"TZ": "UTC", "PATH": "/usr/bin:/bin", "LC_ALL": "C"},
        check=True,
    ).stdout
    found = next_after(due, base.timestamp(), in_zone(ZoneInfo("UTC")))

    assert found is not None
    assert datetime.fromtimestamp(found, UTC).strftime("%Y-%m-%d %H:%M:%S UTC") in said


def test_every_day_has_its_name_for_systemd():
    for number, name in enumerate(DAYS):
        assert to_systemd(Recurrence((number,), (0,), (0,))).lower().startswith(name.lower())


DUE = parse_rrule("FREQ=HOURLY;BYMINUTE=0,30")
PRINTABLE = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1)


def timer(home: str = "/users/ann/vyane", project: str = "shop", schedule: str = "A") -> Timer:
    words = (f"{home}/vyane", "--home", home, "wake", "--project", project, "--schedule", schedule)
    return Timer(
        home=home, project=project, schedule=schedule, due=DUE, command=words, log=f"{home}/log"
    )


@given(PRINTABLE.map(lambda text: f"/{text}"))
def test_a_shell_reads_the_words_of_a_crontab_line_as_they_were(home):
    """Whatever the path: cron takes `\\%` for a percent sign, then the shell takes the words."""
    made = timer(home[:60])
    command = cron_line(made).split(" ", 5)[5].replace("\\%", "%")
    words = shlex.split(command.rpartition(" # vyane ")[0])

    assert words[: len(made.command)] == list(made.command)
    assert words[-1] == f"2>>{made.log}"


@pytest.mark.parametrize("home", ["/a\nb", "/a\x00b", "/a\x1bb"])
def test_a_path_that_no_timer_can_hold_is_refused(home):
    for make in (cron_line, service_unit, property_list):
        with pytest.raises(InvalidInputError):
            make(timer(home))


def test_a_line_that_cron_would_refuse_is_refused_here():
    with pytest.raises(InvalidInputError) as refused:
        cron_line(timer("/" + "long" * 200))
    assert "--with systemd" in refused.value.hint


@given(st.lists(st.sampled_from(["# mine", "MAILTO=ann", "0 5 * * * x\\%y", ""]), max_size=6))
def test_lines_of_others_stay_byte_for_byte(others):
    before = "".join(f"{line}\n" for line in others)
    lines, marks = [cron_line(timer())], [mark_of(timer())]
    after = with_lines(before, lines, marks)

    assert after == before + lines[0] + "\n"
    assert with_lines(after, lines, marks) == after
    assert without_lines(after, marks) == before


def test_a_line_of_another_project_schedule_or_state_root_is_not_ours():
    others = [timer(project="shop2"), timer(schedule="B"), timer("/other")]
    text = "".join(cron_line(one) + "\n" for one in others)

    assert without_lines(text, [mark_of(timer())]) == text
    names = {unit_name(one) for one in (timer(), *others)}
    labels = {label_of(one) for one in (timer(), *others)}
    assert len(names) == len(labels) == 4


def test_systemd_expands_nothing_in_a_word():
    text = service_unit(timer('/a %h $HOME "x" \\'))

    assert '"/a %%h $$HOME \\"x\\" \\\\/vyane"' in text
