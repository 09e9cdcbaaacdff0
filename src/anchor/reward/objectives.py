"""Own objectives: any function from structures to numbers in [0, 1] joins the reward.

An objective is named in the config as 'package.module:function', or by the name of an entry point in the
group `anchor.objectives`. Three ship as examples and need no download: see `BUILT_IN_OBJECTIVES`.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from importlib.metadata import entry_points

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pymatgen.analysis.cost import CostAnalyzer, CostDBElements
from pymatgen.analysis.hhi import HHIModel
from pymatgen.core import Structure

from anchor.errors import AnchorError, InputError, nearest
from anchor.own_code import imported

Objective = Callable[[Sequence[Structure]], NDArray[np.float64]]


def low_cost(structures: Sequence[Structure]) -> NDArray[np.float64]:
    """1 for elements that cost nothing, 0.5 at 100 USD/kg, falling with the logarithm of the price."""
    analyzer = CostAnalyzer(CostDBElements())
    price = np.array([analyzer.get_cost_per_kg(s.composition) for s in structures], dtype=np.float64)
    return 1.0 / (1.0 + np.log10(1.0 + price) / np.log10(101.0))


def low_supply_risk(structures: Sequence[Structure]) -> NDArray[np.float64]:
    """1 − Herfindahl–Hirschman index of the elements' reserves / 10,000: 1 when many countries hold them."""
    model = HHIModel()
    index = [model.get_hhi_reserve(s.composition) for s in structures]
    # no figure for an element counts as the worst: the whole supply in one hand
    return np.array([0.0 if value is None else 1.0 - min(value, 10_000.0) / 10_000.0 for value in index])


def low_density(structures: Sequence[Structure]) -> NDArray[np.float64]:
    """1 for weightless crystals, 0.5 at 5 g/cm³."""
    return np.array([1.0 / (1.0 + float(s.density) / 5.0) for s in structures])


BUILT_IN_OBJECTIVES: dict[str, Objective] = {
    "low_cost": low_cost,
    "low_supply_risk": low_supply_risk,
    "low_density": low_density,
}


def load_objective(name: str) -> Objective:
    """The objective of that name or import path, checked on every call to return numbers in [0, 1].

    Raises:
        InputError: It does not exist or cannot be imported.
    """
    function = BUILT_IN_OBJECTIVES.get(name) or _entry_point(name) or _import(name)

    if not callable(function):
        raise InputError(f"objective '{name}' is a {type(function).__name__}, not a function")

    def checked(structures: Sequence[Structure]) -> NDArray[np.float64]:
        if not structures:  # a group without a valid crystal asks nothing
            return np.empty(0)
        return _check(name, _call(name, function, structures), len(structures))

    return checked


def try_objective(objective: Objective, known: Sequence[Structure]) -> None:
    """Call an objective once on known crystals, before a search spends time on others.

    Raises:
        InputError: It raises, or does not return one number in [0, 1] for each; the message says which.
    """
    try:
        objective(known)
    except AnchorError as error:
        what = " and ".join(structure.composition.reduced_formula for structure in known)
        raise InputError(
            f"{error.message}, tried on {what}",
            "nothing was begun; mend it: it takes a list of pymatgen structures and returns one number in "
            "[0, 1] for each",
        ) from error


def _entry_point(name: str) -> Callable[[Sequence[Structure]], ArrayLike] | None:
    found = [point for point in entry_points(group="anchor.objectives") if point.name == name]
    return found[0].load() if found else None


def _import(path: str) -> Callable[[Sequence[Structure]], ArrayLike]:
    if ":" not in path:
        raise InputError(
            f"unknown objective '{path}'",
            f"{nearest(path, BUILT_IN_OBJECTIVES)} or give an import path such as mypackage.rewards:hardness",
        )
    return imported(path, "objective")


def _call(
    name: str, function: Callable[[Sequence[Structure]], ArrayLike], structures: Sequence[Structure]
) -> ArrayLike:
    try:
        return function(structures)
    except (Exception, SystemExit) as error:  # code of somebody else: its fault is named, not hidden
        line = traceback.extract_tb(error.__traceback__)[-1]
        raise AnchorError(
            f"objective '{name}' raised {type(error).__name__}: {error} "
            f"({line.filename}, line {line.lineno})",
            "the step was not stored; mend the objective and resume",
        ) from error


def _check(name: str, values: ArrayLike, n: int) -> NDArray[np.float64]:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise AnchorError(
            f"objective '{name}' returned a {type(values).__name__}, not numbers: {error}",
            "return one number in [0, 1] for each structure",
        ) from None
    if array.shape != (n,):
        raise AnchorError(
            f"objective '{name}' returned shape {array.shape} for {n} structures, not ({n},)",
            "return one number each",
        )
    if not np.isfinite(array).all() or array.min(initial=0.0) < 0.0 or array.max(initial=0.0) > 1.0:
        bad = array[~((array >= 0) & (array <= 1))][0]
        raise AnchorError(f"objective '{name}' returned {bad}", "values must lie in [0, 1], higher is better")
    return array
