"""Making the wanted phases, chunk by chunk: templates, the lower of two, relaxed with the cell free, placed.

A run has a folder: the formulas in their order, what the numbers depend on, and one file per chunk, written
when the chunk is done and never again. A chunk knows nothing of the others, so that a run which was killed
and goes on writes the files of one that was not.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchor.arrays import load_arrays, save_arrays
from anchor.config import load_config
from anchor.crystals.crystals import Crystals
from anchor.crystals.symmetry import space_group
from anchor.errors import InputError
from anchor.executors import Executor
from anchor.filling.guards import DATABASES, ENDED, Guards, asks_second
from anchor.hull.energies import load_energies
from anchor.hull.references import load_hull
from anchor.outcomes.checks import Checks
from anchor.outcomes.columns import ENERGY, above
from anchor.outcomes.judge import Judge, Relaxing
from anchor.outcomes.table import Outcomes
from anchor.paths import alone
from anchor.potentials.registry import load_potential
from anchor.priors.base import Prior
from anchor.priors.registry import load_prior
from anchor.reading import read_json
from anchor.reference.reference import load_reference
from anchor.relax.parallel import Relaxer
from anchor.writing import replace_file

CHUNK = 192
"""Formulas made together: seconds of work, and enough to keep several processes busy."""
CANDIDATES = 2
"""Templates per formula, of which the one of lower energy is relaxed."""
RELAXING = Relaxing(cell=True, max_steps=80, fmax=0.05, symmetry=True)
"""As the reference crystals, whose energies these compete with. Of three times 64
formulas, 150 steps at 0.03 eV/Å move quartiles of the distance to the hull by 8 meV/atom at most against 60
steps at 0.05, and cost up to twice as much."""
KEEP = 0.1
"""eV/atom above either hull up to which the crystal is kept."""
PLAN, FORMULAS, CHUNKS, TIMES = "plan.json", "formulas.txt", "chunks", "seconds.txt"

Arrays = dict[str, NDArray]


@dataclass(frozen=True, eq=False)
class Maker:
    """Makes chunks.

    Attributes:
        prior: Templates.
        judge: Of the potential, on its hull without any filling.
        second: Of the potential that is asked where the first lowers a hull by much.
        guards: Of the first.
        seed: Of the prior.
    """

    prior: Prior
    judge: Judge
    second: Judge
    guards: Guards
    seed: int = 0

    @classmethod
    def load(cls, potential: str, second: str, executor: Executor, *, seed: int = 0) -> Maker:
        """Everything by name; both potentials work in the same processes."""
        reference = load_reference()
        checks = Checks.from_config(load_config().config, reference)
        judges = []
        for name in (potential, second):
            relaxer = Relaxer(load_potential(name), executor=executor)
            judges.append(Judge(relaxer, load_hull(relaxer.potential, "unfilled"), RELAXING, checks))
        hull = load_hull(judges[0].potential, "unfilled")
        energies = load_energies(potential, reference.crystals)
        guards = Guards(reference, energies, hull)
        return cls(load_prior("templates-all"), judges[0], judges[1], guards, seed)

    def __call__(self, formulas: Sequence[str], number: int) -> Arrays:
        """Columns of one chunk, and the crystals near a hull ("kept": their rows)."""
        made = self.prior.realise(
            list(formulas), CANDIDATES, seed=self.seed, stream=("filling", number), cell="free"
        )
        owner = made.request // CANDIDATES
        chosen = self.judge.lowest(made.crystals, owner)
        table = judged(self.judge, made.crystals[chosen]).spread(owner[chosen], len(formulas))
        columns = self.columns(table)
        near = np.any([columns[f"above_{name}"] <= KEEP for name in DATABASES], axis=0)
        kept = np.flatnonzero(near[table.at])
        crystals = table.crystals[kept]
        return columns | {
            "kept": table.at[kept],
            "spacegroup": np.array([space_group(c)[1] for c in crystals], dtype=np.uint8),
            "atoms": crystals.counts,
            "numbers": crystals.numbers,
            "frac": crystals.frac,
            "lattice": crystals.lattice,
        }

    def columns(self, table: Outcomes) -> Arrays:
        """What the guards ask about judged crystals; the second potential answers where it has to."""
        columns = self._columns(table)
        lower = np.flatnonzero(asks_second(columns))
        other = {name: np.full(table.n, np.nan) for name in DATABASES}
        if len(lower):
            again = judged(self.second, table.crystals[np.searchsorted(table.at, lower)])
            for name in DATABASES:
                other[name][lower] = again.numbers(above(name))
        return columns | {f"second_{name}": values for name, values in other.items()}

    def _columns(self, table: Outcomes) -> Arrays:
        crystals, at, n = table.crystals, table.at, table.n
        energy = table.numbers(ENERGY)
        energy[at] = energy[at] / crystals.counts
        columns: Arrays = {
            "energy": energy,
            "ended": np.isin(table.texts("relaxation"), ENDED),
            "bond_ratio": table.numbers("bond_ratio"),
            "volume_ok": np.zeros(n, dtype=bool),
        }
        columns["volume_ok"][at] = self.guards.volume_ok(crystals)
        strict = self.guards.strict_above(crystals, energy[at])
        for name in DATABASES:
            columns[f"above_{name}"] = table.numbers(above(name))
            columns[f"strict_{name}"] = np.full(n, np.nan)
            columns[f"strict_{name}"][at] = strict[name]
        return columns


def judged(judge: Judge, crystals: Crystals) -> Outcomes:
    """Relaxed, placed and checked, without embeddings."""
    table = judge.placed(judge.relaxed([crystals])[0])
    assert judge.checks is not None
    return judge.checks(table)[0]


# The folder of a run


@dataclass(frozen=True)
class Run:
    """A folder with a plan and the chunks that are done."""

    folder: Path

    @classmethod
    def begin(cls, folder: Path, plan: dict[str, Any], formulas: Callable[[], Sequence[str]]) -> Run:
        """A new run, or the one that the folder holds, if it was begun with the same plan.

        Args:
            plan: What the numbers depend on.
            formulas: Asked for what to make when a run is new; later it stays what it was.
        """
        path = folder / PLAN
        if path.exists():
            found = read_json(path, hint="delete the folder, or name another one")
            if found != plan:
                changed = sorted(key for key in found.keys() | plan if found.get(key) != plan.get(key))
                raise InputError(
                    f"{folder} holds a filling that was begun otherwise: {', '.join(changed)} differ",
                    "give the options of that run, or another folder",
                )
            return cls(folder)
        (folder / CHUNKS).mkdir(parents=True, exist_ok=True)
        replace_file(folder / FORMULAS, "\n".join(formulas()) + "\n")
        replace_file(path, json.dumps(plan, indent=1, sort_keys=True) + "\n")
        return cls(folder)

    @property
    def formulas(self) -> list[str]:
        """All that are to be made, in order."""
        return (self.folder / FORMULAS).read_text(encoding="utf-8").split()

    @property
    def n_chunks(self) -> int:
        return -(-len(self.formulas) // CHUNK)

    def chunk_path(self, number: int) -> Path:
        return self.folder / CHUNKS / f"{number:05d}.npz"

    def done(self) -> list[int]:
        """Numbers of the chunks that are there."""
        return [i for i in range(self.n_chunks) if self.chunk_path(i).exists()]

    def work(self, maker: Maker, *, time_limit_s: float = np.inf) -> Iterator[tuple[int, Arrays]]:
        """Make what is missing, in order; yields the number and the columns of every chunk that is new."""
        began, formulas = time.monotonic(), self.formulas
        with alone(self.folder / "lock", f"filling into {self.folder}"):
            for number in range(self.n_chunks):
                path = self.chunk_path(number)
                if path.exists():
                    continue
                if time.monotonic() - began > time_limit_s:
                    return
                start = time.monotonic()
                arrays = maker(formulas[number * CHUNK : (number + 1) * CHUNK], number)
                save_arrays(path, arrays)
                with (self.folder / TIMES).open("a", encoding="utf-8") as file:  # chunks repeat, times do not
                    file.write(f"{number} {time.monotonic() - start:.2f}\n")
                yield number, arrays

    def seconds(self) -> float:
        """Spent on all chunks so far."""
        path = self.folder / TIMES
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return sum(float(line.split()[1]) for line in lines)

    def made(self) -> tuple[list[str], Arrays]:
        """Formulas and columns of all chunks that are done; crystals under the same names, in order."""
        formulas = self.formulas
        parts: list[Arrays] = []
        names: list[str] = []
        for number in self.done():
            arrays = load_arrays(self.chunk_path(number))
            arrays["kept"] = arrays["kept"] + len(names)
            names += formulas[number * CHUNK : (number + 1) * CHUNK]
            parts.append(arrays)
        if not parts:
            raise InputError(f"nothing has been made in {self.folder} yet", "run: anchor energies fill")
        return names, {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
