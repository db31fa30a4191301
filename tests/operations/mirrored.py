"""Sessions that are mirrored to the file channel, and what stands in their threads."""

from pathlib import Path

import pytest

from tests.simulated import Host
from vyane_cli import channels
from vyane_cli.channels.file import adapter
from vyane_cli.channels.file.thread import parse_thread
from vyane_cli.storage import files

ME = "root"


def set_up(host: Host, verbosity: str = "summary", more: str = "") -> Host:
    world = host.world
    world.channels = channels.ADAPTERS
    text = f'[channels.file]\nallow_users = ["{ME}"]\nverbosity = "{verbosity}"\n{more}'
    Path(world.layout.config).write_text(text)
    world._config = None
    host.start()
    return host


def turn(host: Host, text: str) -> None:
    host.prompt()
    host.stop(last_assistant_message=text)


def folder(host: Host) -> Path:
    return Path(host.home, "threads")


def thread_of(host: Host, logical: str = "") -> Path:
    (path,) = folder(host).glob(f"*{logical or host.logical}*.md")
    return path


def said(path: Path) -> list[str]:
    """What vyane said in a thread after its first words, in order."""
    thread = parse_thread(path.read_text())
    return [
        "\n".join(row[2:] for row in thread.body[first + 1 : last + 1])
        for first, last in thread.blocks.values()
    ][1:]


def write(path: Path, text: str) -> None:
    with path.open("a") as thread:
        thread.write(text + "\n")


def no_channel_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """The adapter's calls count too: they go through the store's seam here."""
    monkeypatch.setattr(adapter, "step", lambda name, path: files.step(name, path))
