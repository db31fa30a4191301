"""Each ending that files can show has a reader."""

from vyane_cli.attention.kinds import EndedBy
from vyane_cli.upkeep.ended_needs import READERS

SAID_BY_A_ROUND = {EndedBy.WORK_CAN_START, EndedBy.OTHER_ROUND, EndedBy.ROUND_STARTS}


def test_each_ending_is_read_from_files_said_by_a_round_or_left_to_the_person():
    assert set(READERS) == set(EndedBy) - SAID_BY_A_ROUND - {EndedBy.PERSON}
