"""Own objectives: loading, range checks, and the shipped examples."""

import sys
from pathlib import Path

import numpy as np
import pytest
from pymatgen.core import Lattice, Structure

from anchor.config import Config, load_config
from anchor.errors import AnchorError, InputError
from anchor.reference.reference import load_reference
from anchor.reward.objectives import BUILT_IN_OBJECTIVES, Objective, load_objective
from anchor.search import environment
from anchor.search.environment import Environment, load_objectives

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


def configured(*more: str) -> Config:
    own = ["reward.objectives=[mine]", "reward.alpha=[1, 4, 1, 1, 1]"]
    return load_config(overrides=[*own, *more]).config


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda _: 1 / 0, "raised ZeroDivisionError"),
        (lambda _: "x", "returned a str"),
        (lambda _: 0.5, r"returned shape \(\)"),
        (lambda _: [0.5], r"returned shape \(1,\) for 2"),  # with one crystal this would not show
        (lambda s: [s_.density for s_ in s], r"returned \d"),
    ],
)
def test_an_objective_is_refused_before_anything_is_relaxed(
    monkeypatch: pytest.MonkeyPatch, function: Objective, words: str
) -> None:
    """Neither potential nor prior nor hull is loaded for that."""
    monkeypatch.setitem(BUILT_IN_OBJECTIVES, "mine", function)

    def loaded(*_: object, **__: object) -> None:
        pytest.fail("something heavy was loaded")

    for name in ("load_potential", "load_configured_prior", "load_campaign_hull"):
        monkeypatch.setattr(environment, name, loaded)
    with pytest.raises(InputError, match=f"objective 'mine' {words}.*tried on") as error:
        Environment.load(configured())
    assert "nothing was begun" in str(error.value)


def test_an_objective_is_tried_within_the_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may take for granted what the search holds to: here sodium, and three elements."""
    asked: list[Structure] = []

    def per_sodium(structures: list[Structure]) -> list[float]:
        asked.extend(structures)
        return [min(1.0, 1 / s.composition["Na"]) for s in structures]

    monkeypatch.setitem(BUILT_IN_OBJECTIVES, "mine", per_sodium)
    reference = load_reference()
    limits = ["action_space.must_contain=[Na]", "action_space.k=[3]", "action_space.exclude=[O]"]
    (objective,) = load_objectives(configured(*limits), reference)
    assert len(asked) == 2
    for structure in asked:
        symbols = {element.symbol for element in structure.composition}
        assert "Na" in symbols
        assert "O" not in symbols
        assert len(symbols) == 3
    assert objective([]).shape == (0,), "a group without a valid crystal is no question"
    assert len(asked) == 2
    nothing = ["action_space.elements=[Pm, Ac]", "action_space.k=[2]"]
    assert load_objectives(configured(*nothing), reference)
    assert len(asked) == 2, "nothing is known there, so nothing is tried"
