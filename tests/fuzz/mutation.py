"""New inputs from kept ones."""

import json
import random
from collections.abc import Sequence
from typing import Any

TOKENS = (
    b'{', b'}', b'[', b']', b'"', b':', b',', b'\n', b'\r\n', b'\\', b'\\u0000', b'\\ud800',
    b'null', b'true', b'-0', b'1e400', b'99999999999999999999', b'\x00', b'\xff', b'\xef\xbb\xbf',
    b'\x1b[2J', "\u202e".encode(), "\U000e0041".encode(), b'Message from', b'[SYSTEM TAKEOVER]',
    '[系统接管]'.encode(), b'../', b'"v":1', b'"v":2', b'"crc":"00000000"', b'"ids":', b'"op":',
    b'"head":', b'= ', b'[a]\n', b"'''", b'#',
)  # fmt: skip


VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 2**31, 2**63, 2**64, -(2**70), 1.5, 1e300, float("inf"), float("-inf"), "",
    "x", "\x00", "\ud800", "../..", [], [None], [[]], {}, {"a": None}, "1", "1e999", "pending",
)  # fmt: skip


def reshaped(dice: random.Random, data: bytes) -> bytes:
    """Sound JSON with one value in it replaced by one of another kind; else the same bytes."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return data
    place: Any = value
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return data
        key = dice.choice(keys)
        inner = place[key]
        if isinstance(inner, dict | list) and inner and dice.random() < 0.8:
            place = inner
            continue
        if isinstance(place, dict) and dice.random() < 0.2:
            del place[key]
        else:
            place[key] = dice.choice(VALUES)
        return json.dumps(value).encode()


def mutated(dice: random.Random, kept: Sequence[bytes], limit: int = 20_000) -> bytes:
    """One of them, or two crossed, with a few places changed."""
    chosen = dice.choice(kept) if kept else b""
    if chosen[:1] in (b"{", b"[") and dice.random() < 0.5:
        for _ in range(dice.choice([1, 1, 2, 5])):
            chosen = reshaped(dice, chosen)
        return chosen[:limit]
    data = bytearray(chosen)
    if kept and dice.random() < 0.2:
        other = dice.choice(kept)
        data = data[: dice.randrange(len(data) + 1)] + other[dice.randrange(len(other) + 1) :]
    for _ in range(dice.choice([1, 1, 2, 4, 8])):
        place = dice.randrange(len(data) + 1)
        end = min(place + dice.choice([1, 1, 2, 8, 64]), len(data))
        match dice.randrange(6):
            case 0:
                data[place:end] = b""
            case 1:
                data[place:place] = dice.choice(TOKENS)
            case 2:
                data[place:end] = dice.choice(TOKENS)
            case 3:
                data[place:place] = data[place:end] * dice.choice([1, 2, 50])
            case 4 if place < len(data):
                data[place] ^= 1 << dice.randrange(8)
            case _:
                data[place:place] = bytes(dice.randrange(256) for _ in range(dice.randint(1, 4)))
    return bytes(data[:limit])
