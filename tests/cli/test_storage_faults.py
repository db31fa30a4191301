"""Full disks, read-only folders and damaged files, as commands and hooks meet them."""

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from tests.simulated import bound_by_modes, machine, program, read_only, stopped_holder, vyane
from vyane_cli.storage import journal, locks


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 256 KiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)],
        capture_output=True,
        check=False,
    )
    if made.returncode:
        pytest.skip("mounting is not allowed here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def state(home: str) -> dict[str, bytes]:
    """The registry and all inboxes."""
    paths = [Path(home, "worker-registry.json"), *Path(home, "messages").rglob("*.jsonl")]
    return {str(path): path.read_bytes() for path in paths if path.exists()}


def test_a_full_disk_refuses_in_words_and_takes_nothing_away(small_disk):
    """
    Filled to the last block: send fails naming the reason, hooks exit 0, registry and inboxes
    keep their bytes, no temporary file is left; with space again the same send works.
    """
    with machine(small_disk) as make:
        one = make()
        one.start()
        one.world.send("project", "before")
        filler = small_disk / "filler"
        with open(filler, "wb", buffering=0) as file:
            for size in (65_536, 4096, 1):
                while True:
                    try:
                        if file.write(b"x" * size) < size:
                            break
                    except OSError:
                        break
        before = state(one.home)
        for _ in range(40):  # what fits into the last block of a file may still be taken
            sent = vyane(one.home, "--json", "send", "project", "x" * 4000)
            if sent.status:
                break
        error = json.loads(sent.err)["error"]
        assert sent.status == 1
        assert "no space left" in error["message"]
        assert "space" in error["hint"]
        for name in ("UserPromptSubmit", "Stop", "SessionStart-resume"):
            ran = one.hook(name)
            assert ran.status == 0
            assert not ran.out or json.loads(ran.out)
        assert vyane(one.home, "workers", "register", "bob").status != 0
        after = state(one.home)
        for path, data in before.items():
            assert after[path].startswith(data)
        assert list(Path(one.home).rglob("*.tmp")) == []
        for path in after:
            if path.endswith(".jsonl"):
                assert all(line.damage is None for line in journal.read(path))
        filler.unlink()

        assert vyane(one.home, "send", "project", "after").status == 0
        texts = "".join(
            [one.prompt().text, *(one.batch().text for _ in range(20)), one.stop().text]
        )
        assert texts.count("after") == 1
        assert texts.count("before") == 1


def test_a_read_only_state_can_be_read_and_says_why_it_cannot_be_written(host):
    """Reading needs no lock; send fails at once, naming the path and the reason, not "busy"."""
    one = host()
    one.start()
    mail = one.world.send("project", "hello")
    with read_only(one.home):
        rows = program(one.home, "--json", "inbox", "project", preexec_fn=bound_by_modes)
        began = time.monotonic()
        sent = program(one.home, "--json", "send", "project", "x", preexec_fn=bound_by_modes)
        took = time.monotonic() - began
    assert [row["id"] for row in json.loads(rows.out)] == [mail]
    error = json.loads(sent.err)["error"]

    assert sent.status == 1
    assert "permission denied" in error["message"]
    assert one.home in error["message"]
    assert "busy" not in error["message"]
    assert took < 2 + 1  # the rule's two seconds, and an interpreter on a loaded machine


def test_a_lock_file_of_somebody_else_is_not_called_busy(host):
    """First made by root with a tight mode: permission, by its path."""
    one = host()
    one.start()
    path = Path(locks.lock_path(one.home, locks.LockKind.INBOX, one.worker))
    path.touch()
    path.chmod(0o000)
    sent = program(one.home, "--json", "send", "project", "x", preexec_fn=bound_by_modes)
    hook = one.hook("UserPromptSubmit", popen={"preexec_fn": bound_by_modes})
    path.chmod(0o600)
    error = json.loads(sent.err)["error"]

    assert sent.status == 1
    assert str(path) in error["message"]
    assert "permission" in error["message"]
    assert (hook.status, hook.out) == (0, b"")


def test_a_missing_state_folder_is_made_by_who_needs_it(tmp_path):
    """`send` finds nobody, and says so; `workers register` makes the folder, and then it works."""
    home = tmp_path / "not" / "yet"
    assert vyane(home, "send", "bob", "x").status == 3
    assert not home.exists()
    assert vyane(home, "workers", "register", "bob").status == 0

    assert vyane(home, "send", "bob", "x").status == 0


def test_a_command_waits_five_seconds_for_a_lock_and_names_it(host):
    """Exit 6, with a clear text; when the holder is gone nothing is lost."""
    one = host()
    one.start()
    (Path(one.home) / "config.toml").write_text("[locks]\nwait_s = 0.5\n")
    with stopped_holder(one.home, (locks.LockKind.INBOX, one.worker)):
        sent = vyane(one.home, "--json", "send", "project", "x")
    error = json.loads(sent.err)["error"]

    assert sent.status == 6
    assert error["code"] == "lock_timeout"
    assert "inbox" in error["message"]
    assert error["hint"]
    assert vyane(one.home, "send", "project", "x").status == 0


def test_a_torn_line_is_set_aside_and_told(host):
    """100 messages and 37 bytes: 101 afterwards, and `doctor` can name what was kept."""
    one = host()
    one.start()
    for number in range(100):
        one.world.send("project", f"n {number}")
    half = b'{"v":1,"op":"message","message":{"id"'
    assert len(half) == 37
    with open(one.world.layout.inbox(one.worker), "ab") as file:
        file.write(half)
    assert vyane(one.home, "send", "project", "last").status == 0
    rows = json.loads(vyane(one.home, "--json", "inbox", "project", "--limit", "1000").out)

    assert len(rows) == 101
    assert [Path(k["file"]).read_bytes() for k in journal.list_quarantined(one.home)] == [half]
    status = json.loads(vyane(one.home, "--json", "status").out)
    assert status["quarantined"] == 1


def test_damage_in_the_middle_costs_one_line_and_is_named(host):
    """What follows it is still read; a look changes nothing; `doctor --fix` keeps the bytes."""
    one = host()
    one.start()
    for number in range(10):
        one.world.send("project", f"n {number}")
    path = Path(one.world.layout.inbox(one.worker))
    lines = path.read_bytes().splitlines(keepends=True)
    lines[4] = broken = lines[4].replace(b"n 4", b"n 7")
    path.write_bytes(b"".join(lines))

    def summaries() -> list[str]:
        rows = json.loads(vyane(one.home, "--json", "inbox", "project").out)
        return [row["summary"] for row in rows]

    left = [f"n {number}" for number in range(10) if number != 4]
    assert summaries() == left
    assert path.read_bytes() == b"".join(lines)
    checks = json.loads(vyane(one.home, "--json", "doctor").out)
    found = next(check for check in checks if check["check"] == "damaged_lines")
    assert found["detail"] == f"messages/inbox/{path.name}, line 5: checksum does not match"
    vyane(one.home, "doctor", "--fix")
    assert summaries() == left
    assert [Path(k["file"]).read_bytes() for k in journal.list_quarantined(one.home)] == [broken]


def test_a_line_of_two_records_that_still_parses_is_set_aside_alone(host):
    """The worst mixture of two writers: by its checksum it is none of theirs."""
    one = host()
    one.start()
    for text in ("first", "second", "third", "fourth"):
        one.world.send("project", text)
    path = Path(one.world.layout.inbox(one.worker))
    lines = path.read_bytes().splitlines(keepends=True)
    cut = b'"payload"'
    lines[1] = mixed = lines[1].partition(cut)[0] + cut + lines[2].partition(cut)[2]
    assert json.loads(mixed)["message"]["payload"] == {"text": "third"}
    path.write_bytes(b"".join(lines))
    ran = one.hook("PostToolBatch")

    assert [ran.text.count(text) for text in ("first", "third", "fourth")] == [1, 1, 1]
    assert "second" not in ran.text
    assert [Path(k["file"]).read_bytes() for k in journal.list_quarantined(one.home)] == [mixed]


def test_a_damaged_timeline_is_refused_by_file_and_line(host):
    """Exit 7; it is left as it is."""
    one = host()
    one.start()
    one.prompt()
    one.stop()
    path = Path(one.world.layout.timeline(one.logical))
    lines = path.read_bytes().splitlines(keepends=True)
    lines[1] = b"#" + lines[1][1:]
    path.write_bytes(b"".join(lines))
    ran = vyane(one.home, "--json", "timeline", "project", "--history")
    error = json.loads(ran.err)["error"]

    assert ran.status == 7
    assert "events.jsonl, line 2" in error["message"]
    assert path.read_bytes() == b"".join(lines)


def test_a_state_copied_to_another_machine_replays_no_old_wake(host, tmp_path):
    """Another boot, three days later: the sessions are gone, their mail stays for their return."""
    one = host()
    one.start()
    mail = one.world.send("project", "hello")
    for path in Path(one.home).rglob("*"):
        if path.is_file() and path.suffix in (".json", ".jsonl"):
            data = path.read_bytes()
            boot = one.world.clock().boot.encode()
            if path.suffix == ".json":
                path.write_bytes(data.replace(boot, b"f" * len(boot)))
    rows = json.loads(vyane(one.home, "--json", "workers").out)

    assert rows[0]["liveness"] == "exited"
    assert rows[0]["pending"] == 1
    assert one.world.status(mail) == "pending"
    assert mail in one.start("resume").text + one.prompt().text


def test_state_and_error_texts_hold_no_token_of_the_host(host):
    """The hook's environment holds secrets; nothing of it is kept."""
    one = host()
    one.start()
    one.hook("UserPromptSubmit")
    one.hook("Stop", b"broken")
    token = b"0123456789abcdef0123456789abcdef"
    assert token.decode() in one.environ().values()
    for path in Path(one.home).rglob("*"):
        if path.is_file():
            assert token not in path.read_bytes(), path
    assert os.path.isdir(one.home)
