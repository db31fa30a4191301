"""The clock readings of one operation, taken once."""

from __future__ import annotations

from vyane_cli.kernel.values import NamedTuple


class Clock(NamedTuple):
    """One reading of all clocks, used for a whole operation."""

    now_ms: int
    boot_ms: int
    boot: str = ""
    awake_ms: int = 0
    """Milliseconds since boot, like `boot_ms`, without the time in which the machine slept."""

    @property
    def at(self) -> float:
        """Return the wall clock in Unix seconds, the unit of the state files."""
        return self.now_ms / 1000

    def since_s(self, at: float, boot: str, awake_ms: int) -> float:
        """Return the seconds since a recorded moment, not counting the machine's sleep if possible.

        The moment was recorded on two clocks: `at` (wall clock) and `awake_ms` (in boot `boot`).
        Within the same boot `awake_ms` decides, so steps of the wall clock and sleep do not count.
        Otherwise the wall clock decides. If the moment belongs to an earlier boot and its wall
        clock time is still in the future, return infinity: that moment is long past.
        """
        if boot and boot == self.boot:
            return (self.awake_ms - awake_ms) / 1000
        age_s = self.at - at
        return float("inf") if boot and age_s < 0 else age_s
