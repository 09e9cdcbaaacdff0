"""Which atoms a space group can hold, against brute force."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from anchor.models.wyckoff.counting import can_finish, feasible_groups
from anchor.models.wyckoff.tables import positions


def by_force(group: int, taken: frozenset[int], left: tuple[int, ...]) -> bool:
    """Try every position for the next atom."""
    if not any(left):
        return True
    slot = next(i for i, n in enumerate(left) if n)
    for i, position in enumerate(positions(group)):
        if position.multiplicity > left[slot] or i in taken:
            continue
        after = tuple(n - position.multiplicity * (j == slot) for j, n in enumerate(left))
        if by_force(group, taken | {i} if not position.freedom else taken, after):
            return True
    return False


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([2, 12, 62, 88, 123, 139, 166, 194, 205, 216, 221, 225, 227, 230]),
    st.lists(st.integers(1, 6), min_size=1, max_size=3),
    st.data(),
)
def test_as_by_force(group, left, data):
    points = [i for i, position in enumerate(positions(group)) if not position.freedom]
    taken = data.draw(st.frozensets(st.sampled_from(points))) if points else frozenset()
    assert can_finish(group, taken, left) == by_force(group, taken, tuple(left))


def test_groups_of_rock_salt():
    found = feasible_groups([1, 1])
    assert found[225 - 1]
    assert found[221 - 1]
    assert found[0]  # no symmetry holds anything
    assert not found[227 - 1]  # diamond has no single atoms
    np.testing.assert_array_equal(found, feasible_groups((1, 1)))


def test_every_composition_has_a_group():
    for counts in product(range(1, 4), repeat=2):
        assert feasible_groups(counts)[0]
