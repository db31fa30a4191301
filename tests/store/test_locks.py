"""The locks: one holder, in order, by a deadline, and their files are never removed."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.simulated import fast_folder, stopped_holder
from vyane_cli.errors import LockTimeoutError, StorageError
from vyane_cli.storage import locks
from vyane_cli.storage.locks import Deadline, LockKind, held, lock_path

ADDER = """
import sys, threading
from vyane_cli.storage import locks
root, path, way, rounds = sys.argv[1:]
def add():
    for _ in range(int(rounds)):
        with locks.held(root, [(locks.LockKind.INBOX, "w")], locks.Deadline(60)):
            with open(path) as file:
                count = int(file.read())
            with open(path, "w") as file:
                file.write(str(count + 1))
if way == "kernel":
    add()
else:
    thread = threading.Thread(target=add)
    thread.start()
    thread.join()
"""


def test_sixteen_processes_through_both_paths_lose_no_update():
    """
    Half wait in the kernel, half (in a thread) through filelock, on the same file: 16 times 200
    additions make 3,200, and the lock file is the same file before and after.
    """
    with fast_folder() as folder:
        root, counter = str(folder), folder / "counter"
        counter.write_text("0")
        with held(root, [(LockKind.INBOX, "w")], Deadline(1)):
            inode = os.stat(lock_path(root, LockKind.INBOX, "w")).st_ino
        command = [sys.executable, "-c", ADDER, root, str(counter)]
        running = [subprocess.Popen([*command, way, "200"]) for way in ("kernel", "filelock") * 8]
        assert [process.wait(timeout=300) for process in running] == [0] * 16

        assert counter.read_text() == "3200"
        assert os.stat(lock_path(root, LockKind.INBOX, "w")).st_ino == inode


@pytest.mark.parametrize("in_thread", [False, True])
def test_a_stopped_holder_is_waited_for_until_the_deadline(tmp_path, in_thread):
    """Exit 6 names the file; the deadline is met, and the lock is free when the holder is gone."""
    root = str(tmp_path)
    waits: list[float] = []

    def wait() -> None:
        began = time.monotonic()
        with (
            pytest.raises(LockTimeoutError, match="inbox"),
            held(root, [(LockKind.INBOX, "w")], Deadline(0.3)),
        ):
            pass
        waits.append(time.monotonic() - began)

    with stopped_holder(root, (LockKind.INBOX, "w")):
        if in_thread:
            thread = threading.Thread(target=wait)
            thread.start()
            thread.join()
        else:
            wait()
    with held(root, [(LockKind.INBOX, "w")], Deadline(1)):
        pass

    assert waits[0] >= 0.29
    assert waits[0] < 1.0  # the rule is 0.1 s over; the rest is a loaded machine


def test_a_deadline_that_is_over_is_always_a_clean_refusal(tmp_path):
    """The timer may ring at any instruction: no other exception, no descriptor, no timer left."""
    root = str(tmp_path)
    with stopped_holder(root, (LockKind.INBOX, "w")):
        before = len(os.listdir("/proc/self/fd"))
        handler = signal.getsignal(signal.SIGALRM)
        for number in range(400):
            with (
                pytest.raises(LockTimeoutError),
                held(root, [(LockKind.INBOX, "w")], Deadline(0.0002 * (number % 12))),
            ):
                pass
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
        assert signal.getsignal(signal.SIGALRM) is handler
        assert len(os.listdir("/proc/self/fd")) == before


def test_one_deadline_covers_all_locks_of_a_call(tmp_path):
    """Two locks that are both held are not waited for twice."""
    root = str(tmp_path)
    deadline = Deadline(0.3)
    with stopped_holder(root, (LockKind.TIMELINE, "t"), (LockKind.INBOX, "w")):
        began = time.monotonic()
        for kind, key in ((LockKind.INBOX, "w"), (LockKind.TIMELINE, "t")):
            with pytest.raises(LockTimeoutError), held(root, [(kind, key)], deadline):
                pass
        assert time.monotonic() - began < 1.0


def test_locks_are_taken_in_ascending_order_each_once(tmp_path, monkeypatch):
    """Whatever the order in which they are asked for; two keys of one stripe are one lock."""
    taken: list[str] = []
    real = locks._take

    def take(path: str, deadline: Deadline) -> object:
        taken.append(os.path.basename(path))
        return real(path, deadline)

    monkeypatch.setattr(locks, "_take", take)
    wanted = [(LockKind.ARCHIVE, ""), (LockKind.TIMELINE, "x"), (LockKind.REGISTRY, "")]
    wanted += [(LockKind.INBOX, f"w{n}") for n in range(100)] + [(LockKind.INBOX, "w1")]
    with held(str(tmp_path), wanted, Deadline(5)):
        pass

    assert taken == sorted(taken)
    assert len(taken) == len(set(taken))
    assert len([name for name in taken if "inbox" in name]) <= 32


def test_lock_files_are_a_fixed_set(tmp_path):
    """They do not grow with sessions."""
    root = str(tmp_path)
    paths = {lock_path(root, kind, f"key-{n}") for kind in LockKind for n in range(3000)}

    assert len(paths) <= sum(locks.STRIPES.get(kind, 1) for kind in LockKind)
    assert len(list(LockKind)) == len({int(kind) for kind in LockKind})


def test_locks_are_given_up_whatever_happens_inside(tmp_path):
    """An exception leaves none behind, nor does the death of the holder."""
    root = str(tmp_path)
    wanted = [(LockKind.INBOX, "w"), (LockKind.TIMELINE, "t")]
    with contextlib.suppress(ZeroDivisionError), held(root, wanted, Deadline(1)):
        _ = 1 / 0
    with held(root, wanted, Deadline(0)):
        pass
    with stopped_holder(root, *wanted) as holder:
        holder.kill()
        holder.wait()
        with held(root, wanted, Deadline(2)):
            pass


def test_a_call_that_cannot_have_all_its_locks_keeps_none(tmp_path):
    """Those that it took first are free again, while the one that it waited for is still held."""
    root = str(tmp_path)
    with stopped_holder(root, (LockKind.TIMELINE, "t")):
        with (
            pytest.raises(LockTimeoutError),
            held(root, [(LockKind.INBOX, "w"), (LockKind.TIMELINE, "t")], Deadline(0.05)),
        ):
            pass
        lock = locks.take_now(lock_path(root, LockKind.INBOX, "w"))

        assert lock is not None
        locks.give_back(lock)


def test_a_lock_is_not_inherited_by_a_child(tmp_path):
    """A child that lives on does not hold it."""
    root = str(tmp_path)
    with held(root, [(LockKind.INBOX, "w")], Deadline(1)):
        child = subprocess.Popen(["sleep", "60"])
    try:
        with held(root, [(LockKind.INBOX, "w")], Deadline(0)):
            pass
    finally:
        child.kill()
        child.wait()


def test_a_lock_that_cannot_be_opened_says_why_and_does_not_wait(tmp_path):
    """A file in the way of the folder: the path and the reason, not "busy"."""
    (tmp_path / "locks").write_text("in the way")
    began = time.monotonic()
    with (
        pytest.raises(StorageError, match=r"locks.*not a directory"),
        held(str(tmp_path), [(LockKind.INBOX, "w")], Deadline(30)),
    ):
        pass

    assert time.monotonic() - began < 2


def test_nothing_in_vyane_removes_a_lock_file():
    """A removed lock file splits the lock: the waiter holds the old one, the newcomer a new."""
    package = Path(locks.__file__).parent.parent
    for source in package.rglob("*.py"):
        for line in source.read_text().splitlines():
            if "lock" in line.lower():
                assert not any(word in line for word in ("unlink(", "rmtree(", "os.remove(")), line


def test_the_declared_versions_of_filelock_keep_the_file():
    """3.21.0 to 3.29.4 remove it on release."""
    project = (Path(locks.__file__).parents[2] / "pyproject.toml").read_text()

    assert '"filelock>=3.29.5"' in project
