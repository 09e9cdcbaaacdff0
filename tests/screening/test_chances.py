"""Chances: labels, regressions, and what ships measured again from the shipped labels."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit
from typer.testing import CliRunner

from anchor.chemistry.composition import Compositions
from anchor.cli.policy import app
from anchor.errors import InputError, MissingDependencyError
from anchor.reference.reference import load_reference
from anchor.screening import chances as likely
from anchor.screening.estimate import load_estimate
from anchor.screening.reliability import brier, columns_of, held_out, measure, reliability
from anchor.screening.surrogate import surrogate_hash

NAN = float("nan")


def labels(energies: list[float], formulas: list[str] | None = None) -> likely.Labels:
    n = len(energies)
    names = formulas or [f"LiO{i + 3}" for i in range(n)]
    return likely.Labels(names, np.array(energies), ["templates-all"] * n, np.zeros(n, np.int64), ["x"] * n)


# Labels


def test_labels_go_through_a_file(tmp_path: Path) -> None:
    given = labels([0.0, 0.1, 0.10004, -0.25, NAN])
    given.save(tmp_path / "labels.csv")
    back = likely.load_labels(tmp_path / "labels.csv")
    np.testing.assert_allclose(back.above_hull, [0.0, 0.1, 0.1, -0.25, NAN], atol=1e-9)
    assert back.formulas == given.formulas
    assert given.metastable.tolist() == [True, True, False, True, False]  # a failure is no success
    assert given.stable.tolist() == [True, False, False, True, False]
    assert given[np.array([3, 0])].formulas == ["LiO6", "LiO3"]


def test_first_label_of_a_formula_counts() -> None:
    both = likely.Labels.concatenate([labels([0.5], ["LiO9"]), labels([0.1, 0.2], ["LiO9", "LiO7"])])
    assert both.formulas == ["LiO9", "LiO7"]
    assert both.above_hull.tolist() == [0.5, 0.2]


def test_held_out_depends_on_the_formula_alone() -> None:
    many = labels([0.0] * 2000)
    assert many.held_out.mean() == pytest.approx(likely.HELD_OUT, abs=0.04)
    assert many[np.array([7, 3])].held_out.tolist() == many.held_out[[7, 3]].tolist()


def test_bad_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "odd.csv").write_text("formula,energy\nNaCl,0\n")
    with pytest.raises(InputError, match="no column"):
        likely.load_labels(tmp_path / "odd.csv")
    head = ",".join(likely.COLUMNS).encode()
    for rows in (b"a," * 9, b"\xff\xfe", b"NaCl,low,x,0,y", b"NaCl\n"):
        (tmp_path / "odd.csv").write_bytes(head + b"\n" + rows)
        with pytest.raises(InputError, match=r"odd\.csv' is damaged"):
            likely.load_labels(tmp_path / "odd.csv")
    with pytest.raises(MissingDependencyError, match="there is no file"):
        likely.load_labels(tmp_path / "none.csv")
    with pytest.raises(MissingDependencyError, match="there is no file"):
        likely.load_chances(tmp_path / "none.json")


def test_only_what_a_search_asks_for_is_a_label() -> None:
    batch = Compositions.from_list(["NaCl", "Na2Cl", "K5Y3Se7"])
    found = likely.askable(batch, load_reference())
    assert found.tolist()[:2] == [False, False]  # known; not neutral


# Regression


def test_regression_is_the_usual_penalised_one() -> None:
    """Against scikit-learn, whose C is 1 / (2 n PENALTY) in these units."""
    linear_model = pytest.importorskip("sklearn.linear_model")
    rng = np.random.default_rng(0)
    columns = np.stack([np.ones(500), rng.normal(2, 3, 500), rng.normal(-1, 0.2, 500)], axis=1)
    positive = rng.random(500) < expit(0.4 * columns[:, 1] - 2 * columns[:, 2] - 3)
    found = likely.ridge_logistic(columns, positive)
    scaled = (columns[:, 1:] - columns[:, 1:].mean(axis=0)) / columns[:, 1:].std(axis=0)
    theirs = linear_model.LogisticRegression(C=1 / (2 * 500 * likely.PENALTY), tol=1e-8).fit(scaled, positive)
    expected = theirs.decision_function(scaled)
    np.testing.assert_allclose(columns @ found, expected, atol=1e-3)


def test_being_stable_is_never_likelier_than_being_near() -> None:
    rng = np.random.default_rng(1)
    odd = likely.Chances(
        tuple(rng.normal(size=likely.N_FEATURES)), tuple(rng.normal(size=likely.N_FEATURES)), {}
    )
    near, on = odd.probabilities(rng.normal(size=(200, likely.N_FEATURES)))
    assert (on <= near).all()
    assert (on > 0).any()


def test_hydrogen_and_phosphorus_are_molecular_and_lower_the_chance() -> None:
    batch = Compositions.from_list(["FeH4CBr3", "InPH4Cl4", "LiH", "CaC2", "Na2HPO4", "MgO"])
    assert likely.molecular(batch).tolist() == [True, True, True, False, True, False]
    assert likely.load_chances().metastable[-1] < -0.5


# Reliability


def test_reliability_worked_by_hand() -> None:
    probability = np.array([0.0, 0.05, 0.1, 0.3, 0.9, 1.0])
    happened = np.array([False, True, False, False, True, True])
    rows = reliability(probability, happened, (0, 0.1, 0.5, 1))
    assert [(r["n"], r["observed"], r["expected"]) for r in rows] == [(2, 1, 0.1), (2, 0, 0.4), (2, 2, 1.9)]
    low, high = rows[1]["interval"]
    assert low == 0
    assert high == pytest.approx(0.658, abs=1e-3)  # Wilson, 0 of 2
    assert brier(probability, happened) == pytest.approx((0.95**2 + 0.1**2 + 0.3**2 + 0.1**2) / 6)


def test_perfect_probabilities_have_no_error() -> None:
    happened = np.array([True, False, True])
    found = measure(happened.astype(float), np.array([0.2, 0.3, 0.4]), happened, (0, 0.5, 1))
    assert (found["auc"], found["brier"], found["expected"], found["observed"]) == (1.0, 0.0, 2.0, 2)
    assert found["auc_find"] == 0.5


# What ships


def test_shipped_chances_are_as_reliable_as_their_card_states() -> None:
    shipped, known, free = likely.load_chances(), likely.load_labels(), load_estimate()
    card = shipped.card
    assert card["labels"]["hash"] == known.hash
    assert card["surrogate"] == surrogate_hash(free.surrogate)
    assert card["plausibility"] == list(free.plausibility.coefficients)
    assert card["prior"]["hash"] == free.prior.hash
    found = held_out(shipped, *_arranged(free, known))
    for name, stated in card["held_out"].items():
        assert found[name]["n"] == stated["n"], name
        assert found[name]["observed"] == stated["observed"], name
        assert found[name]["expected"] == pytest.approx(stated["expected"], abs=0.5), name
        assert found[name]["auc"] == pytest.approx(stated["auc"], abs=0.003), name


def _arranged(free, known):
    columns, find, studied = columns_of(free, known)
    return columns, find, known, studied


def test_shipped_labels_are_those_of_their_card() -> None:
    known = likely.load_labels()
    card = json.loads(likely.LABELS.with_suffix(".json").read_text())
    assert card["hash"] == known.hash
    assert {key: card[key] for key in known.counts()} == known.counts()
    potentials = {made["measure"]["potential"]["name"] for made in card["made"] if "measure" in made}
    assert potentials == {"mattersim-1m"}


def test_shipped_labels_are_unknown_neutral_and_distinct() -> None:
    known = likely.load_labels()
    assert likely.askable(known.compositions, load_reference()).all()
    assert len(set(known.formulas)) == len(known) > 1000
    assert set(known.compositions.k.tolist()) == {2, 3, 4}


def test_command_learns_again_what_ships(tmp_path: Path) -> None:
    out = tmp_path / "chances.json"
    result = CliRunner().invoke(app, ["chances", "--out", str(out), "--json"])
    assert result.exit_code == 0, result.output
    shipped, found = likely.load_chances(), json.loads(result.stdout)
    assert found["metastable"] == pytest.approx(shipped.metastable, abs=0.02)
    assert found["labels"] == shipped.card["labels"]
    result = CliRunner().invoke(app, ["chances"])
    assert result.exit_code == 0, result.output
    assert "expected" in result.stdout
