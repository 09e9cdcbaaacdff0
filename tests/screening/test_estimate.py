"""The free estimate as a whole."""

from __future__ import annotations

import numpy as np

from anchor.chemistry.composition import Compositions
from anchor.hull.references import dft_hull
from anchor.reference.reference import load_reference
from anchor.screening.estimate import load_estimate
from anchor.screening.evidence import hull_energies
from anchor.screening.nearness import nearness_of

FORMULAS = ["KYSe2", "NaCl", "Li4FeP2O9", "Cs2AgBiBr6", "Mg3N2"]


def test_estimates_agree_with_their_parts() -> None:
    estimate, batch = load_estimate(), Compositions.from_list(FORMULAS)
    found = estimate(batch)
    energy, spread = estimate.surrogate.predict(batch)
    hulls = np.stack([dft_hull(name).hull_energy(FORMULAS) for name in ("oqmd", "mp")], axis=1)
    np.testing.assert_allclose(found.above_hull, (energy - hulls).max(axis=1), atol=1e-9)
    larger = (energy - hulls).argmax(axis=1)
    np.testing.assert_allclose(found.spread, spread[np.arange(len(batch)), larger])
    assert found.known.tolist() == [bool(load_reference().known(f)) for f in batch.formulas]
    assert (found.stable <= found.metastable).all()
    assert ((found.metastable > 0) & (found.metastable < 1)).all()


def test_order_of_elements_and_size_of_the_cell_do_not_matter() -> None:
    found = load_estimate()(Compositions.from_list(["KYSe2", "Se2KY", "Y2Se4K2"]))
    for values in (found.above_hull, found.spread, found.metastable, found.stable, found.find):
        np.testing.assert_allclose(values, values[0], rtol=1e-4)


def test_what_is_handed_over_is_used() -> None:
    estimate, batch = load_estimate(), Compositions.from_list(FORMULAS)
    whole = estimate(batch)
    again = estimate(
        batch,
        near=nearness_of(batch, estimate.prior, any_units=True),
        hull_energy=hull_energies(batch, estimate.hulls),
        known=np.ones(len(batch), dtype=bool),
    )
    np.testing.assert_allclose(again.metastable, whole.metastable)
    assert again.known.all()
    lower = estimate(batch, hull_energy=hull_energies(batch, estimate.hulls) - 0.2)
    np.testing.assert_allclose(lower.above_hull, whole.above_hull + 0.2)
