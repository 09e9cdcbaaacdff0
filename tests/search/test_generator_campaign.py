"""A campaign whose proposer is a generator: rows, broken cells, kill and resume, DDPO state in the ledger."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_models import tiny_joint

from anchor.config import Config, load_config
from anchor.crystals.crystals import Crystals
from anchor.errors import InputError
from anchor.evaluate.sources import find_source
from anchor.models.data import TrainingSet, reference_split
from anchor.models.registry import save_model
from anchor.search.campaign import Campaign
from anchor.search.environment import Environment
from anchor.search.ledger import Ledger
from anchor.search.policies import generator_of, load_trained


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    model = tiny_joint("crystalite-dng")
    model.fit_statistics(TrainingSet(reference_split("val")[:60]).crystals)
    path = tmp_path_factory.mktemp("weights") / "made.safetensors"
    save_model(path, model, {"elements": [8], "card": {"steps": 0}})
    settings = [
        "policy.source=generator", f"generator.name={path}", "generator.train=true", "generator.steps=4",
        "generator.learning_rate=1e-3", "grpo.group_size=6", "run.structures=18", "run.workers=1",
        "run.keep_policy_every=2", "relax.max_steps=1", "reward.weights=[0.4, 0.4, 0.1, 0.1]",
    ]  # fmt: skip
    return load_config(overrides=settings).config


@pytest.fixture(scope="module")
def environment(config: Config) -> Environment:
    return Environment.load(config)


def content(ledger: Ledger) -> tuple[list[dict[str, Any]], bytes | None]:
    return list(ledger.rows()), ledger.state()


def test_a_ddpo_campaign_goes_on_to_the_bit(config: Config, environment: Environment, tmp_path: Path) -> None:
    straight = Campaign.start(config, tmp_path / "a", environment=environment)
    straight.run()
    Campaign.start(config, tmp_path / "b", environment=environment).run(6)
    Campaign.resume(tmp_path / "b", environment=environment).run(12)
    Campaign.resume(tmp_path / "b", environment=environment).run()
    ledger = Ledger.open(tmp_path / "b")
    assert content(ledger) == content(straight.ledger)
    rows = list(ledger.rows())
    assert len(rows) == 18
    assert all(row["reward"] == pytest.approx(-0.2) for row in rows if row["included"] and not row["valid"])
    assert ledger.state_names() == ["1", "latest"]

    place = str(tmp_path / "a")
    now, kept = generator_of(place), generator_of(f"{place}:1")
    assert now.hash == straight.learner.generator.hash != kept.hash  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="keeps no generator of step 7"):
        generator_of(f"{place}:7")
    with pytest.raises(InputError, match="has a generator, not a policy"):
        load_trained(place)
    source = find_source([f"generator:{place}"])
    made = source.draw(0, 3)
    assert source.kind == "structures"
    assert made.n == 3
    only = find_source([f"compositions-of:generator:{place}"])
    assert only.kind == "compositions"
    assert only.draw(0, 3).texts("cell") == made.texts("cell")


def test_what_has_no_usable_cell_fails_and_keeps_its_row(environment: Environment) -> None:
    lattice = np.stack([4 * np.eye(3), np.full((3, 3), np.nan)])
    frac = np.tile([[0.0, 0, 0], [0.5, 0.5, 0.5]], (2, 1))
    crystals = Crystals(np.array([2, 2]), np.array([11, 17, 11, 17]), frac, lattice)
    from anchor.chemistry.composition import Compositions

    compositions = Compositions.of_atoms(crystals.owner, crystals.numbers)
    (group,) = environment.realiser([compositions], step=0, crystals=[crystals])
    assert group.outcomes.texts("status") == ["measured", "failed"]
    assert group.outcomes.texts("reason")[1] == "it was proposed without a usable cell"
    assert len(group.generated) == 1
