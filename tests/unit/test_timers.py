"""Timers as text: what a shell, a crontab and a unit file make of them is what was meant."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vyane_cli.errors import InvalidInputError
from vyane_cli.projects.recurrence import (
    Timer,
    cron_line,
    label_of,
    mark_of,
    parse_rrule,
    property_list,
    service_unit,
    unit_name,
    with_lines,
    without_lines,
)

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
