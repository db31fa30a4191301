"""Workers on a simulated machine: trees of workers, and a parent with its children."""

from pathlib import Path
from typing import Any

from tests.simulated import World, new_world
from vyane_cli.children.order import Order
from vyane_cli.mail.message import MessageKind
from vyane_cli.sessions import registry
from vyane_cli.sessions.session import HostSession, LogicalSession
from vyane_cli.sessions.worker import Worker, WorkerStatus
from vyane_cli.storage import processes


def grow(world: World, size: int, independent: tuple[int, ...] = (), **more: Any) -> list[str]:
    """Make a tree of workers with up to three children each. Return their ids.

    The process of every worker is the test's own process.
    """
    workers = registry.Registry(world.layout)
    ids = [f"w-{number:06x}" for number in range(size)]
    for number, worker_id in enumerate(ids):
        parent = ids[(number - 1) // 3] if number else None
        logical = f"vs-{number:06x}"
        worker = Worker(
            worker_id,
            f"n{number}",
            "claude_cli",
            logical,
            status=WorkerStatus.RUNNING,
            session_id=f"s{number}",
            parent_worker_id=parent,
            children_worker_ids=tuple(ids[3 * number + 1 : 3 * number + 4]),
            independent=number in independent,
            created_at=1.0,
        )
        workers.put(worker)
        registry.save_logical_session(
            world.layout, LogicalSession(logical, worker.name, worker_id, 1.0)
        )
        session = HostSession(
            id=f"s{number}",
            host="claude-code",
            worker=worker_id,
            name=worker.name,
            logical_session=logical,
            process=processes.myself(),
        )
        registry.save_session(world.layout, session._replace(**more))
        registry.write_current(world.layout, worker_id, session.id)
    workers.save()
    return ids


def world_in(folder: Path) -> World:
    """Return a state root with one worker, the parent bob."""
    world = new_world(folder)
    world.register("bob")
    return world


def workers(world: World) -> dict[str, Worker]:
    return dict(registry.Registry(world.layout).workers)


def named(world: World, name: str) -> Worker:
    (found,) = [w for w in workers(world).values() if w.name == name]
    return found


def order(prompt: str = "do it", **more: Any) -> Order:
    return Order(prompt, "bob", cwd="/tmp", **more)


def results(world: World, worker: str) -> list[Any]:
    box = world.inbox(worker).mailbox
    return [e.message for e in box.entries if e.message.kind is MessageKind.TASK_RESULT]
