from __future__ import annotations

from cgsa.rigs.library import RigLibrary


def test_a_rig_has_every_run_of_every_specimen() -> None:
    library = RigLibrary("gearbox", specimens=2)
    assert list(library.specimens()) == list(library.specimens_of("gear_wear", "any")) == [1, 2]
