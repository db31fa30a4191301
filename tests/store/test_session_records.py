"""The client's own records of a session: evidence of idleness, never of work."""

import json
import time
from pathlib import Path

import pytest

from vyane_cli.hosts.claude_code import IDLE_LASTS_MS, says_idle, was_interrupted

SESSION = "77db3e1b-dece-464a-839a-92088b84dc9f"


def record(folder: Path, **changes: object) -> str:
    at = time.time() * 1000 - IDLE_LASTS_MS - 500
    data = {"sessionId": SESSION, "status": "idle", "statusUpdatedAt": at, **changes}
    (folder / "sessions").mkdir(exist_ok=True)
    (folder / "sessions" / "42.json").write_text(json.dumps(data))
    return str(folder)


def test_an_idle_that_has_lasted_is_believed(tmp_path: Path) -> None:
    """Since a moment: an idle from before the turn says nothing about it."""
    folder = record(tmp_path)

    assert says_idle(folder, 42, SESSION, time.time() - 60)
    assert not says_idle(folder, 42, SESSION, time.time())


def test_an_idle_of_this_moment_is_not_believed(tmp_path: Path) -> None:
    """The client says so between a Stop and the turn that a hook makes of it."""
    folder = record(tmp_path, statusUpdatedAt=time.time() * 1000)

    assert not says_idle(folder, 42, SESSION, time.time() - 60)


@pytest.mark.parametrize(
    "changes",
    [
        {"status": "busy"},
        {"status": "waiting"},
        {"status": None},
        {"sessionId": "another"},
        {"statusUpdatedAt": "now"},
        {"statusUpdatedAt": None},
    ],
)
def test_what_is_not_as_measured_says_nothing(tmp_path: Path, changes: dict[str, object]) -> None:
    """It is no documented interface."""
    assert not says_idle(record(tmp_path, **changes), 42, SESSION, 0.0)


def test_a_record_that_is_not_there_or_no_json_says_nothing(tmp_path: Path) -> None:
    """Nor does one of another process."""
    folder = record(tmp_path)
    assert not says_idle(folder, 43, SESSION, 0.0)
    (tmp_path / "sessions" / "42.json").write_text("{")
    assert not says_idle(folder, 42, SESSION, 0.0)


def test_only_the_last_word_of_a_transcript_is_an_interrupt(tmp_path: Path) -> None:
    """What was said after it is another turn."""
    path = tmp_path / "transcript.jsonl"
    assert not was_interrupted(str(path))
    mark = '{"type":"user","message":{"content":[{"text":"[Request interrupted by user]"}]}}\n'
    path.write_text(mark)
    assert was_interrupted(str(path))
    path.write_text(mark + '{"type":"assistant","message":{"content":[{"text":"Hello."}]}}\n')
    assert not was_interrupted(str(path))
