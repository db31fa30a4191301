"""Turns as spans of OpenTelemetry: OTLP JSON, with the generative-AI conventions where they fit.

Sources: the OTLP specification, "JSON Protobuf Encoding" (hexadecimal ids, 64-bit numbers as texts,
enums as numbers); semantic conventions 1.41, "GenAI agent and framework spans". A value without a
name in the conventions is called `vyane.…`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from vyane_cli.timeline.events import EventKind

SCHEMA_URL = "https://opentelemetry.io/schemas/1.41.0"
INTERNAL = 1
UNSET, OK, ERROR = 0, 1, 2
STATUS: Mapping[str, int] = {
    "success": OK,
    "error": ERROR,
    "cancelled": UNSET,
    "interrupted": UNSET,
}
PROVIDERS: Mapping[str, str] = {
    "claude-code": "anthropic",
    "codex": "openai",
    "gemini-cli": "gcp.gemini",
}
"""A host → the well-known value of `gen_ai.provider.name`. Other hosts keep their own name."""
USAGE: Mapping[str, str] = {
    "input_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "cache_read_tokens": "gen_ai.usage.cache_read.input_tokens",
    "cache_write_tokens": "gen_ai.usage.cache_creation.input_tokens",
    "requests": "vyane.requests",
}


def attributes(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a KeyValue list without the values that are None or empty."""
    return [
        {"key": key, "value": _value(value)}
        for key, value in values.items()
        if value not in (None, "", [])
    ]


def _value(value: object) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, (list, tuple)):
        return {"arrayValue": {"values": [_value(item) for item in value]}}
    return {"stringValue": str(value)}


def nanoseconds(at: float) -> str:
    """Return Unix seconds as an OTLP time in nanoseconds. Only milliseconds are known."""
    return str(round(at * 1000) * 1_000_000)


def tell_spans(records: Iterable[Mapping[str, Any]], name: str) -> Iterator[dict[str, Any]]:
    """Yield a span for each turn, followed by the spans of its tools.

    A turn that still runs has no end yet. A fact outside of turns is a span of zero length.
    """
    span: dict[str, Any] | None = None
    tools: list[dict[str, Any]] = []
    for record in records:
        kind, payload = record["kind"], record.get("payload") or {}
        if kind == EventKind.TURN_STARTED:
            span, tools = _turn(record, payload, name), []
        elif record.get("turn") is None or span is None:
            yield _fact(record, payload)
        elif kind == EventKind.TURN_FINISHED:
            _end(span, record, payload)
            yield span
            yield from tools
            span, tools = None, []
        elif kind == EventKind.TOOL_OBSERVED:
            tools.append(_tool(record, payload, span))
        elif kind == EventKind.USAGE_OBSERVED:
            model = payload.get("model")
            used = {USAGE[key]: value for key, value in payload.items() if key in USAGE}
            span["attributes"] += attributes({"gen_ai.request.model": model, **used})
        else:
            span["events"].append(_event(record, payload))
    if span is not None:
        span["attributes"] += attributes({"vyane.turn.open": True})
        yield span
        yield from tools


def _turn(record: Mapping[str, Any], payload: Mapping[str, Any], name: str) -> dict[str, Any]:
    host = str((record.get("origin") or {}).get("provider") or "")
    span: dict[str, Any] = {
        "traceId": record["trace_id"],
        "spanId": record["span_id"],
        "name": f"invoke_agent {name}",
        "kind": INTERNAL,
        "startTimeUnixNano": nanoseconds(record["at"]),
        "endTimeUnixNano": nanoseconds(record["at"]),
        "attributes": attributes(
            {
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.provider.name": PROVIDERS.get(host, host),
                "gen_ai.agent.id": record.get("worker"),
                "gen_ai.agent.name": name,
                "gen_ai.conversation.id": record["session"],
                "vyane.turn.id": record["turn"],
                "vyane.turn.number": record.get("turn_number"),
                "vyane.turn.trigger": payload.get("trigger"),
                "vyane.prompt.chars": payload.get("prompt_chars"),
                "vyane.message.ids": payload.get("message_ids"),
            }
        ),
        "events": [],
        "status": {"code": UNSET},
    }
    if record.get("parent_span_id"):
        span["parentSpanId"] = record["parent_span_id"]
    return span


def _end(span: dict[str, Any], record: Mapping[str, Any], payload: Mapping[str, Any]) -> None:
    outcome, code = str(payload.get("outcome")), payload.get("code")
    span["endTimeUnixNano"] = max(nanoseconds(record["at"]), span["startTimeUnixNano"], key=int)
    span["status"] = {"code": STATUS.get(outcome, UNSET)}
    if span["status"]["code"] == ERROR:
        span["status"]["message"] = str(payload.get("text") or code or outcome)
        span["attributes"] += attributes({"error.type": code or "_OTHER"})
    span["attributes"] += attributes({"vyane.turn.outcome": outcome, "vyane.turn.code": code})


def _tool(
    record: Mapping[str, Any], payload: Mapping[str, Any], turn: Mapping[str, Any]
) -> dict[str, Any]:
    failed = payload.get("outcome") not in (None, "ok", "success")
    took_s = (payload.get("duration_ms") or 0) / 1000
    return {
        "traceId": record["trace_id"],
        "spanId": span_of(record),
        "parentSpanId": turn["spanId"],
        "name": f"execute_tool {payload.get('tool')}",
        "kind": INTERNAL,
        "startTimeUnixNano": nanoseconds(record["at"] - took_s),
        "endTimeUnixNano": nanoseconds(record["at"]),
        "attributes": attributes(
            {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": payload.get("tool"),
                "gen_ai.tool.call.id": payload.get("tool_use_id"),
                "error.type": "tool_error" if failed else None,
            }
        ),
        "events": [],
        "status": {"code": ERROR if failed else OK},
    }


def _event(record: Mapping[str, Any], payload: Mapping[str, Any]) -> dict[str, Any]:
    kept = {f"vyane.{key}": value for key, value in payload.items() if not isinstance(value, dict)}
    return {
        "timeUnixNano": nanoseconds(record["at"]),
        "name": record["kind"],
        "attributes": attributes({**kept, "vyane.seq": record["seq"]}),
    }


def _fact(record: Mapping[str, Any], payload: Mapping[str, Any]) -> dict[str, Any]:
    fact = _event(record, payload)
    conversation = attributes({"gen_ai.conversation.id": record["session"]})
    return {
        "traceId": record["trace_id"],
        "spanId": span_of(record),
        "name": record["kind"],
        "kind": INTERNAL,
        "startTimeUnixNano": fact["timeUnixNano"],
        "endTimeUnixNano": fact["timeUnixNano"],
        "attributes": [*fact["attributes"], *conversation],
        "events": [],
        "status": {"code": UNSET},
    }


def span_of(record: Mapping[str, Any]) -> str:
    """Return a span id, from epoch and seq, for an event that has no span of its own."""
    number = int(record["epoch"][:16], 16) ^ int(record["seq"])
    return f"{number or 1:016x}"
