"""Mock Discords for the tests; at the end every answer they gave must fit the document."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.discord.bot import Bot
from tests.discord.mockcord import Contract, MockDiscord
from tests.discord.plain_client import Client


@pytest.fixture(scope="session")
def contract() -> Contract:
    return Contract()


@pytest.fixture
def serve(contract: Contract, tmp_path: Path) -> Iterator[Any]:
    """Starts servers with options; they end before the test's folder, to which they may write."""
    started: list[MockDiscord] = []

    def start(**options: Any) -> MockDiscord:
        discord = MockDiscord(contract=contract, **options).start()
        started.append(discord)
        return discord

    yield start
    for discord in started:
        discord.stop()
        assert discord.internal == []


@pytest.fixture
def make(serve: Any) -> Any:
    """A server without limits, unless told otherwise, and a plain client."""

    def both(**options: Any) -> tuple[MockDiscord, Client]:
        options.setdefault("limits", {"enabled": False})
        discord = serve(**options)
        return discord, Client(discord)

    return both


@pytest.fixture
def pair(make: Any) -> tuple[MockDiscord, Client]:
    return make()


@pytest.fixture
def discord(serve: Any) -> MockDiscord:
    """A server with all its limits, on which nothing may be done that hurts later."""
    return serve()


@pytest.fixture
def bot(discord: MockDiscord) -> Iterator[Bot]:
    """The adapter on that server."""
    yield Bot(discord)
    discord.assert_clean()
