"""Everyday use in one line each: pymatgen, ASE, file names or lists of them in, tables and crystals out.

    import anchor

    anchor.relax(structure)                          # positions and cell
    anchor.energy_above_hull("candidates/*.cif")     # relaxed, on both DFT hulls
    anchor.predict("Li2FeSiO4")                      # crystals for a formula, lowest first
    anchor.search(elements="Na Mn P O", n=500)       # new crystals
    anchor.evaluate(structures, protocol="mattergen", out="eval/mine")
    anchor.verify(structures)                        # attacks: other structures, other potentials, …

What comes back prints itself as a table, and converts: `.to_pandas()`, `.to_structures()`, `.to_atoms()`,
`.write("file.extxyz")`. In a notebook `found[0].view()` shows a crystal, `found.plot()` the campaign.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from ase import Atoms
from pymatgen.core import Structure

from anchor.config import load_config
from anchor.crystals.crystals import Crystals
from anchor.crystals.symmetry import space_group
from anchor.errors import InputError
from anchor.evaluate.registry import load_protocol
from anchor.evaluate.run import evaluate as run_evaluation
from anchor.evaluate.sources import given_crystals
from anchor.formats import load
from anchor.hull import load_hull
from anchor.matching.uniqueness import first_structures
from anchor.outcomes.columns import ABOVE, ENERGY, FORMATION, above
from anchor.outcomes.judge import Judge, Relaxing
from anchor.outcomes.rows import each_hull
from anchor.potentials import load_potential
from anchor.priors import load_prior
from anchor.relax.parallel import Relaxer
from anchor.results import Found, Results, read_found
from anchor.search.campaign import Campaign
from anchor.search.finds import refine
from anchor.search.ledger import Ledger

if TYPE_CHECKING:
    from anchor.evaluate.outputs import FinishedEvaluation
    from anchor.verify.run import Record

One: TypeAlias = Structure | Atoms | Crystals | str | PathLike[str]
Structures: TypeAlias = One | Sequence[One]
POTENTIAL = "mattersim-1m"
"""The potential of searches: what they find and what is asked here are on one scale."""
ACCEPTED = "give pymatgen structures, ASE atoms, file names, or lists of them"


def relax(
    structures: Structures,
    *,
    potential: str = POTENTIAL,
    cell: bool = True,
    max_steps: int = 400,
    fmax: float = 0.02,
    workers: int | None = None,
    device: str = "cpu",
) -> Results:
    """Relaxed structures with their energies, eV and eV/atom; one that fails says why.

    Args:
        structures: pymatgen, ASE, file names (`*` allowed), or lists of them.
        potential: As in `anchor potentials list`.
        cell: Relax the cell too.
        max_steps, fmax: When to stop; fmax in eV/Å.
        workers: Processes; None: one for each core.
    """
    ids, crystals = as_crystals(structures)
    relaxer = Relaxer(load_potential(potential, device=device), workers=workers)
    found = relaxer(crystals, cell=cell, max_steps=max_steps, fmax=fmax).relaxation
    rows = [
        {
            "id": name,
            "formula": formula,
            "relaxation": str(status),
            "energy_ev": float(energy),
            "energy_ev_per_atom": float(per_atom),
            "steps": int(steps),
            "reason": reason,
        }
        for name, formula, status, energy, per_atom, steps, reason in zip(
            ids, crystals.formulas, found.status, found.energy, found.energy_per_atom, found.steps,
            found.reason, strict=True,
        )
    ]  # fmt: skip
    return Results(found.crystals, rows)


def energy_above_hull(
    structures: Structures,
    *,
    potential: str = POTENTIAL,
    relax: bool = True,
    hull: str = "union",
    max_steps: int = 400,
    fmax: float = 0.02,
    workers: int | None = None,
    device: str = "cpu",
) -> Results:
    """Energy above the DFT hulls and what a structure would decompose into, eV/atom.

    Args:
        structures: As for `relax`.
        relax: Relax positions and cell first. The reference is relaxed: without it structures look too high.
        hull: As in `anchor hull --hull`; by default the higher of OQMD's and the Materials Project's counts.
    """
    ids, crystals = as_crystals(structures)
    judge = _judge(potential, hull, max_steps if relax else None, fmax, workers, device)
    return _placed(judge, ids, crystals)


def predict(
    formula: str,
    n: int = 8,
    *,
    prior: str = "templates-all",
    potential: str = POTENTIAL,
    max_steps: int = 400,
    fmax: float = 0.02,
    seed: int = 0,
    workers: int | None = None,
    device: str = "cpu",
) -> Results:
    """Crystals for a formula from n guesses, relaxed cell and all and placed on the hulls, lowest first.

    Guesses that became the same crystal are one row, with the number of `times`.
    """
    crystals = load_prior(prior, device=device).sample(formula, n, seed=seed)
    ids = [f"{name}-{i}" for i, name in enumerate(crystals.formulas)]
    found = _placed(_judge(potential, "union", max_steps, fmax, workers, device), ids, crystals)
    order = sorted(range(len(found)), key=lambda i: (found[i][ABOVE] is None, found[i][ABOVE] or 0.0))
    first = first_structures(found.crystals[order]).tolist()
    kept = [i for i in range(len(order)) if first[i] == i]
    rows = [{**found[order[i]], "times": first.count(i)} for i in kept]
    return Results(found.crystals[[order[i] for i in kept]], rows)


def search(
    elements: str | Sequence[str] | None = None,
    n: int = 500,
    *,
    out: str | PathLike[str] | None = None,
    finds: int = 20,
    seed: int = 0,
    preset: str = "quick",
    settings: Sequence[str] = (),
    **limits: Any,
) -> Found:
    """Search for new stable crystals; the finds, relaxed with the cell free, and apart from them the rest.

    Args:
        elements: "Na Mn P O", or a list; None: all.
        n: Compositions to try.
        out: Folder of the campaign; by default runs/DATE-TIME.
        finds: How many of the best candidates to relax to the end.
        preset, settings: As for `anchor search --preset … --set …`.
        limits: must_contain, exclude, k, max_atoms, … as in the section action_space of the configuration.
    """
    from datetime import datetime

    values = {"run.structures": n, "run.seed": seed, "action_space.elements": _symbols(elements)}
    values |= {f"action_space.{name}": value for name, value in limits.items()}
    config = load_config(preset=preset, overrides=settings, values=values).config
    folder = Path(out) if out is not None else Path("runs") / datetime.now().strftime("%Y%m%d-%H%M%S")
    campaign = Campaign.start(config, folder)
    campaign.run()
    refine(campaign, finds)
    return found_by(campaign)


def load_campaign(location: str | PathLike[str]) -> Found:
    """What a campaign's folder, ledger file or database holds, to look at; nothing is computed."""
    return read_found(Ledger.open(str(location)), None)


def found_by(campaign: Campaign) -> Found:
    """What a campaign's ledger holds."""
    return read_found(campaign.ledger, campaign)


def evaluate(
    structures: Structures, *, protocol: str = "internal", out: str | PathLike[str], **options: Any
) -> FinishedEvaluation:
    """Judge structures under a protocol: internal, mattergen or lemat; tables go to the folder `out`.

    Args:
        options: Of the protocol, as potential="mattersim-1m".
    """
    ids, crystals = as_crystals(structures)
    source = given_crystals(crystals, ids)
    return run_evaluation(source, load_protocol(protocol, **options), Path(out), n=None, seeds=[0])


@dataclass(frozen=True, eq=False, repr=False)
class Verified(Results):
    """Structures that were attacked, as they stand: a lower crystal that was found takes a claim's place.

    Attributes:
        records: What each went through, verdict by verdict (`anchor.verify.run.Record`).
    """

    records: Sequence[Record]


def verify(
    structures: Structures,
    *,
    level: int = 3,
    potential: str = POTENTIAL,
    top: int | None = None,
    out: str | PathLike[str] | None = None,
    seed: int = 0,
    workers: int | None = None,
) -> Verified:
    """Attack structures, cheapest attack first: what each survived, and why it failed the next.

    Args:
        structures: As for `relax`; each is relaxed first, and claims the hull or its neighbourhood.
        level: Up to this: 1 hulls and lists, 2 other structures of the composition, 3 other potentials,
            4 competitors, 5 dynamics, 6 DFT.
        top: So many, the lowest above the hull, go on beyond level 1; None: all.
        out: Folder that keeps the verdicts: what is in it is not made again.
    """
    from anchor.executors import make_executor
    from anchor.verify.intake import crystals_context
    from anchor.verify.levels import load_levels
    from anchor.verify.run import verify as attack
    from anchor.verify.stores import FolderStore, NoStore

    ids, crystals = as_crystals(structures)
    levels = load_levels(level)
    with make_executor(workers=workers) as executor:
        context = crystals_context(crystals, ids, executor, potential=potential, seed=seed)
        store = NoStore() if out is None else FolderStore(Path(out))
        records = attack(context.claims, context, levels, store, most=top)
    rows = [
        {
            "id": record.claim.id,
            "formula": record.now.formula,
            "level": record.level,
            ABOVE: None if np.isnan(record.now.above_hull) else record.now.above_hull,
            "why": record.why,
        }
        for record in records
    ]
    return Verified(Crystals.concatenate(record.now.crystal for record in records), rows, records)


def as_crystals(structures: Structures) -> tuple[list[str], Crystals]:
    """Names and crystals of whatever people have."""
    if isinstance(structures, str | PathLike | Structure | Atoms | Crystals):
        structures = [structures]
    if isinstance(structures, Mapping):
        raise InputError(f"cannot make a crystal of a {type(structures).__name__}", ACCEPTED)
    ids: list[str] = []
    parts: list[Crystals] = []
    for item in structures:
        if isinstance(item, Structure):
            parts.append(Crystals.from_structures(item))
        elif isinstance(item, Atoms):
            parts.append(Crystals.from_atoms(item))
        elif isinstance(item, Crystals):
            parts.append(item)
        elif isinstance(item, str | PathLike):
            loaded = load(_files(Path(item)))
            ids += loaded.ids
            parts.append(loaded.crystals)
            continue
        else:
            raise InputError(f"cannot make a crystal of a {type(item).__name__}", ACCEPTED)
        ids += [f"{name}-{len(ids) + i}" for i, name in enumerate(parts[-1].formulas)]
    crystals = Crystals.concatenate(parts)
    if not len(crystals):
        raise InputError("no structure is given")
    return ids, crystals


def _files(path: Path) -> list[Path]:
    """The files of a pattern such as candidates/*.cif, or the one that is named."""
    return sorted(path.parent.glob(path.name)) if "*" in path.name else [path]


def _judge(
    potential: str, hull: str, max_steps: int | None, fmax: float, workers: int | None, device: str
) -> Judge:
    model = load_potential(potential, device=device)
    relaxing = None if max_steps is None else Relaxing(cell=True, max_steps=max_steps, fmax=fmax)
    return Judge(Relaxer(model, workers=workers), load_hull(model, hull), relaxing)  # type: ignore[arg-type]


def _placed(judge: Judge, ids: Sequence[str], crystals: Crystals) -> Results:
    table = judge(crystals)
    mixtures = judge.decompositions(table)
    columns = ("relaxation", ENERGY, FORMATION, ABOVE, "reason")
    rows = [
        {
            "id": name,
            "formula": formula,
            "spacegroup": space_group(crystal)[0],
            **{column: row[column] for column in columns[:-1]},
            **{above(database): value for database, value in hulls.items()},
            "decomposition": "" if mixture is None else str(mixture),
            "reason": row["reason"],
        }
        for name, formula, crystal, row, hulls, mixture in zip(
            ids,
            crystals.formulas,
            table.crystals,
            table.rows(columns),
            each_hull(table),
            mixtures,
            strict=True,
        )
    ]
    return Results(table.crystals, rows)


def _symbols(elements: str | Sequence[str] | None) -> tuple[str, ...] | None:
    if elements is None:
        return None
    return tuple(elements.replace(",", " ").split()) if isinstance(elements, str) else tuple(elements)
