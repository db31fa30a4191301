"""What several tests of operations stand on."""

from collections.abc import Callable, Iterator

import pytest

from tests.projects import Scene, scene
from tests.simulated import Host


@pytest.fixture
def hosts(host: Callable[..., Host]) -> Callable[..., Host]:
    """A maker of sessions, where a test calls one of them `host`."""
    return host


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """A project with its main session."""
    with scene(monkeypatch) as made:
        yield made
