"""Processes of this machine: identified by boot id, pid namespace, pid and start time.

A pid alone names the process that has it now. If a process cannot be compared or read, its
presence is unknown, unless its end is proven.
"""

from __future__ import annotations

import os
import time

from vyane_cli.kernel.process import Process

_BOOT = ""


def boot_id() -> str:
    """Return the id of this boot. Empty if the system provides none."""
    global _BOOT
    if not _BOOT:
        try:
            with open("/proc/sys/kernel/random/boot_id") as file:
                _BOOT = file.read().strip().replace("-", "")
        except OSError:
            _BOOT = _sysctl_boot()
    return _BOOT


def boot_ms() -> int:
    """Return the milliseconds since boot, including suspended time if the system counts it."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime_ns(clock) // 1_000_000


def awake_ms() -> int:
    """Return the milliseconds since boot, without the time in which the machine slept."""
    return time.monotonic_ns() // 1_000_000


def identify(pid: int) -> Process | None:
    """Return the process that has this pid now. None if it does not exist or may not be read."""
    start = _start(pid)
    return None if start is None else Process(boot_id(), _namespace(), pid, start)


def myself() -> Process:
    """Return the identity of this process."""
    return identify(os.getpid()) or Process(boot_id(), _namespace(), os.getpid(), 0)


def is_present(process: Process | None) -> bool | None:
    """Return whether exactly this process exists; None if that is unknown."""
    if process is None or not process.pid:
        return None
    if process.boot != boot_id():
        return False if process.boot and boot_id() else None
    if process.namespace != _namespace():
        return None  # its pid belongs to another namespace
    fields = _stat(process.pid)
    if fields is not None and fields[0] in ("Z", "X"):
        return False  # ended, but not yet reaped by its parent
    start = _start(process.pid)
    if start is not None:
        return start == process.start if process.start else None
    try:
        os.kill(process.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return None if process.start else True


def parent_of(pid: int) -> int:
    """Return the parent's pid; 0 if it is unknown."""
    fields = _stat(pid)
    return int(fields[1]) if fields else 0


def ancestors(pid: int, limit: int = 32) -> list[int]:
    """Return the pids of the ancestors, nearest first, without pid 1; at most `limit`."""
    found: list[int] = []
    while len(found) < limit:
        pid = parent_of(pid)
        if pid <= 1:
            break
        found.append(pid)
    return found


def terminal_of(pid: int) -> tuple[int, bool]:
    """Return the device of the controlling terminal, and whether the process is in its foreground.

    The device is 0 if the process has no terminal. proc(5): fields 5, 7 and 8 are pgrp, tty_nr and
    tpgid. Linux only.
    """
    fields = _stat(pid)
    if fields is None:
        return 0, False
    number = int(fields[4])  # the device as the kernel packs it for user space
    return number, int(fields[2]) == int(fields[5])


def send_signal(process: Process, number: int) -> bool:
    """Signal exactly this process. Return False if it has ended or its identity is not proven.

    With `pidfd_open` the identity is checked after opening, so a reused pid is never signalled.
    """
    try:
        fd = os.pidfd_open(process.pid) if hasattr(os, "pidfd_open") else -1
    except OSError:
        return False
    try:
        if is_present(process) is not True or not process.start:
            return False
        if fd < 0:
            os.kill(process.pid, number)
        else:
            import signal

            signal.pidfd_send_signal(fd, number)
    except OSError:
        return False
    finally:
        if fd >= 0:
            os.close(fd)
    return True


def _stat(pid: int) -> list[str] | None:
    """Return the fields of /proc/PID/stat after the process name, which may hold any bytes."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            data = file.read()
    except OSError:
        return None
    return data[data.rindex(b")") + 2 :].decode("ascii", "replace").split()


def _start(pid: int) -> int | None:
    """Return the start time in clock ticks since boot (proc(5), field 22).

    Steps of the wall clock do not change it. None for an ended process.
    """
    fields = _stat(pid)
    if fields is not None:
        return None if fields[0] in ("Z", "X") else int(fields[19])
    if os.path.isdir("/proc/self"):
        return None
    return _sysctl_start(pid)


def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


# ------------------------------------------------------------------ macOS: written, never run there


def _sysctl_boot() -> str:
    """Return `kern.bootsessionuuid`, read with sysctlbyname(3). Untested on a Mac."""
    try:
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
        size = ctypes.c_size_t(64)
        buffer = ctypes.create_string_buffer(64)
        name = b"kern.bootsessionuuid"
        if libc.sysctlbyname(name, buffer, ctypes.byref(size), None, 0) == 0:
            return buffer.value.decode("ascii").replace("-", "").lower()
    except (AttributeError, OSError, ImportError):
        pass
    return ""


def _sysctl_start(pid: int) -> int | None:
    """Return the start time in microseconds, from proc_pidinfo(PROC_PIDTBSDINFO).

    Untested on a Mac.
    """
    try:
        import ctypes

        libproc = ctypes.CDLL("/usr/lib/libproc.dylib", use_errno=True)
        size = 136  # struct proc_bsdinfo: pbi_start_tvsec and pbi_start_tvusec are its last fields
        buffer = ctypes.create_string_buffer(size)
        if libproc.proc_pidinfo(pid, 3, ctypes.c_uint64(0), buffer, size) != size:
            return None
        seconds = int.from_bytes(buffer.raw[120:128], "little")
        return seconds * 1_000_000 + int.from_bytes(buffer.raw[128:136], "little")
    except (AttributeError, OSError, ImportError):
        return None
