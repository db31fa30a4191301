"""One session whose calls are planned."""

import pytest

from tests.unit.scripted import Scripted


@pytest.fixture
def one() -> Scripted:
    return Scripted()
