"""The state root and every path under it."""

from __future__ import annotations

import os

from vyane_cli.errors import InvalidInputError
from vyane_cli.kernel.ids import is_safe_id
from vyane_cli.storage import files


def find_root(environ: os._Environ[str] | dict[str, str]) -> str:
    """Return the state root as an absolute path.

    `$VYANE_HOME`, else `$XDG_CONFIG_HOME/vyane`, else `~/.config/vyane`.
    """
    given = environ.get("VYANE_HOME")
    if given:
        root = root_at(given, environ, "VYANE_HOME")
        if not given.startswith(("~", os.sep)):
            expected = "absolute: each folder would have a state of its own"
            raise InvalidInputError("VYANE_HOME", given, expected, hint=f"set it to {root}")
        return root
    config = environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(config):  # the XDG specification: ignore a relative path
        config = os.path.join(_home(environ), ".config")
    return os.path.join(config, "vyane")


def root_at(text: str, environ: os._Environ[str] | dict[str, str], field: str) -> str:
    """Return the folder that a person named, as an absolute path.

    A leading `~` is expanded, because no shell may have expanded it.
    """
    if text == "~" or text.startswith("~/"):
        return os.path.abspath(_home(environ) + text[1:])
    folder = os.path.expanduser(text)
    if folder.startswith("~"):
        raise InvalidInputError(field, text, "a folder: there is no such account")
    return os.path.abspath(folder)


def _home(environ: os._Environ[str] | dict[str, str]) -> str:
    """Return the home folder from $HOME, else from the account.

    Services may run with $HOME unset, or set to `/` or a literal `~`; these values are ignored.
    """
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
    """Return `text` if it may be part of a file name; InvalidInputError otherwise."""
    if not is_safe_id(text):
        raise InvalidInputError(field, text, "an id: 1 to 128 of A-Z, a-z, 0-9, _ and -")
    return text


def _name(text: str) -> str:
    """Return the name of a channel or an account if it may be part of a path."""
    return safe("channel", text)


class Layout:
    """The paths under one state root. Nothing is created or read here."""

    __slots__ = ("root",)

    def __init__(self, root: str) -> None:
        self.root = root

    def __call__(self, *parts: str) -> str:
        """Return a path below the root."""
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
        """`worker-names`: one name per line, for shell completion."""
        return self("worker-names")

    def session(self, host_session: str) -> str:
        """`sessions/{host-session-id}.json`."""
        return self("sessions", safe("session", host_session) + ".json")

    def process(self, pid: int) -> str:
        """`processes/{pid}`: the host session that runs in this process."""
        return self("processes", str(int(pid)))

    def logical_session(self, session: str) -> str:
        """`logical-sessions/vs-….json`."""
        return self("logical-sessions", safe("logical session", session) + ".json")

    def current(self, worker: str) -> str:
        """`current/{worker}`: the worker's current host session."""
        return self("current", safe("worker", worker))

    # messages
    def inbox(self, worker: str) -> str:
        """`messages/inbox/worker-{id}.jsonl`."""
        return self("messages", "inbox", f"worker-{safe('worker', worker)}.jsonl")

    def session_inbox(self, session: str) -> str:
        """`messages/inbox/session-{vs}.jsonl`: mail to a logical session."""
        return self("messages", "inbox", f"session-{safe('logical session', session)}.jsonl")

    def channel_inbox(self, name: str) -> str:
        """`messages/inbox/channel-{name}.jsonl`; unsafe names are replaced by their digest."""
        if not is_safe_id(name):
            import hashlib

            name = "x-" + hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:32]
        return self("messages", "inbox", f"channel-{name}.jsonl")

    def outbox(self, worker: str) -> str:
        """`messages/outbox/worker-{id}.jsonl`: copies of a worker's sent messages, for people."""
        return self("messages", "outbox", f"worker-{safe('worker', worker)}.jsonl")

    def archive(self, month: str) -> str:
        """`messages/archive/YYYY-MM/messages.jsonl`."""
        return self("messages", "archive", month, "messages.jsonl")

    def key(self, digest: str) -> str:
        """`messages/keys/{digest}.json`: an idempotency key and the message it made."""
        return self("messages", "keys", digest + ".json")

    def broadcast(self) -> str:
        """`messages/broadcast.json`: the last broadcast, with its recipients first."""
        return self("messages", "broadcast.json")

    # timelines
    def timeline(self, session: str) -> str:
        """`timelines/{vs}/events.jsonl`."""
        return self("timelines", safe("logical session", session), "events.jsonl")

    def spool(self, session: str) -> str:
        """`timelines/{vs}/spool/`: hook calls that did not get the lock in time."""
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
        """`bindings.json`: which conversation belongs to which session."""
        return self("bindings.json")

    def channel_state(self, channel: str, account: str) -> str:
        """`mirror/{channel}/{account}/channel.json`: the state of the whole channel."""
        return self("mirror", _name(channel), _name(account), "channel.json")

    def thread_state(self, channel: str, account: str, binding: str) -> str:
        """`mirror/{channel}/{account}/{binding}.json`: how far a conversation is mirrored."""
        return self("mirror", _name(channel), _name(account), safe("binding", binding) + ".json")

    # markers that the guard and the host check
    def wake(self, host_session: str) -> str:
        """`wake/{id}`: watched by the host; rewriting it wakes an idle session."""
        return self("wake", safe("session", host_session))

    def armed(self, host_session: str) -> str:
        """`wake/{id}.armed`: the wake file was rewritten, and the host has not called yet."""
        return self.wake(host_session) + ".armed"

    def pending(self, host_session: str) -> str:
        """`wake/{id}.pending`: mail that the next tool batch may take."""
        return self.wake(host_session) + ".pending"

    def control(self, host_session: str) -> str:
        """`wake/{id}.control`: the next tool may run only after a tick."""
        return self.wake(host_session) + ".control"

    def proof(self, host_session: str) -> str:
        """`wake/{id}.proof`: mail was shown; no later activity of its turn was seen yet."""
        return self.wake(host_session) + ".proof"

    def beat(self, host_session: str) -> str:
        """`beat/{id}`: the file's time is the session's last heartbeat."""
        return self("beat", safe("session", host_session))

    def due(self, worker: str) -> str:
        """`due/{worker}`: the worker has mail that may start a turn."""
        return self("due", safe("worker", worker))

    # children
    def launch(self, worker: str) -> str:
        """`launches/{worker}.json`: how a child was started, and how its process ended."""
        return self("launches", safe("worker", worker) + ".json")

    def prompt(self, worker: str) -> str:
        """`launches/{worker}.prompt.txt`: the prompt of a child."""
        return self("launches", safe("worker", worker) + ".prompt.txt")

    def resume_prompt(self, worker: str) -> str:
        """`launches/{worker}.resume.txt`: the prompt with which a child is resumed."""
        return self("launches", safe("worker", worker) + ".resume.txt")

    def candidate(self, worker: str) -> str:
        """`launches/{worker}.result.json`: the latest answer of a running child."""
        return self("launches", safe("worker", worker) + ".result.json")

    def output(self, worker: str) -> str:
        """`logs/{worker}.log`: the standard output of a child."""
        return self("logs", safe("worker", worker) + ".log")

    def errors(self, worker: str) -> str:
        """`logs/{worker}.err.log`: the standard error of a child and of its launcher."""
        return self("logs", safe("worker", worker) + ".err.log")

    def blob(self, digest: str) -> str:
        """`messages/blobs/{sha256}.txt`: a text too long for a message."""
        return self("messages", "blobs", safe("blob", digest) + ".txt")

    # projects
    @property
    def projects(self) -> str:
        """Return the folder of all projects. If it is missing, a tick skips projects."""
        return self("projects")

    def project(self, name: str) -> str:
        """`projects/{name}/project.json`: its folder and its main worker."""
        return self("projects", safe("project", name), "project.json")

    def tasks(self, project: str) -> str:
        """`projects/{name}/tasks.json`: the ledger."""
        return self("projects", safe("project", project), "tasks.json")

    def tasks_events(self, project: str) -> str:
        """`projects/{name}/tasks-events.jsonl`: who changed what; no decision depends on it."""
        return self("projects", safe("project", project), "tasks-events.jsonl")

    def taskgraph(self, project: str) -> str:
        """`projects/{name}/taskgraph.json`: steps of the plan beyond the tasks."""
        return self("projects", safe("project", project), "taskgraph.json")

    def goal(self, project: str) -> str:
        """`projects/{name}/goal.json`: the project's goal and its criteria."""
        return self("projects", safe("project", project), "goal.json")

    def claim(self, project: str, task: str) -> str:
        """`projects/{name}/claims/{task}.json`: a round started this task."""
        return self("projects", safe("project", project), "claims", safe("task", task) + ".json")

    def stale_claim(self, project: str, name: str) -> str:
        """Return the path of a released claim, in `claims-stale/` of its project."""
        folder = self("projects", safe("project", project), "claims-stale")
        return os.path.join(folder, safe("claim", name) + ".json")

    def notices(self, project: str) -> str:
        """`projects/{name}/notices.json`: the notices sent to the main worker."""
        return self("projects", safe("project", project), "notices.json")

    def deliveries(self, project: str) -> str:
        """`projects/{name}/deliveries.jsonl`: each notice sent or refused, and why."""
        return self("projects", safe("project", project), "deliveries.jsonl")

    def to_main(self, project: str) -> str:
        """`projects/{name}/TO_MAIN.md`: the project's status, for its main worker."""
        return self("projects", safe("project", project), "TO_MAIN.md")

    def blocked(self, project: str) -> str:
        """`projects/{name}/blocked.json`: the blocked tasks, and what they wait for."""
        return self("projects", safe("project", project), "blocked.json")

    def gaps(self, project: str) -> str:
        """`projects/{name}/gaps.jsonl`: gaps that rounds found."""
        return self("projects", safe("project", project), "gaps.jsonl")

    def rounds(self, project: str) -> str:
        """`projects/{name}/rounds.jsonl`: the cell that each round chose, and what it did."""
        return self("projects", safe("project", project), "rounds.jsonl")

    def schedules(self, project: str) -> str:
        """`projects/{name}/schedules.json`: when rounds run, and whether they are paused."""
        return self("projects", safe("project", project), "schedules.json")

    def domain(self, project: str) -> str:
        """`projects/{name}/domain.lock`: held by the running round. Never removed."""
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
        """`queue/need-user.jsonl`: the entries that need a person."""
        return self("queue", "need-user.jsonl")

    def untold(self, name: str) -> str:
        """`queue/untold/{id}.json`: notifications that a tick still has to send."""
        return self("queue", "untold", safe("id", name) + ".json")

    def cancel(self, operation: str) -> str:
        """`queue/cancels/{operation}.json`: the targets of a cancel, and each one's outcome."""
        return self("queue", "cancels", safe("operation", operation) + ".json")

    @property
    def log(self) -> str:
        """`log/hook.log`: errors that hooks did not pass on to the host."""
        return self("log", "hook.log")

    @property
    def round_log(self) -> str:
        """`log/rounds.log`: the standard error of rounds that a timer ran."""
        return self("log", "rounds.log")

    @property
    def guard(self) -> str:
        """`hooks/claude-code/guard`: the command that hosts run."""
        return self("hooks", "claude-code", "guard")

    @property
    def installed(self) -> str:
        """`hooks/claude-code/installed.json`: what settings files held at vyane's entries."""
        return self("hooks", "claude-code", "installed.json")


SIGNS = frozenset({"worker-registry.json", "timelines", "wake", "beat"})
"""Names that identify a state folder: each state folder has at least one from the start."""

OURS = SIGNS | {
    "bindings.json", "config.toml", "current", "due", "hooks", "launches", "locks", "log",
    "logical-sessions", "logs", "messages", "mirror", "processes", "projects", "quarantine",
    "queue", "sessions", "threads", "worker-names",
}  # fmt: skip
"""The names of everything that vyane creates directly in the state root."""


def strangers(root: str) -> list[str]:
    """Return the names in the folder that vyane does not create there, sorted.

    If the folder has any, a known name alone does not prove that an entry belongs to vyane: a
    repository may have `hooks` and `projects` too.
    """
    return sorted(name for name in set(os.listdir(root)) - OURS if not files.is_temporary(name))
