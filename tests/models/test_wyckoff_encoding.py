"""Crystals as sequences: nothing is lost, and equal crystals are equal sequences."""

from __future__ import annotations

import numpy as np
import pytest

from anchor.crystals.crystals import Crystals
from anchor.models.wyckoff.data import encoded_set, expected_edge, scaled_cells, to_sequences, unscaled_cell
from anchor.models.wyckoff.encoding import decode, element_order, encode
from anchor.models.wyckoff.tables import tables
from anchor.priors.match_rate import displacement, held_out
from anchor.reference.reference import load_reference


@pytest.fixture(scope="module")
def crystals() -> Crystals:
    return held_out("val", 60, seed=3)


@pytest.fixture(scope="module")
def encoded(crystals):
    return [encode(crystal) for crystal in crystals]


def test_decoding_gives_the_crystal_back(crystals, encoded):
    whole = 0
    for crystal, one in zip(crystals, encoded, strict=True):
        made = decode(one)
        assert sum(one.counts.values()) == made.n_atoms
        if made.n_atoms == crystal.n_atoms:  # else the crystal was a supercell
            whole += 1
            assert displacement(made, crystal) < 0.06
    assert whole >= 58


def test_space_groups_are_those_of_the_reference():
    reference = load_reference()
    chosen = np.random.default_rng(0).choice(len(reference.crystals), 60, replace=False)
    found = [encode(reference.crystals[i], symprec=0.01).group for i in chosen]
    assert np.mean(np.array(found) == reference.spacegroup[chosen]) > 0.9  # its tolerance is another one


def test_equal_crystals_are_equal_sequences(crystals, encoded):
    rng = np.random.default_rng(1)
    same = 0
    for crystal, one in zip(crystals, encoded, strict=True):
        order = rng.permutation(crystal.n_atoms)
        axes = np.array([[1, 0, 0], [1, 1, 0], [0, -1, 1]])
        frac = (crystal.frac[order] + rng.random(3)) @ np.linalg.inv(axes)
        other = encode(Crystals(crystal.counts, crystal.numbers[order], frac % 1.0, axes @ crystal.lattice))
        assert other.group == one.group
        assert [(o.element, o.position) for o in other.orbits] == [
            (o.element, o.position) for o in one.orbits
        ]
        mine, its = (np.concatenate([o.free for o in e.orbits]) for e in (one, other))
        gap = mine - its
        same += bool(np.allclose(gap - np.rint(gap), 0, atol=5e-3))
    assert same >= 56  # rounding decides in a few


def test_elements_come_in_one_order():
    assert element_order({8: 3, 56: 1, 22: 1}) == [56, 22, 8]  # BaTiO3
    assert element_order({17: 1, 11: 1}) == [11, 17]


def test_encoded_crystals_are_kept_and_read_again(crystals, encoded, tmp_path, monkeypatch):
    monkeypatch.setenv("ANCHOR_CACHE", str(tmp_path))
    first = encoded_set(crystals)
    again = encoded_set(crystals)
    np.testing.assert_array_equal(first[0], again[0])
    assert first[1] == again[1] == [encoded[i] for i in first[0]]


def test_scaled_cells_return(encoded):
    scaled = scaled_cells(encoded)
    for row, one in zip(scaled, encoded, strict=True):
        np.testing.assert_allclose(unscaled_cell(row.tolist(), one.group, one.counts), one.cell, rtol=1e-9)
    # Edges are those of the atoms of the conventional cell, so scaled volumes are about one.
    assert np.median(np.abs(scaled[:, :3].sum(axis=1))) < 0.3
    assert expected_edge(225, {11: 1, 17: 1}) == pytest.approx(
        4 ** (1 / 3) * expected_edge(1, {11: 1, 17: 1})
    )


def test_sequences_count_atoms_down(encoded):
    sequences = to_sequences(encoded, np.zeros((len(encoded), 6)))
    known = tables()
    for i, one in enumerate(encoded):
        order = element_order(one.counts)
        left = dict(one.counts)
        for j, orbit in enumerate(one.orbits):
            assert order[sequences.slot[i, j]] == orbit.element
            assert sequences.left[i, j] == left[orbit.element]
            left[orbit.element] -= known.multiplicity[sequences.position[i, j]]
        assert not any(left.values())
        assert sequences.slot[i, len(one.orbits)] == -1
