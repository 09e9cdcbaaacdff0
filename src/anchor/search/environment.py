"""Everything frozen that a campaign uses: reference, prior, potential, hull, reward and limits."""

from __future__ import annotations

import hashlib
import platform
from dataclasses import dataclass
from functools import partial
from importlib import metadata as packages
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import anchor
from anchor.config import Config
from anchor.crystals.crystals import Crystals
from anchor.crystals.rdf import N_BINS, R_MAX, rdf_embedding
from anchor.errors import InputError
from anchor.gates.lemat import LematGate
from anchor.gates.paper import bond_thresholds
from anchor.hull.references import load_hull
from anchor.matching.flags import StructureFlags
from anchor.policy.constraints import Limits
from anchor.potentials.base import Potential
from anchor.potentials.registry import load_potential
from anchor.priors import Prior, load_prior
from anchor.reference.bonds import radius_floor
from anchor.reference.index import RdfIndex
from anchor.reference.reference import Reference, load_reference
from anchor.relax.parallel import Relaxer
from anchor.reward.objectives import load_objective
from anchor.reward.score import GroupScorer
from anchor.search.realise import Realiser


@dataclass(frozen=True)
class Environment:
    """Everything frozen that a campaign uses, loaded once."""

    reference: Reference
    prior: Prior
    potential: Potential
    realiser: Realiser
    scorer: GroupScorer
    limits: Limits
    threads: int

    @classmethod
    def load(
        cls, config: Config, *, potential: Potential | None = None, prior: Prior | None = None
    ) -> Environment:
        """Load what the config names; threads are pinned because they change floating-point sums."""
        threads = config.run.threads or 1
        torch.set_num_threads(threads)
        reference = load_reference()
        # A potential that is given has no name to load it by in another process.
        workers = 1 if potential is not None else config.run.workers
        potential = potential or load_potential(config.relax.potential, device=config.run.device)
        prior = prior or load_prior(config.prior.name, device=config.run.device)
        if config.hull.kind == "alex-mp":
            raise InputError(
                "hull.kind 'alex-mp' is for evaluations",
                "campaigns use union, dft or potential on the bundled reference",
            )
        hull = load_hull(potential, config.hull.kind)
        searchable = None if config.action_space.allow_loose_references else hull.searchable_elements
        limits = Limits.from_config(config.action_space, searchable=searchable)
        scorer = make_scorer(config, reference)
        realiser = Realiser(prior, Relaxer(potential, workers=workers, threads=threads), hull, config)
        return cls(reference, prior, potential, realiser, scorer, limits, threads)

    def identity(self) -> dict[str, Any]:
        """What decides a campaign's numbers beside its config."""
        return {
            "anchor": anchor.__version__,
            "code": code_hash(),
            "reference": self.reference.hash,
            "prior": {"name": self.prior.name, "hash": self.prior.hash},
            "potential": {"name": self.potential.name, "hash": self.potential.checkpoint_hash},
            "hull": self.realiser.hull.identity.hash,
            "threads": self.threads,
            "python": platform.python_version(),
            "packages": {
                name: packages.version(name) for name in ("torch", "numpy", "pymatgen", "ase", "spglib")
            },
        }


def make_scorer(config: Config, reference: Reference) -> GroupScorer:
    """The reward of a config on a reference."""
    gate, novelty = config.gate, config.novelty
    fallback: float | NDArray[np.float64] = gate.fallback_distance
    if gate.fallback == "radii":
        fallback = radius_floor()
    flags = None
    if novelty.mode in ("binary", "creativity"):
        flags = StructureFlags(
            lambda formula: reference.crystals[np.flatnonzero(reference.formulas == formula)].to_structures()
        )
    embed = partial(_embed, r_max=novelty.r_max, n_bins=novelty.n_bins, primitive=novelty.primitive)
    index = reference.rdf
    if (novelty.r_max, novelty.n_bins, novelty.primitive) != (R_MAX, N_BINS, False):  # not what is bundled
        index = RdfIndex(embed(reference.crystals), reference.formulas.tolist())
    return GroupScorer(
        thresholds=bond_thresholds(reference.bonds.minimum, tolerance=gate.bond_tolerance, fallback=fallback),
        index=index,
        embed=embed,
        struct_bandwidth=config.reward.struct_bandwidth or index.struct_bandwidth,
        novelty=novelty,
        settings=config.reward,
        objectives=[load_objective(name) for name in config.reward.objectives],
        flags=flags,
        gate=LematGate() if gate.name == "lemat" else None,
    )


def code_hash() -> str:
    """SHA-256 over the Python files that decide a campaign's numbers."""
    digest = hashlib.sha256()
    root = Path(anchor.__file__).parent
    for path in sorted(root.rglob("*.py")):
        if path.relative_to(root).parts[0] not in {"cli", "report", "evaluate", "studies"}:
            digest.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return digest.hexdigest()


def _embed(crystals: Crystals, *, r_max: float, n_bins: int, primitive: bool) -> NDArray[np.float64]:
    if primitive:
        crystals = Crystals.from_structures([s.get_primitive_structure() for s in crystals.to_structures()])
    return rdf_embedding(crystals, r_max=r_max, n_bins=n_bins)
