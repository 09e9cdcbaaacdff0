"""Policies that know how they were trained: from a campaign, from a file, from a card that says little."""

import json
import warnings
from pathlib import Path

import pytest
from typer.testing import CliRunner

from anchor.cli.main import app
from anchor.config import Config, load_config
from anchor.errors import InputError
from anchor.evaluate.sources import find_source
from anchor.evaluate.store import Store
from anchor.policy import weights
from anchor.policy.network import CompositionPolicy
from anchor.search.campaign import Campaign
from anchor.search.ledger import Ledger
from anchor.search.policies import DEFAULT_POLICY, TrainedPolicy, load_trained
from anchor.search.policy_card import save_policy

SETTINGS = [
    "run.structures=8", "run.workers=1", "grpo.group_size=8", "relax.max_steps=2",
    "reward.alpha=[5, 2, 2, 1]",
    "action_space.max_atoms=5", "action_space.elements=[Na, Mg, Al, O, Cl]", "action_space.exclude=[Al]",
    "action_space.max_counts={O: 2}", "policy.start_from=default", "prior.query=free", "prior.candidates=2",
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("run")
    Campaign.start(load_config(overrides=SETTINGS).config, path).run()
    return path


def cells(policy: TrainedPolicy) -> list[str]:
    return [str(c) for c in policy.draw(12, seed=3)]


def test_a_campaigns_policy_is_drawn_as_it_was_trained(folder: Path) -> None:
    found = load_trained(str(folder))
    assert found.weights == pytest.approx((0.5, 0.2, 0.2, 0.1))
    assert (found.config.prior.query, found.config.prior.candidates) == ("free", 2)
    drawn = found.draw(200, seed=1)
    assert {e for c in drawn for e in c.elements} == {"Na", "Mg", "O", "Cl"}
    assert drawn.n_atoms.max() <= 5
    assert all(dict(zip(c.elements, c.counts, strict=True)).get("O", 0) <= 2 for c in drawn)
    assert drawn.formulas != found.draw(200, seed=2).formulas
    assert drawn.formulas == load_trained(str(folder)).draw(200, seed=1).formulas


def test_a_saved_policy_draws_what_its_campaign_draws(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "mine.safetensors"
    save_policy(Ledger.open(folder), out, command="test")
    whole = load_trained(str(folder))
    for card in (True, False):  # beside the file, and without: the file carries the settings, too
        if not card:
            out.with_suffix(".json").unlink()
        saved = load_trained(str(out))
        assert cells(saved) == cells(whole)
        assert (saved.weights, saved.space, saved.config) == (whole.weights, whole.space, whole.config)
        assert saved.hash() == whole.hash()


def test_fixed_weights_of_the_training_are_those_of_the_evaluation() -> None:
    config = load_config(overrides=["reward.weights=[0.7, 0.1, 0.1, 0.1]"]).config
    assert TrainedPolicy("x", CompositionPolicy(), config, ("Na", "Cl")).weights == (0.7, 0.1, 0.1, 0.1)


def test_the_shipped_policys_card_says_everything() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        shipped = load_trained("default")
    assert shipped.weights == pytest.approx((1 / 3, 1 / 3, 1 / 6, 1 / 6))  # fitted with α = (2, 2, 1, 1)
    assert "Pm" not in shipped.elements
    assert shipped.network.informed
    prior = shipped.config.prior
    assert (prior.name, prior.query, prior.candidates) == ("templates-all", "free", 2)
    assert shipped.config.relax.potential == "mattersim-1m"


def test_a_card_that_says_little_is_believed_and_the_rest_is_named(tmp_path: Path) -> None:
    file = tmp_path / "old.safetensors"
    file.write_bytes(weights.save(load_trained("default").network))  # without settings of its own
    card = json.loads(DEFAULT_POLICY.with_suffix(".json").read_text())
    del card["config"]["action_space"], card["config"]["relax"]
    file.with_suffix(".json").write_text(json.dumps(card))
    with pytest.warns(UserWarning, match="says nothing about action_space, relax: defaults are taken"):
        found = load_trained(str(file))
    assert cells(found) == cells(load_trained("default"))
    file.with_suffix(".json").unlink()
    with pytest.warns(UserWarning, match="reward, action_space, prior, relax, elements"):
        bare = load_trained(str(file))
    assert bare.weights == pytest.approx((1 / 7, 4 / 7, 1 / 7, 1 / 7))
    assert "Pm" not in bare.elements


def test_a_bare_policy_with_own_objectives_can_be_drawn_from(tmp_path: Path) -> None:
    file = tmp_path / "five.safetensors"
    file.write_bytes(weights.save(CompositionPolicy(n_objectives=5)))
    with pytest.warns(UserWarning, match="says nothing"):
        found = load_trained(str(file))
    assert found.weights == pytest.approx((1 / 8, 4 / 8, 1 / 8, 1 / 8, 1 / 8))
    assert len(found.draw(3)) == 3


def test_limits_can_be_replaced_and_impossible_ones_are_refused(folder: Path) -> None:
    found = load_trained(str(folder)).within({"elements": ("Li", "O"), "max_atoms": None, "k": ("2",)})
    assert found.elements == ("Li", "O")
    assert found.space.max_atoms == 5
    assert all(set(c.elements) == {"Li", "O"} for c in found.draw(5))
    with pytest.raises(InputError, match="Li"):
        load_trained(str(folder)).within({"must_contain": ("Li",)}).draw(1)


def test_an_older_ledger_names_its_elements_by_its_settings(folder: Path) -> None:
    ledger = Ledger.open(folder)
    assert ledger.identity["elements"] == ["O", "Na", "Mg", "Cl"]
    from anchor.search.policies import searched_elements

    assert set(searched_elements(Config.from_ledger(ledger.config))) == {"O", "Na", "Mg", "Cl"}
    assert "Pm" not in searched_elements(Config())


# The commands that use them


def test_sample_and_evaluations_draw_alike(folder: Path) -> None:
    result = CliRunner().invoke(app, ["sample", str(folder), "-n", "12", "--seed", "3", "--json"])
    assert result.exit_code == 0, result.output
    expected = cells(load_trained(str(folder)))
    assert [row["cell"] for row in json.loads(result.output)] == expected
    source = find_source([str(folder)])
    assert source.draw(3, 12).texts("cell") == expected
    assert source.identity["objectives"] == pytest.approx([0.5, 0.2, 0.2, 0.1])
    assert source.identity["space"]["max_atoms"] == 5


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], ("templates-all", "free", 2)),
        (["--query", "cell"], ("templates-all", "cell", 2)),
        (["--candidates", "1", "--prior", "templates"], ("templates", "free", None)),
    ],
)
def test_an_evaluation_asks_as_the_campaign_asked(
    folder: Path, tmp_path: Path, given: list[str], expected: tuple[str, str, int | None]
) -> None:
    command = ["evaluate", str(folder), "-n", "3", "--seeds", "1", "--potential", "mattersim-1m"]
    command += ["--max-steps", "0", "--workers", "1", "--out", str(tmp_path / "out"), "--json"]
    result = CliRunner().invoke(app, [*command, *given])
    assert result.exit_code == 0, (result.output, result.exception)
    assert json.loads(result.stdout)["read"]["with_crystal"] == 3
    asked = Store(tmp_path / "out").settings["prior"]
    assert (asked["name"], asked["query"], asked.get("candidates")) == expected
