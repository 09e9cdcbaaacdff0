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

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
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
from anchor.formats import load, write
from anchor.hull import load_hull
from anchor.matching.uniqueness import first_structures
from anchor.outcomes.columns import ABOVE, ENERGY, FORMATION, above
from anchor.outcomes.judge import Judge, Relaxing
from anchor.outcomes.rows import each_hull
from anchor.potentials import load_potential
from anchor.priors import load_prior
from anchor.relax.parallel import Relaxer
from anchor.search.campaign import Campaign
from anchor.search.finds import Finds, refine
from anchor.search.ledger import Ledger, decode_crystal

if TYPE_CHECKING:
    from pandas import DataFrame

    from anchor.evaluate.outputs import FinishedEvaluation
    from anchor.report.notebook import Frame
    from anchor.verify.run import Record

One: TypeAlias = Structure | Atoms | Crystals | str | PathLike[str]
Structures: TypeAlias = One | Sequence[One]
POTENTIAL = "mattersim-1m"
"""The potential of searches: what they find and what is asked here are on one scale."""
ACCEPTED = "give pymatgen structures, ASE atoms, file names, or lists of them"
SHOWN = 20
"""Rows that a table prints."""


class Find(dict[str, Any]):
    """One crystal with what is known of it, a dictionary."""

    def __init__(self, row: Mapping[str, Any], crystal: Crystals) -> None:
        super().__init__(row)
        self.crystal = crystal

    def view(self, *, height: int = 420) -> Any:
        """The crystal, to turn with the mouse in a notebook; `height` in px."""
        from anchor.report.notebook import view_crystal

        return view_crystal(self.crystal, height=height)

    def to_structure(self) -> Structure:
        return self.crystal.to_structures()[0]

    def to_atoms(self) -> Atoms:
        return self.crystal.to_atoms()[0]

    def _repr_html_(self) -> str:
        return _html_table([self], list(self))


@dataclass(frozen=True, eq=False)
class Results:
    """Crystals with a row of plain values each.

    Attributes:
        crystals: One per row.
        rows: What is known of each.
    """

    crystals: Crystals
    rows: list[dict[str, Any]]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Find]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, i: int) -> Find:
        return Find(self.rows[i], self.crystals[i % len(self.rows)])

    def to_pandas(self) -> DataFrame:
        from pandas import DataFrame

        return DataFrame(self.rows)

    def to_structures(self) -> list[Structure]:
        return self.crystals.to_structures()

    def to_atoms(self) -> list[Atoms]:
        return self.crystals.to_atoms()

    def write(self, path: str | PathLike[str], *, overwrite: bool = False) -> Path:
        """Write the crystals with their numbers, in the format of the ending; no ending: a folder of CIFs."""
        numbers = {
            name: np.array([_number(row.get(name)) for row in self.rows])
            for name in dict.fromkeys(name for row in self.rows for name in row)
            if any(isinstance(row.get(name), float) for row in self.rows)
        }
        return write(path, self.crystals, [str(row["id"]) for row in self.rows], numbers, overwrite=overwrite)

    def _repr_html_(self) -> str:
        if not self.rows:
            return "<p>no crystals</p>"
        names = [name for name in self.rows[0] if any(_text(row.get(name)) for row in self.rows[:SHOWN])]
        more = len(self.rows) - SHOWN
        return _html_table(self.rows[:SHOWN], names) + (f"<p>… and {more} more</p>" if more > 0 else "")

    def __repr__(self) -> str:
        if not self.rows:
            return "no crystals"
        shown = [{name: _text(value) for name, value in row.items()} for row in self.rows[:SHOWN]]
        names = [name for name in shown[0] if any(row[name] for row in shown)]
        width = {name: max(len(name), *(len(row[name]) for row in shown)) for name in names}
        lines = ["  ".join(name.ljust(width[name]) for name in names)]
        lines += ["  ".join(row[name].ljust(width[name]) for name in names) for row in shown]
        more = len(self.rows) - len(shown)
        return "\n".join([line.rstrip() for line in lines] + ([f"… and {more} more"] if more else []))


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


@dataclass(frozen=True, eq=False, repr=False)
class Found(Results):
    """Finds of a search.

    Attributes:
        ledger: Where every candidate is.
        campaign: The search itself, to go on with; None of one that was only read.
    """

    ledger: Ledger
    campaign: Campaign | None = None

    def plot(self) -> Frame:
        """Curves, energies, elements and time of the campaign, in a notebook."""
        from anchor.report.notebook import plot_campaign

        return plot_campaign(self.ledger)


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
    """Search for new stable crystals; the finds, relaxed with the cell free.

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
    """The finds of a campaign's folder, ledger file or database, to look at; nothing is computed."""
    return _found(Ledger.open(str(location)), None)


def found_by(campaign: Campaign) -> Found:
    """The finds that a campaign's ledger holds."""
    return _found(campaign.ledger, campaign)


def _found(ledger: Ledger, campaign: Campaign | None) -> Found:
    rows = Finds.read(ledger).finds
    names = (
        "formula",
        "spacegroup",
        ABOVE,
        "energy_above_hull_with_finds_ev_per_atom",
        "novelty_reference",
        "thin",
        "level",
        "why",
    )
    crystals = Crystals.concatenate(decode_crystal(row["crystal"]) for row in rows)
    found = [{"id": row["candidate"], **{name: row.get(name) for name in names}} for row in rows]
    return Found(crystals, found, ledger, campaign)


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


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else float("nan")


def _text(value: Any) -> str:
    if value is None or value == "":
        return ""
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def _html_table(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> str:
    """Rows for a notebook; text is escaped."""
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    lines = "".join(
        f"<tr>{''.join(f'<td>{escape(_text(row.get(name)))}</td>' for name in names)}</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>"
