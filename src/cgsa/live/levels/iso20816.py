"""Zone boundaries of ISO 20816-3 as limits of the velocity RMS.

Source: ISO 20816-3:2022, Mechanical vibration - Measurement and evaluation of machine vibration - Part 3: Industrial
machinery with a power rating above 15 kW and operating speeds between 120 r/min and 30 000 r/min, tables A.1 and A.2
(broad-band vibration on bearing housings); the values are those of ISO 10816-3:2009. Group 1 are large machines above
300 kW, and electrical machines with a shaft height of 315 mm or more; group 2 are medium-sized machines above 15 and up
to 300 kW, and electrical machines with a shaft height from 160 to below 315 mm. A support is rigid in the direction of
measurement if the lowest natural frequency of machine and support is at least a quarter above the main excitation.
"""

from __future__ import annotations

from collections.abc import Mapping

ISO_LIMITS: Mapping[str, tuple[float, float]] = {
    "iso20816-3 group 1 rigid": (4.5, 7.1),
    "iso20816-3 group 1 flexible": (7.1, 11.0),
    "iso20816-3 group 2 rigid": (2.8, 4.5),
    "iso20816-3 group 2 flexible": (4.5, 7.1),
}
"""In mm/s: the boundary of zones B and C, above which a machine is unsatisfactory for long-term operation, and that of
zones C and D, above which the vibration is severe enough to cause damage."""
