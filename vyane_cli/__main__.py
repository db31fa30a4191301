"""Sends a host's call to hook.py and everything else to app.py."""

import sys

HOSTS_WITH_HOOKS = ("claude-code",)


def main() -> None:
    """The command `vyane`."""
    words = sys.argv[1:]
    if "tick" in words and "--dry-run" not in words and _host(words) in HOSTS_WITH_HOOKS:
        from vyane_cli import hook

        hook.main(words)
    from vyane_cli.app import main as people

    people()


def _host(words: list[str]) -> str:
    for position, word in enumerate(words):
        if word == "--host":
            return words[position + 1] if position + 1 < len(words) else ""
        if word.startswith("--host="):
            return word[len("--host=") :]
    return ""


if __name__ == "__main__":
    main()
