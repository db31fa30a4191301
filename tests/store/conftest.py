"""What several tests of real files stand on."""

from collections.abc import Iterator

import pytest

from tests.simulated import World, fast_folder, new_world


@pytest.fixture
def world() -> Iterator[World]:
    """A state root, and nobody in it."""
    with fast_folder() as folder:
        yield new_world(folder)
