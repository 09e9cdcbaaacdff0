"""Own objectives: loading, range checks, and the shipped examples."""

import sys
from pathlib import Path

import numpy as np
import pytest
from pymatgen.core import Lattice, Structure

from anchor.errors import AnchorError, InputError
from anchor.reward.objectives import BUILT_IN_OBJECTIVES, Objective, load_objective

IRON = Structure(Lattice.cubic(2.87), ["Fe", "Fe"], [[0, 0, 0], [0.5, 0.5, 0.5]])
GOLD = Structure.from_spacegroup("Fm-3m", Lattice.cubic(4.08), ["Au"], [[0, 0, 0]])


@pytest.mark.parametrize("name", sorted(BUILT_IN_OBJECTIVES))
def test_shipped_objectives_are_in_range(name: str) -> None:
    values = load_objective(name)([IRON, GOLD])
    assert values.shape == (2,)
    assert ((values >= 0) & (values <= 1)).all()


def test_iron_is_cheaper_and_lighter_than_gold() -> None:
    assert np.diff(load_objective("low_cost")([GOLD, IRON])) > 0
    assert load_objective("low_density")([IRON])[0] == pytest.approx(1 / (1 + IRON.density / 5))


def test_import_path_and_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_objective("anchor.reward.objectives:low_density")([IRON]).shape == (1,)
    with pytest.raises(InputError, match="did you mean 'low_cost'"):
        load_objective("low_cots")
    with pytest.raises(InputError, match="cannot be imported"):
        load_objective("no.such.module:f")
    monkeypatch.setitem(BUILT_IN_OBJECTIVES, "too_large", lambda s: np.full(len(s), 1.5))
    with pytest.raises(AnchorError, match=r"returned 1\.5"):
        load_objective("too_large")([IRON])
    monkeypatch.setitem(BUILT_IN_OBJECTIVES, "wrong_shape", lambda s: np.zeros(len(s) + 1))
    with pytest.raises(AnchorError, match="shape"):
        load_objective("wrong_shape")([IRON])


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda _: 1 / 0, "raised ZeroDivisionError"),
        (lambda _: sys.exit(0), "raised SystemExit"),
        (lambda _: "x", "returned a str"),
        (lambda _: None, "returned shape|returned a NoneType|returned nan"),
        (lambda s: [float("nan")] * len(s), "returned nan"),
        (lambda _: [[]], "shape"),
    ],
)
def test_faults_of_own_objectives_are_named(
    monkeypatch: pytest.MonkeyPatch, function: Objective, words: str
) -> None:
    monkeypatch.setitem(BUILT_IN_OBJECTIVES, "mine", function)
    with pytest.raises(AnchorError, match=words) as error:
        load_objective("mine")([IRON])
    assert "'mine'" in str(error.value)
    assert error.value.hint


@pytest.mark.parametrize("code", ["def mine(:", "1 / 0", "mine = 3"])
def test_own_modules_that_cannot_be_used_are_named(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = f"own_{abs(hash(code))}"
    (tmp_path / f"{module}.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match=f"{module}:mine"):
        load_objective(f"{module}:mine")
