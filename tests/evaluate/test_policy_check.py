"""A policy judged by relaxations: the verdicts of a campaign with the same settings, and counts by hand."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from anchor.chemistry.composition import Compositions
from anchor.cli.policy import app
from anchor.config import load_config
from anchor.crystals.crystals import Crystals
from anchor.crystals.distances import Contacts
from anchor.evaluate.policy_check import Checked, check_source, rate
from anchor.gates.base import Gate, Verdicts
from anchor.priors import templates
from anchor.reference.reference import load_reference
from anchor.screening.evidence import dft_hulls
from anchor.screening.plausibility import load_plausibility
from anchor.screening.surrogate import load_surrogate
from anchor.screening.warm_start import Estimator
from anchor.search.environment import Environment

CELLS = ["Na2Cl2", "Mg2O2", "Na3Cl", "CaO2"]  # paper: the last two are not neutral


def test_summary_of_a_check_by_hand() -> None:
    checked = Checked(
        cells=["A2", "A", "B", "C", "D"],
        formulas=["A", "A", "B", "C", "D"],
        relaxed=np.array([True, True, True, True, False]),
        valid=np.array([True, True, True, False, False]),
        above_hull=np.array([-0.01, 0.05, 0.08, -0.5, np.nan]),
        known=np.array([False, False, True, False, False]),
        estimated=np.array([0.0, 0.1, 0.2, 0.0, 0.0]),
        find=np.array([0.5, 0.4, 0.0, 0.25, 0.0]),
        evaluations=np.array([10, 20, 30, 40, 0]),
    )
    found = checked.summary()
    assert {k: found[k] for k in ("relaxed", "valid", "unique", "known", "evaluations")} == {
        "relaxed": 4,
        "valid": 3,
        "unique": 4,
        "known": 1,
        "evaluations": 100,
    }
    assert (found["metastable"], found["stable"], found["finds"], found["stable_finds"]) == (3, 1, 1, 1)
    assert found["per_relaxation"]["finds"] == rate(1, 4)
    assert found["rank_correlation_with_estimate"] == 1.0
    assert found["plausible"] == 3
    rows = checked.rows()  # the relaxed ones, most stable first
    assert [(row["cell"], row["find"]) for row in rows] == [
        ("C", False),
        ("A2", True),
        ("A", True),
        ("B", False),
    ]


def test_wilson_interval_solves_its_equation() -> None:
    value, low, high = rate(7, 40) or (0, 0, 0)
    assert value == 7 / 40
    for bound in (low, high):  # |p̂ − p| = z √(p (1 − p) / n) at both ends
        assert abs(value - bound) == pytest.approx(1.959964 * math.sqrt(bound * (1 - bound) / 40), abs=2e-4)
    assert rate(0, 0) is None


@pytest.fixture(scope="module")
def estimator() -> Estimator:
    return Estimator(load_surrogate(), dft_hulls(), load_reference(), templates.load(), load_plausibility())


def checked(estimator: Estimator, *overrides: str, gate: Gate | None = None) -> Checked:
    config = load_config(overrides=["relax.max_steps=0", "run.workers=1", *overrides]).config
    environment = Environment.load(config)
    if gate is not None:
        judge = replace(environment.judge, checks=replace(environment.checks, gate=gate))
        environment = replace(environment, realiser=replace(environment.realiser, judge=judge))
    return check_source(Compositions.from_list(CELLS), environment, estimator, stream=0)


def test_the_verdict_is_that_of_the_gate_of_the_settings(estimator: Estimator) -> None:
    by_paper = checked(estimator)
    assert by_paper.relaxed.tolist() == [True, True, False, False]
    assert by_paper.valid.tolist() == [True, True, False, False]

    class OnlyOxides:
        label = "only oxides"

        def verdicts(self, crystals: Crystals, _contacts: Contacts) -> Verdicts:
            return Verdicts(np.array([8 in c.numbers for c in crystals]), [""] * len(crystals))

    other = checked(estimator, "gate.name=lemat", gate=OnlyOxides())
    assert other.relaxed.all()  # no charge of the paper's gate keeps them from being made
    assert other.valid.tolist() == [False, True, False, True]


def test_lemats_gate_judges_where_it_is_set(estimator: Estimator) -> None:
    found = checked(estimator, "gate.name=lemat")
    assert found.relaxed.all()
    assert found.valid.tolist() == [True, True, False, True]


def test_the_command_takes_the_settings_of_the_policy_and_of_the_command_line() -> None:
    command = ["check", "default", "-n", "2", "--no-sources", "--json"]
    quick = ["--set", "relax.max_steps=0", "--set", "run.workers=1"]
    result = CliRunner().invoke(app, [*command, *quick, "--set", "prior.name=templates"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["identity"]["prior"]["name"] == "templates"
    assert found["identity"]["potential"]["name"] == "mattersim-1m"
    assert found["sources"]["default"]["n"] == 2
