"""Distances to the hulls, with energies that are known to be right: the databases' own on another scale."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from pymatgen.core import Composition, Lattice, Structure

from anchor.crystals.crystals import Crystals
from anchor.dft.engine import Calculator
from anchor.dft.jobs import Job
from anchor.dft.products import Library
from anchor.dft.rules import Settings
from anchor.dft.stability import WITHIN, Distance, Found, Stability
from anchor.dft.store import Energy
from anchor.hull.databases import Calibration, DatabaseHulls, dft_hull
from anchor.hull.hull import HullIdentity
from anchor.hull.references import PotentialHull
from anchor.reference.reference import load_reference

SCALE = np.linspace(-3.0, -9.0, 119)
"""eV: energies of the elements on the scale of the calculations."""


@dataclass(frozen=True)
class Shifted(Calculator):
    """OQMD's formation energies on another scale, as an exact code with other pseudopotentials gives them."""

    asked: tuple[list[str], ...] = ([],)
    without: frozenset[str] = frozenset()

    def __call__(self, jobs: Sequence[Job]) -> list[Energy]:
        self.asked[0].extend(job.formula for job in jobs)
        return [self.one(job) for job in jobs]

    def one(self, job: Job) -> Energy:
        n = len(job.numbers)
        if job.formula in self.without:
            return Energy("no data set", "of this test", None, n)
        listed = LISTED.get(job.formula, 0.0)
        return Energy("done", "", n * listed + float(SCALE[list(job.numbers)].sum()), n)


reference = load_reference()
LISTED = dict(zip(reference.hull_formulas, reference.hull_formation_energy.tolist(), strict=True))


@pytest.fixture(scope="module")
def hull() -> PotentialHull:
    """OQMD's DFT hull alone: no potential is needed."""
    dft = dft_hull("oqmd")
    nothing = np.full(119, np.nan)
    calibration = Calibration("none", "", "", nothing, nothing, nothing, nothing, np.zeros(119, int), {})
    return PotentialHull({"oqmd": DatabaseHulls(calibration, dft, dft, dft, np.zeros(0))}, HullIdentity(""))


def ask(hull: PotentialHull, crystal: Crystals, **more: Any) -> tuple[Found, list[str]]:
    """What is found, and the formulas of what was calculated."""
    asked: list[str] = []
    calculator = Shifted(asked=(asked,), without=more.pop("without", frozenset()))
    return Stability(hull, Library("none", ""), calculator, **more)(crystal), asked


def some_crystal(formula: str) -> Crystals:
    """Of this formula; where its atoms are does not matter to `Shifted`."""
    atoms = [symbol for symbol, n in Composition(formula).items() for _ in range(int(n))]
    places = np.random.default_rng(0).random((len(atoms), 3))
    return Crystals.from_structures(Structure(Lattice.cubic(5.0), atoms, places))


def test_a_known_compound_lies_on_its_own_hull(hull: PotentialHull) -> None:
    found, asked = ask(hull, some_crystal("K2Se"))
    assert [p.formula for p in found.distances[0].products] == ["K2Se"]
    assert found.above == pytest.approx(0.0, abs=1e-9)
    assert not found.mixed
    assert asked == ["K2Se", "K2Se"]


def test_a_new_compound_is_compared_with_its_decomposition(hull: PotentialHull) -> None:
    """Formation energy 0 in this test, so that it lies as far above the hull as the hull lies below 0."""
    found, asked = ask(hull, some_crystal("KYSe2"))
    assert found.above == pytest.approx(-hull.hulls["oqmd"].hull_energy(["KYSe2"])[0], abs=1e-6)
    assert not found.mixed
    assert asked == ["KYSe2", "KSe", "YSe"]
    assert found.verdict() == "refuted"
    assert found.verdict(limit=5.0) == "confirmed"


def test_what_is_too_large_goes_by_differences_and_the_result_is_mixed(hull: PotentialHull) -> None:
    """Differences of the database are exact here, so the distance is the same as with every phase."""
    found, asked = ask(hull, some_crystal("KYSe2"), most_seconds=50.0)
    assert "KSe" not in asked
    assert found.mixed
    assert found.above == pytest.approx(-hull.hulls["oqmd"].hull_energy(["KYSe2"])[0], abs=1e-6)
    (how,) = [p.how for p in found.distances[0].products if p.formula == "KSe"]
    assert how.startswith("energy difference of OQMD to")
    assert any("too large" in note for note in found.distances[0].notes)


def test_an_element_that_databases_correct_is_not_calculated(hull: PotentialHull) -> None:
    found, asked = ask(hull, some_crystal("LiN5"))
    assert "N2" in [p.formula for p in found.distances[0].products]
    assert "N2" not in asked
    assert found.mixed
    assert found.above == pytest.approx(-hull.hulls["oqmd"].hull_energy(["LiN5"])[0], abs=1e-6)


def test_a_phase_without_energy_leaves_the_claim_undecided(hull: PotentialHull) -> None:
    found, _ = ask(hull, some_crystal("KYSe2"), without=frozenset({"KSe"}))
    assert found.above is None
    assert found.verdict() == "unknown"
    (product,) = [p for p in found.distances[0].products if p.formula == "KSe"]
    assert product.status == "no data set: of this test"
    assert product.how.startswith("no combination")


@pytest.mark.parametrize(
    ("above", "verdict"),
    [
        (-1.01 * WITHIN, "confirmed"),
        (-0.99 * WITHIN, "within the error"),
        (0.99 * WITHIN, "within the error"),
        (1.01 * WITHIN, "refuted"),
    ],
)
def test_twice_the_error_decides(above: float, verdict: str) -> None:
    distances = (Distance("oqmd", -1.0, (), False), Distance("mp", above, (), False))
    assert (
        Found("KYSe2", Settings(400.0, 1000.0), Energy("done", "", -1.0, 4), distances).verdict() == verdict
    )


def test_structures_come_from_the_reference_or_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library("mattersim-1m", "no weights")
    found = library("K2Se")
    assert found.crystal is not None
    assert found.crystal.formulas == ["K2Se"]
    assert "OQMD's geometry" in found.origin
    monkeypatch.setattr(Library, "_filling", None)
    assert library("La10Se19").crystal is None  # only an energy is listed, and it is too large for templates
    assert "29 atoms" in library("La10Se19").origin
