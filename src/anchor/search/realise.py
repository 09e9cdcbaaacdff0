"""From compositions to scored crystals: prior, relaxation, hull. The costly part of a step."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from math import gcd
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from anchor.chemistry.composition import Composition, Compositions
from anchor.chemistry.elements import NUMBER
from anchor.config import Config
from anchor.crystals.crystals import Crystals
from anchor.errors import AnchorError
from anchor.gates.paper import check_charges
from anchor.hull.references import HullScores
from anchor.hull.score import ScoringHull
from anchor.potentials.base import Potential
from anchor.priors.base import Prior
from anchor.relax.parallel import Relaxer
from anchor.relax.result import Relaxation
from anchor.reward.score import Realisation

Status = Literal["realised", "not realised", "failed", "not scored"]

MACHINE_FAULTS = ("OutOfMemoryError", "MemoryError", "OSError", "ConnectionError", "TimeoutError")
"""Errors of an evaluation that say nothing about the crystal: such a candidate is excluded, not punished."""


@dataclass(frozen=True, eq=False)
class RealisedGroup:
    """What became of a group, in full.

    Attributes:
        realisation: What scoring needs.
        generated: Crystals as the prior gave them, the chosen one for each entry of `realisation.member`.
        relaxation: How they relaxed; its crystals are the relaxed ones.
        energies: Against every hull.
        status: Of each composition.  # [G]
        reason: Why a composition is not "realised".  # [G]
        seconds: Time by part, s; "potential" is the part of "relaxation" spent inside the potential (with
            several processes: the same share of it as of the sum of theirs).
    """

    realisation: Realisation
    generated: Crystals
    relaxation: Relaxation
    energies: HullScores
    status: list[Status]
    reason: list[str]
    seconds: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Realiser:
    """What the policy acts on: frozen prior, potential, hull. None of them ever learns from a reward."""

    prior: Prior
    relaxer: Relaxer
    hull: ScoringHull
    config: Config

    @property
    def potential(self) -> Potential:
        return self.relaxer.potential

    def __call__(self, compositions: Compositions, *, step: int, group: int) -> RealisedGroup:
        """Realise one group. A pure function of its arguments and the campaign's seed."""
        seconds: dict[str, float] = {}
        config, size = self.config, len(compositions)
        charge_ok = check_charges(compositions, config.gate.oxidation_bounds)
        status: list[Status] = ["realised"] * size
        reason = [""] * size
        excluded = np.zeros(size, dtype=bool)
        for i, composition in enumerate(compositions):
            if missing := self._without_reference(composition):
                excluded[i], status[i] = True, "not scored"
                reason[i] = f"no energy reference for {', '.join(missing)}"
            elif config.reward.order == "fast" and config.gate.name == "paper" and not charge_ok[i]:
                status[i], reason[i] = "not realised", "not charge-neutral"
        member = np.array([i for i in range(size) if status[i] == "realised"], dtype=np.int64)

        with _timed(seconds, "prior"):
            cells = [_query(compositions[int(i)], config.prior.query) for i in member]
            generated = self.prior.sample(
                cells,
                config.prior.candidates,
                seed=config.run.seed,
                stream=("structure", step, group),
                cell="free" if config.prior.query == "free" else None,
            )
        if config.prior.candidates > 1:
            generated = generated[self._lowest(generated, seconds)]
        relaxation = self._relax(generated, config.relax.max_steps, seconds)
        ended = np.isin(relaxation.status, ("converged", "capped")) & np.isfinite(relaxation.energy)
        self._refuse_if_nothing_works(relaxation, ended)
        with _timed(seconds, "hull"):
            energies = self.hull.score(
                relaxation.crystals,
                np.where(ended, relaxation.energy, np.nan),
                checkpoint_hash=self.potential.checkpoint_hash,
            )
        for row, i in enumerate(member.tolist()):
            if not ended[row]:
                why = f"relaxation {relaxation.status[row]}: {relaxation.reason[row]}".removesuffix(": ")
                excluded[i] = str(relaxation.reason[row]).startswith(MACHINE_FAULTS)
                status[i], reason[i] = "not scored" if excluded[i] else "failed", why
            elif not np.isfinite(energies.energy_above_hull[row]):
                excluded[i], status[i], reason[i] = True, "not scored", "no energy above the hull"
        realisation = Realisation(
            charge_ok, member, relaxation.crystals, ended, energies.energy_above_hull, excluded
        )
        return RealisedGroup(realisation, generated, relaxation, energies, status, reason, seconds)

    def _relax(self, crystals: Crystals, max_steps: int, seconds: dict[str, float]) -> Relaxation:
        settings = self.config.relax
        began = time.perf_counter()
        done = self.relaxer(
            crystals,
            cell=settings.cell,
            max_steps=max_steps,
            fmax=settings.fmax,
            optimizer=settings.optimizer,
            symmetry=settings.symmetry,
            chunk_atoms=settings.chunk_atoms,
        )
        wall = time.perf_counter() - began
        share = done.inside / done.seconds if done.seconds else 0.0
        for name, spent in (("relaxation", wall), ("potential", wall * share)):
            seconds[name] = seconds.get(name, 0.0) + spent
        return done.relaxation

    def _lowest(self, crystals: Crystals, seconds: dict[str, float]) -> NDArray[np.int64]:
        """Which of each composition's candidates has the lowest energy per atom as it is.  # [m]"""
        found = self._relax(crystals, 0, seconds)
        energy = np.where(np.isfinite(found.energy), found.energy_per_atom, np.inf)
        choices = energy.reshape(-1, self.config.prior.candidates)
        return np.arange(len(choices)) * choices.shape[1] + choices.argmin(axis=1)

    def _without_reference(self, composition: Composition) -> list[str]:
        return [e for e in composition.elements if NUMBER[e] not in self.hull.elements]

    def _refuse_if_nothing_works(self, relaxation: Relaxation, ended: NDArray[np.bool_]) -> None:
        """A fault of the machine, not of the crystals: the potential failed for every single one."""
        if len(ended) >= 4 and not ended.any() and all(status == "failed" for status in relaxation.status):
            raise AnchorError(
                f"the potential {self.potential.name} failed for all {len(ended)} crystals of a group, "
                f"first: {relaxation.reason[0]}",
                f"see: anchor potentials check {self.potential.name}; the campaign can be resumed afterwards",
            )


def _query(composition: Composition, kind: Literal["cell", "reduced", "free"]) -> Composition:
    """What the prior is asked for: the cell as proposed, or one formula unit."""
    if kind != "reduced":
        return composition
    divisor = gcd(*composition.counts)
    return Composition(composition.elements, tuple(n // divisor for n in composition.counts))


class _timed:
    """Adds the wall time of a block to `seconds[name]`."""

    def __init__(self, seconds: dict[str, float], name: str) -> None:
        self._seconds, self._name = seconds, name

    def __enter__(self) -> None:
        self._start = time.perf_counter()

    def __exit__(self, *_error: object) -> None:
        self._seconds[self._name] = self._seconds.get(self._name, 0.0) + time.perf_counter() - self._start
