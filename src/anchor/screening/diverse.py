"""The best formulas, but not all of one family.

Going down a ranking, a formula waits while

- its family (stoichiometry and most electronegative element: ABSe2) holds FAMILY_SHARE of the places so far,
- or one of its elements holds ELEMENT_SHARE of them, unless a user requires that element; where few elements
  may occur, it is twice the even share.

Whoever waits comes as soon as there is room, before all that rank lower. Where nobody else is left, the best
of those who wait comes. So every beginning of the list obeys the rule, and no formula is lost.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from anchor.chemistry.composition import Compositions
from anchor.chemistry.elements import VOCABULARY
from anchor.policy.actions import to_actions
from anchor.screening.families import electronegativities

FAMILY_SHARE = 0.04
ELEMENT_SHARE = 0.25
FEWEST = 4
"""Places that a family or an element may hold at the beginning, where shares mean nothing."""
BLOCK = 64
"""Formulas looked at in one go."""


def families(compositions: Compositions) -> NDArray[np.int64]:
    """A number for each stoichiometry and most electronegative element.  # [n]"""
    elements, counts = to_actions(compositions.reduced())
    affinity = np.where(elements >= 0, electronegativities()[elements], -np.inf)
    place = affinity.argmax(axis=1)[:, None]
    anion = [np.take_along_axis(values, place, axis=1) for values in (elements, counts)]
    keys = np.concatenate([np.sort(counts, axis=1), *anion], axis=1)
    return np.unique(keys, axis=0, return_inverse=True)[1].ravel()


def diverse_order(
    compositions: Compositions,
    n: int,
    *,
    required: NDArray[np.int64] | None = None,
    allowed: int = len(VOCABULARY),
    exhausted: bool = True,
    taken: Compositions | None = None,
) -> NDArray[np.int64]:
    """Rows of the next n places; of fewer if the rule asks for compositions that are not there.

    Args:
        compositions: The best first.
        required: Vocabulary indices of elements that every composition has.
        allowed: Elements that may occur.
        exhausted: Whether these are all compositions: then the rule gives way, and none is left out.
        taken: Those that hold the places before; none: the list begins here.

    Returns: # [at most n]
    """
    before = 0 if taken is None else len(taken)
    everyone = compositions if taken is None else Compositions.concatenate([taken, compositions])
    family, elements = families(everyone), to_actions(everyone)[0]  # -1, no element, is the last
    share = max(ELEMENT_SHARE, 2 * float(compositions.k.mean()) / allowed) if len(compositions) else 1.0
    in_family = np.zeros(family.max(initial=0) + 1, dtype=np.int64)
    with_element = np.zeros(len(VOCABULARY) + 1)
    with_element[-1] = -np.inf  # there is always room
    if required is not None:
        with_element[required] = -np.inf
    np.add.at(in_family, family[:before], 1)
    np.add.at(with_element, elements[:before].ravel(), 1)
    family, elements = family[before:], elements[before:]
    waits = np.zeros(len(compositions), dtype=bool)
    chosen = np.zeros(min(n, len(compositions)), dtype=np.int64)
    seen, room, nobody = 0, (0, 0), False
    for place in range(len(chosen)):
        last, room = room, (_room(FAMILY_SHARE, before + place), _room(share, before + place))

        def fits(rows: NDArray[np.int64], room: tuple[int, int] = room) -> NDArray[np.bool_]:
            return (in_family[family[rows]] < room[0]) & (with_element[elements[rows]] < room[1]).all(axis=1)

        pick = -1
        if room != last or not nobody:  # else those who wait were asked, and nothing has changed since
            waiting = np.flatnonzero(waits[:seen])
            able = np.flatnonzero(fits(waiting))
            nobody = not len(able)
            pick = -1 if nobody else int(waiting[able[0]])
        while pick < 0 and seen < len(compositions):
            block = np.arange(seen, min(seen + BLOCK, len(compositions)))
            able = np.flatnonzero(fits(block))
            pick = int(block[able[0]]) if len(able) else -1
            end = pick if pick >= 0 else int(block[-1]) + 1
            waits[seen:end] = True
            seen = end + (pick >= 0)
        if pick < 0 and not exhausted:
            return chosen[:place]
        if pick < 0:
            pick = int(waits.argmax())
        waits[pick] = False
        in_family[family[pick]] += 1
        with_element[elements[pick]] += 1
        chosen[place] = pick
    return chosen


def _room(share: float, place: int) -> int:
    """Places that may be taken once this one is."""
    return max(FEWEST, math.ceil(share * (place + 1)))
