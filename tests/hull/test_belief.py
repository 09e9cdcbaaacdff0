"""Believable depths against the lists they are measured on."""

import numpy as np
import pytest

from anchor.hull.belief import (
    PERCENTS,
    SUSPICIOUS,
    Depths,
    amounts_of,
    depth_percentiles,
    load_depths,
)
from anchor.hull.databases import dft_hull
from anchor.hull.holes import load_facts
from anchor.hull.phases import composition_matrix


def test_the_shipped_file_belongs_to_the_shipped_lists() -> None:
    for database in ("oqmd", "mp"):
        assert load_facts()["lists"][database] == dft_hull(database).identity.reference_hash
    assert load_facts()["holes"]["mp"]["binaries_deeper_than_0.05"] > 100


def test_shares_of_stable_ternaries_that_lie_deep() -> None:
    """The issue counted 15 %, 3.5 % and 1.1 % on a part of the list; all of it has more competitors."""
    depth = load_facts()["depths"]["mp"]["3/any"]["depth"]
    beyond = [100 - np.interp(d, depth, PERCENTS) for d in (0.1, 0.2, 0.3)]
    assert beyond == pytest.approx([13.8, 3.0, 1.0], abs=0.3)


def test_percentiles_of_known_depths() -> None:
    """Quantiles against a sort, and a small kind joins its number of elements."""
    formulas = ["NaCl", "KBr"] * 200 + ["LaN"] * 10
    depths = np.random.default_rng(0).permutation(np.arange(410) / 1000)
    found = depth_percentiles(composition_matrix(formulas), depths)
    assert set(found) == {"2/halide", "2/any"}
    assert found["2/halide"]["n"] == 400
    assert found["2/any"]["depth"][0] == 0
    assert found["2/any"]["depth"][-1] == pytest.approx(0.409)
    middle = np.sort(depths[:400])[199:201].mean()
    assert found["2/halide"]["depth"][PERCENTS.index(50)] == pytest.approx(middle, abs=1e-4)


def test_deeper_than_the_99th_percentile_is_suspicious() -> None:
    depths = Depths({"3/any": [p / 100 for p in PERCENTS], "3/oxide": [p / 1000 for p in PERCENTS]})
    assert not depths.of("KYSe2", -0.98).suspicious
    assert depths.of("KYSe2", -0.995).suspicious
    assert depths.of("KYSe2", -0.5).percentile == pytest.approx(50)
    assert depths.of("KYO2", -0.0995).suspicious
    assert depths.of("KYO2", -0.0995).kind == "3 elements, oxide"
    assert depths.of("KYSe2", -7.0).percentile == 100
    assert depths.of("KYSe2", 0.2).percentile == 0
    assert depths.of("KYSe2", -0.5).limit == pytest.approx(SUSPICIOUS / 100)


def test_the_holes_of_old_are_not_believed() -> None:
    """KYSe2 at −0.417 eV/atom lived in a hole; at −0.167, with Y2Se3 on the hull, it is believable."""
    depths = load_depths()
    assert depths.of("KYSe2", -0.417).suspicious
    assert not depths.of("KYSe2", -0.167).suspicious
    assert depths.of("LiFe11P7O", -0.677).suspicious


def test_amounts_are_those_of_the_formulas() -> None:
    phases = dft_hull("mp").index.phases
    rows = np.array([0, 5, 1000, 50000])
    expected = composition_matrix(phases.formula(i) for i in rows)
    assert amounts_of(phases, rows) == pytest.approx(expected / expected.sum(axis=1, keepdims=True))
