"""Requests to Discord's REST API v10, their results (accepted, refused, unknown), rate limits.

A request waits for rate limits and between retries, but never past the deadline of the run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from vyane_cli import __version__
from vyane_cli.channels.discord.errors import fields_of, outcome_of
from vyane_cli.channels.discord.settings import DiscordSettings, is_loopback
from vyane_cli.channels.port import ChannelOutcome, ChannelVerdict, File, Surroundings

TYPE_CHECKING = False
if TYPE_CHECKING:
    import urllib3


AGENT = f"DiscordBot (https://vyane.invalid, {__version__})"
"""User agent. Discord requires this form and may reject others."""
TIMEOUT_S = 10.0
TRIES = 3
"""Tries for a request that is safe to repeat, when no answer arrives."""
PAUSE_MS = 500
REST_LATER_MS = 30_000
CDN = ("cdn.discordapp.com", "media.discordapp.net")
ATTACHMENT_MAX = 64 * 1024
FETCHES = 2
"""Tries for an attached text; after them, the message shows the file's name instead."""
FETCH_TIMEOUT_S = 3.0


class Stopped(Exception):  # noqa: N818  it carries an outcome through the adapter, not an error
    """A request that was not accepted, or whose result is unknown."""

    def __init__(self, outcome: ChannelOutcome, code: int = 0, status: int = 0) -> None:
        super().__init__(outcome.reason)
        self.outcome, self.code, self.status = outcome, code, status


class Request(NamedTuple):
    """One call of the API."""

    method: str
    path: str
    action: str
    """The purpose of the request: a key of `discord.errors.RIGHTS`."""
    route: str
    """The rate limit class: requests with the same route and `top` share a limit."""
    top: str = ""
    """The channel, guild or account whose rate limits apply."""
    place: str = ""
    """Description of the place, for error texts."""
    body: Mapping[str, Any] | None = None
    files: tuple[File, ...] = ()
    query: Mapping[str, str] | None = None
    creates: bool = False
    """Whether sending the request twice would show twice. The caller must check unknown results."""
    patience_ms: int | None = None
    """Longest wait for a rate limit, in milliseconds; None: until the deadline of the run."""


class Rest:
    """The client of the REST API for one run."""

    def __init__(self, settings: DiscordSettings, limits: RateLimits, around: Surroundings) -> None:
        self.settings, self.limits, self.around = settings, limits, around
        self._pool: urllib3.PoolManager | None = None

    def ask(self, request: Request) -> Any:
        """Send a request and return the JSON of the answer, None for an empty answer.

        Raises Stopped for every other result.
        """
        for number in range(TRIES * 3):
            self._wait_for_limits(request)
            last = number >= TRIES - 1
            reply = self._send(request, last)
            if reply is None:
                self.pause(request, PAUSE_MS << number)
                continue
            status, headers, data = reply
            now = self.around.now_ms()
            body = _parse(data)
            if status == 429:
                self.limits.refused(request.route, request.top, headers, body, now)
                continue
            self.limits.learn(request.route, request.top, headers, now)
            if status == 204 or (200 <= status < 300 and body is not None):
                return body
            if status < 300 or status >= 500:
                if request.creates or last:
                    raise self._lost(request, f"an answer that is none (status {status})")
                self.pause(request, PAUSE_MS << number)
                continue
            raise self._refused(request, status, body)
        raise self._lost(request, "nothing but refusals for now")

    def fetch(self, url: str) -> str | None:
        """Fetch a text that a person attached. Sends no token.

        Return None when the text is unavailable. Attachments come from another host than the API,
        so an error there must not delay the message itself.
        """
        host = urlsplit(url).hostname or ""
        home = urlsplit(self.settings.api).hostname or ""
        if not (host in CDN or (host == home and is_loopback(home))):
            return None
        for number in range(FETCHES):
            if number:
                self.around.sleep(PAUSE_MS / 1000)
            if self.around.now_ms() >= self.around.deadline_ms:
                return None
            status, data = self._fetch(url)
            if 0 < status < 500 and status != 429:
                return data.decode("utf-8", "replace") if status in (200, 206) else None
        return None

    def _fetch(self, url: str) -> tuple[int, bytes]:
        """Return the status and the beginning of a file; status 0 for an incomplete answer."""
        import urllib3

        try:
            reply = self._connections().request(
                "GET",
                url,
                headers={"User-Agent": AGENT, "Range": f"bytes=0-{ATTACHMENT_MAX}"},
                redirect=False,
                preload_content=False,
                timeout=urllib3.Timeout(total=min(FETCH_TIMEOUT_S, self._timeout_s())),
            )
            try:
                return reply.status, reply.read(ATTACHMENT_MAX + 1)
            finally:
                reply.release_conn()
        except urllib3.exceptions.HTTPError:
            return 0, b""

    def pause(self, request: Request, wait_ms: int) -> None:
        """Wait `wait_ms` before another try. Raises Stopped if that would pass the deadline."""
        if self.around.now_ms() + wait_ms > self.around.deadline_ms:
            raise self._lost(request, "no answer, and no time for another try")
        self.around.sleep(wait_ms / 1000)

    # ------------------------------------------------------------------ sending

    def _send(self, request: Request, last: bool) -> tuple[int, Mapping[str, str], bytes] | None:
        """Send a request once and return status, headers and body; None to retry.

        Raises Stopped when Discord is unreachable, or when the answer is lost and the request
        creates something or this was the last try.
        """
        import urllib3
        from urllib3 import exceptions

        headers = {"User-Agent": AGENT, "Authorization": f"Bot {self.settings.token}"}
        data: bytes | None = None
        if request.body is not None:
            data, headers["Content-Type"] = _encode(request.body, request.files)
        url = self.settings.api + request.path
        if request.query:
            url += "?" + urlencode(request.query)
        try:
            reply = self._connections().request(
                request.method,
                url,
                body=data,
                headers=headers,
                redirect=False,  # the token goes only to the address that was checked
                timeout=urllib3.Timeout(total=self._timeout_s()),
            )
        except (exceptions.NewConnectionError, exceptions.ConnectTimeoutError) as error:
            raise self._unreachable("Discord cannot be reached") from error
        except exceptions.SSLError as error:
            raise self._unreachable("no safe connection to Discord") from error
        except exceptions.HTTPError as error:
            if request.creates or last:
                raise self._lost(request, "the answer was lost") from error
            return None
        return reply.status, reply.headers, reply.data

    def _connections(self) -> urllib3.PoolManager:
        if self._pool is None:
            import urllib3

            self._pool = urllib3.PoolManager(num_pools=2, retries=False)
        return self._pool

    def _timeout_s(self) -> float:
        left = (self.around.deadline_ms - self.around.now_ms()) / 1000
        return min(TIMEOUT_S, max(left, 1.0))

    def _wait_for_limits(self, request: Request) -> None:
        now = self.around.now_ms()
        free = self.limits.free_ms(request.route, request.top)
        if free <= now:
            return
        longest = self.around.deadline_ms - now
        if request.patience_ms is not None:
            longest = min(longest, request.patience_ms)
        if free - now <= longest and not self.limits.banned:
            self.around.sleep((free - now) / 1000)
            return
        banned = self.limits.banned
        raise Stopped(
            ChannelOutcome(
                ChannelVerdict.LATER,
                "banned" if banned else "rate-limited",
                "Discord's network turns this machine away for some minutes"
                if banned
                else "Discord's rate limit",
                "see whether the token and the settings are right: refused requests lead to this"
                if banned
                else "",
                retry_ms=free,
                everywhere=self.limits.is_everywhere(now),
            )
        )

    # ------------------------------------------------------------------ failures

    def _refused(self, request: Request, status: int, body: object) -> Stopped:
        data = body if isinstance(body, dict) else {}
        code = data["code"] if isinstance(data.get("code"), int) else 0
        where = ", ".join(fields_of(data.get("errors")))
        action = request.action
        if request.files and code == 50013:
            action = "file"
        now = self.around.now_ms()
        outcome = outcome_of(status, code, action, request.place, where, now)
        return Stopped(outcome, code, status)

    def _lost(self, request: Request, words: str) -> Stopped:
        """Return Stopped for a lost answer.

        A request that creates something may have been accepted: UNKNOWN. Other requests can be
        repeated: LATER.
        """
        if request.creates:
            return Stopped(ChannelOutcome(ChannelVerdict.UNKNOWN, "no-answer", words))
        return self._unreachable(words)

    def _unreachable(self, words: str) -> Stopped:
        retry = self.around.now_ms() + REST_LATER_MS
        return Stopped(
            ChannelOutcome(
                ChannelVerdict.LATER, "unreachable", words, retry_ms=retry, everywhere=True
            )
        )


def _parse(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return None


def _encode(body: Mapping[str, Any], files: Sequence[File]) -> tuple[bytes, str]:
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    if not files:
        return text, "application/json"
    from urllib3.fields import RequestField
    from urllib3.filepost import encode_multipart_formdata

    parts = [RequestField("payload_json", text, headers={"Content-Type": "application/json"})]
    parts[0].make_multipart(content_type="application/json")
    for number, file in enumerate(files):
        field = RequestField(f"files[{number}]", file.text.encode("utf-8", "replace"), file.name)
        field.make_multipart(content_type="text/plain; charset=utf-8")
        parts.append(field)
    return encode_multipart_formdata(parts)


MARGIN_MS = 50
"""Milliseconds added to each wait, for differences between two clocks and for rounding."""
LONGEST_MS = 24 * 3_600_000
"""Longest wait in milliseconds: a clock that was set back must not stop a channel for years."""
BAN_MS = 10 * 60_000
"""Wait after a ban, in milliseconds. The network in front of the API blocks clients with too many
refused requests, and does not say for how long. Ten minutes is the window in which it counts."""


class RateLimits:
    """The rate limits of one bot. `state` is JSON that the methods change in place."""

    def __init__(self, state: dict[str, Any], now_ms: int) -> None:
        self.state = state
        if not isinstance(state.get("until"), dict) or not isinstance(state.get("buckets"), dict):
            state.clear()
            state.update(buckets={}, until={})
        until = state["until"]
        for key in [key for key, at in until.items() if not _lies_ahead(at, now_ms)]:
            del until[key]

    def free_ms(self, route: str, top: str) -> int:
        """Return when the next request of this route may be sent, in Unix ms; 0: immediately."""
        until = self.state["until"]
        keys = ("global", "ban", self._key(route, top), f"{route}|{top}")
        return max(int(until.get(key, 0)) for key in keys)

    def is_everywhere(self, now_ms: int) -> bool:
        """Return whether every route has to wait."""
        until = self.state["until"]
        return max(int(until.get("global", 0)), int(until.get("ban", 0))) > now_ms

    @property
    def banned(self) -> bool:
        """Return whether a ban is on record. A new run drops a ban whose wait has ended."""
        return "ban" in self.state["until"]

    def learn(self, route: str, top: str, headers: Mapping[str, str], now_ms: int) -> None:
        """Update the limits from the headers of an answer."""
        if bucket := headers.get("X-RateLimit-Bucket"):
            self.state["buckets"][route] = bucket
        remaining, after = (
            headers.get("X-RateLimit-Remaining"),
            headers.get("X-RateLimit-Reset-After"),
        )
        if remaining == "0" and (seconds := _number(after)) is not None:
            self._hold(self._key(route, top), now_ms, seconds)

    def refused(
        self, route: str, top: str, headers: Mapping[str, str], body: object, now_ms: int
    ) -> None:
        """Update the limits from an answer with status 429."""
        data = body if isinstance(body, dict) else {}
        seconds = _number(data.get("retry_after"))
        if seconds is None:
            seconds = _number(headers.get("Retry-After"))
        if seconds is None:
            self.state["until"]["ban"] = now_ms + BAN_MS
        elif data.get("global") is True or headers.get("X-RateLimit-Global") == "true":
            self._hold("global", now_ms, seconds)
        else:
            self._hold(f"{route}|{top}", now_ms, seconds)

    def _hold(self, key: str, now_ms: int, seconds: float) -> None:
        wait = min(int(seconds * 1000) + MARGIN_MS, LONGEST_MS)
        self.state["until"][key] = max(now_ms + wait, int(self.state["until"].get(key, 0)))

    def _key(self, route: str, top: str) -> str:
        return f"{self.state['buckets'].get(route, route)}|{top}"


def _lies_ahead(at: object, now_ms: int) -> bool:
    return isinstance(at, int) and now_ms < at <= now_ms + LONGEST_MS + MARGIN_MS


def _number(value: object) -> float | None:
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return number if 0 <= number < 1e9 else None
