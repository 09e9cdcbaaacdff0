"""Plausibility of unknown compositions: evidence, regression, and the fit that ships."""

from __future__ import annotations

import json
from collections import Counter
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import mannwhitneyu
from typer.testing import CliRunner

from anchor.chemistry.charge import is_neutral
from anchor.chemistry.composition import Compositions, parse_formula
from anchor.chemistry.elements import NUMBER
from anchor.cli.policy import app
from anchor.errors import MissingDependencyError
from anchor.hull.hull import Hull
from anchor.hull.phases import Phases
from anchor.priors import templates
from anchor.reference.reference import load_reference
from anchor.screening import evidence as clues
from anchor.screening import plausibility as plausible
from anchor.screening.nearness import FARTHEST, nearness_of
from anchor.screening.surrogate import PairNetwork, Sizes, Surrogate, load_surrogate


@pytest.fixture(scope="module")
def prior() -> templates.TemplatePrior:
    return templates.load()


def evidence(**given: list[float]) -> clues.Evidence:
    n = len(next(iter(given.values())))
    usual = {"above": 0.0, "spreads": 0.05, "nearest": -3.0, "templates": 100, "everyday": True}
    arrays = {name: np.array(given.get(name, [value] * n)) for name, value in usual.items()}
    both = {name: np.stack([arrays[name]] * 2, axis=1) for name in ("above", "spreads")}
    return clues.Evidence(**{**arrays, **both})


# Evidence


def test_templates_are_known_crystals_whose_cell_divides_the_cell(prior: templates.TemplatePrior) -> None:
    reference = load_reference()
    train = np.flatnonzero(reference.split == "train")
    cells = Counter(tuple(sorted(Counter(c.numbers.tolist()).values())) for c in reference.crystals[train])
    for text in ("NaCl", "Na6Cl6", "Mg2Al4O8", "K7Mg2O8F3"):
        cell = parse_formula(text)
        counts = sorted(cell.counts)
        expected = 0
        for own, n in cells.items():
            times = sum(counts) // sum(own)
            expected += n * ([times * count for count in own] == counts)
        assert nearness_of(Compositions.from_list([cell]), prior).templates[0] == expected, text


def test_nearest_template_by_brute_force(prior: templates.TemplatePrior) -> None:
    """Every training crystal of the stoichiometry, every way to replace its elements."""
    similarity, labels = prior.fitted.similarity, prior.fitted.prototypes
    reference = load_reference()
    cell = parse_formula("KMgF3")
    best = -np.inf
    for i in np.flatnonzero(reference.split == "train").tolist():
        own = Counter(reference.crystals[i].numbers.tolist())
        if sorted(own.values()) != [1, 1, 3]:
            continue
        roles = labels.roles[i, :3].tolist()
        shares = np.array([own[z] for z in roles]) * 3 / 5
        for chosen in permutations(zip(cell.elements, cell.counts, strict=True)):
            if [n for _, n in chosen] != [own[z] for z in roles]:
                continue
            gaps = [similarity.distance[NUMBER[e], z] for (e, _), z in zip(chosen, roles, strict=True)]
            weight = -float(np.dot(gaps, shares**similarity.share_exponent))
            weight -= similarity.instability * float(np.clip(reference.e_above_hull[i], 0, 0.5))
            best = max(best, weight)
    assert nearness_of(Compositions.from_list([cell]), prior).nearest[0] == pytest.approx(best, abs=1e-4)


def test_a_known_crystal_is_its_own_nearest_template_and_nothing_is_far(
    prior: templates.TemplatePrior,
) -> None:
    reference = load_reference()
    on_hull = np.flatnonzero((reference.split == "train") & (reference.stability < 0))
    i = next(i for i in on_hull.tolist() if len(set(reference.crystals[i].numbers.tolist())) == 3)
    known = nearness_of(reference.crystals[[i]].compositions, prior)
    assert known.nearest[0] == pytest.approx(0, abs=0.01)
    odd = nearness_of(Compositions.from_list(["Na7Cl5Fe4O3"]), prior)
    assert (odd.nearest[0], odd.templates[0]) == (FARTHEST, 0)


def test_compounds_are_held_out_neutral_and_near_the_hull_of_the_others(
    prior: templates.TemplatePrior,
) -> None:
    """A surrogate that says 0 for everything shows the hull energies that were used."""
    reference = load_reference()
    zero = PairNetwork(Sizes(4, 4, 1)).requires_grad_(False)
    zero.last.weight.zero_()
    nothing = Surrogate([zero], (0.0, 0.0), (0.0, 0.0))
    found = plausible.compound_evidence(nothing, clues.dft_hulls(), reference, prior, split="val")
    rows = np.flatnonzero((reference.split == "val") & (reference.stability <= 0.05))
    # OQMD's own distance to the hull of all other compositions, which its authors computed
    others = reference.stability[rows] - reference.formation_energy[rows]
    near = np.abs(found.above[:, :1] - others).min(axis=1)
    assert (near < 2e-3).mean() > 0.9
    assert 0 < len(found) <= len(rows)


def test_hull_of_others_is_the_hull_without_the_composition() -> None:
    """Against a hull that is built anew from all other phases."""
    batch = Compositions.from_list(["NaCl", "MgAl2O4", "K2Y2Se4"])
    found = clues.hull_energies_of_others(batch, clues.dft_hulls())
    for j, hull in enumerate(clues.dft_hulls()):
        phases = hull.index.phases
        for i, amounts in enumerate(batch.amounts):
            fractions = np.zeros((len(phases), 119))
            np.put_along_axis(fractions, phases.numbers, phases.fractions, axis=1)
            fractions[:, 0] = 0
            inside = (fractions[:, amounts == 0] == 0).all(axis=1)
            kept = inside & (np.abs(fractions - amounts / amounts.sum()).max(axis=1) > 1e-6)
            rest = Hull(
                Phases(
                    phases.numbers[kept], phases.fractions[kept], phases.energies[kept], phases.sources[kept]
                ),
                hull.identity,
            )
            assert found[i, j] == pytest.approx(rest.hull_energy(amounts[None])[0], abs=1e-9)
    assert (found >= clues.hull_energies(batch, clues.dft_hulls()) - 1e-9).all()


def test_everyday_charges(prior: templates.TemplatePrior) -> None:
    everyday = ["NaCl", "MgAl2O4", "LiFePO4", "K2HfI6", "CaCO3", "Mg3N2"]
    rare_or_mixed = ["NdYSe5", "LaNdSe4", "Na2Cl", "NaCl3", "Fe3O4", "NaK"]
    found = nearness_of(Compositions.from_list([*everyday, *rare_or_mixed]), prior).everyday
    assert found.tolist() == [True] * 6 + [False] * 6


# Regression


def test_logistic_regression_finds_the_density_ratio_of_two_normals() -> None:
    rng = np.random.default_rng(0)
    positive = np.stack([np.ones(40_000), rng.normal(1.0, 1.0, 40_000)], axis=1)
    negative = np.stack([np.ones(20_000), rng.normal(-0.5, 1.0, 20_000)], axis=1)
    # log N(x; 1, 1) / N(x; -0.5, 1) = 1.5 x - 0.375
    constant, slope = plausible.logistic(positive, [negative[:5000], negative[5000:]])
    assert slope == pytest.approx(1.5, abs=0.06)
    assert constant == pytest.approx(-0.375, abs=0.06)


def test_auc_is_the_mann_whitney_statistic() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, 9, 50).astype(float), rng.integers(0, 7, 70).astype(float)
    assert plausible.auc(a, b) == pytest.approx(mannwhitneyu(a, b).statistic / (50 * 70), abs=1e-4)


def test_probability_of_uninformative_evidence_is_the_share() -> None:
    flat = plausible.Plausibility((0.0,) * 10, {})
    assert flat.probability(evidence(nearest=[-1.0, -9.0])) == pytest.approx(plausible.SHARE)


# What ships


def test_shipped_fit_prefers_what_a_chemist_would() -> None:
    fit = plausible.load_plausibility()
    near = fit.probability(evidence(nearest=[-0.5, -2.0, -6.0, -15.0]))
    assert (np.diff(near) < 0).all()
    odd, everyday = fit.probability(evidence(everyday=[False, True]))
    assert odd < everyday
    high = fit.probability(evidence(above=[0.0, 0.1, 0.4, 0.9]))
    assert (np.diff(high) < 0).all()


def test_shipped_fit_tells_compounds_from_random_ones_as_its_card_states(
    prior: templates.TemplatePrior,
) -> None:
    fit, surrogate, reference = plausible.load_plausibility(), load_surrogate(), load_reference()
    compounds = plausible.compound_evidence(surrogate, clues.dft_hulls(), reference, prior, split="test")
    from anchor.chemistry.spaces import sample_neutral
    from anchor.random import generator

    batch = sample_neutral(600, generator(9, "test"), "by-k")
    assert is_neutral(batch).all()
    unknown = Compositions.concatenate([batch])[np.array([not reference.known(f) for f in batch.formulas])]
    hull_energy = clues.hull_energies(unknown, clues.dft_hulls())
    random = clues.gather_evidence(unknown, surrogate, hull_energy, prior)
    auc = plausible.auc(fit.probability(compounds), fit.probability(random))
    assert auc == pytest.approx(fit.card["auc"][0], abs=0.02)
    assert auc > fit.card["auc_surrogate_alone"][0] + 0.1
    assert np.median(fit.probability(random)) < plausible.SHARE < 0.1 < np.median(fit.probability(compounds))


def test_command_fits_again_what_ships(tmp_path: Path) -> None:
    out = tmp_path / "plausibility.json"
    result = CliRunner().invoke(app, ["plausibility", "--out", str(out), "--json"])
    assert result.exit_code == 0, result.output
    shipped, found = plausible.load_plausibility(), json.loads(result.stdout)
    assert found["coefficients"] == pytest.approx(shipped.coefficients, abs=0.02)
    assert found["auc"] == pytest.approx(shipped.card["auc"], abs=1e-3)


def test_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MissingDependencyError, match="there is no file"):
        plausible.load_plausibility(tmp_path / "none.json")
