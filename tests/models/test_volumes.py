"""Volumes: exact on data that obey the model, and close on real crystals that were not fitted."""

from __future__ import annotations

import numpy as np

from anchor.crystals.crystals import Crystals
from anchor.models.volumes import fit_volumes
from anchor.priors.fitted import load_fitted
from anchor.priors.units import of_split
from anchor.reference.reference import load_reference


def crystals_with(volume_of, pairs: list[tuple[int, int]]) -> Crystals:
    batch = []
    for a, b in pairs:
        numbers = np.array([a, b, b])
        edge = volume_of(numbers) ** (1 / 3)
        batch.append(Crystals([3], numbers, np.zeros((3, 3)), edge * np.eye(3)[None]))
    return Crystals.concatenate(batch)


PAIRS = [(a, b) for a in (11, 19, 37) for b in (8, 16, 34)]
BOTH_WAYS = PAIRS + [(b, a) for a, b in PAIRS]


def test_additive_model_recovers_additive_volumes():
    true = {11: 24.0, 19: 40.0, 37: 50.0, 8: 11.0, 16: 18.0, 34: 21.0}
    crystals = crystals_with(lambda numbers: sum(true[z] for z in numbers.tolist()), BOTH_WAYS)
    volumes = fit_volumes(crystals, np.zeros(len(crystals), dtype=np.int64))
    for z, value in true.items():
        np.testing.assert_allclose(volumes.atomic[z], value, rtol=1e-4)
    np.testing.assert_allclose(volumes.additive(np.array([11, 8, 8])), 46.0, rtol=1e-4)


def test_substitution_model_ignores_what_a_prototype_has_in_common():
    effect = {11: 0.1, 19: 0.4, 37: 0.6, 8: 0.0, 16: 0.5, 34: 0.7}

    def volume(numbers, dense):
        return 3 * dense * np.exp(np.mean([effect[z] for z in numbers.tolist()]))

    dense = crystals_with(lambda n: volume(n, 10.0), PAIRS * 40)
    loose = crystals_with(lambda n: volume(n, 25.0), PAIRS * 40)
    label = np.repeat([0, 1], len(PAIRS) * 40)
    volumes = fit_volumes(Crystals.concatenate([dense, loose]), label)
    new, old = np.array([37, 34, 34]), np.array([11, 8, 8])
    expected = volume(new, 1.0) / volume(old, 1.0)
    np.testing.assert_allclose(volumes.ratio(new, old), expected, rtol=0.01)
    np.testing.assert_allclose(volumes.ratio(new, old) * volumes.ratio(old, new), 1)


def test_held_out_volumes():
    reference = load_reference()
    crystals = reference.crystals[of_split(reference, "val")]
    volumes = load_fitted().volumes
    guess = np.array([volumes.additive(c.numbers) for c in crystals[::20]])
    error = np.abs(guess / crystals[::20].volume - 1)
    assert np.median(error) < 0.12
