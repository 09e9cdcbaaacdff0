"""`anchor energies fill`: from a list of formulas to a file of phases and its card."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

import anchor
from anchor.chemistry.composition import Compositions
from anchor.chemistry.elements import NUMBER
from anchor.errors import InputError
from anchor.executors import ANYWHERE, Workplace
from anchor.filling.effect import effect
from anchor.filling.guards import AGREES_WITHIN, DATABASES, DEEP, VOLUME_TAIL
from anchor.filling.joining import join
from anchor.filling.make import CANDIDATES, CHUNK, RELAXING, Arrays, Maker, Run
from anchor.filling.wanted import BINARY_SHARE, LIKELY, TERNARY_SHARE, wanted, without_crystal
from anchor.hull.filling import filling_path, save_filling
from anchor.hull.merit import NEAR
from anchor.search.policies import load_trained


def fill(
    potential: str,
    *,
    folder: Path,
    target: Path,
    elements: Sequence[str] | None = None,
    listed: bool = False,
    policy: str = "default",
    draws: int = 2000,
    second: str = "sevennet-0",
    where: Workplace = ANYWHERE,
    seed: int = 0,
    time_limit_s: float = np.inf,
    on_progress: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Make what is missing of a run, and write what joins the hulls with its card.

    Args:
        potential: Whose hulls are filled.
        folder: Of the run; it goes on where it was.
        target: The package's or the cache folder.
        elements: Only their binaries and ternaries; None: all searchable ones' binaries, and the ternaries
            that the policy proposes.
        listed: Instead, stable compounds that a database lists and the reference has no crystal of.
        policy, draws: Who proposes ternary systems, and how many compositions it is asked for.
        second: Potential that has to agree with what lowers a hull by much.
        where: The work is done.
        time_limit_s: Stop after the chunk that passes it.
        on_progress: Hears a line per chunk.

    Returns:
        The card.
    """
    with where.open() as executor:
        maker = Maker.load(potential, second, executor, seed=seed)
        hull = maker.guards.hull
        searchable = hull.searchable_elements
        if elements is not None and (loose := sorted(set(elements) - set(searchable))):
            raise InputError(
                f"{', '.join(loose)}: no well-determined reference under {potential}, or wrong on the hulls",
                "leave them out; see: anchor energies calibrate",
            )

        def formulas() -> list[str]:
            on_progress("choosing formulas (about a minute)")
            if listed:
                return without_crystal(elements or searchable)
            if elements is not None:
                return wanted(elements, combinations(elements, 3))
            return wanted(searchable, ternary_systems(load_trained(policy).draw(draws, seed=seed)))

        plan = {
            "potential": potential,
            "checkpoint_hash": maker.judge.potential.checkpoint_hash,
            "second": second,
            "second_checkpoint_hash": maker.second.potential.checkpoint_hash,
            "reference_hash": maker.guards.reference.hash,
            "hull_hash": hull.identity.hash,
            "prior": {"name": maker.prior.name, "hash": maker.prior.hash},
            "elements": None if elements is None else list(elements),
            "policy": None if elements is not None or listed else {"name": policy, "draws": draws},
            **({"listed": True} if listed else {}),
            "seed": seed,
            "chunk": CHUNK,
            "candidates": CANDIDATES,
            "relaxing": asdict(RELAXING),
            "shares": [BINARY_SHARE, TERNARY_SHARE],
            "likely": LIKELY,
        }
        run = Run.begin(folder, plan, formulas)
        began, before = time.monotonic(), len(run.done())
        for number, arrays in run.work(maker, time_limit_s=time_limit_s):
            on_progress(_line(run, number, arrays, began, before))
    names, made = run.made()
    identity = {key: str(plan[key]) for key in ("potential", "checkpoint_hash", "reference_hash")}
    filling, counts = join(names, made, identity=identity, second=second)
    path = filling_path(potential, target, "listed" if listed else "filled")
    which = "listed phases without a crystal in the reference" if listed else "phases that no database lists"
    card = {
        "what": f"{which}, made under the potential as competitors on its hulls",
        "command": "anchor energies fill" + (" --listed" if listed else ""),
        "anchor": anchor.__version__,
        **plan,
        "thresholds": {
            "near_ev_per_atom": NEAR,
            "deep_ev_per_atom": DEEP,
            "agrees_within_ev_per_atom": AGREES_WITHIN,
            "volume_tail": VOLUME_TAIL,
        },
        "wanted": len(run.formulas),
        "seconds": round(run.seconds(), 1),
        "phases": len(filling),
        "effect": effect(maker.guards, filling),
        **counts,
    }
    save_filling(path, filling, card)
    return {**card, "file": str(path)}


def ternary_systems(compositions: Compositions) -> list[tuple[str, ...]]:
    """All sets of three elements that occur together, each once."""
    systems = {
        three for c in compositions for three in combinations(sorted(c.elements, key=NUMBER.__getitem__), 3)
    }
    return sorted(systems)


def _line(run: Run, number: int, arrays: Arrays, began: float, before: int) -> str:
    done, elapsed = len(run.done()) - before, time.monotonic() - began
    rate = done * CHUNK / elapsed
    left = elapsed / done * (run.n_chunks - before - done)
    distance = np.stack([arrays[f"above_{name}"] for name in DATABASES])
    return (
        f"chunk {number + 1}/{run.n_chunks}: {rate:.1f} formulas/s, {left / 60:.0f} min left; "
        f"{int((distance <= NEAR).any(axis=0).sum())} of {CHUNK} near a hull, "
        f"{int((distance < -DEEP).any(axis=0).sum())} more than {DEEP} eV/atom below"
    )
