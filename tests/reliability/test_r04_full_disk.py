"""A real disk that is full at many levels, and a limit on the size of files."""

import json
import os
import resource
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.reliability import acts, steps
from tests.reliability.scale import FULL, dice, size
from tests.simulated import Host, machine, program
from vyane_cli.storage import journal

SIZE = 256 * 1024
LEVELS = size(40, 200)


@pytest.fixture
def small_disk(tmp_path) -> Iterator[Path]:
    """A file system of 256 KiB, in memory: a real one, which gives short counts when it is full."""
    folder = tmp_path / "small"
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(folder)]
    try:
        made = subprocess.run(words, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount")
    if made.returncode:
        pytest.skip(f"mounting is not allowed here: {made.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(filler: Path, left: int) -> None:
    """Write to the disk until about so many bytes are left."""
    free = os.statvfs(filler.parent)
    wanted = max(free.f_bavail * free.f_frsize - left, 0)
    with open(filler, "wb", buffering=0) as file:
        while wanted > 0:
            try:
                wrote = file.write(b"x" * min(wanted, 16_384))
            except OSError:
                return
            wanted -= wrote


def texts(host: Host) -> list[str]:
    entries = host.world.inbox(host.worker).mailbox.entries
    return [str(entry.message.payload["text"]) for entry in entries]


def damaged(home: str) -> list[str]:
    found = []
    for path in Path(home).rglob("*.jsonl"):
        if "quarantine" not in path.parts:
            found += [
                f"{path.name}: {line.damage}" for line in journal.read(str(path)) if line.damage
            ]
    for path in Path(home).rglob("*.json"):
        try:
            json.loads(path.read_bytes())
        except ValueError as error:
            found.append(f"{path.name}: {error}")
    return found


def test_a_disk_that_fills_up_refuses_or_keeps_and_works_again_with_space(small_disk, count):
    """
    At each level: exit 0 and the message is there, or exit 1 with the reason and it is not; a hook
    ends with 0; nothing is damaged, no temporary file is left. With space again the same works.
    """
    random = dice("R4")
    refused = stored = 0
    for level in range(LEVELS):
        left = random.choice([0, 1, 100, 4095, 4096, 5000, 8192, 12_288, 20_000, 40_000])
        text = "y" * random.choice([1, 500, 4000, 9000])
        folder = small_disk / str(level)
        folder.mkdir()
        with machine(folder) as make:
            host = make()
            host.start()
            host.prompt()
            filler = small_disk / "filler"
            fill(filler, left)
            took = one_level(host, text)
            stored, refused = stored + took, refused + (not took)
            filler.unlink()
            again = program(host.home, "--json", "send", "project", "with space again")
            assert again.status == 0, again.err
            shown = [host.prompt().text, *(host.batch().text for _ in range(3)), host.stop().text]
            assert "".join(shown).count("with space again") == 1
            assert damaged(host.home) == []
        shutil.rmtree(folder)
    count(levels=LEVELS, stored=stored, refused=refused, violations=0)

    assert refused
    assert stored


def one_level(host: Host, text: str) -> bool:
    """A send, two hooks and a registration on the disk as full as it is; whether the first went."""
    before = texts(host)
    sent = program(host.home, "--json", "send", "project", text)
    if sent.status == 0:
        assert texts(host) == [*before, text]
    else:
        assert sent.status == 1, sent.err
        assert "no space" in json.loads(sent.err)["error"]["message"]
        assert texts(host) == before
    for name in ("PostToolBatch", "Stop"):
        ran = host.hook(name)
        assert ran.status == 0
        assert not ran.out or json.loads(ran.out)
    registered = program(host.home, "--json", "workers", "register", "bob")
    names = [worker.name for worker in host.world_workers()]
    assert ("bob" in names) == (registered.status in (0, 8)), registered.err
    assert damaged(host.home) == []
    assert list(Path(host.home).rglob("*.tmp")) == []
    return sent.status == 0


@pytest.mark.parametrize("limit", [0, 1, 100, 700] if not FULL else [*range(0, 1200, 25)])
def test_a_limit_on_the_size_of_files_refuses_and_takes_nothing_away(limit, count):
    """RLIMIT_FSIZE: a write that is cut short is cut back, and the error says why."""
    acts.preload()
    with steps.act("send") as act:
        path = Path(act.lab.world.layout.inbox(act.lab.one.worker))
        before, was = act.case.seen(), path.read_bytes()

        def bounded() -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (len(was) + limit, len(was) + limit))

        sent = program(act.lab.home, "--json", *act.case.words, preexec_fn=bounded)
        count(commands=1)
        if sent.status == 0:
            assert act.case.seen() == act.after
        else:
            assert sent.status == 1, sent.err
            assert "large" in json.loads(sent.err)["error"]["message"]
            assert act.case.seen() == before
            assert path.read_bytes() == was
        assert acts.unsound(act.lab) == []
        assert program(act.lab.home, *act.case.words).status == 0
