"""A plain REST client for the self-tests."""

from __future__ import annotations

import http.client
import json
import uuid
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

from tests.discord.mockcord import MockDiscord

AGENT = "DiscordBot (https://example.invalid/vyane, 0.1)"
QUIET = {"parse": []}


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    raw: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.raw)

    @property
    def code(self) -> int | None:
        return self.json.get("code") if self.raw else None


class Client:
    """The plainest possible REST client, so that the tests show every byte they send."""

    def __init__(self, discord: MockDiscord) -> None:
        self.discord = discord

    def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        timeout: float = 5,
        token: str | None = "",
        agent: str = AGENT,
        kind: str = "application/json",
        raw: bytes | None = None,
        files: list[tuple[str, str, bytes]] | None = None,
        absolute: bool = False,
    ) -> Reply:
        url = urlsplit(self.discord.root if absolute else self.discord.base_url)
        headers = {"User-Agent": agent} if agent else {}
        if token is not None:
            headers["Authorization"] = f"Bot {token or self.discord.world.token}"
        data = raw
        if files is not None:
            mark = uuid.uuid4().hex
            parts = [_part(mark, 'name="payload_json"', "application/json", json.dumps(body or {}))]
            parts += [
                _part(mark, f'name="{n}"; filename="{f}"', "text/plain", d) for n, f, d in files
            ]
            data = b"".join(parts) + f"--{mark}--\r\n".encode()
            kind = f"multipart/form-data; boundary={mark}"
        elif body is not None:
            data = json.dumps(body).encode()
        if data is not None:
            headers["Content-Type"] = kind
        link = http.client.HTTPConnection(str(url.hostname), url.port, timeout=timeout)
        try:
            link.request(method, url.path.rstrip("/") + path, data, headers)
            got = link.getresponse()
            return Reply(got.status, {k.lower(): v for k, v in got.getheaders()}, got.read())
        finally:
            link.close()

    def post_open(self, name: str = "fix login", text: str = "start", **more: Any) -> str:
        """A forum post; returns its thread id."""
        reply = self(
            "POST",
            f"/channels/{self.discord.forum.id}/threads",
            {"name": name, "message": {"content": text, "allowed_mentions": QUIET}, **more},
        )
        assert reply.status == 201, reply.raw
        return str(reply.json["id"])

    def say(self, channel: str, text: str, **more: Any) -> Reply:
        return self(
            "POST",
            f"/channels/{channel}/messages",
            {"content": text, "allowed_mentions": QUIET, **more},
        )

    @staticmethod
    def emoji(text: str) -> str:
        return quote(text, safe="")


def _part(mark: str, names: str, kind: str, data: str | bytes) -> bytes:
    head = f"--{mark}\r\nContent-Disposition: form-data; {names}\r\nContent-Type: {kind}\r\n\r\n"
    return head.encode() + (data.encode() if isinstance(data, str) else data) + b"\r\n"
