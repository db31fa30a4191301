"""Ways to damage a file: what disks, editors, programs and people do to them."""

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

Damage = Callable[[random.Random, bytes], bytes]


def flipped(dice: random.Random, data: bytes) -> bytes:
    """A few bits are others."""
    changed = bytearray(data or b"\0")
    for _ in range(dice.randint(1, 4)):
        changed[dice.randrange(len(changed))] ^= 1 << dice.randrange(8)
    return bytes(changed)


def cut(dice: random.Random, data: bytes) -> bytes:
    """Its end is gone."""
    return data[: dice.randrange(len(data) + 1)]


def spliced(dice: random.Random, data: bytes) -> bytes:
    """A piece of it is somewhere else, too."""
    begin, end = sorted(dice.randrange(len(data) + 1) for _ in range(2))
    place = dice.randrange(len(data) + 1)
    return data[:place] + data[begin:end] + data[place:]


def hollow(dice: random.Random, data: bytes) -> bytes:
    """A piece of it is gone."""
    begin, end = sorted(dice.randrange(len(data) + 1) for _ in range(2))
    return data[:begin] + data[end:]


def joined(dice: random.Random, data: bytes) -> bytes:
    """A line has lost its end."""
    places = [n for n, byte in enumerate(data) if byte == 10]
    if not places:
        return data + b"{"
    place = dice.choice(places)
    return data[:place] + data[place + 1 :]


def zeroed(dice: random.Random, data: bytes) -> bytes:
    """A piece of it is zeros."""
    begin, end = sorted(dice.randrange(len(data) + 1) for _ in range(2))
    return data[:begin] + bytes(end - begin) + data[end:]


def shaped(dice: random.Random, data: bytes) -> bytes:
    """Sound JSON of another form."""
    return dice.choice(
        [b"", b"\n", b"null\n", b"[]\n", b"{}\n", b"0\n", b'"text"\n', b"[[[]]]\n", b'{"v": 1}\n',
         b'{"v": "1"}\n', b'{"v": 1, "workers": []}\n', b'{"v": 1, "workers": {"w": 1}}\n',
         b'{"v": 999}\n', b'{"v": 1, "id": null, "ids": 3, "at": "x", "op": {}}\n',
         b"[" * 5000 + b"\n", b'{"a":' * 3000 + b"\n", b"1" * 4000 + b"\n"]
    )  # fmt: skip


def foreign(dice: random.Random, data: bytes) -> bytes:
    """Another encoding, other line ends, a mark at the beginning."""
    text = data.decode("utf-8", "replace")
    return dice.choice(
        [text.encode("utf-16"), b"\xef\xbb\xbf" + data, data.replace(b"\n", b"\r\n"),
         text.encode("latin-1", "replace"), data.replace(b"\n", b"\r"), data[::-1]]
    )  # fmt: skip


def swollen(dice: random.Random, data: bytes) -> bytes:
    """Far more than there should be."""
    return data + bytes([dice.randrange(256)]) * 200_000


WAYS: tuple[Damage, ...] = (
    flipped, cut, spliced, hollow, joined, zeroed, shaped, foreign, swollen
)  # fmt: skip


def damaged(dice: random.Random, data: bytes) -> bytes:
    """One way, or two."""
    for _ in range(dice.choice([1, 1, 1, 2])):
        data = dice.choice(WAYS)(dice, data)
    return data


def mistreated(dice: random.Random, path: Path) -> str:
    """Damage the file at this path, or what is at its place; how."""
    way = dice.randrange(12)
    if way == 0:
        path.unlink()
        path.mkdir()
        return "a folder is in its place"
    if way == 1:
        path.unlink()
        return "it is gone"
    if way == 2:
        path.unlink()
        path.symlink_to(path.parent / "no-such-folder" / "file")
        return "a link to nothing is in its place"
    if way == 3:
        path.unlink()
        path.symlink_to(path.name)
        return "a link to itself is in its place"
    if way == 4:
        path.chmod(dice.choice([0o000, 0o444, 0o666, 0o777]))
        return "its mode is another"
    if way == 5:
        shutil.copy(os.devnull, path)
        return "it is empty"
    path.write_bytes(damaged(dice, path.read_bytes()))
    return "its bytes are others"
