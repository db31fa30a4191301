"""Results: the text and status that a parent gets for a child's end, cut to fit a message."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from vyane_cli.kernel import ids
from vyane_cli.kernel.text import cut_utf16, utf16_length
from vyane_cli.kernel.values import NamedTuple, StrEnum
from vyane_cli.mail.message import MONTH_S
from vyane_cli.sessions.worker import WorkerStatus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TOKENS_MAX = 2_000
"""Most estimated tokens of a result's text in a message."""
UNITS_MAX = 8_000
"""The same in UTF-16 units: leaves room for envelope and preface in one hook output of 9,500."""
TTL_S = MONTH_S
"""Time to live of a result, in seconds; longer than other mail, for a parent that is closed."""
CANCELLED = "cancelled_by_parent"


class Ending(StrEnum):
    """The way a child ended, by its runtime's behaviour rather than by its text."""

    SUCCESS = "success"
    ERROR = "error"
    CANCELLED = "cancelled"


STATUS_OF: Mapping[Ending, WorkerStatus] = {
    Ending.SUCCESS: WorkerStatus.COMPLETED,
    Ending.ERROR: WorkerStatus.FAILED,
    Ending.CANCELLED: WorkerStatus.KILLED,
}


class Report(NamedTuple):
    """The known facts of a child's end."""

    ending: Ending
    text: str = ""
    error: str = ""
    artifacts: tuple[Any, ...] = ()


class PlannedResult(NamedTuple):
    """The payload of a task-result, and a text that is too long for it and goes to a blob."""

    payload: Mapping[str, Any]
    digest: str = ""
    overflow: str = ""


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text: a quarter for each ASCII character, one for any other.

    Deterministic, and on the safe side for code and for Chinese.
    """
    ascii_count = sum(1 for character in text if character < "\x80")
    return -(-ascii_count // 4) + len(text) - ascii_count


def head_of(text: str) -> str:
    """Return the longest beginning of a text that is within both caps."""
    head = cut_utf16(text, UNITS_MAX)
    quarters = 0
    for index, character in enumerate(head):
        quarters += 1 if character < "\x80" else 4
        if quarters > TOKENS_MAX * 4:
            return head[:index]
    return head


def plan_result(report: Report, cursor: str = "") -> PlannedResult:
    """Return the payload for the parent. A text over the caps becomes a head and a reference."""
    text, error = report.text.strip("\n"), report.error
    if report.ending is not Ending.SUCCESS:
        error = error or (CANCELLED if report.ending is Ending.CANCELLED else "it failed")
        text = f"{error}\n\n{text}" if text and text != error else error
    payload: dict[str, Any] = {"success": report.ending is Ending.SUCCESS}
    if not payload["success"]:
        payload["error"] = head_of(error)[:512]
    if report.artifacts:
        payload["artifacts"] = list(report.artifacts)
    if cursor:
        payload["events_replay_token"] = cursor
    tokens = estimate_tokens(text)
    if tokens <= TOKENS_MAX and utf16_length(text) <= UNITS_MAX:
        return PlannedResult({**payload, "summary": text})
    data = text.encode("utf-8", "replace")
    digest = hashlib.sha256(data).hexdigest()
    reference = {"sha256": digest, "bytes": len(data), "tokens": tokens}
    return PlannedResult({**payload, "head": head_of(text), "summary_ref": reference}, digest, text)


def result_id(dispatch: str, heir: str = "") -> str:
    """Return the deterministic id of a dispatch's result: two senders send the same message.

    `heir`: id of the worker that gets a copy, because the parent has ended.
    """
    entropy = hashlib.sha256(f"result of {dispatch} {heir}".encode()).digest()
    return ids.render_ulid(ids.parse_ulid(dispatch) >> 80, entropy)


def decide_report(status: int, candidate: Report | None, output: str) -> Report:
    """Decide the report of a process that ended: its exit status decides, its answer is the text.

    `status` is negative for a signal, as in `subprocess`. `candidate` is the last answer that the
    host's hooks saw; without a candidate the text is `output`, the process's printed text.
    """
    if status < 0:
        text = candidate.text if candidate is not None else output
        return Report(Ending.ERROR, text, f"it was ended by signal {-status}")
    if candidate is not None and (status == 0 or candidate.ending is not Ending.SUCCESS):
        return candidate
    if status:
        text = candidate.text if candidate is not None else output
        return Report(Ending.ERROR, text, f"it exited with status {status}")
    return Report(Ending.SUCCESS, output)


def parse_report(data: Mapping[str, Any] | None) -> Report | None:
    """Parse a candidate from its stored form; return None when the data is not a candidate."""
    try:
        if data is None:
            return None
        text, error = data.get("text") or "", data.get("error") or ""
        return Report(Ending(data["ending"]), str(text), str(error))
    except (KeyError, ValueError):
        return None
