"""Level 6 of `anchor verify`: what DFT found becomes a verdict."""

import numpy as np
import pytest
from pymatgen.core import Lattice, Structure

from anchor.crystals.crystals import Crystals
from anchor.dft.rules import Settings
from anchor.dft.stability import Distance, Found, Product
from anchor.dft.store import Energy
from anchor.verify.claims import Claim
from anchor.verify.dft_level import judged


@pytest.fixture(scope="module")
def claim() -> Claim:
    crystal = Crystals.from_structures(
        Structure(Lattice.cubic(4.2), ["K", "Y", "Se", "Se"], np.eye(4, 3) / 2)
    )
    return Claim("find-1", crystal, -4.0, {"union": -0.1})


def found(above: float | None, *, mixed: bool = False, energy: float | None = -20.0) -> Found:
    product = Product("KSe", 1.0, "oqmd-1", None if above is None else -5.0, "no combination", "out of time")
    status = "done" if energy is not None else "not converged"
    distances = (Distance("oqmd", above, (product,), mixed), Distance("mp", above, (product,), mixed))
    return Found("KYSe2", Settings(400.0, 1500.0), Energy(status, "", energy, 4), distances, cpu_seconds=12.0)


@pytest.mark.parametrize(
    ("above", "passed", "said"),
    [(-0.1, True, "confirms"), (0.001, True, "does not refute"), (0.1, False, "refutes")],
)
def test_a_distance_decides(claim: Claim, above: float, passed: bool, said: str) -> None:
    verdict = judged(claim, found(above))
    assert (verdict.claim, verdict.level, verdict.passed) == ("find-1", 6, passed)
    assert said in verdict.reason
    assert verdict.cpu_seconds == 12.0
    assert verdict.evidence["hulls"]["mp"]["above_ev_per_atom"] == above


def test_mixed_results_say_so(claim: Claim) -> None:
    assert "databases' energy differences" in judged(claim, found(-0.1, mixed=True)).reason


def test_what_cannot_be_calculated_is_no_verdict(claim: Claim) -> None:
    verdict = judged(claim, found(None))
    assert verdict.passed is None
    assert verdict.reason == "KSe out of time: no combination"
    assert judged(claim, found(None, energy=None)).reason == "KYSe2 not converged"
