"""Limits as masks: every allowed composition can be reached, nothing else, and refusals name the conflict."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from anchor.chemistry.elements import INDEX, VOCABULARY
from anchor.config import ActionSpace
from anchor.errors import InputError
from anchor.policy.constraints import CARDINALITIES, CELL_SIZES, Limits


def feasible_sets(limits: Limits, subgroup: set[int]) -> set[frozenset[int]]:
    """Brute force: element sets with some cell size within all bounds."""
    required = set(torch.nonzero(limits.required).flatten().tolist())
    return {
        frozenset(chosen)
        for k in limits.k
        for chosen in itertools.combinations(sorted(subgroup), k)
        if required <= set(chosen)
        and int(limits.lower[list(chosen)].sum()) <= limits.max_atoms
        and int(limits.upper[list(chosen)].sum()) >= limits.min_atoms
    }


def as_mask(elements: set[int] | frozenset[int]) -> torch.Tensor:
    mask = torch.zeros(len(VOCABULARY), dtype=torch.bool)
    mask[list(elements)] = True
    return mask


@st.composite
def spaces(draw: st.DrawFn) -> ActionSpace:
    """Tight action spaces over six elements."""
    elements = ("Li", "O", "F", "Na", "Fe", "U")
    symbols = st.sampled_from(elements)
    low, high = sorted([draw(st.integers(2, 20)), draw(st.integers(2, 20))])
    return ActionSpace(
        elements=elements,
        k=tuple(draw(st.sets(st.sampled_from([2, 3, 4]), min_size=1))),
        min_atoms=low,
        max_atoms=high,
        max_atoms_per_element=12,
        max_counts=draw(st.dictionaries(symbols, st.integers(4, 9))),
        min_counts=draw(st.dictionaries(symbols, st.integers(1, 4))),
        must_contain=tuple(draw(st.sets(symbols, max_size=2))),
    )


@settings(deadline=None, max_examples=80)
@given(spaces(), st.data())
def test_masks_reach_exactly_the_feasible_sets(space: ActionSpace, data: st.DataObject) -> None:
    everything = {INDEX[symbol] for symbol in space.elements or ()}
    try:
        limits = Limits.from_config(space)
    except InputError:
        upper = torch.tensor([min(space.max_counts.get(s, 12), 12) for s in VOCABULARY])
        lower = torch.tensor([space.min_counts.get(s, 1) for s in VOCABULARY])
        required = as_mask({INDEX[s] for s in space.must_contain})
        refused = Limits(
            as_mask(everything), required, lower, upper, space.k, space.min_atoms, space.max_atoms
        )
        assert not feasible_sets(refused, everything)
        return
    required = {INDEX[symbol] for symbol in space.must_contain}
    subgroup = required | data.draw(st.sets(st.sampled_from(sorted(everything))))
    feasible = feasible_sets(limits, subgroup)
    k_mask = limits.cardinality_mask(as_mask(subgroup)).tolist()
    assert k_mask == [any(len(s) == k for s in feasible) for k in CARDINALITIES]
    for k, possible in zip(CARDINALITIES, k_mask, strict=True):
        if not possible:
            continue
        sets = {s for s in feasible if len(s) == k}
        prefixes = {frozenset(p) for s in sets for i in range(k) for p in itertools.combinations(s, i)}
        for prefix in prefixes:
            mask = limits.element_mask(as_mask(subgroup), as_mask(prefix), torch.tensor(k - len(prefix)))
            expected = {e for s in sets if prefix < s for e in s - prefix}
            assert set(torch.nonzero(mask).flatten().tolist()) == expected
        for chosen in sets:
            row = torch.tensor([*chosen, *[-1] * (4 - k)])
            low = max(int(limits.lower[list(chosen)].sum()), limits.min_atoms)
            high = min(int(limits.upper[list(chosen)].sum()), limits.max_atoms)
            assert limits.size_mask(row).tolist() == [low <= size <= high for size in CELL_SIZES]


def test_the_papers_space_masks_nothing_but_the_drawn_elements() -> None:
    limits = Limits.from_config(ActionSpace())
    everything = torch.ones(84, dtype=torch.bool)
    assert limits.cardinality_mask(everything).all()
    assert limits.element_mask(everything, as_mask({3, 5}), torch.tensor(1)).sum() == 82
    assert limits.size_mask(torch.tensor([1, 2, 3, -1])).tolist() == [size >= 3 for size in CELL_SIZES]


def test_cap_limits_the_cell() -> None:
    limits = Limits.from_config(ActionSpace(k=(2,), max_counts={"Li": 3, "O": 4}))
    row = torch.tensor([INDEX["Li"], INDEX["O"], -1, -1])
    assert limits.size_mask(row).tolist() == [size <= 7 for size in CELL_SIZES]


def test_fewer_elements_than_four_leave_smaller_k() -> None:
    assert Limits.from_config(ActionSpace(elements=("Li", "O", "P"))).k == (2, 3)


@pytest.mark.parametrize(
    ("space", "searchable", "message"),
    [
        (ActionSpace(elements=("Li", "Xx")), None, "'Xx' is not one of the 84"),
        (ActionSpace(exclude=("He",)), None, "'He' is not one of the 84"),
        (ActionSpace(elements=("Li",)), None, "only 1 allowed elements"),
        (ActionSpace(elements=("Li", "O"), must_contain=("Fe",)), None, "Fe is not in elements"),
        (ActionSpace(must_contain=("Pm",)), ["Li", "O"], "Pm: left out of searches"),
        (ActionSpace(elements=("Ce", "Li", "O")), ["Li", "O"], "Ce: left out of searches"),
        (ActionSpace(k=(4,), max_atoms=3), None, "at least 4 atoms, but max_atoms is 3"),
        (
            ActionSpace(k=(2,), min_atoms=10, max_atoms_per_element=4),
            None,
            "at most 8 atoms, but min_atoms is 10",
        ),
        (ActionSpace(must_contain=("O",), min_counts={"O": 9}, max_atoms=8), None, "at least 10 atoms"),
        (ActionSpace(max_counts={"O": 2}, min_counts={"O": 3}), None, "3 is more than the 2 atoms"),
        (ActionSpace(max_counts={"O": 0}), None, "allows no atom"),
        (
            ActionSpace(
                elements=("Li", "Na", "O"), k=(2,), min_atoms=12, max_counts={"Li": 1, "Na": 1, "O": 9}
            ),
            None,
            "at most 10 atoms",
        ),
    ],
)
def test_impossible_requests_are_refused_with_the_reason(
    space: ActionSpace, searchable: list[str] | None, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        Limits.from_config(space, searchable=searchable)


def test_searchable_restricts_the_vocabulary() -> None:
    limits = Limits.from_config(ActionSpace(exclude=("O",)), searchable=["Li", "O", "Fe", "P"])
    assert {VOCABULARY[i] for i in torch.nonzero(limits.allowed).flatten().tolist()} == {"Li", "Fe", "P"}
