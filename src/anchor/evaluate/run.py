"""Run an evaluation: read or draw, measure, flag, count; killed and resumed, it gives the same table.

evaluate(find_source(["default"]), load_protocol("internal"), Path("eval/default"), n=1000, seeds=[0, 1, 2])
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import anchor
from anchor.chemistry.composition import parse_formula
from anchor.errors import InputError
from anchor.evaluate.answer import BLOCK, Lowest, Query, realise_block
from anchor.evaluate.outputs import FinishedEvaluation, write_outputs
from anchor.evaluate.protocol import CORE_COLUMNS, Protocol
from anchor.evaluate.sources import Source
from anchor.evaluate.store import Store
from anchor.outcomes.contest import SINGLE_POINTS
from anchor.outcomes.judge import FAILED, MEASURED
from anchor.outcomes.table import Outcomes
from anchor.paths import alone
from anchor.priors import Prior

Progress = Callable[[str, int, int, int], None]
"""Called with what is being done, the seed, how many rows are done, and of how many."""


def evaluate(
    source: Source,
    protocol: Protocol,
    out: Path,
    *,
    n: int | None,
    seeds: Sequence[int],
    prior: Prior | None = None,
    query: Query = "cell",
    lowest: Lowest | None = None,
    label: str | None = None,
    command: str = "",
    on_progress: Progress | None = None,
) -> FinishedEvaluation:
    """Evaluate a source under a protocol; results go to `out`, where an unfinished evaluation goes on.

    Args:
        source: Compositions or structures.
        protocol: How they are judged.
        out: Folder.
        n: Structures per seed; None: all a structure source has.
        seeds: Sampling seeds.
        prior: Realises the compositions of a composition source.
        query: What the prior is asked for.
        lowest: Chooses among several crystals of each composition; None: one is made.
        label: Name of the row in comparisons.
        command: As typed, kept for people.
        on_progress: Told about every block.
    """
    if source.kind == "compositions" and prior is None:
        raise InputError(f"{source.name} proposes compositions only", "name a prior that realises them")
    if source.seeds is not None and not set(seeds) <= set(source.seeds):
        raise InputError(
            f"{source.name} has the seeds {list(source.seeds)} only, not {list(seeds)}",
            "structures are sampled already: leave --seeds out, or give one file per seed and --each-a-seed",
        )
    asked = prior if source.kind == "compositions" else None
    store = Store(out)
    store.begin(
        {
            "label": label or _label(source, asked),
            "source": source.identity,
            "name": source.name,
            "n": n,
            "seeds": list(seeds),
            "prior": None if asked is None else _asked(asked, query, lowest),
            "protocol": protocol.name,
            "measure": protocol.identity(),
            "footer": protocol.footer(),
            "threads": torch.get_num_threads(),  # they change floating-point sums
            "anchor": anchor.__version__,
            "command": command,
        }
    )
    with alone(out / "checkpoint" / "lock", f"evaluating into {out}"):
        drawn, tables = [], []
        for seed in seeds:
            tell = _teller(on_progress, seed)
            drawn.append(_draw(store, source, seed, n, asked, query, lowest, tell))
            _reuse(source, store, protocol, seed)
            measured = _measure(store, protocol, drawn[-1], seed, tell)
            tables.append(protocol.flag(drawn[-1], measured))
            assert tables[-1].n == drawn[-1].n, f"{tables[-1].n} flags for {drawn[-1].n} rows"
        return write_outputs(store, protocol, drawn, tables)


def _asked(prior: Prior, query: Query, lowest: Lowest | None) -> dict[str, Any]:
    """How compositions become crystals, for JSON."""
    asked: dict[str, Any] = {"name": prior.name, "hash": prior.hash, "query": query}
    if lowest is None:
        return asked
    asked |= {"candidates": lowest.candidates, "lowest_by": lowest.potential.checkpoint_hash}
    if lowest.rounds != SINGLE_POINTS:
        asked["rounds"] = [list(one) for one in lowest.rounds]
    return asked


def _label(source: Source, prior: Prior | None) -> str:
    return source.name if prior is None else f"{source.name} → {prior.name}"


Tell = Callable[[str, int, int], None]


def _teller(on_progress: Progress | None, seed: int) -> Tell:
    return lambda what, done, of: on_progress(what, seed, done, of) if on_progress else None


# 1. Read or draw


def _draw(
    store: Store,
    source: Source,
    seed: int,
    n: int | None,
    prior: Prior | None,
    query: Query,
    lowest: Lowest | None,
    tell: Tell,
) -> Outcomes:
    """Rows of a seed with their crystals, stored block by block."""
    proposed = source.draw(seed, n)
    if not proposed.n:
        raise InputError(f"{source.name} has nothing to evaluate")
    stored = store.table("drawn", seed)
    for i, (was, now) in enumerate(zip(stored.rows(("cell",)), proposed.rows(("cell",)), strict=False)):
        if was != now:
            raise InputError(
                f"row {i} of seed {seed} was {was['cell']} and is now {now['cell']}",
                "the source has changed since: give another --out",
            )
    blocks = [stored]
    for start in range(stored.n, proposed.n, BLOCK):
        rows = np.arange(start, min(start + BLOCK, proposed.n))
        block = proposed.take(rows)
        if prior is not None:
            cells = [
                None if row["cell"] is None else parse_formula(row["cell"]) for row in block.rows(("cell",))
            ]
            number = start // BLOCK
            made = realise_block(prior, cells, seed=seed, block=number, query=query, lowest=lowest)
            block = made.onto(block)
        blocks.append(_core(block, rows, seed, source.name))
        store.append("drawn", seed, blocks[-1])
        tell("drawn", int(rows[-1]) + 1, proposed.n)
    drawn = Outcomes.concatenate(blocks)
    assert drawn.n == proposed.n, f"{drawn.n} rows for {proposed.n} structures read"
    return drawn


def _core(block: Outcomes, rows: NDArray[np.int64], seed: int, source: str) -> Outcomes:
    """A block with the columns that every row has."""
    found = block.with_columns(
        index=rows,
        seed=[seed] * block.n,
        source=[source] * block.n,
        n_atoms=[None] * block.n,
        status=["drawn" if there else FAILED for there in block.has],
    )
    return found.with_crystal_columns(n_atoms=block.crystals.counts).only(CORE_COLUMNS)


# 2. Measure


def _reuse(source: Source, store: Store, protocol: Protocol, seed: int) -> None:
    """Take over measurements of the same structures made in the same way, if need be on another hull."""
    if source.evaluation is None or store.table("measured", seed).n:
        return
    earlier, mine = source.evaluation, store.settings
    if mine["n"] not in (None, earlier.settings["n"]):
        return
    theirs = earlier.settings["measure"]
    differ = {key for key in {*theirs, *mine["measure"]} if theirs.get(key) != mine["measure"].get(key)}
    measured = earlier.table("measured", seed)  # cuts off half a line
    if not measured.n or differ - set(protocol.placing):
        return
    if differ:
        store.append("measured", seed, protocol.place(measured))
    else:
        shutil.copyfile(earlier.path("measured", seed), store.path("measured", seed))


def _measure(store: Store, protocol: Protocol, drawn: Outcomes, seed: int, tell: Tell) -> Outcomes:
    """All rows with what was measured and the crystals as relaxed."""
    chunks = [store.table("measured", seed)]
    total = len(drawn.crystals)
    for start in range(chunks[0].n, total, protocol.chunk):  # begins where an uninterrupted run's chunks do
        crystals = drawn.crystals[start : start + protocol.chunk]
        found = protocol.measure(crystals)
        assert found.n == len(crystals), f"{found.n} measurements of {len(crystals)} crystals"
        found = found.onto(Outcomes.blank(found.n).with_columns(status=[MEASURED] * found.n))
        store.append("measured", seed, found)
        chunks.append(found)
        tell("measured", start + found.n, total)
    return Outcomes.concatenate(chunks).spread(drawn.at, drawn.n).onto(drawn)
