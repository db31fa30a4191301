"""A session's pane in tmux: proof that it is still that session's, and typing into it.

Proof: the host process exists (boot, pid, start); the pane recorded when the session began still
exists; the pane's own process is the host or an ancestor of it; the pane has the host's terminal;
the host is in the foreground there; and tmux passes typed keys to that program alone. Text typed
into another program could approve something there.
"""

from __future__ import annotations

import os
import subprocess
import time
from typing import NamedTuple

from vyane_cli.errors import RefusedError
from vyane_cli.storage import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from vyane_cli.sessions.session import HostSession

PATIENCE_S = 5.0
PASTE_S = 0.2
ENTERS = 3
SHOWN_S = 1.5
LOOK_S = 0.05

ELSEWHERE = {
    "pane_synchronized": "shares its keys with the other panes of its window (synchronize-panes)",
    "pane_in_mode": "is scrolled back, and tmux takes its keys (copy mode)",
    "pane_input_off": "takes no keys (select-pane -d)",
}
"""Flag of a tmux pane whose keys do not reach its program alone → the reason to refuse it."""
PANE = "#{pane_pid} #{pane_tty}" + "".join(f"#{{?{name}, {name},}}" for name in ELSEWHERE)


class Pane(NamedTuple):
    """One pane of one tmux server."""

    socket: str
    id: str


def prove_pane(session: HostSession | None) -> Pane:
    """Return the session's pane. RefusedError names the missing proof; nothing was typed."""
    if session is None or len(session.terminal) != 2:
        raise refused("its session has no recorded tmux pane")
    if session.process is None or processes.is_present(session.process) is not True:
        raise refused("its process cannot be proven to be there")
    pane = Pane(*session.terminal)
    answer = _tmux(pane, "display-message", "-p", "-t", pane.id, PANE).split()
    if len(answer) < 2 or not answer[0].isdecimal():
        raise refused(f"tmux knows no pane {pane.id} any more")
    for name in answer[2:]:
        raise refused(f"pane {pane.id} {ELSEWHERE[name]}")
    pid = session.process.pid
    if int(answer[0]) not in (pid, *processes.ancestors(pid)):
        raise refused(f"pane {pane.id} runs another process now")
    device, foreground = processes.terminal_of(pid)
    try:
        same = bool(device) and os.stat(answer[1]).st_rdev == device
    except OSError:
        same = False
    if not same or not foreground:
        raise refused(f"something else is in the foreground of pane {pane.id}")
    return pane


def read_screen(session: HostSession | None) -> str:
    """Return the text of the session's pane as a person sees it, after the pane is proven."""
    pane = prove_pane(session)
    return _tmux(pane, "capture-pane", "-p", "-t", pane.id)


def type_line(session: HostSession | None, text: str, box: Callable[[str], str | None]) -> bool:
    """Type one line into the session's empty input box and submit it. Return whether it was taken.

    `box` finds the text of the input box on a screen. The box is read right before typing, because
    the caller may have waited for a lock. A line that an earlier try left there is not typed again.
    Enter is pressed once the line appears there, after a pause (a burst with Enter in it counts as
    pasted), three times at most. A line that does not appear gets no Enter: another program has the
    keys.
    """
    there = box(read_screen(session))
    if there is None or (there and not is_same(there, text)):
        return False
    pane = prove_pane(session)
    if not there:
        _tmux(pane, "send-keys", "-t", pane.id, "-l", "--", text)
    if not _until(lambda: is_same(box(read_screen(session)), text)):
        return False
    for _ in range(ENTERS):
        time.sleep(PASTE_S)
        _tmux(prove_pane(session), "send-keys", "-t", pane.id, "Enter")
        if _until(lambda: not is_same(box(read_screen(session)), text)):
            return True
    return False


def is_same(shown: str | None, text: str) -> bool:
    """Return whether the text of a box is this line. A narrow pane breaks a line into several."""
    return "".join((shown or "").split()) == "".join(text.split())


def _until(true: Callable[[], bool]) -> bool:
    end = time.monotonic() + SHOWN_S
    while not true():
        if time.monotonic() >= end:
            return False
        time.sleep(LOOK_S)
    return True


def type_escape(session: HostSession | None) -> None:
    """Type exactly one Escape into the session's pane, which is proven again right before."""
    pane = prove_pane(session)
    _tmux(pane, "send-keys", "-t", pane.id, "Escape")


def _tmux(pane: Pane, *words: str) -> str:
    try:
        done = subprocess.run(
            ["tmux", "-S", pane.socket, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        raise refused(f"tmux does not answer for pane {pane.id}") from None
    return done.stdout


def refused(reason: str) -> RefusedError:
    """Return the error for a missing proof: nothing was typed."""
    return RefusedError(
        f"no Escape was typed: {reason}",
        slug="no_proof",
        hint="without --interrupt tmux the next tool call is stopped instead",
    )
