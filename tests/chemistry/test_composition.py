import numpy as np
import pytest

from anchor.chemistry.composition import Composition, Compositions, parse_formula
from anchor.chemistry.elements import VOCABULARY
from anchor.errors import InputError


def test_one_composition_reads_like_its_cell() -> None:
    c = Composition(("O", "Li", "Fe"), (4, 2, 2))
    assert (c.k, c.n_atoms, c.formula, str(c)) == (3, 8, "LiFeO2", "O4Li2Fe2")
    assert c.numbers.tolist() == [8] * 4 + [3] * 2 + [26] * 2
    assert parse_formula(str(c)) == c
    assert hash(c) == hash(parse_formula("O4Li2Fe2"))
    assert parse_formula("Fe2Li2O4") != c  # the order drawn is part of the action


@pytest.mark.parametrize(
    ("elements", "counts", "message"),
    [
        (("Li", "Li"), (1, 2), "appears twice"),
        (("Li",), (0,), "must be positive"),
        (("Li",), (1.5,), "whole numbers"),
        (("Xx",), (1,), "no element 'Xx'"),
        (("Li", "O"), (1,), "2 elements and 1 counts"),
        ((), (), "0 elements"),
    ],
)
def test_impossible_compositions_are_refused(elements: tuple, counts: tuple, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Composition(elements, counts)


def test_batch_and_single_objects_agree() -> None:
    batch = Compositions.from_list(["NaCl", "Fe6O8", Composition(("O", "Si", "Fe", "Li"), (4, 1, 1, 2))])
    assert len(batch) == 3
    assert batch.k.tolist() == [2, 2, 4]
    assert batch.n_atoms.tolist() == [2, 14, 8]
    assert batch.formulas == ["NaCl", "Fe3O4", "Li2FeSiO4"] == [c.formula for c in batch]
    assert batch.numbers.tolist() == [[11, 17, 0, 0], [26, 8, 0, 0], [8, 14, 26, 3]]
    assert batch[1] == batch[np.int64(1)] == parse_formula("Fe6O8")
    assert batch[-1].elements == ("O", "Si", "Fe", "Li")
    assert batch[batch.k == 2].formulas == ["NaCl", "Fe3O4"]
    assert batch[[2, 0]].formulas == batch[::-2].formulas == ["Li2FeSiO4", "NaCl"]
    again = Compositions.concatenate([batch[:1], Compositions.from_list([]), batch[1:]])
    assert (again.elements == batch.elements).all()
    assert (again.counts == batch.counts).all()
    assert len(Compositions.concatenate([])) == 0


@pytest.mark.parametrize(
    ("elements", "counts", "message"),
    [
        ([0, 84, -1, -1], [1, 1, 0, 0], "outside the vocabulary"),
        ([0, -2, -1, -1], [1, 0, 0, 0], "outside the vocabulary"),
        ([-1, 0, 1, -1], [0, 1, 1, 0], "padding"),
        ([-1, -1, -1, -1], [0, 0, 0, 0], "padding"),
        ([0, 1, -1, -1], [1, 0, 0, 0], "counts"),
        ([0, 1, -1, -1], [1, 1, 1, 0], "counts"),
        ([0, 1, -1, -1], [1, 1, -1, 0], "counts"),
        ([5, 1, 5, -1], [1, 1, 1, 0], "an element twice"),
    ],
)
def test_impossible_arrays_are_refused(elements: list[int], counts: list[int], message: str) -> None:
    good = [0, 1, -1, -1], [1, 1, 0, 0]
    with pytest.raises(InputError, match=f"composition 1 has .*{message}"):
        Compositions(np.array([good[0], elements]), np.array([good[1], counts]))


def test_only_up_to_four_vocabulary_elements_make_a_batch() -> None:
    with pytest.raises(InputError, match="has 5 elements"):
        Compositions.from_list(["LiNaKRbCs"])
    with pytest.raises(InputError, match="has Xe"):
        Compositions.from_list(["XeF2"])
    assert Compositions.from_list([Composition((VOCABULARY[83],), (1,))]).elements.tolist() == [
        [83, -1, -1, -1]
    ]
