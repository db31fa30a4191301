"""A disk that forgets: what may be there after the power went, given the calls that were made.

What was not flushed may be there, or not, or as zeros, or half; a name in a folder that was not
flushed may be there or not. No file system is worse than that, and some are as bad.
"""

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from tests.reliability.tracing import Call


class Bytes(Enum):
    """What becomes of bytes that were not flushed."""

    KEPT = "kept"
    DROPPED = "dropped"
    ZEROED = "zeroed"
    HALF = "half"


class Names(Enum):
    """What becomes of names that were not flushed."""

    KEPT = "kept"
    DROPPED = "dropped"


@dataclass
class File:
    """Bytes that are on the disk, and changes of them that may be."""

    durable: bytes = b""
    pending: list[tuple[str, int, bytes]] = field(default_factory=list)

    def change(self, name: str, at: int, data: bytes = b"") -> None:
        self.pending.append((name, len(self.read(Bytes.KEPT)) if at < 0 else at, data))

    def flush(self) -> None:
        self.durable = self.read(Bytes.KEPT)
        self.pending = []

    def read(self, fate: Bytes) -> bytes:
        data = self.durable
        if fate is Bytes.DROPPED:
            return data
        for position, (name, at, written) in enumerate(self.pending, 1):
            if name == "cut":
                data = data[:at].ljust(at, b"\0")
                continue
            if fate is Bytes.ZEROED:
                written = bytes(len(written))
            if fate is Bytes.HALF and position == len(self.pending):
                written = written[: len(written) // 2]
            data = data[:at].ljust(at, b"\0") + written + data[at + len(written) :]
        return data


@dataclass
class Folder:
    """Names that are on the disk, and those that are seen now."""

    durable: dict[str, "Node"] = field(default_factory=dict)
    now: dict[str, "Node"] = field(default_factory=dict)


Node = File | Folder


class State(NamedTuple):
    """One thing that may be found: the tree, and how it came about."""

    tree: tuple[tuple[str, bytes | None], ...]
    """(path below the top, bytes; None for a folder), parents first."""
    why: str


class Disk:
    """Everything below one folder, as it is on the disk before the first call."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.root = self._load(top)

    def _load(self, path: Path) -> Folder:
        made = Folder()
        for child in path.iterdir():
            if child.is_symlink():
                continue
            node: Node = self._load(child) if child.is_dir() else File(child.read_bytes())
            made.durable[child.name] = made.now[child.name] = node
        return made

    def _find(self, path: str) -> tuple[Folder, str] | None:
        """The folder that holds this path, and the name in it; None outside of the top."""
        inside = os.path.relpath(path, self.top)
        if inside.startswith("..") or inside == ".":
            return None
        *parents, name = inside.split(os.sep)
        folder: Node = self.root
        for parent in parents:
            if not isinstance(folder, Folder) or parent not in folder.now:
                return None
            folder = folder.now[parent]
        return (folder, name) if isinstance(folder, Folder) else None

    def _node(self, path: str) -> Node | None:
        if os.path.relpath(path, self.top) == ".":
            return self.root
        found = self._find(path)
        return found[0].now.get(found[1]) if found else None

    def apply(self, call: Call) -> bool:
        """Make the call; whether it changed anything here."""
        found = self._find(call.path)
        node = self._node(call.path)
        match call.name:
            case "openat":
                if found is None:
                    return False
                if node is None and "O_CREAT" in call.flags:
                    found[0].now[found[1]] = File()
                    return True
                if isinstance(node, File) and "O_TRUNC" in call.flags and node.read(Bytes.KEPT):
                    node.change("cut", 0)
                    return True
                return False
            case "pwrite64" | "write" if isinstance(node, File):
                node.change("write", call.number, call.data)
            case "ftruncate" if isinstance(node, File):
                node.change("cut", call.number)
            case "fsync" if isinstance(node, File):
                node.flush()
            case "fsync" if isinstance(node, Folder):
                node.durable = dict(node.now)
            case "mkdir" if found is not None:
                found[0].now[found[1]] = Folder()
            case "unlink" | "rmdir" if found is not None and node is not None:
                del found[0].now[found[1]]
            case "rename":
                source = self._find(call.source)
                if source is None or found is None or source[1] not in source[0].now:
                    return False
                found[0].now[found[1]] = source[0].now.pop(source[1])
            case _:
                return False
        return True

    def states(self, at: str) -> Iterator[State]:
        """What may be found if the power goes now."""
        for names in Names:
            for fate in Bytes:
                tree = tuple(self._walk(self.root, names, fate, ""))
                yield State(tree, f"{at}; bytes {fate.value}, names {names.value}")

    def _walk(
        self, folder: Folder, names: Names, fate: Bytes, above: str
    ) -> Iterator[tuple[str, bytes | None]]:
        entries = folder.now if names is Names.KEPT else folder.durable
        for name, node in sorted(entries.items()):
            path = os.path.join(above, name)
            if isinstance(node, File):
                yield path, node.read(fate)
            else:
                yield path, None
                yield from self._walk(node, names, fate, path)


def lay_out(top: Path, state: State) -> None:
    """Make the folder hold exactly this."""
    for path in top.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    for name, data in state.tree:
        path = top / name
        if data is None:
            path.mkdir(mode=0o700)
        else:
            path.write_bytes(data)
            path.chmod(0o700 if "hooks" in name and name.endswith("guard") else 0o600)


def crash_states(top: Path, calls: Sequence[Call]) -> Iterator[tuple[int, State]]:
    """(how many calls were made, what may be found) for each of them, each finding once."""
    disk = Disk(top)
    seen: set[int] = set()
    for number, call in enumerate(calls, 1):
        if not disk.apply(call) and call.fd not in (1, 2):
            continue
        said = call.fd in (1, 2) and call.name == "write"
        for state in disk.states(f"after call {number}, {call.name} {os.path.basename(call.path)}"):
            key = hash((state.tree, said))
            if key not in seen:
                seen.add(key)
                yield number, state
