"""Mirror in: what people write in a bound conversation reaches its session, once.

Commit points: what was read is kept together with the adapter's cursor (the intake); each message
is then handed on under a key of its own, and leaves the intake after that. A crash reads again what
was not kept, and hands on again what was; the keys see to it that nothing comes twice.
"""

from typing import Any

from vyane_cli.core.bindings import Binding
from vyane_cli.core.conversations import Incoming, Page, Post, Verdict
from vyane_cli.core.messages import FromKind, Kind
from vyane_cli.core.mirroring import nonce_of
from vyane_cli.core.mirrors import Item, remember
from vyane_cli.core.talk import Command, Heard, Intent, digest_of, understand
from vyane_cli.errors import (
    CorruptStateError,
    DurabilityUnknownError,
    LockTimeoutError,
    StorageError,
    VyaneError,
)
from vyane_cli.operations.bindings import touch
from vyane_cli.operations.cancel import cancel
from vyane_cli.operations.conversing import Thread
from vyane_cli.operations.identity import Speaker
from vyane_cli.operations.mirror_runs import Run, each_channel
from vyane_cli.operations.mirrored import mirrored_bindings
from vyane_cli.operations.send import Draft, send
from vyane_cli.operations.takeover import take_over
from vyane_cli.operations.topology import topology
from vyane_cli.store import registry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.runtime import Runtime

CANCEL_WAIT_S = 1.0
TRANSIENT = (LockTimeoutError, StorageError, CorruptStateError)
"""With these the message waits in the intake; any other error is answered, and it is set aside."""
STRANGERS_MAX = 50


def pull(runtime: "Runtime", *, channel: str = "") -> list[dict[str, Any]]:
    """Take in what people wrote; what each channel has come to."""
    return each_channel(runtime, channel, lambda name: _pull_channel(runtime, name))


def _pull_channel(runtime: "Runtime", name: str) -> dict[str, Any]:
    report: dict[str, Any] = {"channel": name, "taken": 0, "refused": 0, "answered": 0}
    problems: list[dict[str, Any]] = []
    with Run(runtime, name) as run:
        for binding in mirrored_bindings(runtime, name, run.account):
            if not binding.is_open(runtime.clock().at) or run.over or run.blocked is not None:
                continue
            try:
                _Listener(run, binding, report, problems).listen()
            except VyaneError as error:
                problems.append(_problem(binding, error.slug, error.message, error.hint))
        fault = run.blocked
        report["state"] = fault.verdict if fault is not None else "ok"
        if fault is not None:
            problems.insert(0, {"code": fault.reason, "detail": fault.detail, "fix": fault.fix})
    report["problems"] = problems
    return report


def _problem(binding: Binding, code: str, detail: str, fix: str) -> dict[str, Any]:
    return {
        "session": binding.target_session,
        "conversation": binding.conversation.id,
        "code": code,
        "detail": detail,
        "fix": fix,
    }


class _Listener:
    """One conversation, read."""

    def __init__(
        self, run: Run, binding: Binding, report: dict[str, Any], problems: list[dict[str, Any]]
    ) -> None:
        self.run, self.binding, self.report, self.problems = run, binding, report, problems
        self.runtime = run.runtime
        self.thread = Thread(run, binding)

    def listen(self) -> None:
        """Hand on what was kept before, then read page by page."""
        self._hand_on()
        while not self.run.over:
            page = self._read()
            if page is None:
                break
            self._keep(page)
            self._hand_on()
            if not page.more:
                break
        if self.thread.state.outbox:
            self.thread.drain()

    def _read(self) -> Page | None:
        channel, state = self.run.channel, self.thread.state
        if not state.begun:
            bound_ms = int(self.binding.bound_at * 1000)
            end = self.run.learn(channel.seek_end(self.binding.conversation, bound_ms))
            if end.verdict is not Verdict.DONE or end.page is None:
                self._failed(end)
                return None
            self.thread.keep(state._replace(inbound=end.page.cursor, begun=True))
        outcome = self.run.learn(channel.read(self.binding.conversation, self.thread.state.inbound))
        self.run.keep_memory()
        if outcome.verdict is not Verdict.DONE or outcome.page is None:
            self._failed(outcome)
            return None
        if outcome.page.problem != self.run.state.problem:
            self.run.keep(self.run.state._replace(problem=outcome.page.problem))
        if outcome.page.problem:
            self.problems.append(_problem(self.binding, "noted", outcome.page.problem, ""))
        return outcome.page

    def _failed(self, outcome: Any) -> None:
        if outcome.verdict is Verdict.GONE:
            self.thread.follow(outcome)
        self.problems.append(
            _problem(self.binding, outcome.reason, outcome.detail or outcome.reason, outcome.fix)
        )

    def _keep(self, page: Page) -> None:
        """The intake and the cursor behind it, in one write."""
        state = self.thread.state
        seen, intake = dict(state.seen), list(state.intake)
        for one in page.messages:
            digest = digest_of(one.text)
            if seen.get(one.id) == digest:
                continue
            intake.append(one._replace(edited=one.edited or one.id in seen))
            seen = remember(seen, one.id, digest)
        self.thread.keep(state._replace(inbound=page.cursor, seen=seen, intake=tuple(intake)))

    # ------------------------------------------------------------------ handing on

    def _hand_on(self) -> None:
        while self.thread.state.intake:
            one = self.thread.state.intake[0]
            heard = understand(one, self.run.settings.allow_users, edited=one.edited)
            answer = self._answered(one, heard)
            items = self._items(one, answer)
            state = self.thread.state
            self.thread.keep(state._replace(intake=state.intake[1:], outbox=self.thread.put(items)))
            if heard.intent in (Intent.MESSAGE, Intent.COMMAND, Intent.NOTE):
                self.report["taken"] += 1
                touch(self.runtime, self.binding.id, forced=False)
                if self.run.channel.capabilities.acknowledge:
                    self.run.channel.acknowledge(self.binding.conversation, one.id)

    def _items(self, one: Incoming, answer: str) -> list[Item]:
        parts = self.run.channel.plan(Post(answer)) if answer else ()
        self.report["answered"] += bool(parts)
        digest = digest_of(one.text)
        return [
            Item(nonce_of(self.binding.id, "answer", one.id, digest, str(number)), part)
            for number, part in enumerate(parts)
        ]

    def _answered(self, one: Incoming, heard: Heard) -> str:
        """Do what it asks for; what is said in the conversation, often nothing."""
        try:
            return self._do(one, heard)
        except TRANSIENT:
            raise
        except DurabilityUnknownError:
            return ""  # it is stored, and will be delivered
        except VyaneError as error:
            text = f"{error.message}; {error.hint}" if error.hint else error.message
            return self.run.texts.fill("said-error", text=text)

    def _do(self, one: Incoming, heard: Heard) -> str:
        texts = self.run.texts
        match heard.intent:
            case Intent.MESSAGE:
                self._send(one, self._target(), heard.text)
            case Intent.NOTE:
                self._send(one, self._target(), texts.fill("edited", text=heard.text))
            case Intent.STRANGER:
                self._refuse(one, heard.text)
            case Intent.COMMAND:
                return self._command(one, heard)
            case Intent.IGNORE:
                pass
        return ""

    def _command(self, one: Incoming, heard: Heard) -> str:
        texts, rest = self.run.texts, heard.text
        match heard.command:
            case Command.TAKEOVER if rest:
                taken = take_over(
                    self.runtime, self._target(), rest, timeout_s=0.0,
                    speaker=self._speaker(one), key=self._key(one),
                )  # fmt: skip
                return texts.fill("said-takeover", id=taken.sent.message.id, status=taken.status)
            case Command.TAKEOVER:
                return texts.fill("said-needs", command="`/takeover`", what="TEXT")
            case Command.CANCEL:
                done = cancel(
                    self.runtime, self._target(), reason=rest, wait_s=CANCEL_WAIT_S,
                    operation=nonce_of(self._key(one)), speaker=self._speaker(one),
                )  # fmt: skip
                outcomes = (f"{done.names.get(w, w)}: {o}" for w, o in done.cancel.outcomes.items())
                return texts.fill("said-cancel", outcomes=", ".join(outcomes))
            case Command.RELAY:
                to, _, text = rest.partition(" ")
                if not text.strip():
                    return texts.fill("said-needs", command="`/relay`", what="WORKER TEXT")
                message = self._send(one, to, text.strip())
                return texts.fill("said-relay", to=to, id=message)
            case Command.TOPOLOGY:
                return _tree(topology(self.runtime, self._target())["workers"])
            case _:
                return texts.fill("said-help")

    def _send(self, one: Incoming, to: str, text: str) -> str:
        draft = Draft(to, text, idempotency_key=self._key(one))
        return send(self.runtime, draft, self._speaker(one)).message.id

    def _refuse(self, one: Incoming, text: str) -> None:
        """Somebody whose words do not count: counted, and where the settings say so, noted."""
        self.report["refused"] += 1
        counts = dict(self.run.state.strangers)
        counts[one.author] = counts.pop(one.author, 0) + 1
        newest = dict(list(counts.items())[-STRANGERS_MAX:])
        self.run.keep(self.run.state._replace(strangers=newest))
        if self.run.settings.strangers != "note":
            return
        said = self.run.texts.fill(
            "stranger", name=one.name, author=one.author, text=text,
            place=f"{self.binding.conversation.channel}:{self.binding.conversation.id}",
        )  # fmt: skip
        outside = Speaker(FromKind.EXTERNAL, f"{self.run.name}:{one.author}", one.name)
        draft = Draft(self._target(), said, Kind.INFO, idempotency_key=self._key(one))
        send(self.runtime, draft, outside)

    def _target(self) -> str:
        """The session's present worker; the session itself where that is gone."""
        key = self.binding.target_session
        session = registry.load_logical_session(self.runtime.layout, key)
        known = registry.Registry(self.runtime.layout).workers
        return session.worker if session is not None and session.worker in known else key

    def _speaker(self, one: Incoming) -> Speaker:
        return Speaker(
            FromKind.HUMAN, f"{self.run.name}:{one.author}"[:128], one.name or one.author
        )

    def _key(self, one: Incoming) -> str:
        return f"mirror:{nonce_of(self.binding.id, one.id, digest_of(one.text))}"


def _tree(nodes: list[dict[str, Any]]) -> str:
    """The tree as a list that any Markdown reader shows."""
    lines: list[str] = []

    def walk(node: dict[str, Any], depth: int) -> None:
        said = f": {node['progress']}" if node.get("progress") else ""
        lines.append(f"{'  ' * depth}- **{node['name']}** {node['status']}{said}")
        for child in node["children"]:
            walk(child, depth + 1)

    for one in nodes:
        walk(one, 0)
    return "\n".join(lines)
