"""Figure of the mirror: a cold `mirror push` of one message, against a single POST by urllib3."""

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.bench import Bench
from benchmarks.homes import PACKAGE, Home, Session
from benchmarks.measure import Command, Cost, alternate, run
from benchmarks.report import Goal, Row, row

BARE, PUSH = "a bare POST", "mirror push"
GOAL = Goal(3)
POST = """
import json, sys, urllib3
url, token, body = sys.argv[1:]
headers = {"Authorization": "Bot " + token, "User-Agent": "DiscordBot (bench, 1)"}
headers["Content-Type"] = "application/json"
reply = urllib3.PoolManager(retries=False).request("POST", url, body=body, headers=headers)
sys.exit(reply.status != 200)
"""


def mirror(bench: Bench) -> Iterator[Row]:
    """Measure the push of one line of a turn into an existing post, in a new process each time."""
    with _mock_discord() as server, bench.home() as home:
        session = home.session()
        push = _push(home, server)
        if run(push).status:
            raise RuntimeError("the first push failed")
        (thread,) = [one["id"] for one in server.threads()]
        shown = len(server.visible(thread))

        def before(command: Command) -> None:
            nonlocal shown
            shown = len(server.visible(thread))
            if command.name == PUSH:
                session.turn()

        def after(command: Command, cost: Cost) -> None:
            if cost.status or len(server.visible(thread)) != shown + 1:
                raise RuntimeError(f"{command.name}: ended with {cost.status}, or showed nothing")

        commands = [_bare(session, server, thread), push]
        found = alternate(commands, bench.size(30, 3), before=before, after=after)
    for what, cost in (("CPU", "cpu"), ("wall", "wall")):
        ours, base = getattr(found[PUSH], cost), getattr(found[BARE], cost)
        yield row(f"{PUSH} of one message, cold, {what}", ours, "ms", base, BARE, GOAL)


def _mock_discord() -> Any:
    """Start the tests' mock of Discord, without its rate limits."""
    sys.path.insert(0, str(PACKAGE))
    return importlib.import_module("tests.discord.mockcord").MockDiscord(limits={"enabled": False})


def _push(home: Home, server: Any) -> Command:
    settings = f'[channels.discord]\nforum = "{server.forum.id}"\n'
    Path(home.home.layout.config).write_text(settings)
    env = {
        **home.user_environ(),
        "PYTHONPATH": str(PACKAGE),
        "DISCORD_API": server.base_url,
        "DISCORD_TOKEN": server.world.token,
    }
    argv = [sys.executable, "-P", "-m", "vyane_cli", "--home", str(home.root), "mirror", "push"]
    return Command(PUSH, argv, env)


def _bare(session: Session, server: Any, thread: str) -> Command:
    body = json.dumps({"content": "done", "allowed_mentions": {"parse": []}})
    url = f"{server.base_url}/channels/{thread}/messages"
    argv = [sys.executable, "-c", POST, url, server.world.token, body]
    return Command(BARE, argv, session.home.user_environ())
