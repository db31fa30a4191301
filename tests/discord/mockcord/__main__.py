"""python -m mockcord --out DIR [--port N] [--require-tag] : run it until interrupted."""

from __future__ import annotations

import argparse
import json
import signal
import threading

from .server import MockDiscord


def main() -> None:
    parser = argparse.ArgumentParser(prog="mockcord")
    parser.add_argument(
        "--out", required=True, help="folder for requests.jsonl, state.json and thread.txt"
    )
    parser.add_argument("--port", type=int, default=0, help="0 picks a free one")
    parser.add_argument(
        "--require-tag", action="store_true", help="the forum refuses posts without a tag"
    )
    parser.add_argument("--no-limits", action="store_true", help="no rate limits")
    args = parser.parse_args()
    done = threading.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, lambda *_: done.set())
    limits = {"enabled": False} if args.no_limits else {}
    with MockDiscord(args.out, args.port, require_tag=args.require_tag, limits=limits) as discord:
        print(json.dumps(discord.scene()), flush=True)
        done.wait()


if __name__ == "__main__":
    main()
