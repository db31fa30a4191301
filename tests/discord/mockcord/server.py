"""The HTTP side: routing, authentication, limits, faults, validation, and the log."""

from __future__ import annotations

import json
import pathlib
import re
import threading
import time
from dataclasses import asdict
from typing import Any
from urllib.parse import parse_qs, urlsplit

from . import view
from .clock import Clock
from .contract import Contract, Match, Problem
from .endpoints import perform
from .faults import Fault, Faults
from .limits import Limits, refusal
from .records import GUILD_FORUM, GUILD_TEXT, ApiError, File, form_error
from .wire import Handler, Server, parse_json, parse_multipart
from .world import World

API = "/api/v10"
VIA = {
    "Via": "1.1 google"
}  # on every answer of the API itself; the edge network's own refusals lack it
BAN_BODY = {"code": 0, "message": "blocked for a while: too many refused requests"}
# the branch of each union that the channel's kind selects
SCHEMAS = {
    "create_message": "MessageCreateRequest",
    "update_message": "MessageEditRequestPartial",
    "update_channel": "UpdateThreadRequestPartial",
}
CREATES = {"create_message", "create_thread"}


class MockDiscord:
    """A Discord of one guild on a loopback port.

    `with MockDiscord() as discord:` starts it; `discord.base_url` is what a client should use
    in place of Discord's own address.  `forum`, `text`, `alice` and `oncall` are ready-made.
    """

    def __init__(
        self,
        out: pathlib.Path | str | None = None,
        port: int = 0,
        contract: Contract | None = None,
        require_tag: bool = False,
        limits: dict[str, Any] | None = None,
        check_user_agent: bool = True,
        refuse_unknown_fields: bool = False,
        **world_options: Any,
    ) -> None:
        self.contract = contract or Contract()
        self.clock = Clock()
        self.world = World(self.clock, **world_options)
        self.limits = Limits()
        self.limits.configure(limits or {})
        self.faults = Faults()
        self.check_user_agent = check_user_agent
        self.refuse_unknown_fields = refuse_unknown_fields
        self.forum = self.world.add_channel(
            "agents", GUILD_FORUM, ("codex", "claude", "done"), require_tag
        )
        self.text = self.world.add_channel("general", GUILD_TEXT)
        self.alice = self.world.add_user("alice")
        self.oncall = self.world.add_role("oncall")
        self.requests: list[dict[str, Any]] = []
        self.habits: list[str] = []
        self.internal: list[str] = []
        self._in_flight: dict[str, int] = {}
        self._lock = threading.RLock()
        self._out = pathlib.Path(out) if out else None
        self._written = 0.0
        if self._out:
            self._out.mkdir(parents=True, exist_ok=True)
            (self._out / "requests.jsonl").write_text("")
        server = self

        class Bound(Handler):
            mock = server

        self._http = Server(("127.0.0.1", port), Bound)
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )

    # -- life -------------------------------------------------------------------------
    def start(self) -> MockDiscord:
        self._thread.start()
        return self

    def stop(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self.write(force=True)

    __enter__ = start

    def __exit__(self, *exc: object) -> None:
        self.stop()

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    @property
    def base_url(self) -> str:
        return self.root + API

    # -- for tests ------------------------------------------------------------------------
    def fault(self, **options: Any) -> Fault:
        with self._lock:
            return self.faults.add(**options)

    def advance(self, seconds: float) -> None:
        with self._lock:
            self.clock.advance(seconds)
            self.write(force=True)

    def act(self, what: str, **args: Any) -> Any:
        with self._lock:
            result = self.world.act(what, **args)
            self.write(force=True)
            return result

    def state(self) -> dict[str, Any]:
        with self._lock:
            return view.state(self.world, self.problems())

    def transcript(self) -> str:
        with self._lock:
            return view.transcript(self.world)

    def visible(self, channel_id: str) -> list[dict[str, Any]]:
        """The messages a person sees in a thread or channel, oldest first."""
        with self._lock:
            return view.visible(self.world, channel_id)

    def threads(self) -> list[dict[str, Any]]:
        """Every post of the forum that still exists, oldest first."""
        with self._lock:
            return [
                c
                for c in view.state(self.world, [])["channels"]
                if c["parent_id"] == self.forum.id and not c["deleted"]
            ]

    def problems(self) -> list[str]:
        """What a careful client would not have done, although Discord may let it pass."""
        with self._lock:
            return [*self.habits, *self.world.notes]

    def assert_clean(self, *ignore: str) -> None:
        left = [p for p in self.problems() if not any(re.search(i, p) for i in ignore)]
        assert not [*left, *self.internal], "\n".join([*left, *self.internal])

    def write(self, force: bool = False) -> None:
        if not self._out or (not force and time.monotonic() - self._written < 0.2):
            return
        self._written = time.monotonic()
        for name, text in (
            ("state.json", json.dumps(self.state(), indent=1, ensure_ascii=False)),
            ("thread.txt", self.transcript()),
        ):
            part = self._out / f".{name}.part"
            part.write_text(text)
            part.replace(self._out / name)

    # -- one request -------------------------------------------------------------------------
    def answer(
        self, method: str, target: str, headers: Any, raw: bytes
    ) -> tuple[int, dict[str, str], bytes, Fault | None]:
        url = urlsplit(target)
        started = self.clock.now()
        record: dict[str, Any] = {
            "n": len(self.requests) + 1,
            "t": round(started, 3),
            "method": method,
            "path": url.path,
        }
        fault: Fault | None = None
        head: dict[str, str] = {}
        try:
            status, head, body, fault = self._route(
                method, url.path, url.query, headers, raw, record
            )
        except ApiError as error:
            status, body = error.status, error.body
            head = dict(getattr(error, "headers", {}))
        if status in (401, 403, 429) and record.get("scope") != "shared":
            with self._lock:
                self.limits.note_invalid(self.clock.now())
        record |= {"status": status}
        if isinstance(body, dict) and "code" in body and status >= 400:
            record["code"] = body["code"]
        if fault:
            record["fault"] = f"{fault.kind}/{fault.when}"
        with self._lock:
            self.requests.append(record)
            if self._out:
                with (self._out / "requests.jsonl").open("a") as log:
                    log.write(json.dumps(record, ensure_ascii=False) + "\n")
            self.write()
        data = (
            b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        )
        if body is not BAN_BODY:
            head = VIA | head
        return status, head, data, fault

    def _route(
        self,
        method: str,
        path: str,
        query_text: str,
        headers: Any,
        raw: bytes,
        record: dict[str, Any],
    ) -> tuple[int, dict[str, str], Any, Fault | None]:
        if not path.startswith(API + "/"):
            code = 50041 if re.match(r"/api/v\d+/", path) else 0
            raise ApiError(
                400 if code else 404, code, "no such API version" if code else "404: Not Found"
            )
        found = self.contract.match(method, path[len(API) :])
        if found is None:
            raise ApiError(404, 0, "404: Not Found")
        if isinstance(found, set):
            raise ApiError(405, 0, "405: Method Not Allowed")
        record["op"] = found.operation
        with self._lock:
            if self.limits.banned(self.clock.now()):
                return 429, {}, BAN_BODY, None
            fault = self.faults.pick(found.operation)
        top = found.params.get("channel_id") or found.params.get("guild_id") or "-"
        if found.operation not in CREATES:
            return self._with_fault(fault, found, query_text, headers, raw, record, top)
        lane = found.params["channel_id"]
        with self._lock:
            self._in_flight[lane] = self._in_flight.get(lane, 0) + 1
            if self._in_flight[lane] > 1:
                self.habits.append(
                    f"{found.operation}: a second create for one channel before the first was"
                    " answered; order is not guaranteed"
                )
        try:
            return self._with_fault(fault, found, query_text, headers, raw, record, top)
        finally:
            with self._lock:
                self._in_flight[lane] -= 1

    def _with_fault(
        self,
        fault: Fault | None,
        found: Match,
        query_text: str,
        headers: Any,
        raw: bytes,
        record: dict[str, Any],
        top: str,
    ) -> tuple[int, dict[str, str], Any, Fault | None]:
        if fault is None:
            return (*self._serve(found, query_text, headers, raw, record, top), None)
        if fault.kind == "delay" and fault.when == "before":
            time.sleep(fault.seconds)
        elif fault.when == "before":
            return self._broken(fault, record)
        status, head, body = self._serve(found, query_text, headers, raw, record, top)
        if fault.kind != "delay":
            return self._broken(fault, record)
        if fault.when == "after":
            time.sleep(fault.seconds)
        return status, head, body, None

    def _broken(
        self, fault: Fault, record: dict[str, Any]
    ) -> tuple[int, dict[str, str], Any, Fault | None]:
        if fault.kind == "rate_limit":
            record["scope"] = "global" if fault.everywhere else fault.scope
            head = {
                "Retry-After": str(max(1, round(fault.retry_after))),
                "X-RateLimit-Scope": record["scope"],
            }
            if fault.everywhere:
                head["X-RateLimit-Global"] = "true"
            return 429, head, refusal(fault.retry_after, fault.everywhere), fault
        if fault.kind == "ban":
            return 429, {}, BAN_BODY, fault
        if fault.kind == "garbage":
            return 200, {"Content-Type": "text/html"}, b"<html>not json</html>", fault
        if fault.kind == "drop":
            return 0, {}, None, fault
        return fault.status, {"Content-Type": "text/html"}, b"<html>upstream error</html>", fault

    def _serve(
        self,
        found: Match,
        query_text: str,
        headers: Any,
        raw: bytes,
        record: dict[str, Any],
        top: str,
    ) -> tuple[int, dict[str, str], Any]:
        query = parse_qs(query_text, keep_blank_values=True)
        agent = headers.get("User-Agent") or ""
        if self.check_user_agent and not re.match(r"DiscordBot \([^,()]+, [^()]+\)", agent):
            raise ApiError(403, 40333, "refused at the edge: no proper User-Agent")
        record["auth"] = self._authenticate(found, headers)
        body: dict[str, Any] | None = None
        files: list[File] = []
        if found.method in ("post", "patch") and "requestBody" in found.spec:
            body, files = self._read_body(found, headers, raw)
            record["body"] = body
            if files:
                record["files"] = [{"filename": f.filename, "size": len(f.data)} for f in files]
        if query:
            record["query"] = {k: v[-1] for k, v in query.items()}
        with self._lock:
            now = self.clock.now()
            verdict, habits = self.limits.take(found.operation, top, self._hidden(found, body), now)
            self.habits += habits
            if verdict.refused is not None:
                record["scope"] = verdict.headers.get("X-RateLimit-Scope")
                return 429, verdict.headers, verdict.refused
            try:
                values = self._validate(found, query, body)
                status, out = perform(self.world, self.root, found, values, body or {}, files)
            except ApiError as error:
                error.headers = verdict.headers  # type: ignore[attr-defined]
                raise
            shape = self.contract.check_response(found, status, out)
            if shape:
                self.internal.append(
                    f"the mock's own answer to {found.operation} does not fit: {shape[:3]}"
                )
        return status, verdict.headers, out

    def _authenticate(self, found: Match, headers: Any) -> str:
        given = headers.get("Authorization")
        if given != f"Bot {self.world.token}":
            raise ApiError(401, 0, "401: Unauthorized")
        return "bot"

    def _read_body(
        self, found: Match, headers: Any, raw: bytes
    ) -> tuple[dict[str, Any], list[File]]:
        kind = (headers.get("Content-Type") or "").split(";")[0].strip().lower()
        if kind not in found.spec["requestBody"]["content"]:
            raise form_error(
                Problem(
                    (),
                    "CONTENT_TYPE_INVALID",
                    f"not one of {sorted(found.spec['requestBody']['content'])}",
                )
            )
        if len(raw) > self.world.options["request_limit"]:
            raise ApiError(413, 40005)
        files: list[File] = []
        if kind == "multipart/form-data":
            fields, files = parse_multipart(headers["Content-Type"], raw)
            text = fields.pop("payload_json", None)
            body: Any = {} if text is None else parse_json(text)
            if isinstance(body, dict):
                body = {**body, **{k: v.decode() for k, v in fields.items()}}
        elif kind == "application/x-www-form-urlencoded":
            body = {k: v[-1] for k, v in parse_qs(raw.decode()).items()}
        else:
            body = parse_json(raw)
        if not isinstance(body, dict):
            raise form_error(Problem((), "MODEL_TYPE_CONVERT", "the body is not an object"))
        return body, files

    def _hidden(self, found: Match, body: dict[str, Any] | None) -> list[tuple[str, str]]:
        out: list[tuple[str, str]] = []
        channel = found.params.get("channel_id", "")
        if found.operation == "update_channel" and body and body.get("name") is not None:
            out.append(("thread-rename", channel))
        if found.operation == "update_message":
            old = self.world.messages.get(channel, {}).get(found.params["message_id"])
            if old and self.clock.now() - old.created > 3600:
                out.append(("old-message-edit", channel))
        return out

    def _validate(
        self, found: Match, query: dict[str, list[str]], body: dict[str, Any] | None
    ) -> dict[str, Any]:
        values, problems, unknown = self.contract.check_params(found, query)
        for name in unknown:
            self.habits.append(
                f"{found.operation}: parameter {name!r} is not in the document; Discord ignores it"
            )
        if body is not None:
            schema = self._schema(found)
            problems += self.contract.check(schema, body)
            strange = self.contract.unknown_fields(schema, body)
            if strange and self.refuse_unknown_fields:
                problems += [
                    Problem(tuple(s.split(".")), "UNKNOWN_FIELD", "not in the document")
                    for s in strange
                ]
            self.habits += [
                f"{found.operation}: field {s!r} is not in the document; Discord ignores it"
                for s in strange
            ]
            self._habits(found, body)
        if problems:
            raise ApiError(400, 50035, problems=problems)
        return values

    def _schema(self, found: Match) -> str:
        if found.operation == "create_thread":
            parent = self.world.channel(found.params["channel_id"])
            if parent.type != GUILD_FORUM:
                raise ApiError(400, 50024)
            return "CreateForumThreadRequest"
        if found.operation == "update_channel":
            chan = self.world.channel(found.params["channel_id"])
            return (
                "UpdateThreadRequestPartial"
                if chan.is_thread
                else "UpdateGuildChannelRequestPartial"
            )
        return SCHEMAS[found.operation]

    def _habits(self, found: Match, body: dict[str, Any]) -> None:
        part = body.get("message") if found.operation == "create_thread" else body
        writes = found.operation in (*CREATES, "update_message")
        if (
            writes
            and isinstance(part, dict)
            and part.get("content")
            and part.get("allowed_mentions") is None
        ):
            self.habits.append(
                f"{found.operation}: text without allowed_mentions; mentions in it would be parsed"
            )
        if found.operation == "create_message" and not (
            body.get("nonce") is not None and body.get("enforce_nonce")
        ):
            self.habits.append(
                "create_message: no enforced nonce; a retry after a lost answer would post twice"
            )

    # -- the bench's own routes ------------------------------------------------------------------
    def control(self, method: str, path: str, raw: bytes) -> tuple[int, Any]:
        args = json.loads(raw) if raw else {}
        if (method, path) == ("GET", "/_mock/state"):
            return 200, self.state()
        if (method, path) == ("GET", "/_mock/thread.txt"):
            return 200, self.transcript().encode()
        if (method, path) == ("GET", "/_mock/requests"):
            return 200, self.requests
        if (method, path) == ("GET", "/_mock/scene"):
            return 200, self.scene()
        if (method, path) == ("POST", "/_mock/fault"):
            return 200, asdict(self.fault(**args))
        if (method, path) == ("POST", "/_mock/clock"):
            self.advance(float(args["advance"]))
            return 200, {"now": self.clock.now()}
        if (method, path) == ("POST", "/_mock/act"):
            return 200, {"result": self.act(**args)}
        return 404, {"message": "no such bench route"}

    def scene(self) -> dict[str, Any]:
        """What a client would have in its configuration."""
        return {
            "base_url": self.base_url,
            "bot_token": self.world.token,
            "guild_id": self.world.guild_id,
            "forum_id": self.forum.id,
            "forum_tags": {t["name"]: t["id"] for t in self.forum.tags},
            "text_id": self.text.id,
            "bot_id": self.world.bot["id"],
            "alice_id": self.alice["id"],
            "oncall_role_id": self.oncall,
        }

    def file(self, path: str) -> File | None:
        ident = path.split("/")[2] if path.count("/") >= 2 else ""
        with self._lock:
            for thread in self.world.messages.values():
                for msg in thread.values():
                    for f in msg.files:
                        if f.id == ident:
                            return f
        return None
