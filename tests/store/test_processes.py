"""Who a process is: boot, namespace, pid and start; death only by proof."""

import os
import subprocess
import time

import pytest

from vyane_cli.kernel.process import Process
from vyane_cli.storage import processes


@pytest.fixture
def child():
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


def test_a_process_is_itself(child):
    """As long as it is there, and not after."""
    known = processes.identify(child.pid)
    assert processes.is_present(known) is True
    child.kill()
    end = time.monotonic() + 10
    while processes.is_present(known) is not False and time.monotonic() < end:
        time.sleep(0.005)
    assert processes.is_present(known) is False  # ended, though nobody has waited for it yet
    child.wait()
    assert processes.is_present(known) is False
    assert processes.identify(child.pid) is None


def test_a_reused_pid_is_another_process(child):
    """The start time tells them apart."""
    known = processes.identify(child.pid)

    assert processes.is_present(known._replace(start=known.start + 1)) is False


@pytest.mark.skipif(os.getuid() != 0, reason="needs to choose the next pid")
def test_a_pid_that_is_handed_out_again_deceives_nobody():
    """The very pid of a dead process, made to be given to another one."""
    first = subprocess.Popen(["sleep", "600"])
    known = processes.identify(first.pid)
    first.kill()
    first.wait()
    while processes.boot_ms() // 10 <= known.start:
        pass  # the next clock tick: start times are no finer
    for _ in range(50):
        with open("/proc/sys/kernel/ns_last_pid", "w") as file:
            file.write(str(first.pid - 1))
        other = subprocess.Popen(["sleep", "600"])
        try:
            if other.pid == first.pid:
                assert processes.identify(other.pid) != known
                assert processes.is_present(known) is False
                return
        finally:
            other.kill()
            other.wait()
    pytest.skip("the pid was always taken")


@pytest.mark.parametrize(
    "change, present",
    [({"boot": "another"}, False), ({"boot": ""}, None), ({"namespace": "another"}, None)],
)
def test_what_cannot_be_compared_is_not_told(child, change, present):
    """Another boot is proof of death; another pid namespace is not, nor is an unknown boot."""
    known = processes.identify(child.pid)._replace(**change)

    assert processes.is_present(known) is present


def test_an_unknown_start_is_never_dead(child):
    """ "Cannot tell", neither dead nor recycled."""
    known = processes.identify(child.pid)._replace(start=0)

    assert processes.is_present(known) is not False
    assert processes.is_present(None) is None
    assert processes.is_present(Process("", "", 0, 0)) is None


def test_no_permission_to_look_is_present(monkeypatch):
    """Somebody else's process is there all the same."""

    def kill(pid: int, number: int) -> None:
        raise PermissionError

    monkeypatch.setattr(processes, "_stat", lambda pid: None)
    monkeypatch.setattr(os, "kill", kill)
    known = Process(processes.boot_id(), processes._namespace(), 1, 0)

    assert processes.is_present(known) is True


def test_the_name_of_a_process_may_hold_anything(tmp_path):
    """`) R 1 1` in a program's name is not the end of it."""
    program = tmp_path / ") R 1 (x"
    program.symlink_to("/bin/sleep")
    child = subprocess.Popen([str(program), "600"])
    try:
        assert processes.parent_of(child.pid) == os.getpid()
        assert processes.is_present(processes.identify(child.pid)) is True
    finally:
        child.kill()
        child.wait()


def test_the_ancestors_of_a_process_are_nearest_first(child):
    """Up to the first process, which is nobody's host."""
    found = processes.ancestors(child.pid)

    assert found[0] == os.getpid()
    assert 1 not in found
