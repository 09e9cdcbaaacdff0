"""Sources: what is drawn, what is read, what cannot be."""

from pathlib import Path

import numpy as np
import pytest

from anchor.chemistry.composition import Composition, parse_formula
from anchor.chemistry.elements import SYMBOLS
from anchor.chemistry.spaces import sample_neutral
from anchor.crystals.crystals import Crystals
from anchor.errors import InputError
from anchor.evaluate.sources import composition_of, find_source
from anchor.formats import write
from anchor.random import generator
from anchor.reference.reference import load_reference


def cells(source, seed: int = 0, n: int | None = None) -> list[str | None]:  # type: ignore[no-untyped-def]
    return [row["cell"] for row in source.draw(seed, n).rows()]


def test_untrained_sources_draw_the_papers_measures() -> None:
    flat = find_source(["neutral:flat"])
    expected = sample_neutral(6, generator(2, "evaluate", "neutral", "flat"), "flat")
    assert cells(flat, 2, 6) == [str(c) for c in expected]
    assert find_source(["neutral"]).identity["measure"] == "formulas"
    assert find_source(["random"]).identity["measure"] == "hierarchical"
    assert flat.kind == "compositions"
    few = cells(find_source(["random"], elements=["H", "O", "N", "C"]), 0, 20)
    assert all(set(parse_formula(cell).elements) <= {"H", "O", "N", "C"} for cell in few)
    with pytest.raises(InputError, match="'flatt' is not a measure"):
        find_source(["random:flatt"])


def test_the_shipped_policy_keeps_to_its_elements_unless_told() -> None:
    trained = find_source(["default"])
    assert cells(trained, 1, 8) == cells(find_source(["default"]), 1, 8)
    assert cells(trained, 1, 8) != cells(trained, 2, 8)
    assert "Pm" not in trained.identity["space"]["elements"]
    from_few = find_source(["default"], elements=["Li", "O", "Fe", "P"])
    few = [set(parse_formula(cell).elements) for cell in cells(from_few, 0, 8)]
    assert all(elements <= {"Li", "O", "Fe", "P"} for elements in few)


def test_formulas_from_a_list_and_a_file(tmp_path: Path) -> None:
    assert cells(find_source(["formulas:NaCl, Ca(OH)2"])) == ["NaCl", "CaO2H2"]
    path = tmp_path / "wanted.csv"
    path.write_text("formula,note\nLiFePO4,olivine\n\nXx2,no element\n# remark\nZnS\n")
    found = find_source([f"formulas:{path}"]).draw(0, None)
    assert [row["cell"] for row in found.rows()] == ["LiFePO4", None, "ZnS"]
    assert "Xx2" in found.texts("reason")[1]
    assert cells(find_source([f"formulas:{path}"]), n=1) == ["LiFePO4"]
    with pytest.raises(InputError, match="no file"):
        find_source(["formulas:missing.txt"])


def test_structures_keep_a_row_even_unread(tmp_path: Path, small: Crystals) -> None:
    write(tmp_path / "a_good.extxyz", small[:3])
    (tmp_path / "b_bad.cif").write_text("data_nothing\n_cell_length_a what\n")
    write(tmp_path / "c_good.extxyz", small[3:5])
    names = [str(path) for path in sorted(tmp_path.iterdir())]

    def readable(n: int | None) -> list[bool]:
        found = find_source(names).draw(0, n)
        assert found.has.tolist() == [cell != "" for cell in found.texts("cell")]
        return found.has.tolist()

    found = find_source(names).draw(0, None)
    assert readable(None) == [True] * 5 + [False]
    assert "b_bad.cif" in found.texts("file")[-1]
    assert [bool(why) for why in found.texts("reason")] == [False] * 5 + [True]
    assert readable(4) == [True] * 3 + [False]  # the first four entries: three good ones and the bad one
    assert readable(5) == [True] * 4 + [False]
    assert readable(3) == [True] * 3


def test_folders_of_generators_are_not_read_twice(tmp_path: Path, small: Crystals) -> None:
    write(tmp_path / "generated_crystals.extxyz", small[:3])  # as MatterGen writes them
    write(tmp_path / "generated_crystals_cif.zip", small[:3])
    assert len(find_source([str(tmp_path)]).draw(0, None)) == 3
    (tmp_path / "generated_crystals.extxyz").rename(tmp_path / "samples.extxyz")
    with pytest.raises(InputError, match=r"several kinds of files \(1 \.extxyz, 1 \.zip\)"):
        find_source([str(tmp_path)])


@pytest.mark.parametrize("name", ["set.extxyz", "set.zip", "set.db", "set.csv", "set.json", "set.cif"])
def test_all_frames_of_every_format_are_read(tmp_path: Path, small: Crystals, name: str) -> None:
    write(tmp_path / name, small[:5])
    source = find_source([str(tmp_path / name)])
    found = source.draw(0, None)
    assert source.kind == "structures"
    assert source.seeds == (0,)
    assert found.texts("formula") == found.crystals.formulas == small[:5].formulas


def test_files_as_seeds_and_their_compositions(tmp_path: Path, small: Crystals) -> None:
    for i in (0, 1):
        write(tmp_path / f"seed{i}.extxyz", small[4 * i : 4 * i + 4])
    files = [str(tmp_path / f"seed{i}.extxyz") for i in (0, 1)]
    together, apart = find_source(files), find_source(files, each_a_seed=True)
    assert (together.seeds, apart.seeds) == ((0,), (0, 1))
    assert len(together.draw(0, None)) == 8
    assert cells(apart, 1) == [str(composition_of(c)) for c in small[4:8]]
    stripped = find_source([f"compositions-of:{files[1]}"])
    assert stripped.kind == "compositions"
    assert cells(stripped, 5) == cells(apart, 1)  # one set serves every seed
    assert not stripped.draw(0, None).has.any()
    assert find_source([f"compositions-of:{','.join(files)}"], each_a_seed=True).seeds == (0, 1)


def test_changed_files_have_another_identity(tmp_path: Path, small: Crystals) -> None:
    path = tmp_path / "set.extxyz"
    write(path, small[:2])
    before = find_source([str(path)]).identity
    write(path, small[:3], overwrite=True)
    assert find_source([str(path)]).identity != before


def test_self_test_draws_reference_crystals() -> None:
    found = find_source(["self-test"]).draw(0, 5)
    reference = load_reference()
    where = np.flatnonzero(reference.ids == found.texts("file")[2])
    assert found.texts("formula")[2] == found.crystals.formulas[2] == reference.formulas[where[0]]
    assert len(set(find_source(["self-test"]).draw(0, None).texts("file"))) == 200


def test_unknown_sources_are_named() -> None:
    with pytest.raises(InputError, match="no source 'netural'") as caught:
        find_source(["netural"])
    assert "neutral" in str(caught.value.hint)
    with pytest.raises(InputError, match=r"no file or folder missing\.cif"):
        find_source(["missing.cif"])
    with pytest.raises(InputError, match="no structures to strip"):
        find_source(["compositions-of:random"])


def test_every_cell_reads_back_as_it_was_drawn() -> None:
    """Sources hand compositions on as text: any two symbols side by side mean the same two again."""
    for first in SYMBOLS[1:]:
        for second in SYMBOLS[1:]:
            if first != second:
                cell = Composition((first, second), (1, 3))
                assert parse_formula(str(cell)) == cell
