"""A scripted stand-in for the Anthropic Messages API, on loopback, standard library only.

    python -m hostlab.mock_anthropic FOLDER

serves on a free port, which it writes to FOLDER/port. Several clients share one server: the first
part of the path says whose call it is, so a client gets `http://127.0.0.1:PORT/NAME` as its
base URL, its answers come from FOLDER/NAME.script.json, and FOLDER/NAME.requests.jsonl keeps
what it asked, one line per request, written before the answer.

    POST /NAME/v1/messages               from the script, as a stream when the body says so
    POST /NAME/v1/messages/count_tokens  {"input_tokens": a rough count}
    anything else                        404 with an empty error object; the client lives with that

The script is a JSON list of turns. A turn answers one request. It is a list of content blocks or

    {"blocks": [...],       the answer
     "when": "regex",       only if the newest user message matches (re.search, DOTALL)
     "when_first": "regex", the same for the oldest user message: a subagent's is its prompt
     "when_any": "regex",   the same for the whole request
     "repeat": true,        may be used again and again (default: once)
     "delay": 1.5,          seconds before the first byte
     "chunk_delay": 0.05,   seconds between streamed pieces of text
     "status": 529,         an API error instead of the blocks ("error": {"type", "message"})
     "stop_reason": "..."}  default: tool_use if a tool is called, else end_turn

A block is a string (text), {"tool": "Bash", "input": {...}} or a content block of the API.

For each request the first unused turn whose conditions hold is taken; when none is left the answer
is EXHAUSTED. The file is read again for every request, so that a test may append turns while a
session lives; it must not change turns that are there, for what is used goes by position.

Requests without a list of tools are the client's own (titles, classifiers). They take only a turn
with a condition that matches, and are answered "ok" otherwise. Two things do look like the main
loop and take turns: subagents (use `when_first`), and the summary request of /compact (`when`).
"""

import json
import re
import sys
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from hostlab.conversation import text_of, user_texts, whole_text

EXHAUSTED = "[mock: script exhausted]"
SECRET_HEADERS = {"x-api-key", "authorization", "cookie"}

Turn = dict[str, Any]
Body = dict[str, Any]


class Script:
    """The answers of one client, and which of them are used up."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.used: set[int] = set()

    def pick(self, body: Body) -> tuple[int | None, Turn]:
        """Take the turn for a request: its position (None: the default answer) and itself."""
        is_main = bool(body.get("tools"))
        turns = json.loads(self.path.read_bytes()) if self.path.exists() else []
        for index, raw in enumerate(turns):
            turn: Turn = {"blocks": raw} if isinstance(raw, list) else raw
            if index in self.used and not turn.get("repeat"):
                continue
            conditions = matches(turn, body)
            if all(conditions) and (is_main or conditions):
                self.used.add(index)
                return index, turn
        return None, {"blocks": [EXHAUSTED if is_main else "ok"]}


def matches(turn: Turn, body: Body) -> list[bool]:
    """Whether each condition of the turn holds; empty for a turn without conditions."""
    texts = user_texts(body) or [""]
    subjects = {"when": texts[-1], "when_first": texts[0], "when_any": whole_text(body)}
    return [
        re.search(turn[name], subject, re.DOTALL) is not None
        for name, subject in subjects.items()
        if name in turn
    ]


def block_of(raw: Any) -> dict[str, Any]:
    """A content block of the API from its short form; a tool call gets a fresh id."""
    match raw:
        case str():
            return {"type": "text", "text": raw}
        case {"tool": name, **rest}:
            fresh = "toolu_" + uuid.uuid4().hex[:24]
            return {"type": "tool_use", "id": fresh, "name": name, "input": rest.get("input", {})}
        case {"type": _}:
            return {**raw}
        case _:
            raise ValueError(f"not a content block: {raw!r}")


class Server(ThreadingHTTPServer):
    """The server, its scripts and its logs."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.folder = folder
        self.lock = threading.Lock()
        self.scripts: dict[str, Script] = {}

    def pick(self, name: str, body: Body) -> tuple[int | None, Turn]:
        """The answer to one request of the named client."""
        with self.lock:
            if name not in self.scripts:
                self.scripts[name] = Script(self.folder / f"{name}.script.json")
            return self.scripts[name].pick(body)

    def log(self, name: str, entry: dict[str, object]) -> None:
        """Keep one request; on return a reader sees it."""
        line = json.dumps(entry, ensure_ascii=False).encode() + b"\n"
        with self.lock, (self.folder / f"{name}.requests.jsonl").open("ab", buffering=0) as file:
            file.write(line)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report what goes wrong; a client that went away is no news here."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: the request log is kept by the server."""

    def do_GET(self) -> None:
        self.keep("other", self.body())
        self.answer_json(404, {"type": "error", "error": {"type": "not_found_error"}})

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:
        match self.route():
            case (_, "v1/messages"):
                self.messages()
            case (_, "v1/messages/count_tokens"):
                body = self.body()
                self.keep("count_tokens", body)
                self.answer_json(200, {"input_tokens": rough_tokens(body)})
            case _:
                self.do_GET()

    def route(self) -> tuple[str, str]:
        """(whose call it is, the path of the API)."""
        name, _, rest = self.path.split("?")[0].strip("/").partition("/")
        return name, rest

    def body(self) -> Body:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        try:
            parsed = json.loads(raw) if raw else {}
        except ValueError:
            return {"_raw": raw.decode("utf-8", "replace")}
        return parsed if isinstance(parsed, dict) else {"_raw": parsed}

    def keep(self, kind: str, body: Body, **more: object) -> None:
        headers = {k: v for k, v in self.headers.items() if k.lower() not in SECRET_HEADERS}
        call = {"t": time.time(), "kind": kind, "method": self.command, "path": self.path}
        self.server.log(self.route()[0], {**call, "headers": headers, **more, "body": body})

    def answer_json(self, status: int, value: object) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.send_header("request-id", "req_mock")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def messages(self) -> None:
        body = self.body()
        index, turn = self.server.pick(self.route()[0], body)
        blocks = [block_of(raw) for raw in turn.get("blocks", [])]
        status = turn.get("status", 200)
        kind = "main" if body.get("tools") else "side"
        self.keep(kind, body, turn=index, status=status, reply=blocks)
        time.sleep(turn.get("delay", 0))
        if status != 200:
            error = turn.get("error", {"type": "api_error", "message": "scripted error"})
            self.answer_json(status, {"type": "error", "error": error})
            return
        calls_a_tool = any(block["type"] == "tool_use" for block in blocks)
        message = {
            "id": "msg_" + uuid.uuid4().hex[:24],
            "type": "message",
            "role": "assistant",
            "model": body.get("model", "mock"),
            "content": blocks,
            "stop_reason": turn.get("stop_reason", "tool_use" if calls_a_tool else "end_turn"),
            "stop_sequence": None,
            "usage": {
                "input_tokens": rough_tokens(body),
                "output_tokens": 10,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 0,
            },
        }
        if not body.get("stream"):
            self.answer_json(200, message)
            return
        try:
            self.stream(message, turn.get("chunk_delay", 0))
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def event(self, kind: str, **fields: object) -> None:
        data = f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def stream(self, message: dict[str, Any], pause_s: float) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("cache-control", "no-cache")
        self.send_header("request-id", "req_mock")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        self.event("message_start", message={**message, "content": [], "stop_reason": None})
        for index, block in enumerate(message["content"]):
            self.stream_block(index, block, pause_s)
        ended = {"stop_reason": message["stop_reason"], "stop_sequence": None}
        self.event("message_delta", delta=ended, usage={"output_tokens": 10})
        self.event("message_stop")
        self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()

    def stream_block(self, index: int, block: dict[str, Any], pause_s: float) -> None:
        if block["type"] == "tool_use":
            empty = {**block, "input": {}}
            deltas = [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
        else:
            text = block["text"]
            step = 20 if pause_s else max(1, len(text))
            empty = {"type": "text", "text": ""}
            deltas = [
                {"type": "text_delta", "text": text[at : at + step]}
                for at in range(0, len(text), step)
            ]
        self.event("content_block_start", index=index, content_block=empty)
        for delta in deltas:
            self.event("content_block_delta", index=index, delta=delta)
            time.sleep(pause_s)
        self.event("content_block_stop", index=index)


def rough_tokens(body: Body) -> int:
    return len(json.dumps(body)) // 4 + 1


def show(path: Path) -> None:
    """Print a request log, a line per message: for a person who looks into a failed test."""
    for line in path.read_text().splitlines():
        entry = json.loads(line)
        print(f"{entry['t']:.3f} {entry['kind']} turn={entry.get('turn')} {entry['path']}")
        for message in entry["body"].get("messages", []):
            print(f"    {message['role']:9} {text_of(message['content'])!r}")
        for block in entry.get("reply", []):
            print(f"    -> {text_of([block])!r}")


def main() -> None:
    """Serve FOLDER until killed, or print the log that is named."""
    target = Path(sys.argv[1])
    if target.is_file():
        show(target)
        return
    server = Server(target)
    part = target / "port.part"
    part.write_text(str(server.server_port))
    part.replace(target / "port")
    server.serve_forever()


if __name__ == "__main__":
    main()
