"""Energies of the bundled crystals under one potential, computed once by a command that can be interrupted.

Two passes, two files: single points of every crystal (they calibrate the potential), and relaxed energies,
cell free, of the crystals near the hull (or a relaxed candidate would fall below references that never
relaxed). Crystals are evaluated in chunks that depend on the crystals only, a chunk is computed wholly or not
at all, and its numbers do not depend on the chunks before: a run that was killed and resumed writes the same
bytes as one that was not, given the same thread count.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from anchor.arrays import content_hash
from anchor.crystals.crystals import Crystals
from anchor.errors import AnchorError, InputError, MissingDependencyError
from anchor.paths import BUNDLED, alone, cache_dir
from anchor.writing import draft

if TYPE_CHECKING:  # torch-sim takes seconds to import, and reading energies does not need it
    from anchor.executors import Executor
    from anchor.potentials.base import Potential

Columns = dict[str, NDArray]

CHUNK_ATOMS = 128
"""Atoms evaluated at once: on CPU nothing is gained beyond about eight crystals."""
RELAX_CHUNK_ATOMS = 512
"""Atoms handed to the relaxation engine at once: enough to keep it busy, few enough to resume often."""
RELAX_WITHIN = 0.1
"""eV/atom above the DFT hull up to which references are relaxed."""
RELAX_FMAX = 0.05
"""eV/Å. Energies are flat at the minimum: this leaves about a meV/atom."""
RELAX_STEPS = 50
LARGEST_DROP = 0.5
"""eV/atom. A DFT geometry that relaxes further down has fallen into another structure or a hole of the
potential: as a reference it would make all candidates around it look unstable, so its single point counts."""
STATUSES = ("not relaxed", "converged", "capped", "diverged", "failed")
_SAVE_EVERY_S = 60.0


def crystals_hash(crystals: Crystals) -> str:
    """SHA-256 of the arrays of a batch: the identity of what energies were computed for."""
    return content_hash(
        {
            "counts": crystals.counts,
            "numbers": crystals.numbers,
            "frac": crystals.frac,
            "lattice": crystals.lattice,
        }
    )


@dataclass(frozen=True, eq=False)
class Energies:
    """Energies of n crystals under one potential, eV/atom; NaN where there is none.

    Attributes:
        potential: Name of the potential.
        checkpoint_hash: SHA-256 of its weights.
        crystals_hash: Of the crystals, see `crystals_hash`.
        single_point: At the DFT geometry.  # [n]
        max_force: Largest force there, eV/Å.  # [n]
        relaxed: Cell and positions relaxed.  # [n]
        status: Index into STATUSES.  # [n]
        volume_ratio: Relaxed over DFT volume.  # [n]
    """

    potential: str
    checkpoint_hash: str
    crystals_hash: str
    single_point: NDArray[np.float64]
    max_force: NDArray[np.float64]
    relaxed: NDArray[np.float64]
    status: NDArray[np.int64]
    volume_ratio: NDArray[np.float64]

    @property
    def lowest(self) -> NDArray[np.float64]:
        """Relaxed energies where a relaxation ended well and lower, single points elsewhere.  # [n]"""
        ended = np.isin(self.status, [STATUSES.index("converged"), STATUSES.index("capped")])
        drop = self.single_point - self.relaxed
        return np.where(ended & (drop > 0) & (drop < LARGEST_DROP), self.relaxed, self.single_point)

    @property
    def n_single_points(self) -> int:
        return int(np.isfinite(self.single_point).sum())

    @property
    def status_counts(self) -> dict[str, int]:
        """How many crystals have which relaxation status."""
        return {name: int((self.status == i).sum()) for i, name in enumerate(STATUSES)}


# The two passes


def single_point_chunks(crystals: Crystals, *, chunk_atoms: int = CHUNK_ATOMS) -> list[NDArray[np.int64]]:
    """Indices of the crystals of each chunk: small crystals first, at most `chunk_atoms` atoms together."""
    return _chunks(np.argsort(crystals.counts, kind="stable"), crystals.counts, chunk_atoms)


def relaxation_chunks(
    crystals: Crystals, e_above_hull: NDArray[np.float64], *, chunk_atoms: int = RELAX_CHUNK_ATOMS
) -> list[NDArray[np.int64]]:
    """Chunks of the crystals within RELAX_WITHIN of the hull: those on the hull first, then the nearer ones.

    Args:
        crystals: All crystals.
        e_above_hull: DFT energy above the hull, eV/atom; negative or zero on the hull.  # [n]
    """
    bounds = (-np.inf, 0.0, 0.025, RELAX_WITHIN)
    chunks: list[NDArray[np.int64]] = []
    for low, high in pairwise(bounds):
        tier = np.flatnonzero((e_above_hull > low) & (e_above_hull <= high))
        order = tier[np.argsort(crystals.counts[tier], kind="stable")]
        chunks += _chunks(order, crystals.counts, chunk_atoms)
    return chunks


def _chunks(order: NDArray[np.int64], counts: NDArray[np.int64], most: int) -> list[NDArray[np.int64]]:
    chunks: list[NDArray[np.int64]] = []
    members: list[int] = []
    atoms = 0
    for i in order.tolist():
        if members and atoms + counts[i] > most:
            chunks.append(np.array(members))
            members, atoms = [], 0
        members.append(i)
        atoms += int(counts[i])
    return [*chunks, np.array(members)] if members else chunks


def single_point_columns(potential: Potential, crystals: Crystals) -> Columns:
    """Energies per atom (eV) and largest forces (eV/Å) of one chunk; NaN where an element is not covered."""
    energy = np.full(len(crystals), np.nan, dtype=np.float32)
    force = np.full(len(crystals), np.nan, dtype=np.float32)
    covered = np.flatnonzero(potential.supports(crystals))
    chosen = crystals[covered]
    found = potential.evaluate(chosen)
    energy[covered] = found.energy / chosen.counts
    norms = np.linalg.norm(found.forces, axis=1)
    if len(covered):
        force[covered] = np.maximum.reduceat(norms, chosen.offsets[:-1])
    return {"single_point": energy, "max_force": force}


def relaxed_columns(potential: Potential, crystals: Crystals) -> Columns:
    """Relaxed energies per atom (eV), how the relaxations ended, and volume ratios of one chunk."""
    from anchor.relax.engine import relax

    energy = np.full(len(crystals), np.nan, dtype=np.float32)
    ratio = np.full(len(crystals), np.nan, dtype=np.float32)
    status = np.full(len(crystals), STATUSES.index("failed"), dtype=np.uint8)
    covered = np.flatnonzero(potential.supports(crystals))
    chosen = crystals[covered]
    if len(chosen):
        found = relax(
            chosen, potential, cell=True, max_steps=RELAX_STEPS, fmax=RELAX_FMAX, chunk_atoms=CHUNK_ATOMS
        )
        energy[covered] = found.energy / chosen.counts
        ratio[covered] = found.crystals.volume / chosen.volume
        status[covered] = [STATUSES.index(name) for name in found.status]
    return {"relaxed": energy, "status": status, "volume_ratio": ratio}


def build_energies(
    crystals: Crystals,
    potential: Potential,
    chunks: list[NDArray[np.int64]],
    compute: Callable[[Potential, Crystals], Columns],
    *,
    checkpoint: Path,
    settings: dict[str, Any],
    executor: Executor | None = None,
    time_limit_s: float = np.inf,
) -> Iterator[tuple[int, Columns]]:
    """Evaluate chunk after chunk, saving to `checkpoint` every minute and at the end, however that comes.

    Args:
        compute: One of `single_point_columns`, `relaxed_columns`.
        settings: What the numbers depend on (threads, chunk sizes, …); a checkpoint of others is refused.
        executor: Who does the work; None: this process.
        time_limit_s: Stop after the chunk that passes it.

    Yields:
        Chunks done so far, and the columns of all crystals.
    """
    identity = _identity(potential, crystals, settings)
    with alone(checkpoint.with_suffix(".lock"), f"computing {checkpoint.name}"):
        template = compute(potential, crystals[:0])
        done, columns = _resume(checkpoint, identity, n=len(crystals), template=template)
        start = saved = time.monotonic()
        try:
            yield done, columns
            left = chunks[done:] if time_limit_s > 0 else []
            for found in _in_order(executor, compute, potential, [crystals[chunk] for chunk in left]):
                for name, values in found.items():
                    columns[name][chunks[done]] = values
                done += 1
                if time.monotonic() - saved > _SAVE_EVERY_S:
                    write_columns(checkpoint, columns, {**identity, "chunks": done})
                    saved = time.monotonic()
                yield done, columns
                if time.monotonic() - start >= time_limit_s:
                    break
        finally:
            write_columns(checkpoint, columns, {**identity, "chunks": done})


def _in_order(
    executor: Executor | None,
    compute: Callable[[Potential, Crystals], Columns],
    potential: Potential,
    parts: list[Crystals],
) -> Iterator[Columns]:
    """What is computed of each part, in their order, whoever is ready first."""
    from anchor.relax.parallel import Relaxer

    relaxer = Relaxer(potential, executor=executor)
    early: dict[int, Columns] = {}
    following = 0
    with closing(relaxer.executor.each(compute, parts, state=relaxer.state)) as working:
        for i, outcome in working:
            if outcome.error is not None:
                raise outcome.error
            assert outcome.value is not None
            early[i] = outcome.value
            while following in early:
                yield early.pop(following)
                following += 1


def _identity(potential: Potential, crystals: Crystals, settings: dict[str, Any]) -> dict[str, Any]:
    return {
        "potential": potential.name,
        "checkpoint_hash": potential.checkpoint_hash,
        "crystals_hash": crystals_hash(crystals),
        "settings": settings,
    }


def _resume(path: Path, identity: dict[str, Any], *, n: int, template: Columns) -> tuple[int, Columns]:
    """Chunks done and columns of a checkpoint, or a fresh start."""
    if not path.exists():
        empty = {
            name: np.full(n, np.nan if values.dtype.kind == "f" else 0, dtype=values.dtype)
            for name, values in template.items()
        }
        return 0, empty
    columns, found = read_columns(path)
    done = found.pop("chunks")
    if found != identity:
        changed = sorted(key for key in identity if found.get(key) != identity[key])
        raise InputError(
            f"the checkpoint {path} belongs to another run: {', '.join(changed)} differ",
            "give the options of that run, or delete the file (or pass --restart) to start again",
        )
    return done, columns


# Files


def write_columns(path: Path, columns: Columns, identity: dict[str, Any]) -> None:
    """Write arrays and their identity as an .npz file: the same content always gives the same bytes."""
    text = np.frombuffer(json.dumps(identity, sort_keys=True).encode(), dtype=np.uint8)
    with draft(path) as made, made.open("wb") as file:
        np.savez(file, identity=text, **columns)  # type: ignore[arg-type]


def read_columns(path: Path) -> tuple[Columns, dict[str, Any]]:
    """Arrays and identity of a file made by `write_columns`."""
    with np.load(path, allow_pickle=False) as file:
        columns = {name: file[name] for name in file.files}
    return columns, json.loads(columns.pop("identity").tobytes())


def energies_path(name: str, pass_name: str, folder: Path) -> Path:
    """File of one pass ("single-points" or "relaxed") of a potential."""
    return folder / f"{name}.{pass_name}.npz"


def load_energies(potential: str, crystals: Crystals, *, checkpoint_hash: str | None = None) -> Energies:
    """Energies of `crystals` under a potential: from the package, else from the user's cache folder.

    Args:
        potential: Name, as in `load_potential`.
        crystals: The reference's crystals; files made for others are refused.
        checkpoint_hash: Of the potential in use; files of other weights are refused. None: not compared.
    """
    single, identity = _read_first(potential, "single-points")
    if single is None:
        raise MissingDependencyError(
            f"the reference crystals have no energies under {potential}",
            f"compute them once (minutes to an hour): anchor energies build --potential {potential}",
        )
    n = len(crystals)
    columns: Columns = {
        "relaxed": np.full(n, np.nan),
        "status": np.zeros(n, dtype=np.int64),
        "volume_ratio": np.full(n, np.nan),
        **single,
    }
    relaxed, relaxed_identity = _read_first(potential, "relaxed")
    if relaxed is not None:
        if relaxed_identity["checkpoint_hash"] != identity["checkpoint_hash"]:
            raise AnchorError(
                f"single points and relaxed energies of {potential} come from different weights"
            )
        columns |= relaxed
    for found in (identity, relaxed_identity or identity):
        if found["crystals_hash"] != crystals_hash(crystals):
            raise AnchorError(
                f"the energies of {potential} were computed for other crystals than this reference's",
                f"rebuild them: anchor energies build --potential {potential} --restart",
            )
        if checkpoint_hash is not None and found["checkpoint_hash"] != checkpoint_hash:
            raise AnchorError(
                f"the energies of {potential} were computed with weights {found['checkpoint_hash'][:12]}…, "
                f"the potential in use has {checkpoint_hash[:12]}…",
                f"rebuild them: anchor energies build --potential {potential} --restart",
            )
    return Energies(
        potential=identity["potential"],
        checkpoint_hash=identity["checkpoint_hash"],
        crystals_hash=identity["crystals_hash"],
        single_point=columns["single_point"].astype(np.float64),
        max_force=columns["max_force"].astype(np.float64),
        relaxed=columns["relaxed"].astype(np.float64),
        status=columns["status"].astype(np.int64),
        volume_ratio=columns["volume_ratio"].astype(np.float64),
    )


def available() -> list[str]:
    """Names of the potentials whose single points are in the package or in the cache."""
    folders = (BUNDLED / "energies", cache_dir() / "energies")
    suffix = ".single-points.npz"
    return sorted({p.name.removesuffix(suffix) for folder in folders for p in folder.glob(f"*{suffix}")})


def _read_first(potential: str, pass_name: str) -> tuple[Columns | None, dict[str, Any]]:
    for folder in (BUNDLED / "energies", cache_dir() / "energies"):
        path = energies_path(potential, pass_name, folder)
        if path.exists():
            return read_columns(path)
    return None, {}
