"""The study of learning alone: its reward by hand, what is possible at all, and that it learns."""

import json

import numpy as np
import pytest
from pymatgen.core import Composition as PymatgenComposition

from anchor.chemistry.composition import Compositions
from anchor.chemistry.elements import INDEX
from anchor.config import load_config
from anchor.policy.rollout import Context
from anchor.studies import neutrality
from anchor.studies.neutrality import NeutralityReward, interval, neutral_pairs, run

CONTEXT = Context(np.full(4, 0.25), np.ones(84, dtype=bool))


def test_reward_by_hand() -> None:
    score = NeutralityReward(count_bonus=1.0, invalid=-0.2)
    first = score(Compositions.from_list(["Li2O", "Li7O", "NaCl", "Na2Cl2"]), CONTEXT)
    # NaCl was proposed twice in this group; both see the final count.
    np.testing.assert_allclose(first.reward, [2, -0.2, 1 + 0.5**0.5, 1 + 0.5**0.5])
    second = score(Compositions.from_list(["NaCl", "Li7O"]), CONTEXT)
    np.testing.assert_allclose(second.reward, [1 + 3**-0.5, -0.2])
    assert score.counts == {"Li2O": 1, "NaCl": 3}


@pytest.mark.parametrize(("a", "b"), [("Li", "O"), ("Li", "Na"), ("U", "N"), ("Al", "Mg"), ("F", "O")])
def test_neutral_pairs_against_pymatgen(a: str, b: str) -> None:
    expected = any(
        bool(PymatgenComposition({a: n, b: m}).oxi_state_guesses()) for n in range(1, 5) for m in range(1, 5)
    )
    assert neutral_pairs()[INDEX[a], INDEX[b]] == neutral_pairs()[INDEX[b], INDEX[a]] == expected


def test_interval_is_wilsons() -> None:
    p, n, z = 0.9, 100, 1.959964
    centre, half = p + z * z / (2 * n), z * (p * (1 - p) / n + z * z / (4 * n * n)) ** 0.5
    scale = 1 + z * z / n
    assert interval(90, 100) == pytest.approx(((centre - half) / scale, (centre + half) / scale), rel=1e-5)


def test_it_learns_neutrality_in_a_small_space() -> None:
    overrides = [
        "policy.state_dim=8", "policy.hidden_dim=32", "policy.element_embedding=8",
        "grpo.learning_rate=3e-3", "reward.count_bonus=0",
        "action_space.elements=[Li, Na, K, Mg, O, S, F, Cl]",
    ]  # fmt: skip
    result = run(load_config(overrides=overrides).config, structures=3200, window=800, evaluations=50)
    start, end = result["start"], result["end"]
    assert [point["structures"] for point in result["curve"]] == [800, 1600, 2400, 3200]
    assert end["neutral"] > 2 * start["neutral"]
    assert start["n"] == end["n"] == 500
    for point in result["curve"]:
        assert point["neutral"] <= point["neutral_possible"] <= point["n"] == 800


def test_command_writes_curve_and_picture(tmp_path, monkeypatch, capsys) -> None:
    arguments = [
        "neutrality",
        "--structures",
        "64",
        "--out",
        str(tmp_path / "curve"),
        "--set",
        "policy.hidden_dim=8",
    ]
    monkeypatch.setattr("sys.argv", arguments)
    neutrality.main()
    summary = json.loads(capsys.readouterr().out)
    curve = json.loads((tmp_path / "curve.json").read_text())
    assert summary["structures"] == curve["structures"] == 64
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
