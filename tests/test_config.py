"""The configuration tree: the paper's values, layering, and errors that name the way out."""

from pathlib import Path

import pytest
import yaml

from anchor.config import Config, describe_fields, load_config
from anchor.errors import InputError


def test_defaults_are_the_papers_tables() -> None:
    config = Config()
    assert (config.grpo.group_size, config.grpo.epochs, config.grpo.clip) == (32, 2, 0.2)  # tab:hparams
    assert (config.grpo.advantage_std_floor, config.grpo.learning_rate) == (0.05, 1e-4)
    assert config.action_space.k == (2, 3, 4)
    assert (config.action_space.max_atoms, config.action_space.max_atoms_per_element) == (20, 12)
    assert (config.policy.state_dim, config.policy.hidden_dim, config.policy.element_embedding) == (
        32,
        256,
        32,
    )
    assert (config.entropy.base, config.entropy.minimum, config.entropy.maximum) == (7.5e-3, 2e-3, 2.5e-2)
    assert (config.entropy.target, config.entropy.deadband, config.entropy.gain) == (0.85, 0.03, 3.0)
    assert (config.entropy.warmup, config.entropy.warm_start, config.entropy.decay_start) == (0.02, 0.5, 1.0)
    assert config.reward.alpha == (1, 4, 1, 1)
    assert (config.reward.count_bonus, config.reward.invalid) == (1.0, -0.2)
    novelty = config.novelty  # tab:novelty-hparams
    assert (novelty.r_max, novelty.n_bins, novelty.k_nn) == (7.0, 80, 10)
    assert (novelty.bootstrap, novelty.history_cap) == (0.75, 20)
    assert (config.gate.bond_tolerance, config.gate.fallback_distance) == (0.2, 1.2)
    assert (config.ddpo.learning_rate, config.ddpo.batch_size, config.ddpo.clip) == (5e-6, 16, 0.05)


def test_every_value_is_described() -> None:
    fields = list(describe_fields())
    assert len(fields) > 60
    assert all(description for _, _, description in fields)


def test_later_layers_win_and_are_named(tmp_path: Path) -> None:
    file = tmp_path / "my.yaml"
    file.write_text("grpo: {group_size: 8, epochs: 4}\nrelax: {fmax: 1e-2}\n")
    loaded = load_config(file, preset="paper", overrides=["grpo.group_size=16", "entropy.base=5e-3"])
    assert loaded.config.grpo.group_size == 16
    assert loaded.config.grpo.epochs == 4
    assert loaded.config.relax.fmax == 0.01
    assert loaded.config.entropy.base == 5e-3
    assert loaded.sources["grpo.group_size"] == "--set"
    assert loaded.sources["grpo.epochs"] == "my.yaml"
    assert loaded.sources["relax.optimizer"] == "preset paper"


def test_description_reads_back_to_the_same_config(tmp_path: Path) -> None:
    loaded = load_config(preset="paper", overrides=["action_space.max_counts={O: 8}", "run.seed=7"])
    file = tmp_path / "effective.yaml"
    file.write_text(loaded.describe())
    assert load_config(file).config == loaded.config
    assert yaml.safe_load(loaded.describe())["run"]["seed"] == 7


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("grpo.group_sise=16", "did you mean 'group_size'"),
        ("gropo.clip=0.1", "did you mean 'grpo'"),
        ("grpo.clip=3", "less than 1"),
        ("grpo.group_size=many", "grpo.group_size"),
        ("grpo=3", "section.name=value"),
        ("action_space.k=[5]", "subset of 2, 3, 4"),
        ("action_space.must_contain=[Li, O, F, Cl, Br]", "do not fit"),
        ("entropy.minimum=0.5", "does not hold"),
        ("reward.weights=[1, 0]", "2 weights for 4"),
        ("run.seed=[1", "not readable"),
    ],
)
def test_bad_values_name_cause_and_way_out(override: str, expected: str) -> None:
    with pytest.raises(InputError) as error:
        load_config(overrides=[override])
    assert expected in str(error.value)


@pytest.mark.parametrize("content", ["grpo: [1, 2]", "- a list", "a: {b: c", "nothing: 1"])
def test_bad_files_are_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(content)
    with pytest.raises(InputError):
        load_config(file)


def test_missing_file_and_preset() -> None:
    with pytest.raises(InputError, match="no config file"):
        load_config("nowhere.yaml")
    with pytest.raises(InputError, match="unknown preset"):
        load_config(preset="papre")
