"""A real small campaign: template prior, MatterSim-1M, DFT hull. Killed and resumed, it is the same."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anchor.config import Config, load_config
from anchor.errors import AnchorError, InputError
from anchor.executors import Inline, Processes
from anchor.outcomes.columns import ABOVE
from anchor.priors import Prior
from anchor.search.campaign import Campaign
from anchor.search.environment import Environment
from anchor.search.finds import refine
from anchor.search.ledger import Ledger, decode_crystal
from anchor.search.outputs import write_outputs
from anchor.search.policies import load_trained

SETTINGS = [
    "run.structures=32", "run.workers=1", "run.seed=3", "run.keep_policy_every=2", "grpo.group_size=8",
    "relax.max_steps=4", "action_space.max_atoms=6", "action_space.k=[2]",
    "action_space.elements=[Na, Mg, O, F, Cl]",
]  # fmt: skip


@pytest.fixture(scope="module")
def config() -> Config:
    return load_config(overrides=SETTINGS).config


@pytest.fixture(scope="module")
def environment(config: Config) -> Environment:
    return Environment.load(config)


@pytest.fixture(scope="module")
def finished(config: Config, environment: Environment, tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    campaign = Campaign.start(config, tmp_path_factory.mktemp("run"), environment=environment)
    campaign.run()
    return campaign


def content(ledger: Ledger) -> tuple[list[dict[str, Any]], list[dict[str, Any]], bytes | None]:
    """Everything that must not depend on how a campaign was run: all but the clock."""
    steps = [{k: v for k, v in row.items() if k != "seconds"} for row in ledger.step_rows()]
    return list(ledger.rows()), steps, ledger.state()


def test_results_do_not_depend_on_the_number_of_processes(config: Config, tmp_path: Path) -> None:
    run = config.run.model_copy(update={"workers": 3, "structures": 16})
    several = config.model_copy(
        update={"run": run, "relax": config.relax.model_copy(update={"chunk_atoms": 12})}
    )
    alone = several.model_copy(update={"run": run.model_copy(update={"workers": 1})})
    contents = []
    for name, one, kind in (("several", several, Processes), ("alone", alone, Inline)):
        campaign = Campaign.start(one, tmp_path / name, environment=Environment.load(one))
        assert isinstance(campaign.environment.judge.relaxer._executor, kind)
        campaign.run()
        contents.append(content(campaign.ledger))
    assert contents[0] == contents[1]


def test_every_candidate_has_a_row(finished: Campaign) -> None:
    rows = list(finished.ledger.rows())
    assert [row["id"] for row in rows] == list(range(32))
    assert finished.ledger.state_names() == ["1", "3", "latest"]
    for row in rows:
        assert row["status"] in {"scored", "invalid", "not realised", "failed", "not scored"}
        assert (row["status"] == "scored") == bool(row["valid"])
        assert row["reason"] or row["valid"]
        if row["status"] == "not realised":
            assert (row["charge_ok"], row["reward"], row["relaxed"]) == (False, -0.2, None)
        if row["valid"]:
            assert decode_crystal(row["relaxed"]).formulas == [row["formula"]]
            terms = [row[name] for name in ("stability", "novelty", "d_struct", "d_comp")]
            weights = finished.ledger.step_rows()[row["step"]]["contexts"][0]["weights"]
            assert row["reward"] == pytest.approx(np.dot(weights, terms) + row["count_bonus"])
    assert sum(row["valid"] for row in rows) >= 4


def test_limits_hold_for_every_candidate(finished: Campaign) -> None:
    for row in finished.ledger.rows(["cell", "n_elements", "n_atoms"]):
        assert row["n_elements"] == 2
        assert row["n_atoms"] <= 6


def test_same_seed_same_campaign(finished: Campaign, environment: Environment, tmp_path: Path) -> None:
    """In two runs with a stop between them, too."""
    first = Campaign.start(finished.config, tmp_path, environment=environment)
    first.run(stop=lambda: first.next_step == 2)
    assert first.structures == 16
    second = Campaign.resume(tmp_path, environment=environment)
    assert second.memory.counts == first.memory.counts
    for formula in first.memory.counts:
        np.testing.assert_array_equal(
            second.memory.history.embeddings(formula), first.memory.history.embeddings(formula)
        )
    second.run()
    assert content(second.ledger) == content(finished.ledger)


def test_another_seed_is_another_campaign(
    finished: Campaign, environment: Environment, tmp_path: Path
) -> None:
    other = finished.config.model_copy(update={"run": finished.config.run.model_copy(update={"seed": 4})})
    campaign = Campaign.start(other, tmp_path, environment=environment)
    campaign.step()
    cells = [row["cell"] for row in campaign.ledger.rows(["cell"])]
    assert cells != [row["cell"] for row in finished.ledger.rows(["cell"])][:8]


def test_an_untrained_source_uses_the_same_machinery(
    config: Config, environment: Environment, tmp_path: Path
) -> None:
    """Ledger, resume and time split are those of any campaign; there is no policy to sample from."""
    policy = config.policy.model_copy(update={"source": "neutral"})
    neutral = config.model_copy(update={"policy": policy})
    whole = Campaign.start(neutral, tmp_path / "whole", environment=environment)
    whole.run(16)
    Campaign.start(neutral, tmp_path / "parts", environment=environment).run(8)
    parts = Campaign.resume(tmp_path / "parts", environment=environment)
    parts.run(16)
    assert content(parts.ledger) == content(whole.ledger)
    rows = list(whole.ledger.rows())
    assert all(row["charge_ok"] and row["log_probs"] == {} for row in rows)
    assert {row["status"] for row in rows} <= {"scored", "invalid", "failed"}
    seconds = whole.ledger.step_rows()[-1]["seconds"]
    assert 0 < seconds["potential"] < seconds["relaxation"]
    assert seconds["database"] > 0
    with pytest.raises(InputError, match="has no policy"):
        load_trained(str(tmp_path / "whole"))


def test_a_changed_part_is_noticed(finished: Campaign, environment: Environment, tmp_path: Path) -> None:
    campaign = Campaign.start(finished.config, tmp_path, environment=environment)

    class Other:
        def __getattr__(self, name: str) -> Any:
            return getattr(environment, name)

        def identity(self) -> dict[str, Any]:
            return environment.identity() | {"reference": "another"}

    with pytest.raises(AnchorError, match="reference was") as error:
        Campaign.resume(tmp_path, environment=Other())  # type: ignore[arg-type]
    assert "--accept-changes" in str(error.value)
    again = Campaign.resume(tmp_path, environment=Other(), accept_changes=True)  # type: ignore[arg-type]
    assert again.next_step == campaign.next_step


def test_finds_and_files(tmp_path: Path) -> None:
    """Ternary fluorides of a neutral source: most of them are known nowhere."""
    sets = ["action_space.k=[3]", "action_space.elements=[Na, Mg, Rb, Zn, F]", "policy.source=neutral"]
    config = load_config(overrides=[*SETTINGS, *sets, "run.structures=16"]).config
    campaign = Campaign.start(config, tmp_path, environment=Environment.load(config))
    campaign.run()
    found = refine(campaign, 2, max_steps=10)
    rows = sorted([*found.new, *found.by_standing["deep"]], key=lambda row: row[ABOVE])
    assert len(rows) == 2
    assert all(row["n_atoms"] == decode_crystal(row["crystal"]).n_atoms for row in rows)
    assert all(row["known_in"] == "" for row in rows)
    by_id = {row["id"]: row for row in campaign.ledger.rows()}
    for row in rows:
        before, after = (decode_crystal(c) for c in (by_id[row["candidate"]]["relaxed"], row["crystal"]))
        assert not np.array_equal(before.lattice, after.lattice)  # the cell was free
        hulls = {"dft", "potential", "oqmd", "mp", "union"}
        assert set(row["energy_above_each_hull_ev_per_atom"]) == hulls
        assert row["energy_above_hull_with_finds_ev_per_atom"] >= row["energy_above_hull_ev_per_atom"]
        assert row["suspicious"] == (row["depth_percentile"] > 99)
        assert row["phases_known"].startswith("OQMD ")
    files = write_outputs(campaign.ledger, tmp_path, found)
    assert len(files["metrics"].read_text().splitlines()) == 2
    others = [row for what, group in found.groups().items() if what != "find" for row in group]
    for title, group in (("finds", found.finds), ("others", others)):
        cifs = sorted(path.name for path in (tmp_path / title).glob("*.cif"))
        assert cifs == [f"{rank:02d}-{row['formula']}.cif" for rank, row in enumerate(group, start=1)]


def test_a_prior_that_learns_is_noticed(config: Config, environment: Environment, tmp_path: Path) -> None:
    class Learning(Prior):
        name, elements, max_atoms = "learning", environment.prior.elements, 20

        def __init__(self) -> None:
            self.asked = 0

        @property
        def hash(self) -> str:  # type: ignore[override]
            return str(self.asked)

        def draw(self, requests: Any) -> Any:
            self.asked += 1
            return environment.prior.draw(requests)

    learning = Learning()
    realiser = replace(environment.realiser, prior=learning)
    changed = replace(environment, prior=learning, realiser=realiser)
    with pytest.raises(AnchorError, match="the prior changed"):
        Campaign.start(config, tmp_path, environment=changed).run(8)


def test_what_is_not_learned_is_named(environment: Environment, tmp_path: Path) -> None:
    def told(folder: str, *overrides: str) -> list[str]:
        config = load_config(overrides=[*SETTINGS, *overrides]).config
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            Campaign.start(config, tmp_path / folder, environment=environment)
        return [str(w.message) for w in caught if "the policy that ships" in str(w.message)]

    assert "policy.start_from=default" in told("small")[0]
    assert not told("paper", "run.structures=100000")
    assert not told("shipped", "policy.start_from=default")
    assert not told("neutral", "policy.source=neutral")
    own = ["reward.objectives=[anchor.chemistry.charge:is_neutral]", "reward.alpha=[1,1,1,1,1]"]
    assert "own objectives are scored" in told("own", "policy.source=neutral", *own)[0]


def test_impossible_requests_are_refused(environment: Environment, tmp_path: Path) -> None:
    bad = load_config(overrides=[*SETTINGS, "policy.start_from=nowhere.safetensors"]).config
    with pytest.raises(InputError, match="no policy file"):
        Campaign.start(bad, tmp_path, environment=environment)


def test_sigkill_at_random_moments_changes_nothing(finished: Campaign, tmp_path: Path) -> None:
    """A process that is killed again and again, and resumed, leaves the ledger of one that never was.

    The killed processes are given a budget without end, so that none of them can be done before its kill,
    however fast the machine; moments are fractions of what this machine just took, never seconds.
    """
    command = [sys.executable, "-m", "anchor.cli.main"]
    endless = 1_000_000
    sets = [part for setting in [*SETTINGS, f"run.structures={endless}"] for part in ("--set", setting)]
    search = [*command, "search", "--preset", "default", "--out", str(tmp_path), "--finds", "0", *sets]
    resume = [*command, "resume", str(tmp_path), "--finds", "0"]
    quiet = {"env": {**os.environ, "OMP_NUM_THREADS": "1"}, "stdout": subprocess.DEVNULL}
    step_seconds = [sum(row["seconds"].values()) for row in finished.ledger.step_rows()]
    moments, start_up_seconds = random.Random(0), 0.0
    for moment in ("in a step", "at start-up", "in a step", "at start-up", "in a step"):
        before = steps_stored(tmp_path)
        process = subprocess.Popen(search if before is None else resume, stderr=subprocess.PIPE, **quiet)
        clock = time.monotonic()
        if moment == "at start-up":
            time.sleep(moments.uniform(0.0, 1.0) * start_up_seconds)
        else:  # one step further, then at any moment of the next one
            while process.poll() is None and (steps_stored(tmp_path) or 0) == (before or 0):
                time.sleep(0.01)
            start_up_seconds = time.monotonic() - clock
            time.sleep(moments.uniform(0.0, 1.0) * moments.choice(step_seconds))
        process.send_signal(signal.SIGKILL)
        errors = process.communicate()[1].decode()
        assert process.returncode == -signal.SIGKILL, errors
    done = subprocess.run([*resume, "-n", str(finished.structures)], stderr=subprocess.PIPE, **quiet)
    assert done.returncode == 0, done.stderr.decode()

    killed = Ledger.open(tmp_path)
    assert killed.n_steps >= finished.next_step  # a slow poll may let a killed process take a step more
    rows, steps, _ = content(killed)
    whole_rows, whole_steps, latest = content(finished.ledger)
    assert rows[: len(whole_rows)] == whole_rows
    assert steps[: len(whole_steps)] == whole_steps
    assert killed.state(str(finished.next_step - 1)) == latest


def test_sigterm_finishes_the_step_and_says_how_to_go_on(tmp_path: Path) -> None:
    sets = [part for setting in [*SETTINGS, "run.structures=1000000"] for part in ("--set", setting)]
    search = [
        sys.executable,
        "-m",
        "anchor.cli.main",
        "search",
        "--preset",
        "default",
        "--out",
        str(tmp_path),
    ]
    process = subprocess.Popen(
        [*search, "--finds", "0", *sets], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    while process.poll() is None and not steps_stored(tmp_path):
        time.sleep(0.05)
    process.terminate()
    output = process.communicate()[0]
    assert process.returncode == 0, output
    assert f"go on with: anchor resume {tmp_path}" in output
    assert Ledger.open(tmp_path).n_candidates % 8 == 0


def steps_stored(folder: Path) -> int | None:
    """Steps in a ledger that another process may be writing; None while there is no ledger."""
    try:
        return Ledger.open(folder).n_steps
    except AnchorError:
        return None


def test_a_campaign_that_went_on_elsewhere_is_not_gone_on_with(
    config: Config, environment: Environment, tmp_path: Path
) -> None:
    first = Campaign.start(config, tmp_path, environment=environment)
    second = Campaign.resume(tmp_path, environment=environment)
    with first.ledger.alone(), pytest.raises(AnchorError, match="another process is going on"):
        Campaign.resume(tmp_path, environment=environment)
    first.run(8)
    with pytest.raises(AnchorError, match="went on from step 0, to 1"):
        second.run(16)
    assert Ledger.open(tmp_path).n_candidates == 8


def test_a_ledger_without_its_state_is_not_begun_anew(
    config: Config, environment: Environment, tmp_path: Path
) -> None:
    Campaign.start(config, tmp_path, environment=environment).run(8)
    connection = sqlite3.connect(tmp_path / "ledger.db")
    with connection:
        connection.execute("DELETE FROM states")
    connection.close()
    with pytest.raises(AnchorError, match="1 steps and no state"):
        Campaign.resume(tmp_path, environment=environment)
