"""The clocks of one operation, read once."""

from __future__ import annotations

from vyane_cli.kernel.values import NamedTuple


class Clock(NamedTuple):
    """One reading of the clocks, for a whole operation."""

    now_ms: int
    boot_ms: int
    boot: str = ""
    awake_ms: int = 0
    """As `boot_ms`, without the time in which the machine slept."""

    @property
    def at(self) -> float:
        """Unix seconds, as files have them."""
        return self.now_ms / 1000

    def since_s(self, at: float, boot: str, awake_ms: int) -> float:
        """Seconds since a moment that both clocks are on record of, in which anybody could act.

        Within one boot no step of the wall clock counts, nor the time in which the machine slept.
        Of an earlier boot what would lie ahead is long over; without a boot the wall clock is all
        there is.
        """
        if boot and boot == self.boot:
            return (self.awake_ms - awake_ms) / 1000
        age_s = self.at - at
        return float("inf") if boot and age_s < 0 else age_s
