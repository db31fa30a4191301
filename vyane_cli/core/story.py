"""Turns as a readable story: the fold of a timeline's events for people and for export."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from vyane_cli.core.events import EventKind


def tell_turns(records: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Chapters in order: a turn when it ends (an open one at the end), and what lies between them.

    A turn has `type` turn; a note (a fact outside of turns) has `type` note and its event.
    """
    turn: dict[str, Any] | None = None
    for record in records:
        kind, payload = record["kind"], record.get("payload") or {}
        if kind == EventKind.TURN_STARTED:
            turn = _begin(record, payload)
        elif record.get("turn") is None or turn is None:
            yield {"type": "note", "at": record["at"], "event": dict(record)}
        elif kind == EventKind.TURN_FINISHED:
            turn.update(
                ended_at=record["at"],
                outcome=payload.get("outcome"),
                code=payload.get("code"),
                text=payload.get("text"),
                duration_ms=payload.get("duration_ms"),
            )
            yield turn
            turn = None
        else:
            _add(turn, kind, payload, record)
    if turn is not None:
        yield turn


def _begin(record: Mapping[str, Any], payload: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "turn",
        "turn": record["turn"],
        "number": record.get("turn_number"),
        "at": record["at"],
        "ended_at": None,
        "trigger": payload.get("trigger"),
        "prompt_chars": payload.get("prompt_chars"),
        "message_ids": list(payload.get("message_ids") or ()),
        "provider": (record.get("origin") or {}).get("provider"),
        "tools": [],
        "deliveries": [],
        "permissions": [],
        "diagnostics": [],
        "control": [],
        "result": None,
        "result_chars": None,
        "usage": None,
        "outcome": None,
        "code": None,
        "text": None,
        "duration_ms": None,
    }


def _add(
    turn: dict[str, Any], kind: str, payload: Mapping[str, Any], record: Mapping[str, Any]
) -> None:
    match kind:
        case EventKind.TOOL_OBSERVED:
            name = payload.get("tool")
            known = next((tool for tool in turn["tools"] if tool["tool"] == name), None)
            if known is None:
                known = {"tool": name, "count": 0, "failed": 0}
                turn["tools"].append(known)
            known["count"] += 1
            known["failed"] += payload.get("outcome") not in (None, "ok", "success")
        case EventKind.RESULT_OBSERVED:
            turn["result"], turn["result_chars"] = payload.get("excerpt"), payload.get("chars")
        case EventKind.USAGE_OBSERVED:
            turn["usage"] = dict(payload)
        case EventKind.DELIVERY_ATTEMPTED:
            turn["deliveries"].append({"at": record["at"], **payload})
        case EventKind.PERMISSION_OBSERVED:
            turn["permissions"].append({"at": record["at"], **payload})
        case EventKind.DIAGNOSTIC:
            turn["diagnostics"].append({"at": record["at"], **payload})
        case _:
            turn["control"].append({"at": record["at"], "kind": kind, **payload})
