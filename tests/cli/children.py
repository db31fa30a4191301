"""Children of bob that are really processes: spawned, waited for and listed by commands."""

import json
from typing import Any

import psutil

from tests.simulated import World, vyane


def spawn(world: World, prompt: str, *words: str, environ: dict[str, str] | None = None) -> Any:
    given = ["spawn", prompt, "--parent", "bob", "--no-inherit-context", *words, "--json"]
    ran = vyane(world.layout.root, *given, environ=environ)
    assert ran.status == 0, ran.err
    return json.loads(ran.out)


def wait(world: World, *words: str) -> Any:
    ran = vyane(world.layout.root, "wait", *words, "--json")
    assert ran.status == 0, ran.err
    return json.loads(ran.out)


def workers(world: World) -> dict[str, Any]:
    listed = json.loads(vyane(world.layout.root, "workers", "--all", "--json").out)
    return {worker["id"]: worker for worker in listed}


def bob(world: World) -> Any:
    (found,) = [w for w in workers(world).values() if w["name"] == "bob"]
    return found


def inbox(world: World, who: str, kind: str = "task-result") -> list[Any]:
    listed = json.loads(vyane(world.layout.root, "inbox", who, "--all", "--json").out)
    return [message for message in listed if message["kind"] == kind]


def launchers(world: World) -> list[int]:
    """The processes beside the children of this state root: each writes until the very end."""
    return [
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if world.layout.root in (process.info["cmdline"] or [])
    ]
