"""A hook command that records what the host gave it, then answers as told.

    record_hook.py [--log FILE] [--tag T] [--out TEXT] [--err TEXT] [--exit N]
                   [--wait-file FILE] [--once FILE]

One line per call is appended to --log (else $HOSTLAB_HOOK_LOG) when it starts, and one when it
answers: time, payload, environment, working directory. Standard library only: the host starts it.

--out, --err  what is printed on stdout and stderr
--exit        the exit status
--wait-file   answer only when this file exists: holds a host at a known place
--once        answer only on the first call, which creates this file; later ones stay silent
"""

import argparse
import json
import os
import sys
import time


def record(log: str, phase: str, **fields: object) -> None:
    """Append one line with a single write, so that hooks that run at once do not mix."""
    line = json.dumps({"phase": phase, "at": time.time(), **fields}) + "\n"
    fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(fd, line.encode())
    finally:
        os.close(fd)


def is_first(marker: str) -> bool:
    """Whether this call is the one that creates the marker."""
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def main() -> int:
    """Record, wait, answer; the result is the exit status."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--log", default=os.environ.get("HOSTLAB_HOOK_LOG"))
    parser.add_argument("--tag", default="")
    parser.add_argument("--out", default="")
    parser.add_argument("--err", default="")
    parser.add_argument("--exit", type=int, default=0)
    parser.add_argument("--wait-file")
    parser.add_argument("--once")
    options = parser.parse_args()
    raw = sys.stdin.read()
    try:
        payload = json.loads(raw)
    except ValueError:
        payload = {"_raw": raw}
    call = {"tag": options.tag, "payload": payload, "cwd": os.getcwd(), "pid": os.getpid()}
    if options.log:
        record(options.log, "start", **call, env=dict(os.environ))
    if options.once and not is_first(options.once):
        return 0
    while options.wait_file and not os.path.exists(options.wait_file):
        time.sleep(0.02)
    sys.stdout.write(options.out)
    sys.stderr.write(options.err)
    sys.stdout.flush()
    if options.log:
        record(options.log, "end", **call)
    return int(options.exit)


if __name__ == "__main__":
    sys.exit(main())
