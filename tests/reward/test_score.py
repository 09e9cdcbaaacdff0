"""ScoreGroup of Algorithm 1 on small groups worked by hand."""

import numpy as np
import pytest
from pymatgen.core import Lattice, Structure

from anchor.chemistry.composition import Compositions
from anchor.config import Novelty, Reward
from anchor.crystals.crystals import Crystals
from anchor.crystals.rdf import rdf_embedding
from anchor.gates.paper import PaperGate, bond_thresholds
from anchor.matching.flags import StructureFlags
from anchor.outcomes.checks import Checks
from anchor.outcomes.table import Outcomes
from anchor.reference.bonds import BondTable
from anchor.reward.diversity import comp_kernel, diversity, struct_kernel
from anchor.reward.novelty import History
from anchor.reward.objectives import load_objective
from anchor.reward.score import GroupScorer, Memory, count_bonus, reward
from anchor.reward.stability import stability_score

WEIGHTS = np.array([0.4, 0.3, 0.2, 0.1])


class NoReference:
    sigma_floor = 0.05

    def embeddings(self, _formula: str) -> np.ndarray:
        return np.zeros((0, 80))

    def bandwidth(self, _formula: str) -> float:
        return 0.0


def scorer(**changes: object) -> GroupScorer:
    settings = {
        "index": NoReference(),
        "struct_bandwidth": 0.2,
        "novelty": Novelty(),
        "settings": Reward(),
    }
    return GroupScorer(**{**settings, **changes})  # type: ignore[arg-type]


def rock_salt(formula: str, a: float = 5.0) -> Structure:
    cation, anion = Structure(
        Lattice.cubic(1), [formula[:2].rstrip(), formula[2:]], [[0] * 3, [0.5] * 3]
    ).species
    return Structure.from_spacegroup("Fm-3m", Lattice.cubic(a), [cation, anion], [[0] * 3, [0.5] * 3])


Group = tuple[Outcomes, np.ndarray]


def realise(
    structures: list[Structure],
    e_hull: list[float],
    *,
    charged: tuple[int, ...] = (),
    unrelaxed: tuple[int, ...] = (),
    excluded: tuple[int, ...] = (),
) -> Group:
    """Outcomes and embeddings of crystals as a judge leaves them."""
    n = len(structures)
    table = Outcomes.of(Crystals.from_structures(structures)).with_columns(
        status=["not scored" if i in excluded else "measured" for i in range(n)],
        energy_ev=[np.nan if i in unrelaxed else -1.0 for i in range(n)],
        energy_above_hull_ev_per_atom=e_hull,
    )
    nothing = BondTable.from_crystals(Crystals.empty())
    paper = PaperGate(bond_thresholds(np.full((119, 119), np.nan), fallback=1.2), nothing)
    table, z = Checks(paper, paper, lambda c, contacts: rdf_embedding(c, contacts=contacts))(table)
    return table.with_columns(valid=table.flags("valid") & ~np.isin(np.arange(n), charged)), z


GROUP = Compositions.from_list(["NaCl", "NaCl", "CaO", "CaS"])
STRUCTURES = [rock_salt("NaCl"), rock_salt("NaCl", 5.6), rock_salt("CaO", 4.8), rock_salt("CaS", 1.6)]
E_HULL = [0.05, 0.3, -0.1, 0.0]  # the last crystal has Ca–S at 0.8 Å: invalid


def test_small_formulas() -> None:
    assert stability_score([-0.2, 0.0, 0.25, 1.0, 7.0, np.nan]) == pytest.approx(
        [1, 1, 0.75, 0, 0, np.nan], nan_ok=True
    )
    assert count_bonus([0, 1, 4, 9], 2.0) == pytest.approx([2, 2, 1, 2 / 3])
    value = reward(
        np.array([[1, 0.5, 0, 0], [np.nan] * 4]), WEIGHTS, np.array([True, False]), np.array([1.0, np.nan])
    )
    assert value == pytest.approx([0.4 + 0.15 + 1.0, -0.2])


def test_group_by_hand() -> None:
    memory = Memory()
    scores = scorer().score(GROUP, *realise(STRUCTURES, E_HULL), WEIGHTS, memory)
    assert scores.valid.tolist() == [True, True, True, False]
    z = rdf_embedding(Crystals.from_structures(STRUCTURES))
    history = 1 - np.exp(-np.sum((z[0] - z[1]) ** 2) / (2 * 0.05**2))  # one entry: the floor is the bandwidth
    assert scores.branch == ["bootstrap", "history", "bootstrap", ""]
    assert scores.objectives[:3, 0] == pytest.approx([0.95, 0.7, 1.0])
    assert scores.objectives[:3, 1] == pytest.approx([0.75, history, 0.75])
    assert scores.objectives[:, 2] == pytest.approx(
        diversity(struct_kernel(z, 0.2))
    )  # invalid siblings count
    assert scores.objectives[:, 3] == pytest.approx(diversity(comp_kernel(GROUP)))
    assert scores.n_f.tolist() == [2, 2, 1, 0]  # both NaCl see the final count
    expected = scores.objectives[:3] @ WEIGHTS + 1 / np.sqrt([2, 2, 1])
    assert scores.reward == pytest.approx([*expected, -0.2])
    assert memory.counts == {"NaCl": 2, "CaO": 1}
    assert len(memory.history) == 3


def test_memory_lasts_across_groups() -> None:
    memory, engine = Memory(), scorer()
    engine.score(GROUP, *realise(STRUCTURES, E_HULL), WEIGHTS, memory)
    again = engine.score(GROUP, *realise(STRUCTURES, E_HULL), WEIGHTS, memory)
    assert again.n_f.tolist() == [4, 4, 2, 0]
    assert again.objectives[2, 1] == 0.0  # CaO again: the history holds only that structure


def test_order_of_siblings_changes_only_what_algorithm_1_says() -> None:
    flip = np.array([1, 0, 2, 3])
    one = scorer().score(GROUP, *realise(STRUCTURES, E_HULL), WEIGHTS, Memory())
    two = scorer().score(
        GROUP[flip], *realise([STRUCTURES[i] for i in flip], [E_HULL[i] for i in flip]), WEIGHTS, Memory()
    )
    same = [0, 2, 3]  # stability and both diversities
    assert two.objectives[:, same] == pytest.approx(one.objectives[flip][:, same])
    assert two.bonus == pytest.approx(one.bonus[flip], nan_ok=True)
    assert two.objectives[:2, 1] == pytest.approx(
        one.objectives[:2, 1]
    )  # whoever comes first gets the bootstrap


def test_invalid_penalty_does_not_see_the_weights() -> None:
    for weights in np.random.default_rng(0).dirichlet([1, 4, 1, 1], size=5):
        scores = scorer().score(GROUP, *realise(STRUCTURES, E_HULL), weights, Memory())
        assert scores.reward[3] == -0.2


def test_charge_and_relaxation_failures_are_invalid() -> None:
    memory = Memory()
    group = realise(STRUCTURES, E_HULL, charged=(0,), unrelaxed=(1,))
    scores = scorer().score(GROUP, *group, WEIGHTS, memory)
    assert scores.valid.tolist() == [False, False, True, False]
    assert scores.reward[:2].tolist() == [-0.2, -0.2]
    assert memory.counts == {"CaO": 1}


def test_fast_order_skips_what_charge_decides() -> None:
    """Unrealised members are invalid; K_struct averages over realised siblings, d_comp over all."""
    keep = np.array([0, 2, 3])
    table, z = realise([STRUCTURES[i] for i in keep], [E_HULL[i] for i in keep])
    fast = scorer().score(GROUP, table.spread(keep, 4), z, WEIGHTS, Memory())
    full = scorer().score(GROUP, *realise(STRUCTURES, E_HULL, charged=(1,)), WEIGHTS, Memory())
    assert fast.valid.tolist() == full.valid.tolist() == [True, False, True, False]
    assert np.isnan(fast.objectives[1, 2])
    assert fast.objectives[keep, 2] == pytest.approx(diversity(struct_kernel(z, 0.2)))
    assert fast.objectives[:, 3] == pytest.approx(full.objectives[:, 3])
    assert fast.objectives[[0, 2], :2] == pytest.approx(full.objectives[[0, 2], :2])


def test_excluded_candidates_leave_no_trace() -> None:
    memory = Memory()
    scores = scorer().score(GROUP, *realise(STRUCTURES, E_HULL, excluded=(2,)), WEIGHTS, memory)
    assert np.isnan(scores.reward[2])
    assert scores.include.tolist() == [True, True, False, True]
    assert memory.counts == {"NaCl": 2}
    assert "CaO" not in memory.history


def test_novelty_modes() -> None:
    repeated = [STRUCTURES[0], STRUCTURES[0], *STRUCTURES[2:]]

    def novelty(mode: str, **changes: object) -> np.ndarray:
        engine = scorer(novelty=Novelty(mode=mode), **changes)  # type: ignore[arg-type]
        return engine.score(GROUP, *realise(repeated, E_HULL), WEIGHTS, Memory()).objectives[:, 1]

    assert novelty("fixed")[:2] == pytest.approx([0.75, 0.75])  # no history: nothing is ever found
    assert novelty("adaptive")[:2] == pytest.approx([0.75, 0.0])
    flags = StructureFlags(lambda _formula: [])
    assert novelty("binary", flags=flags)[:2].tolist() == [1.0, 0.0]
    assert novelty("creativity", flags=flags)[:2] == pytest.approx([1.0, 0.0], abs=1e-6)


def test_own_objectives_join_the_vector() -> None:
    settings = Reward(alpha=(1, 4, 1, 1, 2), objectives=("low_density",))
    engine = scorer(settings=settings, objectives=[load_objective("low_density")])
    weights = np.array([0.2, 0.2, 0.2, 0.2, 0.2])
    scores = engine.score(GROUP, *realise(STRUCTURES, E_HULL), weights, Memory())
    assert scores.objectives[:3, 4] == pytest.approx([1 / (1 + s.density / 5) for s in STRUCTURES[:3]])
    assert np.isnan(scores.objectives[3, 4])
    assert scores.reward[:3] == pytest.approx(scores.objectives[:3] @ weights + scores.bonus[:3])


def test_history_cap_is_respected() -> None:
    memory = Memory(history=History(cap=2))
    for _ in range(4):
        scorer().score(GROUP[:1], *realise(STRUCTURES[:1], E_HULL[:1]), WEIGHTS, memory)
    assert len(memory.history) == 2
