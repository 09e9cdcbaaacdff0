"""What is measured of the paper's argument, on cases whose answers are known exactly."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from anchor.chemistry.composition import Composition
from anchor.cli.main import app
from anchor.errors import InputError
from anchor.evaluate.outputs import FinishedEvaluation
from anchor.priors import load_prior
from anchor.priors.wyckoff import WyckoffPrior
from anchor.studies import theory
from anchor.studies.decomposition import decompose
from anchor.studies.likelihoods import Drawn, covariance_summary, covariances, draw, known_compositions
from anchor.studies.marginals import VIEWS, divergence_of_samples, share_outside, tilt, usual_classes
from anchor.weights import write_json
from anchor.writing import replace_file

BINARIES = [
    Composition((a, b), (1, 1)) for a, b in (("Na", "Cl"), ("K", "Cl"), ("Mg", "O"), ("Ca", "O"), ("Li", "F"))
]


def sample(p: np.ndarray, n: int, seed: int) -> list[Composition]:
    return [BINARIES[i] for i in np.random.default_rng(seed).choice(len(BINARIES), size=n, p=p)]


def test_divergence_of_samples_is_the_exact_one() -> None:
    p, q = np.array([0.5, 0.3, 0.1, 0.05, 0.05]), np.array([0.2, 0.2, 0.2, 0.2, 0.2])
    exact = theory.divergence(q, p)
    found = divergence_of_samples(sample(p, 20_000, 0), sample(q, 20_000, 1), VIEWS["formulas"])
    assert found["nats"] == pytest.approx(exact, abs=0.02)
    assert found["low"] <= exact <= found["high"]
    assert found["chance_high"] < 0.01
    # of the elements: Na Cl K Mg O Ca Li F with halves of the formulas' chances
    seen = {e: np.array([(e in c.elements) / 2 for c in BINARIES]) for c in BINARIES for e in c.elements}
    coarse = theory.divergence(*(np.array([chance @ r for chance in seen.values()]) for r in (q, p)))
    found = divergence_of_samples(sample(p, 20_000, 0), sample(q, 20_000, 1), VIEWS["elements"])
    assert found["nats"] == pytest.approx(coarse, abs=0.02)
    assert coarse < exact, "a view can only lose"


def test_equal_marginals_differ_by_chance_alone() -> None:
    p = np.array([0.4, 0.3, 0.2, 0.05, 0.05])
    found = divergence_of_samples(sample(p, 100, 0), sample(p, 100, 1), VIEWS["formulas"])
    assert 0 < found["nats"] < found["chance_high"]


def test_mass_outside_of_what_is_usual() -> None:
    p, q = np.array([0.9, 0.0995, 0.0005, 0, 0]), np.array([0.4, 0.3, 0.1, 0.1, 0.1])
    usual = usual_classes(sample(p, 20_000, 0), VIEWS["formulas"])
    assert usual == {"NaCl", "KCl"}
    assert share_outside(sample(q, 20_000, 1), usual, VIEWS["formulas"]) == pytest.approx(0.3, abs=0.01)
    rows = {r["view"]: r for r in tilt(sample(p, 5000, 0), sample(p, 5000, 2), sample(q, 5000, 1))}
    assert rows["formulas"]["outside_before"] < 0.003
    assert rows["formulas"]["outside"] == pytest.approx(0.3, abs=0.03)
    assert rows["number of elements"]["nats"] == pytest.approx(0, abs=1e-9), "all are binaries"


def test_a_bounded_tilt_shows_as_one() -> None:
    """Samples of an exact tilt have the divergence that the theory says."""
    p0 = np.array([[0.3, 0.2], [0.2, 0.1], [0.1, 0.02], [0.05, 0.02], [0.005, 0.005]])
    reward = np.array([[0.0, 0.2], [0.1, 0.0], [0.5, 1.0], [1.0, 1.0], [1.0, 0.5]])
    p, q = theory.marginal(p0), theory.tilted_marginal(p0, reward, 0.4)
    found = divergence_of_samples(sample(p, 20_000, 3), sample(q, 20_000, 4), VIEWS["formulas"])
    assert found["nats"] == pytest.approx(theory.divergence(q, p), abs=0.03)


def test_covariance_of_samples_is_the_exact_one() -> None:
    rng = np.random.default_rng(5)
    p, reward = rng.dirichlet(np.ones(6), size=3), rng.random((3, 6))
    x = np.stack([rng.choice(6, size=40_000, p=row) for row in p])
    log_p = np.log(np.take_along_axis(p, x, axis=1))
    found = covariances(log_p, np.take_along_axis(reward, x, axis=1))
    exact = [theory.drift(row, r) for row, r in zip(p, reward, strict=True)]
    assert np.allclose(found, exact, atol=0.02)
    against = covariances(log_p, -0.7 * log_p)  # the paper's −α Var[log p₀]
    assert np.allclose(against, -0.7 * log_p.var(axis=1, ddof=1))


def test_summary_of_covariances() -> None:
    log_p = np.array([[-1.0, -2.0, -3.0], [-1.0, -1.0, -1.0], [-1.0, -3.0, -2.0]])
    found = covariance_summary(Drawn(["A", "B", "C"], log_p, np.array([[0.1, 0.2, 0.3]] * 3)))
    assert (found["negative"], found["zero"], found["positive"]) == (2, 1, 0)
    assert found["covariance"] == pytest.approx((-0.1 + 0 - 0.05) / 3)
    assert found["low"] <= found["covariance"] <= found["high"]
    assert found["correlation"] == pytest.approx((-1.0 - 0.5) / 2)


def test_likelihoods_are_those_of_the_choices() -> None:
    """Most probability of NaCl in a cell of two atoms is in a few crystals: frequencies are exp log p."""
    prior = load_prior("wyckoff")
    assert isinstance(prior, WyckoffPrior)
    drawn = draw([Composition(("Na", "Cl"), (1, 1))], 60)
    values, counts = np.unique(drawn.log_p[0].round(6), return_counts=True)
    most = counts.argmax()
    assert counts[most] / 60 == pytest.approx(np.exp(values[most]), abs=0.2)
    assert (drawn.log_p <= 0).all()
    again = draw([Composition(("Na", "Cl"), (1, 1))], 60)
    assert (again.log_p == drawn.log_p).all()
    assert (again.novelty == drawn.novelty).all()
    assert len({c.formula for c in known_compositions(5)}) == 5
    with pytest.raises(InputError, match="has no likelihoods"):
        draw(known_compositions(1), 2, prior="templates")


def evaluation(folder: Path, cells: list[str], hits: list[int], footer: str = "a") -> FinishedEvaluation:
    folder.mkdir()
    replace_file(
        folder / "table.jsonl",
        "".join(
            f'{{"cell": "{cell}", "msun": {str(bool(hit)).lower()}}}\n'
            for cell, hit in zip(cells, hits, strict=True)
        ),
    )
    summary = {
        "label": folder.name, "footer": {"label": footer}, "metrics": {}, "seeds": [0], "read": {"rows": 1},
    }  # fmt: skip
    write_json(folder / "summary.json", summary)
    return FinishedEvaluation.load(folder)


def test_decomposition_of_evaluations(tmp_path: Path) -> None:
    cells = [f"Na{i}Cl{i}" for i in range(1, 41)]
    dng = evaluation(tmp_path / "dng", cells, [1] * 4 + [0] * 36)
    csp = evaluation(tmp_path / "csp", cells, [1] * 8 + [0] * 32)
    search = evaluation(tmp_path / "search", ["KCl"] * 50, [1] * 25 + [0] * 25)
    found = decompose(dng, csp, search)
    assert [row["share"] for row in found["rows"]] == [0.1, 0.2, 0.5]
    assert all(row["low"] < row["share"] < row["high"] for row in found["rows"])
    assert found["structures"]["paired"]
    assert found["structures"]["value"] == pytest.approx(0.1)
    assert (found["structures"]["first_only"], found["structures"]["second_only"]) == (4, 0)
    assert found["compositions"]["value"] == pytest.approx(0.3)
    assert 0.1 < found["compositions"]["low"] < 0.2 < 0.4 < found["compositions"]["high"] < 0.5
    other = evaluation(tmp_path / "other", cells[::-1], [0] * 40)
    assert not decompose(dng, other, search)["structures"]["paired"]
    with pytest.raises(InputError, match="not judged in the same way"):
        decompose(dng, csp, evaluation(tmp_path / "elsewhere", cells, [0] * 40, footer="b"))
    with pytest.raises(InputError, match="no column 'sun'"):
        decompose(dng, csp, search, criterion="sun")


def run(*arguments: str) -> dict:
    answer = CliRunner().invoke(app, ["study", *arguments, "--json"])
    assert answer.exit_code == 0, answer.exception
    return json.loads(answer.stdout)


def test_commands(tmp_path: Path) -> None:
    found = run("tilt", "random", "neutral", "-n", "60")
    assert {view["view"] for view in found["views"]} == set(VIEWS)
    same = run("tilt", "random", "random", "-n", "60")
    assert all(view["nats"] == 0 for view in same["views"]), "the same draws"
    of_elements = next(view for view in found["views"] if view["view"] == "elements")
    assert of_elements["nats"] > of_elements["chance_high"], "neutral formulas prefer anions"
    folders = [tmp_path / name for name in ("dng", "csp", "search")]
    for folder, hits in zip(folders, ([1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0]), strict=True):
        evaluation(folder, ["NaCl", "KCl", "MgO", "CaO"], hits)
    found = run("decomposition", *map(str, folders))
    assert [row["successes"] for row in found["rows"]] == [1, 2, 3]
    found = run("covariance", "-n", "2", "--each", "2")
    assert (found["compositions"], found["crystals_each"]) == (2, 2)
    assert found["negative"] + found["zero"] + found["positive"] == 2
