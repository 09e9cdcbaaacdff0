"""Every row of the paper's tables is a configuration that differs, scores a group and stands in the docs."""

from pathlib import Path

import numpy as np
import pytest
from outcome_tables import judged

from anchor.chemistry.composition import Compositions
from anchor.config import load_config
from anchor.outcomes.checks import Checks
from anchor.priors import load_prior
from anchor.reference.reference import load_reference
from anchor.reward.score import Memory
from anchor.search.environment import make_scorer
from anchor.studies.paper_rows import EXPLORATION, GATE, PAPER_ROWS, SOURCES

PAGE = (Path(__file__).parents[2] / "docs" / "reproducing.md").read_text()
CELLS = ["Na2Cl2", "Mg2O2", "Na2O", "Na2Cl2"]


def test_rows_differ_from_each_other() -> None:
    configs = [load_config(preset="paper", overrides=sets).config for sets in PAPER_ROWS.values()]
    assert len({config.model_dump_json() for config in configs}) == len(configs) == 19


@pytest.mark.parametrize("name", PAPER_ROWS)
def test_rows_stand_in_the_documentation(name: str) -> None:
    """Each row's settings, together, as one cell of the page of studies; a source by its name."""
    sets = PAPER_ROWS[name]
    if name in SOURCES:
        expected = f"the source `{sets[0].removeprefix('policy.source=')}`"
    else:
        expected = " ".join(f"`--set {setting}`" for setting in sets) or "the paper's search"
    assert f"| {expected} |" in PAGE


@pytest.mark.parametrize("name", [n for n in PAPER_ROWS if n not in GATE])
def test_rows_score_a_group(name: str) -> None:
    """The second NaCl repeats the first: what it earns tells the exploration mechanisms apart."""
    config = load_config(preset="paper", overrides=PAPER_ROWS[name]).config
    compositions = Compositions.from_list(CELLS)
    crystals = load_prior("templates-all").sample(compositions[np.array([0, 1, 2])], seed=0)
    crystals = crystals[np.array([0, 1, 2, 0])]
    group = judged(crystals, config)
    reference = load_reference()
    scorer = make_scorer(config, reference, Checks.from_config(config, reference))
    scores = scorer.score(compositions, group.outcomes, group.embeddings, np.full(4, 0.25), Memory())
    assert scores.valid.all()
    assert np.isfinite(scores.reward).all()
    if name in EXPLORATION:
        bonus = 0.0 if "reward.count_bonus=0" in PAPER_ROWS[name] else 1 / np.sqrt(2)
        assert scores.bonus[[0, 3]] == pytest.approx([bonus, bonus])
        novelty = scores.objectives[:, 1]
        if config.novelty.mode == "adaptive":
            assert novelty[3] == pytest.approx(0.0)  # it is in the history now
        elif config.novelty.mode == "fixed":
            assert novelty[3] == novelty[0]
        else:
            assert set(novelty) <= {0.0, 1.0}
            assert novelty[3] == 0.0  # not unique in its group
