"""The installed `mattergen` package on the same structures, to print beside our own numbers."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np

from anchor.crystals.crystals import Crystals
from anchor.errors import AnchorError, MissingDependencyError
from anchor.evaluate.protocol import Mean, Rate


def load_official() -> ModuleType:
    """MatterGen's module of evaluation; asked for before anything is measured."""
    try:
        return import_module("mattergen.evaluation.evaluate")
    except ImportError as error:
        raise MissingDependencyError(
            f"the package mattergen is not installed here ({error})",
            "install it in an environment of its own (https://github.com/microsoft/mattergen) together with "
            "anchor-crystals, or leave --official out: the protocol needs nothing of it",
        ) from None


def official_metrics(
    crystals: Crystals,
    *,
    elements: frozenset[int],
    reference: Path | None = None,
    device: str = "cpu",
) -> dict[str, float]:
    """MatterGen's metrics by its own code, in its default configuration.

    Structures are handed over in memory, all of them: its command, given a folder, reads one frame of an
    extxyz file. One element without a reference would void the energies of all, so those structures are left
    out first.

    Args:
        crystals: Generated structures.
        elements: Atomic numbers that the reference hull covers.
        reference: Its reference file; None takes the one in its own repository.
        device: For its relaxation.
    """
    evaluation = load_official()
    foreign = np.bincount(crystals.owner, ~np.isin(crystals.numbers, list(elements)), minlength=len(crystals))
    structures = crystals[np.flatnonzero(foreign == 0)].to_structures()
    if not structures:
        raise AnchorError(f"none of {len(crystals)} structures has only elements of the reference")
    kwargs: dict[str, object] = {"structures": structures, "relax": True, "device": device}
    if reference is not None:
        serializer = import_module("mattergen.evaluation.reference.reference_dataset_serializer")
        kwargs["reference"] = serializer.LMDBGZSerializer().deserialize(str(reference))
    found = evaluation.evaluate(**kwargs)
    if not isinstance(found, Mapping):
        raise AnchorError(
            f"mattergen's evaluate gave {type(found).__name__} instead of its metrics",
            "use mattergen ≥ 1.0.1",
        )
    numbers = {str(name): float(value) for name, value in found.items()}
    return {
        "n_submitted": float(len(structures)),
        "n_left_out": float(len(crystals) - len(structures)),
        **numbers,
    }


def side_by_side(
    ours: Mapping[str, Rate | Mean], official: Mapping[str, float]
) -> list[tuple[str, float | None, float | None]]:
    """(metric, ours, MatterGen's) for every metric that either has, None where one lacks it."""
    names = [*ours, *(name for name in official if name not in ours)]
    return [(name, ours[name].value if name in ours else None, official.get(name)) for name in names]
