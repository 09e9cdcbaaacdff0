"""Run an evaluation: read or draw, measure, flag, count; killed and resumed, it gives the same table.

evaluate(find_source(["default"]), load_protocol("internal"), Path("eval/default"), n=1000, seeds=[0, 1, 2])
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

import anchor
from anchor.crystals.crystals import Crystals
from anchor.errors import InputError
from anchor.evaluate.outputs import Evaluation, write_outputs
from anchor.evaluate.protocol import CORE_COLUMNS, RELAXED, Protocol, Row
from anchor.evaluate.realise import BLOCK, Lowest, Query, realise_block
from anchor.evaluate.sources import Proposal, Source
from anchor.evaluate.store import CRYSTAL, Store
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
) -> Evaluation:
    """Evaluate a source under a protocol; results go to `out`, where an unfinished evaluation goes on.

    Args:
        source: Compositions or structures.
        protocol: How they are judged.
        out: Folder.
        n: Structures per seed; None: all a structure source has.
        seeds: Sampling seeds.
        prior: Realises the compositions of a composition source.
        query: What the prior is asked for.
        lowest: Chooses among several crystals of each composition; None: the prior's first.
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
        tables, raw, relaxed = [], [], []
        for seed in seeds:
            tell = _teller(on_progress, seed)
            drawn = _draw(store, source, seed, n, asked, query, lowest, tell)
            _reuse(source, store, protocol, seed)
            rows, crystals, ends = _measure(store, protocol, drawn, seed, tell)
            flags = protocol.flag(rows, crystals, ends)
            assert len(flags) == len(rows), f"{len(flags)} flags for {len(rows)} rows"
            tables.append([{**row, **flag} for row, flag in zip(rows, flags, strict=True)])
            raw.append(crystals)
            relaxed.append(ends)
        return write_outputs(store, protocol, tables, raw, relaxed)


def _asked(prior: Prior, query: Query, lowest: Lowest | None) -> dict[str, Any]:
    """How compositions become crystals, for JSON."""
    asked = {"name": prior.name, "hash": prior.hash, "query": query}
    if lowest is None:
        return asked
    return {**asked, "candidates": lowest.candidates, "lowest_by": lowest.potential.checkpoint_hash}


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
) -> list[Row]:
    """Rows of a seed with the crystal under `CRYSTAL` (None where there is none), stored block by block."""
    proposals = source.draw(seed, n)
    if not proposals:
        raise InputError(f"{source.name} has nothing to evaluate")
    rows = store.rows("drawn", seed)
    for row, proposal in zip(rows, proposals, strict=False):
        if row["cell"] != _cell(proposal):
            raise InputError(
                f"row {row['index']} of seed {seed} was {row['cell']} and is now {_cell(proposal)}",
                "the source has changed since: give another --out",
            )
    for start in range(len(rows), len(proposals), BLOCK):
        block = _block(source, seed, proposals, start, prior, query, lowest)
        store.append("drawn", seed, block)
        rows += block
        tell("drawn", len(rows), len(proposals))
    assert len(rows) == len(proposals), f"{len(rows)} rows for {len(proposals)} structures read"
    return rows


def _block(
    source: Source,
    seed: int,
    proposals: Sequence[Proposal],
    start: int,
    prior: Prior | None,
    query: Query,
    lowest: Lowest | None,
) -> list[Row]:
    block = proposals[start : start + BLOCK]
    if prior is None:
        made = [(proposal.crystal, proposal.reason) for proposal in block]
    else:
        cells = [p.composition for p in block]
        made = realise_block(prior, cells, seed=seed, block=start // BLOCK, query=query, lowest=lowest)
    return [
        {
            "index": start + place,
            "seed": seed,
            "source": source.name,
            "file": proposal.file,
            "formula": None if proposal.composition is None else proposal.composition.formula,
            "cell": _cell(proposal),
            "n_atoms": None if crystal is None else crystal.n_atoms,
            "status": "drawn" if crystal is not None else "failed",
            "reason": proposal.reason or why,
            CRYSTAL: crystal,
        }
        for place, (proposal, (crystal, why)) in enumerate(zip(block, made, strict=True))
    ]


def _cell(proposal: Proposal) -> str | None:
    return None if proposal.composition is None else str(proposal.composition)


# 2. Measure


def _reuse(source: Source, store: Store, protocol: Protocol, seed: int) -> None:
    """Take over measurements of the same structures made in the same way, if need be on another hull."""
    if source.evaluation is None or store.lines("measured", seed):
        return
    earlier, mine = source.evaluation, store.settings
    if mine["n"] not in (None, earlier.settings["n"]):
        return
    theirs = earlier.settings["measure"]
    differ = {key for key in {*theirs, *mine["measure"]} if theirs.get(key) != mine["measure"].get(key)}
    earlier.lines("measured", seed)  # cuts off half a line
    if not (path := earlier.path("measured", seed)).is_file() or differ - set(protocol.placing):
        return
    if differ:
        store.append("measured", seed, protocol.place(earlier.rows("measured", seed)))
    else:
        shutil.copyfile(path, store.path("measured", seed))


def _measure(
    store: Store, protocol: Protocol, drawn: list[Row], seed: int, tell: Tell
) -> tuple[list[Row], list[Crystals | None], list[Crystals | None]]:
    """All rows with what was measured, the crystals as drawn and as relaxed."""
    with_crystal = [row for row in drawn if row[CRYSTAL] is not None]
    measured = store.rows("measured", seed)
    for chunk in _chunks(with_crystal, len(measured), protocol.chunk):
        found = protocol.measure(Crystals.concatenate(row[CRYSTAL] for row in chunk))
        assert len(found) == len(chunk), f"{len(found)} measurements of {len(chunk)} crystals"
        found = [
            {"index": row["index"], "status": "measured", **new}
            for row, new in zip(chunk, found, strict=True)
        ]
        store.append("measured", seed, found)
        measured += found
        tell("measured", len(measured), len(with_crystal))
    by_index = {row["index"]: row for row in measured}
    columns = {key: None for row in measured for key in row if key != RELAXED}
    rows, raw, relaxed = [], [], []
    for row in drawn:
        new = by_index.get(row["index"], {})
        raw.append(row[CRYSTAL])
        relaxed.append(new.get(RELAXED))
        core = {key: value for key, value in row.items() if key != CRYSTAL}
        rows.append({**columns, **core, **{key: value for key, value in new.items() if key != RELAXED}})
    ordered = [*CORE_COLUMNS, *(key for key in columns if key not in CORE_COLUMNS)]
    return [{key: row[key] for key in ordered} for row in rows], raw, relaxed


def _chunks(rows: Sequence[Row], done: int, size: int) -> Iterator[Sequence[Row]]:
    """What is left, in chunks that begin where an uninterrupted run's do."""
    for start in range(done, len(rows), size):
        yield rows[start : start + size]
