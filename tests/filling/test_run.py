"""From the command to a file that the hulls read, and what its card says."""

import json
from pathlib import Path

import pytest

from anchor.arrays import load_arrays
from anchor.chemistry.composition import Compositions
from anchor.errors import InputError
from anchor.executors import Workplace
from anchor.filling import run
from anchor.hull.filling import Filling, filling_path


def test_a_filling_from_formulas_to_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[tuple[str, ...], list[tuple[str, ...]]]] = []

    def few(elements: tuple[str, ...], ternaries: object) -> list[str]:
        asked.append((tuple(elements), [tuple(t) for t in ternaries]))  # type: ignore[attr-defined]
        return ["KYSe2", "K6Se"]

    monkeypatch.setattr(run, "wanted", few)
    lines: list[str] = []

    def fill() -> dict[str, object]:
        return run.fill(
            "mattersim-1m",
            folder=tmp_path / "run",
            target=tmp_path,
            elements=("K", "Y", "Se"),
            second="chgnet",
            where=Workplace(workers=1),
            on_progress=lines.append,
        )

    card = fill()
    assert asked == [(("K", "Y", "Se"), [("K", "Y", "Se")])]
    path = filling_path("mattersim-1m", tmp_path)
    found = Filling.from_arrays(load_arrays(path))
    stored = json.loads(path.with_suffix(".json").read_text())
    assert stored["hash"] == found.hash
    assert stored["phases"] == len(found) == 2
    assert stored["made"] == stored["wanted"] == 2
    assert stored["checkpoint_hash"] == found.identity["checkpoint_hash"]
    assert card["verdicts"] == {"joins": 2}
    # lower at KYSe2 by as much as it lies below the hull
    (deepest, _) = stored["deepest"]
    for name in ("oqmd", "mp"):
        assert stored["effect"][name]["largest_lowering_ev_per_atom"] == pytest.approx(
            -deepest[f"above_{name}"], abs=1e-3
        )
        assert stored["effect"][name]["systems_with_a_lower_hull"]["ternary"] == 1
    before = path.read_bytes(), len(lines)
    fill()  # nothing is left to do, nothing is chosen again
    assert (path.read_bytes(), len(lines)) == before
    assert len(asked) == 1


def test_loose_elements_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Gd"):
        run.fill(
            "mattersim-1m", folder=tmp_path, target=tmp_path, elements=("Gd", "O"), where=Workplace(workers=1)
        )


def test_ternaries_of_proposals() -> None:
    found = run.ternary_systems(Compositions.from_list(["KYSe2", "Y2K2Se4", "NaCl", "LiFePO4"]))
    assert len(found) == len(set(found)) == 1 + 4
    assert all(len(set(system)) == 3 for system in found)
