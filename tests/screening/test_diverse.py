"""The rule of diversity: every beginning obeys it, nothing is lost, and better ones come first."""

from __future__ import annotations

import math

import numpy as np
import pytest

from anchor.chemistry.composition import Compositions
from anchor.chemistry.spaces import sample_neutral
from anchor.random import generator
from anchor.screening.diverse import ELEMENT_SHARE, FAMILY_SHARE, FEWEST, diverse_order, families


@pytest.fixture(scope="module")
def crowd() -> Compositions:
    """30 selenides of one family in front of 2,000 others."""
    one = [f"{a}{b}Se2" for a in ("Li", "Na", "K", "Rb", "Cs") for b in ("Y", "La", "Nd", "Sm", "Tb", "Er")]
    others = sample_neutral(2000, generator(0, "crowd"))
    return Compositions.concatenate([Compositions.from_list(one), others])


def test_families_are_stoichiometry_and_anion() -> None:
    numbers = families(Compositions.from_list(["KYSe2", "LaRbSe2", "Na2Y2Se4", "KYS2", "KY2Se", "KYSe3"]))
    assert numbers[0] == numbers[1] == numbers[2]
    assert len(set(numbers.tolist())) == 4


def test_every_beginning_obeys_the_rule(crowd: Compositions) -> None:
    order = diverse_order(crowd, 600, exhausted=False)
    assert len(order) == 600
    family, formulas = families(crowd)[order], crowd[order]
    for end in (10, 50, 100, 333, 600):
        most = max(np.bincount(family[:end]))
        assert most <= max(FEWEST, math.ceil(FAMILY_SHARE * end))
        elements = np.bincount(formulas[:end].numbers)
        assert elements.max() <= max(FEWEST, math.ceil(ELEMENT_SHARE * end))


def test_by_hand(crowd: Compositions) -> None:
    """The same as a slow one that looks at everybody in turn."""
    crowd = crowd[:300]
    family, taken = families(crowd), list[int]()
    left = list(range(len(crowd)))
    for place in range(60):
        rooms = [max(FEWEST, math.ceil(s * (place + 1))) for s in (FAMILY_SHARE, ELEMENT_SHARE)]
        for i in left:
            elements = set(crowd[i].elements)
            alike = sum(family[j] == family[i] for j in taken)
            most = max(sum(e in crowd[j].elements for j in taken) for e in elements)
            if alike < rooms[0] and most < rooms[1]:
                break
        taken.append(i)
        left.remove(i)
    assert diverse_order(crowd, 60).tolist() == taken


def test_nothing_is_lost_where_there_is_nothing_else(crowd: Compositions) -> None:
    selenides = crowd[:30]
    assert sorted(diverse_order(selenides, 30).tolist()) == list(range(30))
    assert len(diverse_order(selenides, 30, exhausted=False)) == FEWEST


def test_required_elements_have_room(crowd: Compositions) -> None:
    with_oxygen = crowd[np.array(["O" in c.elements for c in crowd])]
    oxygen = np.array([6])  # its place in the vocabulary
    order = diverse_order(with_oxygen, 60, required=oxygen, exhausted=False)
    assert len(order) == 60


def test_a_longer_order_begins_with_the_shorter(crowd: Compositions) -> None:
    assert diverse_order(crowd, 400)[:100].tolist() == diverse_order(crowd, 100).tolist()
    assert diverse_order(crowd[:1500], 100).tolist() == diverse_order(crowd, 100).tolist()
