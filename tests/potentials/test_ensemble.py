"""Mean and spread over members."""

from __future__ import annotations

import numpy as np
import pytest

from anchor.crystals.crystals import Crystals
from anchor.errors import InputError, MissingDependencyError
from anchor.potentials import load_potential
from anchor.potentials.ensemble import Ensemble


def test_mean_and_spread_are_those_of_the_members(load, crystals):
    members = [load("mattersim-1m"), load("chgnet")]
    ensemble = load("mattersim-1m+chgnet")
    parts = [member.evaluate(crystals) for member in members]
    got = ensemble.evaluate(crystals)
    for field in ("energy", "forces", "stress"):
        values = np.stack([getattr(part, field) for part in parts])
        assert np.allclose(getattr(got, field), values.mean(axis=0), atol=1e-5)
    assert np.allclose(got.energy_std, np.std([part.energy for part in parts], axis=0), atol=1e-5)
    assert np.allclose(got.forces_std, np.std([part.forces for part in parts], axis=0), atol=1e-5)


def test_identity_elements_and_scale(load):
    one, two = load("mattersim-1m"), load("chgnet")
    ensemble = Ensemble([one, two])
    assert ensemble.name == "mattersim-1m+chgnet"
    assert ensemble.elements == one.elements & two.elements
    assert ensemble.checkpoint_hash == Ensemble([two, one]).checkpoint_hash
    assert ensemble.checkpoint_hash not in (one.checkpoint_hash, two.checkpoint_hash)
    assert ensemble.energies_corrected is False


def test_a_broken_crystal_has_no_spread_either(load, crystals):
    flat = Crystals(crystals.counts[:1], crystals.numbers[:2], crystals.frac[:2], np.zeros((1, 3, 3)))
    got = load("mattersim-1m+chgnet").evaluate(Crystals.concatenate([flat, crystals[1:2]]))
    assert np.isnan(got.energy_std[0])
    assert np.isnan(got.forces_std[:2]).all()
    assert np.isfinite(got.energy_std[1])
    assert np.isfinite(got.forces_std[2:]).all()


def test_an_ensemble_of_one_is_refused(load):
    one = load("mattersim-1m")
    with pytest.raises(InputError, match="at least two different"):
        Ensemble([one])
    with pytest.raises(InputError, match="at least two different"):
        Ensemble([one, one])


def test_members_that_cannot_share_an_environment_are_refused_by_name():
    with pytest.raises(MissingDependencyError, match="mace and sevennet-0 cannot be members of one ensemble"):
        load_potential("sevennet-0+mace")
