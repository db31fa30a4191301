"""Every command that writes: how a home is made ready for it, its words, and what it changes.

One table for all rigs: R2 kills it at each call, R3 fails each call, R5 takes the power away, R13
stops the holder of its locks. A new command that writes needs a row here (`ACTS`), one that only
reads a row in `READS`; a test goes through the command line and says so.
"""

import importlib
import json
import os
import pwd
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import typer

from tests.operations.faults import stopped_at
from tests.simulated import HUMAN, Host, World, machine
from vyane_cli.attention import needs
from vyane_cli.errors import NotFoundError
from vyane_cli.history.producer import finish_turn, start_turn
from vyane_cli.mail import inbox
from vyane_cli.mail.message import MessageKind
from vyane_cli.mail.send import MessageDraft, send
from vyane_cli.projects import schedule
from vyane_cli.sessions import registry
from vyane_cli.storage import document, journal
from vyane_cli.timeline import log

PERSON = ("--from-kind", "human")
WAITS = "a message that was there before"


@dataclass
class Lab:
    """A home with a session (`project`), an agent without hooks (`bob`) and its child (`kid`)."""

    make: Callable[..., Host]
    one: Host
    other: Host
    waiting: str
    token: str = ""
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def world(self) -> World:
        return self.one.world

    @property
    def home(self) -> Path:
        return Path(self.one.home)

    def path(self, *parts: str) -> Path:
        return self.home.parent.joinpath(*parts)

    def environ(self) -> dict[str, str]:
        """What a person's script has: no host, no terminal."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home.parent / "user"),
            "CLAUDE_CONFIG_DIR": str(self.home.parent / "claude"),
            "VYANE_HOME": str(self.home),
            "LC_ALL": "C.UTF-8",
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def worker(self, name: str) -> Any:
        found = [w for w in registry.Registry(self.world.layout).listing() if w.name == name]
        return found[0] if found else None

    def texts(self, name: str) -> list[tuple[str, str]]:
        """(kind, text) of what was sent to a worker, by position."""
        worker = self.worker(name)
        if worker is None:
            return []
        entries = inbox.read(self.world.layout.inbox(worker.id), whole=True).mailbox.entries
        return [(str(e.message.kind), text_of(e.message.payload)) for e in entries]

    def events(self, name: str) -> list[tuple[str, str]]:
        """(kind, what it is about) of a worker's timeline."""
        worker = self.worker(name)
        path = self.world.layout.timeline(worker.logical_session_id)
        return [
            (event["kind"], str(event["payload"].get("tool") or event["payload"].get("outcome")))
            for _, event in log.read(path)
        ]


def text_of(payload: Mapping[str, Any]) -> str:
    for name in ("text", "instruction", "prompt", "summary", "progress", "reason"):
        if isinstance(payload.get(name), str):
            return str(payload[name])
    return ""


Seen = Callable[[], object]


class Case(NamedTuple):
    """One command line on one home."""

    words: tuple[str, ...]
    seen: Seen
    """What the command changes, in a form that is equal from run to run: no ids, no times."""
    environ: Mapping[str, str] = {}
    stdin: bytes = b""
    between: tuple[object, ...] = ()
    """What a crash or a failure may leave beside what was before and what is after."""
    later: tuple[object, ...] = ()
    """What the same command makes of one of those, beside what two runs make."""
    mail: bool = True
    """The message that waited in the session's inbox is still given to it afterwards."""
    codes: tuple[int, ...] = (0,)
    """What it may end with when nothing is in its way."""
    told: bool = True
    """What it prints says that it is done: not of events, which come before their cursor."""
    again: tuple[int, ...] = ()
    """What else it may end with when it is run once more."""
    stepwise: bool = False
    """It goes step by step: each is right, what it could not do it says, the next one does it."""
    alone: bool = True
    """Nothing else goes on: what it starts in the background is part of no rig."""


# ------------------------------------------------------------------ messages


def sending(lab: Lab) -> Case:
    return Case(("send", "project", "hello"), lambda: lab.texts("project"))


def sending_keyed(lab: Lab) -> Case:
    words = ("send", "project", "hello", "--idempotency-key", "k1")
    return Case(words, lambda: lab.texts("project"))


def sending_first(lab: Lab) -> Case:
    """The first message to somebody: its inbox is made."""
    return Case(("send", "bob", "hello"), lambda: lab.texts("bob"))


def broadcasting(lab: Lab) -> Case:
    def seen() -> object:
        return [lab.texts(name) for name in ("project", "bob", "kid")]

    before = [lab.texts(name) for name in ("project", "bob", "kid")]
    info = ("context-inject", "to all")
    between = []
    for mask in range(8):  # without a key some may have it
        between.append([[*t, info] if mask >> n & 1 else t for n, t in enumerate(before)])
    some = tuple(between)  # and the next one within a minute is refused
    return Case(("send", "all", "to all"), seen, between=some, later=some, again=(5,))


def replying(lab: Lab) -> Case:
    return Case(("reply", lab.extra["from-bob"], "an answer"), lambda: lab.texts("bob"))


def relaying(lab: Lab) -> Case:
    environ = {"VYANE_WORKER": lab.worker("project").id}
    return Case(("relay", "kid", "pass it on"), lambda: lab.texts("kid"), environ)


# ------------------------------------------------------------------ sessions


def names(lab: Lab) -> list[tuple[str, str, str]]:
    return [
        (w.name, w.worker_type, str(w.status))
        for w in registry.Registry(lab.world.layout).listing()
    ]


def registering(lab: Lab) -> Case:
    return Case(("workers", "register", "carol"), lambda: names(lab))


def renaming(lab: Lab) -> Case:
    return Case(("workers", "rename", "bob", "robert"), lambda: names(lab))


def spawning(lab: Lab) -> Case:
    words = ("spawn", "do it", "--parent", "bob", "--runtime", "absent", "--no-inherit-context")

    def seen() -> object:
        parent = lab.worker("bob")
        known = registry.Registry(lab.world.layout)
        children = [w for w in known.listing() if w.parent_worker_id == parent.id]
        return len(children), {w.id for w in children} == set(parent.children_worker_ids)

    return Case(words, seen, alone=False)


def progressing(lab: Lab) -> Case:
    environ = {"VYANE_WORKER": lab.worker("kid").id}
    return Case(("report", "--progress", "half"), lambda: lab.texts("project"), environ)


def resulting(lab: Lab) -> Case:
    environ = {"VYANE_WORKER": lab.worker("kid").id}

    def seen() -> object:
        return lab.texts("project"), str(lab.worker("kid").status)

    texts, _ = before = seen()
    done = [*texts, (str(MessageKind.TASK_RESULT), "it is done")]
    between = ((done, before[1]), (texts, "COMPLETED"))
    return Case(("report", "--result", "it is done"), seen, environ, between=between)


def taking_over(lab: Lab) -> Case:
    words = ("takeover", "project", "stop that", "--timeout", "0.01s", *PERSON)
    kind = str(MessageKind.TAKEOVER)
    return Case(words, lambda: [t for t in lab.texts("project") if t[0] == kind], mail=False)


def cancelling(lab: Lab) -> Case:
    words = ("cancel", "kid", "--wait", "0.01s", "--operation", "op-1", *PERSON)

    def seen() -> object:
        return str(lab.worker("kid").status), len(lab.texts("kid"))

    status, texts = seen()
    # the first: its plan is kept, and the same command finishes it
    between = ((status, texts), (status, texts + 1), ("KILLED", texts), ("KILLED", texts + 1))
    return Case(words, seen, between=between, codes=(0, 5))


# ------------------------------------------------------------------ timelines


def turn_starting(lab: Lab) -> Case:
    return Case(("turn", "start", "kid", "--pid", str(os.getpid())), lambda: lab.events("kid"))


def turn_emitting(lab: Lab) -> Case:
    words = ("turn", "emit", lab.token, "ToolObserved", "--payload", '{"tool": "make"}')
    return Case(words, lambda: lab.events("bob"))


def turn_finishing(lab: Lab) -> Case:
    words = ("turn", "finish", lab.token, "--outcome", "success")
    return Case(words, lambda: lab.events("bob"))


def consuming(lab: Lab) -> Case:
    words = ("watch", "project", "--history", "--consumer", "reader")

    def seen() -> object:
        path = lab.world.layout.consumer(lab.one.logical, "reader")
        kept = document.load(path)
        return bool(kept)

    return Case(words, seen, told=False)


def exporting(lab: Lab) -> Case:
    target = lab.path("export.json")
    words = ("timeline", "export", "project", "--output", str(target))
    return Case(words, lambda: target.exists() and bool(target.read_bytes()))


def deleting(lab: Lab) -> Case:
    worker = lab.worker("kid")
    token = start_turn(lab.world, "kid", pid=os.getpid()).token
    finish_turn(lab.world, token, "success")

    def seen() -> object:
        return os.path.exists(lab.world.layout.timeline(worker.logical_session_id))

    return Case(("timeline", "delete", "kid", "--yes"), seen)


# ------------------------------------------------------------------ set up and look after


def initialising(lab: Lab) -> Case:
    fresh = lab.path("fresh")
    words = ("--home", str(fresh), "init")
    return Case(words, lambda: (fresh / "config.toml").exists())


def settings_file(lab: Lab) -> Path:
    return lab.path("claude", "settings.json")


def entries(lab: Lab) -> object:
    """Whose hooks are in the settings: ours by count, others whole."""
    path = settings_file(lab)
    if not path.exists():
        return None
    data = json.loads(path.read_bytes())
    ours = json.dumps(data.get("hooks", {})).count("guard")
    return ours > 0, data.get("theirs")


def connecting(lab: Lab) -> Case:
    settings_file(lab).parent.mkdir(exist_ok=True)
    settings_file(lab).write_text('{"theirs": [1, 2, 3]}\n')
    return Case(("hooks", "install"), lambda: entries(lab))


def connected(lab: Lab) -> None:
    from vyane_cli.hosts import claude_settings
    from vyane_cli.setup import hooks

    settings_file(lab).parent.mkdir(exist_ok=True)
    settings_file(lab).write_text('{"theirs": [1, 2, 3]}\n')
    lab.world.environ = lab.environ()
    hooks.install(lab.world, claude_settings, str(settings_file(lab)))


def disconnecting(lab: Lab) -> Case:
    connected(lab)
    return Case(("hooks", "uninstall"), lambda: entries(lab))


def uninstalling(lab: Lab) -> Case:
    connected(lab)
    return Case(("uninstall", "--yes"), lambda: entries(lab))


def mending(lab: Lab) -> Case:
    """A damaged line, half a line, and an open file: what `--fix` may put right."""
    path = Path(lab.world.layout.inbox(lab.one.worker))
    good = path.read_bytes()
    path.write_bytes(b'{"damaged": 1}\n' + good + b'{"v":1,"half')
    path.chmod(0o644)

    def seen() -> object:
        data = path.read_bytes()
        return b"damaged" in data, b"half" in data, path.stat().st_mode & 0o777

    steps = ((True, True, 0o600), (False, False, 0o600), (True, False, 0o600))
    return Case(("doctor", "--fix"), seen, between=steps, codes=(0, 1))


def setting(lab: Lab) -> Case:
    path = lab.home / "config.toml"
    words = ("config", "set", "language", "zh")
    return Case(words, lambda: 'language = "zh"' in path.read_text())


def collecting(lab: Lab) -> Case:
    """Settled mail goes to the archive; its state does not change."""
    settled = lab.extra["settled"]

    def seen() -> object:
        try:
            return lab.world.status(settled)
        except NotFoundError:
            return "lost"

    return Case(("gc", "--older-than", "0.001s"), seen)


def ticking(lab: Lab) -> Case:
    words = ("tick", "--host", "claude-code", "--event", "PostToolBatch")
    given = lab.one.payload("PostToolBatch")
    environ = lab.one.environ()
    return Case(words, lambda: None, environ, given)


# ------------------------------------------------------------------ projects and places


CHANGING = re.compile(
    r'(?<=_ms":)\d+|(?<=_ms": )\d+|(?<="start":)\d+|(?<="start": )\d+|(?<="host":\[)[\d,]+'
    r"|\b\d{9,}(\.\d+)?\b|[0-9A-HJKMNP-TV-Z]{26}|(w|vs|b|g)-[0-9a-f]+|[0-9a-f]{8,}"
    r"|(?<=n\": )\d+"
)
"""
What differs from run to run: times, ids, digests, revisions. Times since the boot go by their
key, because a machine that was just started has short ones.
"""


def shape(lab: Lab, *globs: str) -> Seen:
    """The documents that fit, without what differs from run to run."""

    def seen() -> object:
        paths = sorted(path for glob in globs for path in lab.home.glob(glob))
        texts = [CHANGING.sub("#", content(path)) for path in paths if path.is_file()]
        return [text for text in texts if text]  # an empty journal says nothing

    return seen


def content(path: Path) -> str:
    """The text of a file; of a journal its whole and sound lines, as its readers see it."""
    if path.suffix != ".jsonl":
        return path.read_text()
    lines = [line for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
    sound = [line for line in lines if journal.parse_line(0, line[:-1]).record is not None]
    return b"".join(sound).decode()


def ready(lab: Lab, *lines: str) -> None:
    """Commands that come first."""
    for line in lines:
        case = Case(tuple(shlex.split(line)), lambda: None)
        outcome = stopped_at(100_000, partial(run_here, lab, case))
        assert outcome.said == [{"code": 0}], (line, outcome, printed(lab))


ALPHA = "project create alpha --dir {cwd} --main project"
BETA = "project create beta --dir {cwd}/../other --main other"
"""A project whose main worker is at rest."""


def row(
    line: str, *first: str, sees: str = "projects/*/*.json", **more: Any
) -> Callable[[Lab], Case]:
    """An act that is a command line after others, and changes the documents that it sees."""

    def prepare(lab: Lab) -> Case:
        places = {"cwd": lab.one.cwd, "project": lab.one.logical}
        ready(lab, *(one.format(**places) for one in first))
        if more.get("fill") is not None:
            places |= more["fill"](lab)
        words = tuple(shlex.split(line.format(**places)))
        rest = {key: value for key, value in more.items() if key != "fill"}
        return Case(words, shape(lab, *sees.split()), **rest)

    return prepare


def pausing(lab: Lab) -> Case:
    """A round that calls the person for a blocked task, and pauses the project's rounds."""
    blocked = "task report T1 --state blocked --reason x --project beta"
    places = {"cwd": lab.one.cwd}
    ready(lab, BETA.format(**places), "task add a --project beta", blocked)

    def seen() -> object:
        told = [one["key"] for one in needs.list_entries(lab.world.layout)]
        states = schedule.load(lab.world.layout, "beta").plans.values()
        return sum(key.startswith("blocked:") for key in told), [str(one.status) for one in states]

    (_, active) = before = seen()
    words = ("wake", "--schedule", "A", "--project", "beta")
    return Case(words, seen, between=((1, active), before))


def feeding_back(lab: Lab) -> Case:
    """A round that tells the main worker what the goal still lacks."""
    done = "task report T1 --state done --no-artifact-reason none --project beta"
    goal = "goal set ship --accept tests --project beta"
    ready(lab, BETA.format(cwd=lab.one.cwd), goal, "task add a --project beta", done)
    return Case(("wake", "--project", "beta"), lambda: lab.texts("other"), stepwise=True)


def need(lab: Lab) -> dict[str, str]:
    """The id of the first thing that a person is needed for."""
    for line in journal.read(lab.world.layout.need_user):
        record = line.record or {}
        if record.get("key"):
            return {"need": str(record["key"])}
    raise AssertionError("nobody is needed")


def aged(lab: Lab) -> dict[str, str]:
    """The bindings are of long ago."""
    path = lab.home / "bindings.json"
    path.write_text(
        re.sub(r'("(bound|last_activity)_at": )[0-9.]+', r"\g<1>1000000000.5", path.read_text())
    )
    return {}


def written(lab: Lab) -> dict[str, str]:
    """A person has written to the session in its conversation."""
    with (lab.home / "threads" / "c1.md").open("a") as file:
        file.write("\nplease look at the tests\n")
    return {}


def binding(lab: Lab) -> dict[str, str]:
    """The id of the first binding."""
    data = json.loads((lab.home / "bindings.json").read_bytes())
    return {"binding": next(iter(data["bindings"]))}


OWNER = pwd.getpwuid(os.getuid()).pw_name
FILE_CHANNEL = f'\n[channels.file]\nallow_users = ["{OWNER}"]\n'
BIND = "bind project --channel file --conversation c1"


def channelled(act: Callable[[Lab], Case]) -> Callable[[Lab], Case]:
    """The same with a channel set up, and a conversation that a person began there."""

    def prepare(lab: Lab) -> Case:
        with (lab.home / "config.toml").open("a") as file:
            file.write(FILE_CHANNEL)
        (lab.home / "threads").mkdir(mode=0o700)
        (lab.home / "threads" / "c1.md").write_text("# what we talk about\n")
        return act(lab)

    return prepare


ACTS: dict[str, Callable[[Lab], Case]] = {
    "send": sending,
    "send (keyed)": sending_keyed,
    "send (first)": sending_first,
    "send (all)": broadcasting,
    "reply": replying,
    "relay": relaying,
    "workers register": registering,
    "workers rename": renaming,
    "spawn": spawning,
    "report": progressing,
    "report (result)": resulting,
    "takeover": taking_over,
    "cancel": cancelling,
    "timeline export": exporting,
    "timeline delete": deleting,
    "watch": consuming,
    "turn start": turn_starting,
    "turn emit": turn_emitting,
    "turn finish": turn_finishing,
    "init": initialising,
    "hooks install": connecting,
    "hooks uninstall": disconnecting,
    "uninstall": uninstalling,
    "doctor": mending,
    "config set": setting,
    "gc": collecting,
    "tick": ticking,
    "project create": row(ALPHA, sees="projects/*/project.json"),  # written last
    "project select": row("project select alpha --dir {cwd}/..", ALPHA),
    "project edit": row("project edit alpha --dir {cwd}/..", ALPHA),
    "project join": row("project join alpha bob", ALPHA, sees="projects/*/*.json *.json"),
    "project leave": row(
        "project leave bob", ALPHA, "project join alpha bob", sees="projects/*/*.json *.json"
    ),
    "task add": row("task add 'write it' --project alpha", ALPHA),
    "task edit": row(
        "task edit T1 --title 'write more' --project alpha", ALPHA, "task add a --project alpha"
    ),
    "task report": row(
        "task report T1 --state running --project alpha", ALPHA, "task add a --project alpha"
    ),
    "taskgraph add": row("taskgraph add n1 --title one --project alpha", ALPHA),
    "taskgraph mark": row(
        "taskgraph mark n1 --state done --project alpha", ALPHA, "taskgraph add n1 --project alpha"
    ),
    "taskgraph remove": row(
        "taskgraph remove n1 --project alpha", ALPHA, "taskgraph add n1 --project alpha"
    ),
    "goal set": row("goal set ship --accept tests --project alpha", ALPHA),
    "goal accept": row(
        "goal accept tests --state pass --project alpha",
        ALPHA,
        "goal set ship --accept tests --project alpha",
    ),
    "need-user add": row("need-user add --reason 'please look' --ask a", sees="queue/*.jsonl"),
    "need-user resolve": row(
        "need-user resolve {need}",
        "need-user add --reason look --ask a",
        sees="queue/*.jsonl",
        fill=need,
    ),
    "wake (pause)": pausing,
    "wake (tell)": feeding_back,
    "mirror pull": channelled(
        row("mirror pull", BIND, sees="messages/inbox/*.jsonl", fill=written, stepwise=True)
    ),
    "mirror push": channelled(row("mirror push", BIND, sees="threads/*.md", stepwise=True)),
    "schedule pause": row("schedule pause --project alpha", ALPHA),
    "schedule set": row("schedule set A FREQ=HOURLY;BYMINUTE=7 --project alpha", ALPHA),
    "schedule resume": row(
        "schedule resume --project alpha", ALPHA, "schedule pause --project alpha"
    ),
    "bind": channelled(row(BIND, sees="bindings.json")),
    "unbind": channelled(
        row("unbind --id {binding} --reason over", BIND, sees="bindings.json", fill=binding)
    ),
    "bindings sweep": channelled(
        row(
            "bindings sweep", f"{BIND} --max-age 1h", sees="bindings.json", fill=aged, stepwise=True
        )
    ),
    "bindings touch": channelled(
        row("bindings touch {binding} --idle 5h", BIND, sees="bindings.json", fill=binding)
    ),
}
"""Command (and, in brackets, which way of it) → how it is set up."""

READS: dict[str, tuple[str, ...]] = {
    "inbox": ("inbox", "project"),
    "show": ("show", "{waiting}"),
    "why": ("why", "{waiting}"),
    "status": ("status",),
    "workers list": ("workers", "list"),
    "topology": ("topology",),
    "wait": ("wait", "kid", "--timeout", "0.01s"),
    "logs": ("logs", "kid"),
    "timeline read": ("timeline", "read", "project", "--history"),
    "timeline show": ("timeline", "show", "project"),
    "timeline verify": ("timeline", "verify", "project"),
    "hooks status": ("hooks", "status"),
    "config list": ("config", "list"),
    "config get": ("config", "get", "language"),
    "demo": ("demo",),
    "completion": ("completion", "bash"),
    "describe": ("describe",),
    "project list": ("project", "list"),
    "project show": ("project", "show", "alpha"),
    "task list": ("task", "list"),
    "task show": ("task", "show", "T1"),
    "taskgraph show": ("taskgraph", "show"),
    "goal show": ("goal", "show"),
    "goal status": ("goal", "status"),
    "need-user list": ("need-user", "list"),
    "bindings list": ("bindings", "list"),
    "bindings resolve": ("bindings", "resolve", "--channel", "file", "--conversation", "c1"),
    "bindings channel": ("bindings", "channel", "file"),
    "route": ("route", "project"),
    "mirror status": ("mirror", "status"),
    "schedule list": ("schedule", "list"),
    "schedule next": ("schedule", "next"),
}
"""Commands that change nothing in the home, with words for each."""


ELSEWHERE: dict[str, str] = {
    "need-user notify": "it speaks to a service: tests/cli/test_need_user.py kills it",
    "schedule install": "it changes the person's own crontab",
    "schedule remove": "it changes the person's own crontab",
}
"""Commands that are proven by tests of their own, with the reason."""


# ------------------------------------------------------------------ the home


@contextmanager
def lab(folder: Path | None = None) -> Iterator[Lab]:
    """The home that every act begins with."""
    with machine(folder) as make:
        one, other = make(), make()
        one.start()
        one.prompt()
        settled = one.world.send("project", "settled")
        one.batch()
        one.batch()
        other.cwd = str(Path(one.cwd).parent / "other")
        os.mkdir(other.cwd)
        other.start()
        world = one.world
        bob = world.register("bob")
        kid = world.register("kid")
        known = registry.Registry(world.layout)
        sender = known.workers[one.worker]
        known.put(sender._replace(children_worker_ids=(kid,)))
        known.put(
            known.workers[kid]._replace(parent_worker_id=one.worker, dispatch_id=world.new_id(1))
        )
        known.save()
        token = start_turn(world, "bob", pid=os.getpid()).token
        world.environ = {"VYANE_WORKER": bob}
        from_bob = send(world, MessageDraft("project", "a question")).message.id
        waiting = world.send("project", WAITS, HUMAN)
        with (Path(one.home) / "config.toml").open("a") as file:
            file.write('\n[runtimes.absent]\nspawn = ["/no/such/program"]\n')
        world._config = None
        made = Lab(make, one, other, waiting, str(token))
        made.extra = {"from-bob": from_bob, "settled": settled}
        yield made


def snapshot(home: Path) -> Path:
    """A copy of everything beside the home and in it."""
    copy = home.parent.with_name(home.parent.name + "-copy")
    shutil.copytree(home.parent, copy, symlinks=True)
    return copy


def restore(home: Path, copy: Path) -> None:
    """The home as it was."""
    for path in home.parent.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    shutil.copytree(copy, home.parent, symlinks=True, dirs_exist_ok=True)


def files(home: Path) -> dict[str, bytes]:
    """Every file of the home with its bytes."""
    return {
        str(path.relative_to(home)): path.read_bytes()
        for path in sorted(home.rglob("*"))
        if path.is_file()
    }


# ------------------------------------------------------------------ running one


def preload() -> None:
    """What the commands import, once for all children that run one."""
    from vyane_cli.cli import app

    typer.main.get_command(app.app)
    for name in ("orjson", "filelock", "psutil", "tomlkit", "rich.table", "rich.progress"):
        importlib.import_module(name)
    package = Path(app.__file__).parents[1]
    for module in sorted(package.rglob("*.py")):
        name = ".".join(module.relative_to(package.parent).with_suffix("").parts)
        if not name.endswith("__"):
            importlib.import_module(name)


class Ran(NamedTuple):
    """What came of a command."""

    code: int
    out: bytes
    err: bytes


def run_here(lab: Lab, case: Case, say: Callable[[object], None]) -> None:
    """Run the command in this process, which is a child that ends with it.

    Its output goes to files beside the home, so that what it printed is known when it dies.
    """
    from vyane_cli import hook
    from vyane_cli.cli import app
    from vyane_cli.home import accelerate

    out = os.open(lab.path("out"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
    err = os.open(lab.path("err"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
    given = lab.path("in")
    given.write_bytes(case.stdin)
    os.dup2(os.open(given, os.O_RDONLY), 0)
    os.dup2(out, 1)
    os.dup2(err, 2)
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", 1, closefd=False)
    sys.stderr = os.fdopen(2, "w", 1, closefd=False)
    environ = {**lab.environ(), **case.environ}
    os.environ.clear()
    os.environ.update(environ)
    os.chdir(lab.one.cwd)
    if not case.alone:
        from vyane_cli.children import spawn

        spawn.start_launcher = lambda *words: None  # type: ignore[assignment]
    if case.words[0] == "tick":
        try:
            code = hook.run(hook.Options(case.words[1:]))
        except Exception:  # as its entry does: a host reads statuses
            code = 0
    else:
        accelerate()
        code = app.run(app.hoist(["--json", *case.words]))
        sys.stdout.flush()
    say({"code": code})


def printed(lab: Lab) -> tuple[bytes, bytes]:
    """What the last run wrote."""
    return lab.path("out").read_bytes(), lab.path("err").read_bytes()


# ------------------------------------------------------------------ what must hold anywhere


def unsound(lab: Lab) -> list[str]:
    """What is damaged: nothing may be, whenever a command was stopped. Half a line may be there."""
    found = []
    layout = lab.world.layout
    for path in sorted(lab.home.rglob("*.jsonl")):
        if "quarantine" in path.parts:
            continue
        found += [f"{path.name}: {line.damage}" for line in journal.read(str(path)) if line.damage]
    for path in sorted(lab.home.rglob("*.json")):
        try:
            json.loads(path.read_bytes())
        except ValueError as error:
            found.append(f"{path.name}: {error}")
    for worker in registry.Registry(layout).listing():
        path = layout.timeline(worker.logical_session_id)
        if os.path.exists(path):
            log.check(path, worker.logical_session_id)
    return found


def temporaries(lab: Lab) -> list[str]:
    return [str(p) for p in lab.home.parent.rglob("*") if p.name.endswith(".tmp")]


def given(lab: Lab) -> str:
    """All that the session is given from here on."""
    one = lab.one
    one.world.pass_s(400)
    texts = [one.tool().text, one.batch().text, one.batch().text, one.stop().text]
    texts += [one.prompt().text, one.batch().text, one.batch().text]
    return "\n".join(texts)
