"""Space groups and sites against spglib and the International Tables."""

from __future__ import annotations

import numpy as np
import pytest

from anchor.crystals.spacegroups import sites, space_group

# Wyckoff positions without free coordinates: multiplicities in the International Tables, centring removed.
POINTS = {
    2: [1] * 8,
    14: [2, 2, 2, 2],
    62: [4, 4],
    139: [1, 1, 2, 2, 4],
    166: [1, 1, 3, 3],
    194: [2, 2, 2, 2, 6],
    221: [1, 1, 3, 3],
    225: [1, 1, 2, 6],
    227: [2, 2, 4, 4],
}


@pytest.mark.parametrize("number", POINTS)
def test_isolated_sites_are_those_of_the_tables(number):
    found = sites(number)
    assert sorted(site.multiplicity for site in found if site.freedom == 0) == POINTS[number]
    general = [site for site in found if site.freedom == 3]
    assert [site.multiplicity for site in general] == [len(space_group(number).rotations)]


@pytest.mark.parametrize("number", [1, 5, 62, 166, 194, 216, 227])
def test_operations_form_a_group_on_a_primitive_cell(number):
    group = space_group(number)
    assert len(np.unique(group.rotations.reshape(-1, 9), axis=0)) == len(group.rotations)
    np.testing.assert_allclose(np.abs(np.linalg.det(group.rotations)), 1)
    members = {tuple(r.ravel()): t for r, t in zip(group.rotations, group.translations, strict=True)}
    for a, t in zip(group.rotations, group.translations, strict=True):
        for b, u in zip(group.rotations[:6], group.translations[:6], strict=True):
            shift = t @ b + u - members[tuple((a @ b).ravel())]
            np.testing.assert_allclose(shift, np.rint(shift), atol=1e-9)


@pytest.mark.parametrize("number", [12, 139, 225])
def test_points_of_a_site_have_its_multiplicity(number):
    rng = np.random.default_rng(number)
    group = space_group(number)
    for site in sites(number):
        orbit = group.orbit(site.point + rng.random(3) @ site.projector)
        assert len(orbit) == site.multiplicity
        np.testing.assert_allclose(site.projector @ site.projector, site.projector, atol=1e-9)


def test_symmetrised_metric_is_invariant():
    rng = np.random.default_rng(0)
    group = space_group(194)
    vectors = rng.normal(size=(3, 3))
    metric = group.symmetrise(vectors @ vectors.T)
    for rotation in group.rotations:
        np.testing.assert_allclose(rotation @ metric @ rotation.T, metric, atol=1e-9)
    np.testing.assert_allclose(group.symmetrise(metric), metric)
