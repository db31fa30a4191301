"""Every path under the state root."""

from __future__ import annotations

import os

from vyane_cli.errors import InvalidInputError
from vyane_cli.kernel.ids import is_safe_id
from vyane_cli.storage import files


def find_root(environ: os._Environ[str] | dict[str, str]) -> str:
    """`$VYANE_HOME`, else `$XDG_CONFIG_HOME/vyane`, else `~/.config/vyane`, absolute."""
    given = environ.get("VYANE_HOME")
    if given:
        root = root_at(given, environ, "VYANE_HOME")
        if not given.startswith(("~", os.sep)):
            expected = "absolute: each folder would have a state of its own"
            raise InvalidInputError("VYANE_HOME", given, expected, hint=f"set it to {root}")
        return root
    config = environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(config):  # its standard: a relative one is passed over
        config = os.path.join(_home(environ), ".config")
    return os.path.join(config, "vyane")


def root_at(text: str, environ: os._Environ[str] | dict[str, str], field: str) -> str:
    """The folder that a person named, absolute; its `~` may come without a shell between."""
    if text == "~" or text.startswith("~/"):
        return os.path.abspath(_home(environ) + text[1:])
    folder = os.path.expanduser(text)
    if folder.startswith("~"):
        raise InvalidInputError(field, text, "a folder: there is no such account")
    return os.path.abspath(folder)


def _home(environ: os._Environ[str] | dict[str, str]) -> str:
    """The home folder by $HOME, else by the account: services have none, or `/`, or `~` itself."""
    home = environ.get("HOME", "")
    if _is_home(home):
        return home
    import pwd

    try:
        home = pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        home = ""
    if _is_home(home):
        return home
    raise InvalidInputError(
        "HOME",
        environ.get("HOME", ""),
        "a home folder, and this account has no entry with one",
        hint="set VYANE_HOME to a folder for vyane's state",
    )


def _is_home(folder: str) -> bool:
    return os.path.isabs(folder) and bool(folder.strip("/"))


def safe(field: str, text: str) -> str:
    """`text` as a part of a file name; InvalidInputError when it is not fit for one."""
    if not is_safe_id(text):
        raise InvalidInputError(field, text, "an id: 1 to 128 of A-Z, a-z, 0-9, _ and -")
    return text


def _name(text: str) -> str:
    """A channel or an account as a part of a path."""
    return safe("channel", text)


class Layout:
    """The paths under one root. Nothing is made or read here."""

    __slots__ = ("root",)

    def __init__(self, root: str) -> None:
        self.root = root

    def __call__(self, *parts: str) -> str:
        """A path below the root."""
        return os.path.join(self.root, *parts)

    # identity and links
    @property
    def config(self) -> str:
        """`config.toml`: thresholds, language, runtimes, channels, authority."""
        return self("config.toml")

    @property
    def registry(self) -> str:
        """`worker-registry.json`."""
        return self("worker-registry.json")

    @property
    def names(self) -> str:
        """`worker-names`: one name a line, for completion."""
        return self("worker-names")

    def session(self, host_session: str) -> str:
        """`sessions/{host-session-id}.json`."""
        return self("sessions", safe("session", host_session) + ".json")

    def process(self, pid: int) -> str:
        """`processes/{pid}`: the host session that this process runs."""
        return self("processes", str(int(pid)))

    def logical_session(self, session: str) -> str:
        """`logical-sessions/vs-….json`."""
        return self("logical-sessions", safe("logical session", session) + ".json")

    def current(self, worker: str) -> str:
        """`current/{worker}`: its present host session."""
        return self("current", safe("worker", worker))

    # messages
    def inbox(self, worker: str) -> str:
        """`messages/inbox/worker-{id}.jsonl`."""
        return self("messages", "inbox", f"worker-{safe('worker', worker)}.jsonl")

    def session_inbox(self, session: str) -> str:
        """`messages/inbox/session-{vs}.jsonl`: mail to a logical session."""
        return self("messages", "inbox", f"session-{safe('logical session', session)}.jsonl")

    def channel_inbox(self, name: str) -> str:
        """`messages/inbox/channel-{name}.jsonl`; a name unfit for a file goes by its digest."""
        if not is_safe_id(name):
            import hashlib

            name = "x-" + hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:32]
        return self("messages", "inbox", f"channel-{name}.jsonl")

    def outbox(self, worker: str) -> str:
        """`messages/outbox/worker-{id}.jsonl`: what a worker sent, for people who look."""
        return self("messages", "outbox", f"worker-{safe('worker', worker)}.jsonl")

    def archive(self, month: str) -> str:
        """`messages/archive/YYYY-MM/messages.jsonl`."""
        return self("messages", "archive", month, "messages.jsonl")

    def key(self, digest: str) -> str:
        """`messages/keys/{digest}.json`: an idempotency key and the message it made."""
        return self("messages", "keys", digest + ".json")

    def broadcast(self) -> str:
        """`messages/broadcast.json`: the last broadcast, its recipients first."""
        return self("messages", "broadcast.json")

    # timelines
    def timeline(self, session: str) -> str:
        """`timelines/{vs}/events.jsonl`."""
        return self("timelines", safe("logical session", session), "events.jsonl")

    def spool(self, session: str) -> str:
        """`timelines/{vs}/spool/`: hook calls that missed the lock."""
        return self("timelines", safe("logical session", session), "spool")

    def consumer(self, session: str, name: str) -> str:
        """`timelines/{vs}/cursors/{consumer}.json`."""
        return self(
            "timelines",
            safe("logical session", session),
            "cursors",
            safe("consumer", name) + ".json",
        )

    # conversations
    @property
    def bindings(self) -> str:
        """`bindings.json`: which conversation speaks to which session."""
        return self("bindings.json")

    def channel_state(self, channel: str, account: str) -> str:
        """`mirror/{channel}/{account}/channel.json`: what holds for a channel as a whole."""
        return self("mirror", _name(channel), _name(account), "channel.json")

    def thread_state(self, channel: str, account: str, binding: str) -> str:
        """`mirror/{channel}/{account}/{binding}.json`: how far a conversation has come."""
        return self("mirror", _name(channel), _name(account), safe("binding", binding) + ".json")

    # what the guard and the host look at
    def wake(self, host_session: str) -> str:
        """`wake/{id}`: the host watches it; a rewrite wakes an idle session."""
        return self("wake", safe("session", host_session))

    def armed(self, host_session: str) -> str:
        """`wake/{id}.armed`: the wake file was written and the host has not called yet."""
        return self.wake(host_session) + ".armed"

    def pending(self, host_session: str) -> str:
        """`wake/{id}.pending`: mail that the next tool batch may take."""
        return self.wake(host_session) + ".pending"

    def control(self, host_session: str) -> str:
        """`wake/{id}.control`: the next tool must not run unasked."""
        return self.wake(host_session) + ".control"

    def proof(self, host_session: str) -> str:
        """`wake/{id}.proof`: something was shown, and its turn has not been seen to go on."""
        return self.wake(host_session) + ".proof"

    def beat(self, host_session: str) -> str:
        """`beat/{id}`: its file time is the heartbeat."""
        return self("beat", safe("session", host_session))

    def due(self, worker: str) -> str:
        """`due/{worker}`: it has mail that may start a turn."""
        return self("due", safe("worker", worker))

    # children
    def launch(self, worker: str) -> str:
        """`launches/{worker}.json`: how a child was started, and what became of its process."""
        return self("launches", safe("worker", worker) + ".json")

    def prompt(self, worker: str) -> str:
        """`launches/{worker}.prompt.txt`: what a child was asked."""
        return self("launches", safe("worker", worker) + ".prompt.txt")

    def resume_prompt(self, worker: str) -> str:
        """`launches/{worker}.resume.txt`: what it is told when it is opened again."""
        return self("launches", safe("worker", worker) + ".resume.txt")

    def candidate(self, worker: str) -> str:
        """`launches/{worker}.result.json`: the last answer of a child that still runs."""
        return self("launches", safe("worker", worker) + ".result.json")

    def output(self, worker: str) -> str:
        """`logs/{worker}.log`: what a child printed."""
        return self("logs", safe("worker", worker) + ".log")

    def errors(self, worker: str) -> str:
        """`logs/{worker}.err.log`: what a child printed as errors, and its launcher's."""
        return self("logs", safe("worker", worker) + ".err.log")

    def blob(self, digest: str) -> str:
        """`messages/blobs/{sha256}.txt`: a text that is too long for a message."""
        return self("messages", "blobs", safe("blob", digest) + ".txt")

    # projects
    @property
    def projects(self) -> str:
        """The folder of all projects: without it a tick loads nothing of them."""
        return self("projects")

    def project(self, name: str) -> str:
        """`projects/{name}/project.json`: its folder and its main worker."""
        return self("projects", safe("project", name), "project.json")

    def tasks(self, project: str) -> str:
        """`projects/{name}/tasks.json`: the ledger."""
        return self("projects", safe("project", project), "tasks.json")

    def tasks_events(self, project: str) -> str:
        """`projects/{name}/tasks-events.jsonl`: who changed what; no decision reads it."""
        return self("projects", safe("project", project), "tasks-events.jsonl")

    def taskgraph(self, project: str) -> str:
        """`projects/{name}/taskgraph.json`: steps of the plan beyond the tasks."""
        return self("projects", safe("project", project), "taskgraph.json")

    def goal(self, project: str) -> str:
        """`projects/{name}/goal.json`: what the project is for, and what must be seen to hold."""
        return self("projects", safe("project", project), "goal.json")

    def claim(self, project: str, task: str) -> str:
        """`projects/{name}/claims/{task}.json`: a round has started this task."""
        return self("projects", safe("project", project), "claims", safe("task", task) + ".json")

    def stale_claim(self, project: str, name: str) -> str:
        """A claim that was freed, in `claims-stale/` of its project."""
        folder = self("projects", safe("project", project), "claims-stale")
        return os.path.join(folder, safe("claim", name) + ".json")

    def notices(self, project: str) -> str:
        """`projects/{name}/notices.json`: what the main worker was told."""
        return self("projects", safe("project", project), "notices.json")

    def deliveries(self, project: str) -> str:
        """`projects/{name}/deliveries.jsonl`: each notice that was told or refused, and why."""
        return self("projects", safe("project", project), "deliveries.jsonl")

    def to_main(self, project: str) -> str:
        """`projects/{name}/TO_MAIN.md`: how the project stands, for its main worker."""
        return self("projects", safe("project", project), "TO_MAIN.md")

    def blocked(self, project: str) -> str:
        """`projects/{name}/blocked.json`: the tasks that wait for somebody."""
        return self("projects", safe("project", project), "blocked.json")

    def gaps(self, project: str) -> str:
        """`projects/{name}/gaps.jsonl`: what rounds found missing."""
        return self("projects", safe("project", project), "gaps.jsonl")

    def rounds(self, project: str) -> str:
        """`projects/{name}/rounds.jsonl`: each round's cell, and what it did."""
        return self("projects", safe("project", project), "rounds.jsonl")

    def schedules(self, project: str) -> str:
        """`projects/{name}/schedules.json`: when rounds run, and whether they are paused."""
        return self("projects", safe("project", project), "schedules.json")

    def domain(self, project: str) -> str:
        """`projects/{name}/domain.lock`: held by the round that is at work. Never removed."""
        return self("projects", safe("project", project), "domain.lock")

    # the rest
    @property
    def locks(self) -> str:
        """`locks/`: a fixed set of files, never removed."""
        return self("locks")

    @property
    def quarantine(self) -> str:
        """`quarantine/`: damaged bytes, whole."""
        return self("quarantine")

    @property
    def need_user(self) -> str:
        """`queue/need-user.jsonl`: what a person is needed for."""
        return self("queue", "need-user.jsonl")

    def untold(self, name: str) -> str:
        """`queue/untold/{id}.json`: what a tick has found out and has still to tell."""
        return self("queue", "untold", safe("id", name) + ".json")

    def cancel(self, operation: str) -> str:
        """`queue/cancels/{operation}.json`: whom a cancel reaches, and what became of each."""
        return self("queue", "cancels", safe("operation", operation) + ".json")

    @property
    def log(self) -> str:
        """`log/hook.log`: errors that a hook swallowed."""
        return self("log", "hook.log")

    @property
    def round_log(self) -> str:
        """`log/rounds.log`: what rounds that a timer ran said as errors."""
        return self("log", "rounds.log")

    @property
    def guard(self) -> str:
        """`hooks/claude-code/guard`: the command that hosts run."""
        return self("hooks", "claude-code", "guard")

    @property
    def installed(self) -> str:
        """`hooks/claude-code/installed.json`: what stood in settings files where entries are."""
        return self("hooks", "claude-code", "installed.json")


SIGNS = frozenset({"worker-registry.json", "timelines", "wake", "beat"})
"""What tells a state folder from any other folder: each has one of them from its first day."""

OURS = SIGNS | {
    "bindings.json", "config.toml", "current", "due", "hooks", "launches", "locks", "log",
    "logical-sessions", "logs", "messages", "mirror", "processes", "projects", "quarantine",
    "queue", "sessions", "threads", "worker-names",
}  # fmt: skip
"""All that vyane makes directly in it."""


def strangers(root: str) -> list[str]:
    """Names of what vyane did not make directly in the folder.

    Beside them nothing is ours for its name alone: a repository has `hooks` and `projects` too.
    """
    return sorted(name for name in set(os.listdir(root)) - OURS if not files.is_temporary(name))
