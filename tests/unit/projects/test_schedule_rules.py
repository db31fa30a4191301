"""Schedules A and B: what is read from their file, and what a pause changes."""

import json

import pytest

from vyane_cli.errors import InvalidInputError
from vyane_cli.kernel.runtimes import child_environment, find_runtime
from vyane_cli.projects.schedule_rules import (
    DEFAULT,
    NAMES,
    Installed,
    ScheduleStatus,
    With,
    check_schedule,
    completed,
    next_round,
    parse_schedules,
    recorded,
    render_schedules,
    were_due,
)


def test_a_file_is_read_back_with_what_others_wrote_beside_it():
    data = render_schedules(DEFAULT._replace(installed=Installed(With.CRON, {"PATH": "/bin"}, 1.0)))
    data["note"] = "mine"
    data["schedules"]["B"]["note"] = [1]

    assert render_schedules(parse_schedules(data)) == data
    assert json.loads(json.dumps(data)) == data


def test_a_pause_changes_the_status_of_both_and_nothing_else():
    paused = DEFAULT.with_status(ScheduleStatus.PAUSED)

    assert paused.paused
    assert not DEFAULT.paused
    assert [plan.rrule for plan in paused.plans.values()] == [
        plan.rrule for plan in DEFAULT.plans.values()
    ]
    assert paused.with_status(ScheduleStatus.ACTIVE) == DEFAULT
    assert paused.with_rules({"A": "FREQ=HOURLY"}).paused


@pytest.mark.parametrize(
    "path, value, says",
    [
        (("schedules",), [], "schedules"),
        (("schedules", "C"), {}, '"A" and "B"'),
        (("schedules", "A"), 3, "schedules.A"),
        (("schedules", "A", "status"), "paused", "schedules.A.status"),
        (("schedules", "B", "rrule"), 3, "schedules.B.rrule"),
        (("schedules", "B", "rrule"), "daily", "schedules.B.rrule"),
        (("installed",), [], "installed"),
        (("installed",), {"environment": {"PATH": 3}}, "installed.environment"),
        (("installed",), {"timer": "foo", "environment": {}}, "installed.timer: 'foo' is not one"),
        (("installed",), {"environment": {}}, "installed.timer: None is not one"),
        (("installed",), {"timer": "cron", "environment": {}, "at": "now"}, "installed.at: 'now'"),
    ],
)
def test_a_wrong_key_is_named_by_its_place(path, value, says):
    data = json.loads(json.dumps(render_schedules(DEFAULT)))
    place = data
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value

    with pytest.raises(ValueError, match=says):
        parse_schedules(data)


def at_utc(at: float) -> tuple[int, int, int]:
    return int(at // 86_400 + 3) % 7, int(at // 3600) % 24, int(at // 60) % 60


def test_the_next_round_is_the_first_of_what_is_active():
    assert next_round(DEFAULT, 0.0, at_utc) == 900.0, "B, a quarter past"
    assert next_round(DEFAULT, 900.0, at_utc) == 1800.0, "A"
    assert next_round(DEFAULT.with_status(ScheduleStatus.PAUSED), 0.0, at_utc) is None


@pytest.mark.parametrize("until_s, due", [(2_699, False), (2_700, True), (100_000, True)])
def test_so_many_rounds_were_due_or_not(until_s, due):
    assert were_due(DEFAULT, 3, 0.0, until_s, at_utc) is due
    assert not were_due(DEFAULT.with_status(ScheduleStatus.PAUSED), 3, 0.0, until_s, at_utc)


def test_there_are_two_schedules():
    assert [check_schedule(name) for name in NAMES] == ["A", "B"]
    for name in ("", "a", "C"):
        with pytest.raises(InvalidInputError):
            check_schedule(name)


def test_what_is_kept_of_an_environment_holds_no_secret():
    environ = {"PATH": "/opt/bin", "HOME": "/users/ann", "ANTHROPIC_API_KEY": "x", "LANG": ""}

    assert recorded(environ) == {"PATH": "/opt/bin", "HOME": "/users/ann"}


def test_where_hosts_keep_their_settings_is_kept_for_runtimes_that_take_it():
    """What works from the shell that made the timers works from them."""
    environ = {"CLAUDE_CONFIG_DIR": "/opt/claude", "CODEX_HOME": "/opt/codex", "CLAUDECODE": "1"}
    kept = completed({"PATH": "/bin"}, recorded(environ), "/v")
    home = find_runtime("claude", {})

    given = child_environment(kept, home._replace(keep=("CLAUDE_CONFIG_DIR",)), "/h", "w-1")
    assert given["CLAUDE_CONFIG_DIR"] == "/opt/claude"
    assert "CODEX_HOME" not in given
    assert "CLAUDECODE" not in kept


def test_a_round_has_what_the_timer_gives_and_what_was_kept():
    kept = {"PATH": "/opt/bin:/usr/bin", "HOME": "/users/ann", "SECRET": "no"}

    assert completed({"PATH": "/usr/bin:/bin"}, kept, "/v") == {
        "PATH": "/opt/bin:/usr/bin:/bin:/v",
        "HOME": "/users/ann",
    }
    assert completed({"PATH": "/bin", "HOME": "/users/bob"}, kept, "/v")["HOME"] == "/users/bob"
    assert completed({}, {}, "/v") == {"PATH": "/v"}
