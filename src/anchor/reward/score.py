"""ScoreGroup of Algorithm 1: from a group's relaxed crystals to its rewards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pymatgen.core import Structure

from anchor.chemistry.composition import Compositions
from anchor.config import Novelty as NoveltyConfig
from anchor.config import Reward as RewardConfig
from anchor.matching.flags import StructureFlags
from anchor.outcomes.columns import ABOVE
from anchor.outcomes.table import Outcomes
from anchor.reward.diversity import comp_kernel, diversity, struct_kernel
from anchor.reward.novelty import EmbeddingIndex, History, adaptive_novelty
from anchor.reward.objectives import Objective
from anchor.reward.stability import stability_score

BUILT_IN = ("stability", "novelty", "d_struct", "d_comp")
"""Names of the paper's four objectives, in the order of w and m."""


def count_bonus(n_f: ArrayLike, scale: float = 1.0) -> NDArray[np.float64]:
    """λ_c / sqrt(max(n_f, 1)), the last term of eq:reward.

    Args:
        n_f: Valid generations of the formula so far in the run, this group included.  # [n]
        scale: λ_c.
    """
    return scale / np.sqrt(np.maximum(np.asarray(n_f, dtype=np.float64), 1.0))


def reward(
    objectives: NDArray[np.float64],
    weights: NDArray[np.float64],
    valid: NDArray[np.bool_],
    bonus: NDArray[np.float64],
    invalid: float = -0.2,
) -> NDArray[np.float64]:
    """r(c) of eq:reward: m·w plus the count bonus for valid candidates, r_inv for the others.

    Args:
        objectives: m(c), each in [0, 1]; rows of invalid candidates are not read.  # [n, n_objectives]
        weights: w, on the simplex.  # [n_objectives]
        valid: Passed the gate.  # [n]
        bonus: Count bonus.  # [n]
        invalid: r_inv.
    """
    return np.where(valid, np.where(valid[:, None], objectives, 0.0) @ weights + bonus, invalid)


@dataclass
class Memory:
    """What a campaign remembers between groups: found structures and counts of valid formulas."""

    history: History = field(default_factory=History)
    counts: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class GroupScores:
    """Everything scoring decided, one row per composition; NaN where a term was not computed.

    Attributes:
        formulas: Reduced formulas.
        valid: Passed the gate and was relaxed.  # [G]
        include: Takes part in the group's mean, spread and update.  # [G]
        objectives: m(c): stability, novelty, d_struct, d_comp, own objectives.  # [G, n_objectives]
        novelty_reference: CAN against the reference.  # [G]
        novelty_history: CAN against the history.  # [G]
        branch: Which rule decided novelty ('' if none did).  # [G]
        n_f: Count of the formula after the group.  # [G]
        bonus: Count bonus.  # [G]
        reward: r(c); NaN for excluded candidates.  # [G]
    """

    formulas: list[str]
    valid: NDArray[np.bool_]
    include: NDArray[np.bool_]
    objectives: NDArray[np.float64]
    novelty_reference: NDArray[np.float64]
    novelty_history: NDArray[np.float64]
    branch: list[str]
    n_f: NDArray[np.int64]
    bonus: NDArray[np.float64]
    reward: NDArray[np.float64]


@dataclass(frozen=True)
class GroupScorer:
    """Scores groups under one configuration; the memory it is given grows with every group.

    Attributes:
        index: Fixed novelty reference.
        struct_bandwidth: Bandwidth of K_struct.
        novelty: Novelty settings.
        settings: Reward settings.
        objectives: Own objectives, in the order of `settings.objectives`.
        flags: Binary novelty and creativity; needed for those novelty modes only.
    """

    index: EmbeddingIndex
    struct_bandwidth: float
    novelty: NoveltyConfig
    settings: RewardConfig
    objectives: Sequence[Objective] = ()
    flags: StructureFlags | None = None

    def score(
        self,
        compositions: Compositions,
        outcomes: Outcomes,
        embeddings: NDArray[np.float64],
        weights: NDArray[np.float64],
        memory: Memory,
    ) -> GroupScores:
        """ScoreGroup of Algorithm 1: stability, novelty in sampling order, diversity, reward.

        Args:
            compositions: The group's actions.  # G
            outcomes: As the judge left them, gate included; "not scored" is not the composition's fault (no
                reference energy, a fault of the machine): no reward.  # G rows, m crystals
            embeddings: RDF embeddings of the crystals.  # [m, n_bins]
            weights: w.
            memory: Grows.
        """
        size, member = len(compositions), outcomes.at
        formulas = compositions.formulas
        excluded = (outcomes["status"] == "not scored").filled(False)
        valid = outcomes.flags("valid") & ~excluded

        terms = np.full((size, len(BUILT_IN) + len(self.objectives)), np.nan)
        terms[member, 0] = stability_score(outcomes.numbers(ABOVE)[member], self.settings.stability_width)
        novelty = self._novelty(formulas, valid, outcomes, embeddings, memory)
        terms[:, 1] = novelty.value
        terms[member, 2] = diversity(struct_kernel(embeddings, self.struct_bandwidth))
        terms[:, 3] = diversity(comp_kernel(compositions))
        chosen = np.flatnonzero(valid[member])
        structures = outcomes.crystals[chosen].to_structures() if self.objectives else []
        for column, objective in enumerate(self.objectives, start=len(BUILT_IN)):
            terms[member[chosen], column] = objective(structures)

        # Siblings of one formula all see the final count: the bonus comes after the whole group.
        n_f = np.array([memory.counts[formula] for formula in formulas])
        bonus = np.where(valid, count_bonus(n_f, self.settings.count_bonus), np.nan)
        value = reward(terms, weights, valid, bonus, self.settings.invalid)
        return GroupScores(
            formulas=formulas,
            valid=valid,
            include=~excluded,
            objectives=terms,
            novelty_reference=novelty.against_reference,
            novelty_history=novelty.against_history,
            branch=novelty.branch,
            n_f=n_f,
            bonus=bonus,
            reward=np.where(excluded, np.nan, value),
        )

    def _novelty(
        self,
        formulas: list[str],
        valid: NDArray[np.bool_],
        outcomes: Outcomes,
        embeddings: NDArray[np.float64],
        memory: Memory,
    ) -> _GroupNovelty:
        """Score valid members in sampling order; each raises its formula's count and joins the history."""
        result = _GroupNovelty.empty(len(formulas))
        settings, earlier = self.novelty, list[tuple[str, Structure]]()
        for row, i in enumerate(outcomes.at.tolist()):
            if not valid[i]:
                continue
            formula, z = formulas[i], embeddings[row]
            score = adaptive_novelty(
                formula,
                z,
                self.index,
                memory.history,
                k_nn=settings.k_nn,
                bootstrap=settings.bootstrap,
                sigma_floor=settings.sigma_floor,
            )
            memory.counts[formula] += 1
            memory.history.append(formula, z)
            result.against_reference[i], result.against_history[i] = (
                score.against_reference,
                score.against_history,
            )
            result.branch[i] = score.branch
            if settings.mode == "adaptive":
                result.value[i] = score.value
            elif settings.mode == "fixed":
                known = not np.isnan(score.against_reference)
                result.value[i] = score.against_reference if known else settings.bootstrap
            else:
                assert self.flags is not None, "novelty modes 'binary' and 'creativity' need structure flags"
                structure = outcomes.crystals[row].to_structures()[0]
                siblings = [s for f, s in earlier if f == formula]
                measure = self.flags.binary if settings.mode == "binary" else self.flags.creativity
                result.value[i] = measure(formula, structure, siblings)
                earlier.append((formula, structure))
        return result


@dataclass(frozen=True)
class _GroupNovelty:
    value: NDArray[np.float64]
    against_reference: NDArray[np.float64]
    against_history: NDArray[np.float64]
    branch: list[str]

    @classmethod
    def empty(cls, size: int) -> _GroupNovelty:
        return cls(np.full(size, np.nan), np.full(size, np.nan), np.full(size, np.nan), [""] * size)
