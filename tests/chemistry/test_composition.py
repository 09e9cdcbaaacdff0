import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymatgen.core import Composition as PymatgenComposition

from anchor.chemistry.composition import Composition, Compositions, parse_formula
from anchor.chemistry.elements import NUMBER, SYMBOLS
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


ANY = st.dictionaries(st.sampled_from(SYMBOLS[1:]), st.integers(1, 40), min_size=1, max_size=9).map(
    lambda amounts: Composition(tuple(amounts), tuple(amounts.values()))
)


def test_batch_and_single_objects_agree() -> None:
    batch = Compositions.from_list(["NaCl", "Fe6O8", Composition(("O", "Si", "Fe", "Li"), (4, 1, 1, 2))])
    assert len(batch) == 3
    assert batch.k.tolist() == batch.sizes.tolist() == [2, 2, 4]
    assert batch.n_atoms.tolist() == [2, 14, 8]
    assert batch.formulas == ["NaCl", "Fe3O4", "Li2FeSiO4"] == [c.formula for c in batch]
    assert batch.cells == ["NaCl", "Fe6O8", "O4SiFeLi2"]
    assert batch.numbers.tolist() == [11, 17, 26, 8, 8, 14, 26, 3]
    assert batch[1] == batch[np.int64(1)] == parse_formula("Fe6O8")
    assert batch[-1].elements == ("O", "Si", "Fe", "Li")
    assert batch[batch.k == 2].formulas == ["NaCl", "Fe3O4"]
    assert batch[[2, 0]].formulas == batch[::-2].formulas == ["Li2FeSiO4", "NaCl"]
    assert batch.reduced().cells == ["NaCl", "Fe3O4", "O4SiFeLi2"]
    assert batch.times(3).cells == ["Na3Cl3", "Fe18O24", "O12Si3Fe3Li6"]
    with pytest.raises(IndexError):
        batch[3]


@given(st.lists(ANY, max_size=8), st.data())
def test_any_elements_in_any_number(cells: list[Composition], data: st.DataObject) -> None:
    batch = Compositions.from_list(cells)
    assert list(batch) == cells == [batch[i] for i in range(len(cells))]
    assert batch.cells == [str(c) for c in cells]
    assert batch.n_atoms.tolist() == [c.n_atoms for c in cells]
    assert batch.amounts.shape == (len(cells), 119)
    for row, cell, unit in zip(batch.amounts, cells, batch.reduced(), strict=True):
        assert {SYMBOLS[z]: row[z] for z in np.flatnonzero(row)} == dict(
            zip(cell.elements, cell.counts, strict=True)
        )
        theirs = PymatgenComposition(dict(zip(cell.elements, cell.counts, strict=True)))
        assert unit.n_atoms == theirs.get_reduced_composition_and_factor()[0].num_atoms or unit.k == 1
        assert unit.elements == cell.elements
    picked = data.draw(st.lists(st.integers(0, len(cells) - 1), max_size=5)) if cells else []
    assert list(batch[np.array(picked, dtype=int)]) == [cells[i] for i in picked]
    cut = len(cells) // 2
    assert list(Compositions.concatenate([batch[:cut], Compositions.from_list([]), batch[cut:]])) == cells
    again = Compositions.from_padded(*batch.padded(9))
    assert list(again) == cells
    shuffled = [(i, z) for i, cell in enumerate(cells) for z in cell.numbers.tolist()][::-1]
    owner, numbers = np.array(shuffled, dtype=np.int64).reshape(-1, 2).T
    atoms = Compositions.of_atoms(owner, numbers)
    np.testing.assert_array_equal(atoms.amounts, batch.amounts)
    assert all((np.diff([NUMBER[e] for e in c.elements]) > 0).all() for c in atoms)


@pytest.mark.parametrize(
    ("sizes", "numbers", "counts", "message"),
    [
        ([2, 2], [1, 8, 1, 119], [1, 1, 1, 1], "composition 1 has an atomic number"),
        ([2, 2], [1, 8, 1, 0], [1, 1, 1, 1], "composition 1 has an atomic number"),
        ([2, 2], [1, 8, 1, 8], [1, 1, 1, 0], "composition 1 has counts"),
        ([2, 3], [1, 8, 5, 1, 5], [1, 1, 1, 1, 1], "composition 1 has an element twice"),
        ([2, 2], [1, 8, 5, 5], [1, 1, 1, 1], "composition 1 has an element twice"),
        ([2, 0], [1, 8], [1, 1], "composition 1 has no elements"),
        ([2, 2], [1, 8, 1], [1, 1, 1], "must be equal"),
    ],
)
def test_impossible_arrays_are_refused(
    sizes: list[int], numbers: list[int], counts: list[int], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        Compositions(np.array(sizes), np.array(numbers), np.array(counts))


def test_rectangles_hold_what_fits() -> None:
    with pytest.raises(InputError, match="LiNaKRbCs has 5 elements"):
        Compositions.from_list(["NaCl", "LiNaKRbCs"]).padded(4)
    with pytest.raises(InputError, match="composition 1 has counts where there is no element"):
        Compositions.from_padded([[11, 17], [3, 0]], [[1, 1], [1, 2]])
