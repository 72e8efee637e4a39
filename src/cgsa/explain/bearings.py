"""Geometry of rolling bearings, and how often their parts pass each other."""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, radians

from cgsa.errors import ConfigError, UnknownNameError

INCH = 25.4


@dataclass(frozen=True)
class BearingGeometry:
    """What the fault frequencies of a bearing depend on; both diameters are in the same unit."""

    balls: int
    """Number of balls or rollers in a row."""
    ball_diameter: float
    pitch_diameter: float
    """Diameter of the circle through the centres of the balls."""
    contact_angle: float = 0.0
    """In degrees."""

    def __post_init__(self) -> None:
        if self.balls < 2 or not 0 < self.ball_diameter < self.pitch_diameter or not 0 <= self.contact_angle < 90:
            raise ConfigError(
                f"bearing with {self.balls} balls of {self.ball_diameter:g} on a pitch circle of "
                f"{self.pitch_diameter:g}, contact angle {self.contact_angle:g} degrees; expected at least 2 balls, "
                "smaller than the pitch circle, and an angle from 0 to less than 90"
            )

    @property
    def _ratio(self) -> float:
        return self.ball_diameter / self.pitch_diameter * cos(radians(self.contact_angle))

    @property
    def cage(self) -> float:
        """Revolutions of the cage per revolution of the inner ring (FTF), while the outer ring stands."""
        return (1 - self._ratio) / 2

    @property
    def outer(self) -> float:
        """Balls that pass a place of the outer ring per revolution (BPFO)."""
        return self.balls * self.cage

    @property
    def inner(self) -> float:
        """Balls that pass a place of the inner ring per revolution (BPFI)."""
        return self.balls * (1 - self.cage)

    @property
    def spin(self) -> float:
        """Revolutions of a ball about its own axis per revolution (BSF); its defect strikes twice in each."""
        return (1 - self._ratio**2) * self.pitch_diameter / (2 * self.ball_diameter)


PUBLISHED = {
    # C. Lessmeier et al., "Condition Monitoring of Bearing Damage in Electromechanical Drive Systems by Using Motor
    # Current Signals of Electric Motors", PHM Society European Conference, 2016: type 6203 of the Paderborn set.
    "6203": BearingGeometry(8, 6.75, 28.55),
    # Case Western Reserve University Bearing Data Center, "Bearing information": fan end and drive end.
    "6203-2RS": BearingGeometry(8, 0.2656 * INCH, 1.122 * INCH),
    "6205-2RS": BearingGeometry(9, 0.3126 * INCH, 1.537 * INCH),
    # NPTEL course 112103024, IIT Guwahati, example 15.2: pillow blocks of the SpectraQuest machinery fault simulator.
    "ER-10K": BearingGeometry(8, 0.3125 * INCH, 1.319 * INCH),
    # G. Forbes, Curtin University, inner and outer race faults on the SpectraQuest machinery fault simulator, 2012.
    "ER-16K": BearingGeometry(9, 7.9375, 38.50),
    # B. Wang et al., "A Hybrid Prognostics Approach for Estimating Remaining Useful Life of Rolling Element Bearings",
    # IEEE Transactions on Reliability 69, 2020: the XJTU-SY set.
    "UER204": BearingGeometry(8, 7.92, 34.55),
    # H. Qiu et al., "Wavelet filter-based weak signature detection method and its application on rolling element
    # bearing prognostics", Journal of Sound and Vibration 289, 2006: the IMS set.
    "ZA-2115": BearingGeometry(16, 0.331 * INCH, 2.815 * INCH, 15.17),
    # E. Bechhoefer, "Condition Based Maintenance Fault Database for Testing Diagnostics and Prognostic Algorithms",
    # Society for Machinery Failure Prevention Technology, 2013.
    "NICE": BearingGeometry(8, 0.235 * INCH, 1.245 * INCH),
    # P. Nectoux et al., "PRONOSTIA: An Experimental Platform for Bearings Accelerated Degradation Tests", IEEE
    # International Conference on Prognostics and Health Management, 2012: NSK 6804DD.
    "6804DD": BearingGeometry(13, 3.5, 25.6),
}
"""Bearings whose geometry is published with a data set, by part number. Makers differ by a few tenths of a percent."""


def published_geometry(part: str) -> BearingGeometry:
    """Return the geometry of a part number; the name of the maker and suffixes after a space do not count."""
    wanted = part.upper().split(maxsplit=1)[0] if part.strip() else ""
    if wanted not in PUBLISHED:
        raise UnknownNameError(
            f"bearing {part!r}: its geometry is not in the table; known: {', '.join(PUBLISHED)}; otherwise give balls, "
            "ball_diameter and pitch_diameter"
        )
    return PUBLISHED[wanted]
