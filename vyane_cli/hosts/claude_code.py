"""Claude Code: parse its hook payloads, render hook answers, read its records of a session.

Formats as measured with client 2.1.332 (`tests/hostlab/README.md`); code.claude.com, "Hooks
reference". Parsing never raises, for any payload: an unreadable payload becomes an event that does
nothing, with the reason in `problem`.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Callable, Mapping

from vyane_cli.hosts.port import HookCall, HostEvent, Reply, ToolCall, Trigger
from vyane_cli.kernel import json
from vyane_cli.kernel.ids import is_safe_id
from vyane_cli.kernel.process import Process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NAME = "claude-code"
WORKER_TYPE = "claude"
WAKE_STATUS = 2
"""The exit status with which an asynchronous handler starts a turn."""

EVENTS: Mapping[str, HostEvent] = {
    "SessionStart": HostEvent.SESSION_START,
    "UserPromptSubmit": HostEvent.PROMPT,
    "PreToolUse": HostEvent.TOOL,
    "PermissionRequest": HostEvent.PERMISSION,
    "PostToolUse": HostEvent.BATCH,
    "PostToolUseFailure": HostEvent.BATCH,
    "PostToolBatch": HostEvent.BATCH,
    "Stop": HostEvent.STOP,
    "StopFailure": HostEvent.STOP_FAILURE,
    "SessionEnd": HostEvent.SESSION_END,
    "FileChanged": HostEvent.FILE_CHANGED,
    "CwdChanged": HostEvent.CWD_CHANGED,
    "SubagentStart": HostEvent.SUBAGENT,
    "SubagentStop": HostEvent.SUBAGENT,
}

ONE_TOOL = frozenset({"PreToolUse", "PermissionRequest", "PostToolUse", "PostToolUseFailure"})
MAIN_ONLY = frozenset({HostEvent.PROMPT, HostEvent.STOP, HostEvent.STOP_FAILURE})
NOTIFICATION = "<task-notification>"
TYPED = "[vyane] "
"""Prefix of the line that vyane types into a pane."""
_ULID = r"(?<![0-9A-Za-z])[0-7][0-9A-HJKMNP-TV-Z]{25}(?![0-9A-Za-z])"
TRANSCRIPT_MAX = 16 * 1024 * 1024
IDLE_LASTS_MS = 1_000
INTERRUPTED = "[Request interrupted by user"
MARK = "❯"
"""First character of the input box of the interactive client."""


def parse(
    data: bytes,
    environ: Mapping[str, str],
    identify: Callable[[int], Process | None],
    *,
    event: str = "",
    rewake: bool = False,
    host_pid: int = 0,
) -> HookCall:
    """Parse a hook call from its stdin payload and environment.

    `event` is the event that the guard was installed for, used if the payload does not name one.
    The payload is `{}` if the guard makes the call on its own.
    `host_pid` is the guard's parent process, used if the environment does not name the client's.
    """
    payload, problem = _decode(data)
    name = _text(payload, "hook_event_name") or event
    session = _text(payload, "session_id") or environ.get("CLAUDE_CODE_SESSION_ID", "")
    kind = EVENTS.get(name, HostEvent.OTHER)
    if name == "Notification" and _text(payload, "notification_type") == "idle_prompt":
        kind = HostEvent.IDLE
    if not is_safe_id(session):
        problem = problem or f"session id {session[:40]!r} is not one"
        session = ""
    pid = environ.get("CLAUDE_PID", "")
    process = identify(int(pid) if pid.isdecimal() else host_pid)
    subagent = bool(payload.get("agent_id")) and kind is not HostEvent.SESSION_START
    prompt = _text(payload, "prompt")
    result = _text(payload, "last_assistant_message")
    call = HookCall(
        NAME,
        kind if not problem else HostEvent.OTHER,
        name,
        session,
        rewake=rewake or kind in (HostEvent.FILE_CHANGED, HostEvent.IDLE),
        attended=environ.get("CLAUDE_CODE_SESSION_ATTENDED", "1") != "0",
        subagent=subagent and kind not in MAIN_ONLY,
        turn=_text(payload, "prompt_id")[:128],
        source=_text(payload, "reason" if kind is HostEvent.SESSION_END else "source")[:64],
        cwd=_text(payload, "cwd") or environ.get("CLAUDE_PROJECT_DIR", ""),
        transcript=_text(payload, "transcript_path"),
        tools=_tools(payload, name),
        result=result,
        error=_text(payload, "error") or _text(payload, "error_type"),
        stop_active=payload.get("stop_hook_active") is True,
        file=_text(payload, "file_path"),
        digest=f"{zlib.crc32(data):08x}{len(data):x}" if data else "",
        process=process,
        config_dir=config_dir(environ),
        worker=environ.get("VYANE_WORKER", ""),
        terminal=terminal_of(environ),
        problem=problem,
    )
    if kind is HostEvent.PROMPT and prompt:
        notified = prompt.startswith(NOTIFICATION)
        typed = prompt.startswith(TYPED)
        named = ulids(prompt[:40_000]) if notified else ()
        dispatched = call.worker and not call.attended  # no person is there to type a prompt
        trigger = Trigger.WAKE if typed else Trigger.PEER if dispatched else Trigger.HUMAN
        if notified:
            trigger = Trigger.WAKE if named and "<task-id>" not in prompt else Trigger.HOST
        return call._replace(
            trigger=trigger,
            prompt_digest=digest(prompt),
            prompt_chars=len(prompt),
            named_ids=named[:200],
        )
    if kind is HostEvent.STOP and result:
        return call._replace(result_digest=digest(result))
    return call


def terminal_of(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the tmux socket and pane id of the environment. Empty outside of tmux.

    tmux(1), ENVIRONMENT: `TMUX` is socket,pid,session and `TMUX_PANE` the pane's id.
    """
    socket, pane = environ.get("TMUX", "").rsplit(",", 2)[0], environ.get("TMUX_PANE", "")
    return (socket, pane) if socket and pane else ()


def ulids(text: str) -> tuple[str, ...]:
    """Return the ULIDs in a text, each once.

    `re` is imported here because few prompts are notifications.
    """
    import re

    return tuple(dict.fromkeys(re.findall(_ULID, text)))


def digest(text: str) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of a text."""
    import hashlib

    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _decode(data: bytes) -> tuple[dict[str, Any], str]:
    """Decode a payload as UTF-8, in any locale. Return its object and the problem, if any."""
    if not data.strip():
        return {}, "the payload is empty"
    try:
        value = json.loads(data.decode("utf-8-sig", "replace"), strict=False)
    except (ValueError, RecursionError):
        return {}, "the payload is not JSON"
    if not isinstance(value, dict):
        return {}, "the payload is not an object"
    return value, ""


def _text(payload: Mapping[str, Any], key: str) -> str:
    """Return a text of the payload, empty for other types. Lone surrogates become U+FFFD."""
    value = payload.get(key)
    if not isinstance(value, str):
        return ""
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _tools(payload: Mapping[str, Any], name: str) -> tuple[ToolCall, ...]:
    if name == "PostToolBatch":
        calls = payload.get("tool_calls")
        listed = calls if isinstance(calls, list) else []
        return tuple(
            ToolCall(_text(one, "tool_use_id")[:128], _text(one, "tool_name")[:128])
            for one in listed
            if isinstance(one, dict) and one.get("tool_name")
        )
    tool = _text(payload, "tool_name")[:128]
    if not tool or name not in ONE_TOOL:
        return ()
    return (ToolCall(_text(payload, "tool_use_id")[:128], tool, name != "PostToolUseFailure"),)


# ------------------------------------------------------------------ answers

CONTEXT_EVENTS = frozenset(
    {"SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolUseFailure",
     "PostToolBatch", "Stop"}
)  # fmt: skip
"""The events whose `additionalContext` reaches the model."""


def render(reply: Reply) -> tuple[bytes, bytes]:
    """Render a reply as (stdout, stderr): at most one JSON document, or the text of a wake."""
    if reply.wake:
        return b"", reply.wake.encode("utf-8", "replace")
    specific: dict[str, Any] = {}
    if reply.context and reply.event in CONTEXT_EVENTS:
        specific["additionalContext"] = reply.context
    if reply.deny and reply.event == "PreToolUse":
        specific["permissionDecision"] = "deny"
        specific["permissionDecisionReason"] = reply.deny
    if reply.watch and reply.event in ("SessionStart", "CwdChanged"):
        specific["watchPaths"] = list(reply.watch)
    answer: dict[str, Any] = {}
    if specific:
        answer["hookSpecificOutput"] = {"hookEventName": reply.event, **specific}
    if reply.stop:
        answer["continue"] = False
        answer["stopReason"] = reply.stop
    if not answer:
        return b"", b""
    text = json.dumps(answer)
    return text.encode("utf-8", "replace"), b""


# ------------------------------------------------------------------ the host's own records


def config_dir(environ: Mapping[str, str]) -> str:
    """Return the folder in which the client keeps its settings and live-session records."""
    given = environ.get("CLAUDE_CONFIG_DIR")
    return given or os.path.join(environ.get("HOME") or os.path.expanduser("~"), ".claude")


def variables(folder: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that point a new client at this configuration folder.

    Empty if the client uses the folder by default.
    """
    usual = config_dir({name: environ[name] for name in ("HOME",) if name in environ})
    return {"CLAUDE_CONFIG_DIR": folder} if folder and folder != usual else {}


def says_idle(folder: str, pid: int, session: str, since_s: float) -> bool:
    """Return whether the client's record says that this session became idle since `since_s`.

    `sessions/PID.json` is not a documented interface: a record that is not as measured counts as
    no. The client writes `idle` after its Stop hooks have ended, also briefly when one of them
    continues the turn, and after Esc. So `idle` counts only after it has lasted for a second.
    """
    try:
        with open(os.path.join(folder, "sessions", f"{pid}.json"), "rb") as file:
            record = json.loads(file.read(65_536))
        at = record["statusUpdatedAt"]
        same = record["sessionId"] == session and record["status"] == "idle"
        if not same or not isinstance(at, (int, float)) or at < since_s * 1000:
            return False
        return not 0 <= time.time() * 1000 - at < IDLE_LASTS_MS
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False


def shows_another(folder: str, pid: int) -> bool:
    """Return whether the client's terminal shows its list of sessions, or a session from it.

    As measured: the other session runs in its own process, and the record of this client names it
    as `parkedJobId`.
    """
    try:
        with open(os.path.join(folder, "sessions", f"{pid}.json"), "rb") as file:
            return bool(json.loads(file.read(65_536)).get("parkedJobId"))
    except (OSError, ValueError, AttributeError, RecursionError):
        return False


def input_text(screen: str) -> str | None:
    """Return the text in the input box of a screen; None if the screen shows no box.

    As measured: the box is between two rules. Its first line begins with a mark, the other lines
    with two spaces. The upper rule contains the session's name if it has one (`/rename`). A dialog
    has no rule above its mark.
    """
    lines = [line.rstrip() for line in screen.splitlines()]
    for first in range(len(lines) - 1, 0, -1):
        if lines[first].startswith(MARK) and _is_upper_rule(lines[first - 1]):
            break
    else:
        return None
    text = [lines[first].removeprefix(MARK).strip()]
    for line in lines[first + 1 :]:
        if _is_rule(line):
            return "\n".join(text).strip("\n")
        text.append(line.removeprefix("  "))
    return None


def _is_rule(line: str) -> bool:
    return len(line) > 2 and not line.strip("─")


def _is_upper_rule(line: str) -> bool:
    return len(line) > 2 and line[0] == line[-1] == "─"


def was_interrupted(transcript: str) -> bool:
    """Return whether the transcript ends with the client's note of an interrupt."""
    try:
        with open(transcript, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - 16_384, 0))
            tail = file.read()
    except OSError:
        return False
    for line in reversed(tail.splitlines()):
        if b'"type":"user"' in line or b'"type":"assistant"' in line:
            return INTERRUPTED.encode() in line
    return False


def transcript_size(transcript: str) -> int:
    """Return the current size of the transcript in bytes; 0 if it does not exist."""
    try:
        return os.stat(transcript).st_size
    except OSError:
        return 0


def read_answer(transcript: str, wanted: str) -> str | None:
    """Find the whole text of an answer by its digest, from the end of the transcript.

    Return None if it is not there. The text of the Stop event is the last text block of an answer,
    or all its text blocks together.
    """
    try:
        with open(transcript, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - TRANSCRIPT_MAX, 0))
            lines = file.read().split(b"\n")
    except OSError:
        return None
    for line in reversed(lines):
        if b'"assistant"' not in line:
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        message = record.get("message") if isinstance(record, dict) else None
        content = message.get("content") if isinstance(message, dict) else None
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        texts = [
            _text(block, "text")
            for block in (content if isinstance(content, list) else ())
            if isinstance(block, dict) and block.get("type") == "text"
        ]
        for text in (*texts, "".join(texts), "\n".join(texts)):
            if text and wanted in (digest(text), digest(text.strip())):
                return text
    return None


def read_turn(
    transcript: str, start: int
) -> tuple[tuple[ToolCall, ...], dict[str, Any] | None, str]:
    """Read a turn from the transcript, from byte `start` on. Return (tools, usage, problem).

    Of tool calls only ids, names and outcomes are read. Usage is the sum over the model's answers,
    each counted once; None if no answer reports any.
    """
    try:
        with open(transcript, "rb") as file:
            file.seek(start)
            data = file.read(TRANSCRIPT_MAX)
    except OSError as error:
        if isinstance(error, FileNotFoundError):
            return (), None, ""
        return (), None, f"transcript: {error.strerror}"
    names: dict[str, str] = {}
    failed: set[str] = set()
    usage: dict[str, dict[str, int]] = {}
    model, bad = "", 0
    lines = data.split(b"\n")
    for line in lines if data.endswith(b"\n") else lines[:-1]:
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            bad += 1
            continue
        message = record.get("message") if isinstance(record, dict) else None
        if not isinstance(message, dict) or record.get("isSidechain"):
            continue
        content = message.get("content")
        for block in content if isinstance(content, list) else ():
            if not isinstance(block, dict):
                continue
            if block.get("type") == "tool_use" and isinstance(block.get("id"), str):
                names[block["id"]] = _text(block, "name")[:128] or "unknown"
            elif block.get("type") == "tool_result" and block.get("is_error"):
                failed.add(str(block.get("tool_use_id")))
        counts = message.get("usage")
        if isinstance(counts, dict) and isinstance(message.get("id"), str):
            model = _text(message, "model") or model
            usage[message["id"]] = {
                ours: counts[theirs]
                for ours, theirs in _USAGE.items()
                if isinstance(counts.get(theirs), int)
            }
    tools = tuple(ToolCall(i, name, i not in failed) for i, name in names.items())
    problem = f"{bad} lines of the transcript are not JSON" if bad else ""
    if len(data) == TRANSCRIPT_MAX:
        problem = f"the turn is longer than {TRANSCRIPT_MAX >> 20} MiB: what follows is not counted"
    if not usage:
        return tools, None, problem
    total: dict[str, Any] = {"requests": len(usage)}
    for key in _USAGE:
        total[key] = sum(one.get(key, 0) for one in usage.values())
    if model:
        total["model"] = model[:128]
    return tools, total, problem


_USAGE = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cache_read_tokens": "cache_read_input_tokens",
    "cache_write_tokens": "cache_creation_input_tokens",
}
