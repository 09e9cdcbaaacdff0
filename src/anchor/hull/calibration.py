"""From a potential's energies to formation energies on the scale of the DFT reference.

    formation energy = E/atom − Σ_i x_i μ_i − Σ_M x_M s_M

with one reference energy μ_i per element, and one shift s_M per metal that is treated with a Hubbard U where
oxygen is present (another where fluorine is, without oxygen): the reference's DFT and the potential's
training data apply different U, and the difference is proportional to the metal's atomic fraction. Everything
is linear, so μ and s come from one robust fit to the DFT formation energies of the reference crystals.

With shifts "by presence" one oxygen among eleven iron atoms of a phosphide shifts them all, which a search
finds. "Bounded" shifts go to no more metal than the anions can oxidise, see `oxidised_share`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from anchor.chemistry.elements import NUMBER, SYMBOLS, VOCABULARY
from anchor.errors import InputError
from anchor.hull.phases import N_NUMBERS
from anchor.reading import read_json
from anchor.writing import replace_file

HUBBARD_METALS = ("V", "Cr", "Mn", "Fe", "Co", "Ni", "Cu", "Mo", "W", "Th", "U", "Np", "Pu")
"""Metals that OQMD, the Materials Project, or both treat with a Hubbard U."""
METAL_PER_OXYGEN = {**dict.fromkeys(HUBBARD_METALS, 2.0), "Mo": 1.0, "W": 1.0}
"""Most metal that one oxygen oxidises; one fluorine does half. Known oxides are full above this ratio."""
COMPETING = ("B", "C", "N", "Si", "P", "S", "Ge", "As", "Se", "Sb", "Te")
"""Elements that bind a metal in oxygen's stead: each takes its share of the metal."""
N_FOLDS = 5
FEWEST_FOR_SHIFT = 5
"""A shift is fitted where so many crystals show it; otherwise it is zero."""

# When an element may be searched: its reference must be fixed by enough crystals, and hold for unseen ones.
FEWEST_CRYSTALS = 60
LARGEST_STANDARD_ERROR = 0.03  # eV per atom of the element
LARGEST_HELD_OUT_MEDIAN = 0.05  # eV/atom, over the held-out crystals with the element
LARGEST_HELD_OUT_P90 = 0.12  # eV/atom: two states of one element (Eu²⁺/Eu³⁺, Ce³⁺/Ce⁴⁺) show in the tail

FAMILIES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("oxide", ("O",)),
    ("fluoride", ("F",)),
    ("halide", ("Cl", "Br", "I")),
    ("chalcogenide", ("S", "Se", "Te")),
    ("nitride", ("N",)),
    ("hydride", ("H",)),
    ("pnictide", ("P", "As", "Sb", "Bi")),
    ("boride, carbide, silicide", ("B", "C", "Si", "Ge")),
)
"""Chemistry families of crystals: the first with one of its elements; else "intermetallic" or "element"."""


def family_names(fractions: NDArray[np.float64]) -> NDArray[np.str_]:
    """Chemistry family of each composition.  # [n, 119] -> [n]"""
    names = np.full(len(fractions), "intermetallic", dtype="<U32")
    for name, symbols in reversed(FAMILIES):
        names[(fractions[:, [NUMBER[s] for s in symbols]] > 0).any(axis=1)] = name
    names[(fractions > 0).sum(axis=1) == 1] = "element"
    return names


@dataclass(frozen=True, eq=False)
class Calibration:
    """Places a potential's energies on the scale of the reference's DFT formation energies.

    Attributes:
        potential: Name of the potential.
        checkpoint_hash: SHA-256 of its weights; other weights need another calibration.
        fitted_on: SHA-256 of the energies and crystals it was fitted on.
        element_energy: μ by atomic number, eV; NaN where no crystal has the element.  # [119]
        oxide_shift: s by atomic number of the metal where O is present, eV.  # [119]
        fluoride_shift: The same where F is present and O is not, eV.  # [119]
        standard_error: Of μ, eV.  # [119]
        n_crystals: Crystals with the element.  # [119]
        errors: Held-out errors in eV/atom: {"all" | "families" | "elements": …}, see `error_summary`.
        bounded: Whether the shifts are bounded by what the anions can oxidise (else: by presence).
    """

    potential: str
    checkpoint_hash: str
    fitted_on: str
    element_energy: NDArray[np.float64]
    oxide_shift: NDArray[np.float64]
    fluoride_shift: NDArray[np.float64]
    standard_error: NDArray[np.float64]
    n_crystals: NDArray[np.int64]
    errors: Mapping[str, Any]
    bounded: bool = False

    def formation_energy(
        self, compositions: NDArray[np.float64], energies: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Formation energies on the reference's scale, eV/atom; NaN where an element has no μ.

        Args:
            compositions: Amounts by atomic number.  # [n, 119]
            energies: Of the potential, eV/atom.  # [n]
        """
        fractions = compositions / compositions.sum(axis=1, keepdims=True)
        oxide, fluoride = shift_weights(fractions, bounded=self.bounded)
        known = np.nan_to_num(self.element_energy)
        scale = fractions @ known
        scale = scale + oxide * (fractions @ self.oxide_shift) + fluoride * (fractions @ self.fluoride_shift)
        unknown = ((fractions > 0) & np.isnan(self.element_energy)).any(axis=1)
        return np.where(unknown, np.nan, energies - scale)

    @property
    def searchable_elements(self) -> tuple[str, ...]:
        """Vocabulary elements whose reference is well determined: a search may use them by default."""
        return tuple(symbol for symbol in VOCABULARY if symbol not in self.loose_elements)

    @property
    def loose_elements(self) -> dict[str, str]:
        """Vocabulary elements with a loose reference, and why: a search would exploit them."""
        loose = {}
        for symbol in VOCABULARY:
            z = NUMBER[symbol]
            error = self.errors["elements"].get(symbol, {"median": np.inf, "p90": np.inf})
            if self.n_crystals[z] < FEWEST_CRYSTALS:
                loose[symbol] = f"{self.n_crystals[z]} crystals, fewer than {FEWEST_CRYSTALS}"
            elif not self.standard_error[z] <= LARGEST_STANDARD_ERROR:
                loose[symbol] = f"reference energy uncertain by {self.standard_error[z]:.3f} eV"
            elif not error["median"] <= LARGEST_HELD_OUT_MEDIAN:
                loose[symbol] = f"held-out median error {error['median']:.3f} eV/atom"
            elif not error["p90"] <= LARGEST_HELD_OUT_P90:
                loose[symbol] = f"held-out 90th percentile error {error['p90']:.3f} eV/atom"
        return loose

    # Files

    def to_dict(self) -> dict[str, Any]:
        """Plain values by element symbol."""

        def by_symbol(values: NDArray, keep: NDArray[np.bool_]) -> dict[str, float]:
            return {SYMBOLS[z]: round(float(values[z]), 9) for z in np.flatnonzero(keep)}

        fitted = np.isfinite(self.element_energy)
        return {
            "potential": self.potential,
            "checkpoint_hash": self.checkpoint_hash,
            "fitted_on": self.fitted_on,
            "element_energy_ev": by_symbol(self.element_energy, fitted),
            "oxide_shift_ev": by_symbol(self.oxide_shift, self.oxide_shift != 0),
            "fluoride_shift_ev": by_symbol(self.fluoride_shift, self.fluoride_shift != 0),
            "standard_error_ev": by_symbol(self.standard_error, fitted),
            "n_crystals": {SYMBOLS[z]: int(self.n_crystals[z]) for z in np.flatnonzero(self.n_crystals)},
            "held_out_errors_ev_per_atom": self.errors,
            **({"shifts": "bounded"} if self.bounded else {}),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Calibration:
        def by_number(named: Mapping[str, float], rest: float) -> NDArray[np.float64]:
            array = np.full(N_NUMBERS, rest)
            for symbol, value in named.items():
                array[NUMBER[symbol]] = value
            return array

        return cls(
            potential=values["potential"],
            checkpoint_hash=values["checkpoint_hash"],
            fitted_on=values["fitted_on"],
            element_energy=by_number(values["element_energy_ev"], np.nan),
            oxide_shift=by_number(values["oxide_shift_ev"], 0.0),
            fluoride_shift=by_number(values["fluoride_shift_ev"], 0.0),
            standard_error=by_number(values["standard_error_ev"], np.nan),
            n_crystals=by_number(values["n_crystals"], 0.0).astype(np.int64),
            errors=values["held_out_errors_ev_per_atom"],
            bounded=values.get("shifts") == "bounded",
        )

    def save(self, path: Path) -> None:
        replace_file(path, json.dumps(self.to_dict(), indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> Calibration:
        hint = "make it again: anchor energies calibrate"
        try:
            return cls.from_dict(read_json(path, hint=hint))
        except (LookupError, TypeError, ValueError) as error:
            raise InputError(f"{path} is damaged: {type(error).__name__} {error}", hint) from None


def anion_masks(fractions: NDArray[np.float64]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Where the oxide shifts apply (O present) and where the fluoride ones (F present, O not).  # [n], [n]"""
    oxide = fractions[:, NUMBER["O"]] > 0
    return oxide, ~oxide & (fractions[:, NUMBER["F"]] > 0)


def oxidised_share(fractions: NDArray[np.float64]) -> NDArray[np.float64]:
    """Share of the +U metals that oxygen and fluorine can oxidise, beside other anions.  # [n, 119] -> [n]

        share = min(1, a² / ((a + x) Σ_M x_M / n_M))   with   a = x_O + x_F / 2

    x is the fraction of `COMPETING` elements and n_M that of `METAL_PER_OXYGEN`. Known compounds (MnO,
    LaFeAsO, LiFePO4) have a share of one; LiFe11P7O has 0.02.
    """
    anions = fractions[:, NUMBER["O"]] + fractions[:, NUMBER["F"]] / 2
    others = fractions[:, [NUMBER[s] for s in COMPETING]].sum(axis=1)
    metals = fractions[:, [NUMBER[s] for s in HUBBARD_METALS]] @ [
        1 / METAL_PER_OXYGEN[s] for s in HUBBARD_METALS
    ]
    wanted = (anions + others) * metals
    return np.minimum(1.0, np.divide(anions**2, wanted, out=np.ones(len(fractions)), where=wanted > 0))


def shift_weights(
    fractions: NDArray[np.float64], *, bounded: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """By how much the oxide and the fluoride shifts count, 0 to 1.  # [n], [n]"""
    share = oxidised_share(fractions) if bounded else np.ones(len(fractions))
    oxide, fluoride = anion_masks(fractions)
    return oxide * share, fluoride * share


def fit_calibration(
    fractions: NDArray[np.float64],
    energies: NDArray[np.float64],
    formation_energies: NDArray[np.float64],
    groups: NDArray[np.int64],
    *,
    potential: str,
    checkpoint_hash: str,
    fitted_on: str,
    bounded: bool = False,
) -> Calibration:
    """Fit μ and s on crystals with DFT formation energies, and measure the error on held-out ones.

    Args:
        fractions: Atomic fractions by atomic number.  # [n, 119]
        energies: Of the potential, eV/atom; crystals with NaN are left out.  # [n]
        formation_energies: DFT, eV/atom.  # [n]
        groups: Fold (0 … N_FOLDS − 1) of each crystal for the held-out errors.  # [n]
        bounded: Bound the shifts by what the anions can oxidise.
    """
    usable = np.isfinite(energies) & np.isfinite(formation_energies)
    if not usable.any():
        raise InputError("no crystal has both a DFT formation energy and a potential energy")
    fractions, groups = fractions[usable], groups[usable]
    target = energies[usable] - formation_energies[usable]  # = Σ x μ + Σ x s
    design, columns = design_matrix(fractions, bounded=bounded)
    solution, covariance = robust_least_squares(design, target)

    held_out = np.full(len(target), np.nan)
    for fold in range(N_FOLDS):
        train, test = groups != fold, groups == fold
        if not test.any():
            continue
        partial, _ = robust_least_squares(design[train], target[train])
        # an element that only this fold has cannot be predicted by the others
        seen = (design[train] != 0).any(axis=0)
        known = ~(design[test][:, ~seen] != 0).any(axis=1)
        rows = np.flatnonzero(test)[known]
        held_out[rows] = design[rows] @ partial - target[rows]

    vectors = {name: np.zeros(N_NUMBERS) for name in ("element", "oxide", "fluoride")}
    vectors["element"][:] = np.nan
    error = np.full(N_NUMBERS, np.nan)
    for (kind, z), value, variance in zip(columns, solution, np.diag(covariance), strict=True):
        vectors[kind][z] = value
        if kind == "element":
            error[z] = np.sqrt(variance)
    return Calibration(
        potential=potential,
        checkpoint_hash=checkpoint_hash,
        fitted_on=fitted_on,
        element_energy=vectors["element"],
        oxide_shift=vectors["oxide"],
        fluoride_shift=vectors["fluoride"],
        standard_error=error,
        n_crystals=(fractions > 0).sum(axis=0),
        errors=error_summary(fractions, held_out),
        bounded=bounded,
    )


def design_matrix(
    fractions: NDArray[np.float64], *, bounded: bool = False
) -> tuple[NDArray[np.float64], list[tuple[str, int]]]:
    """Columns of the fit: atomic fractions, and metal fractions where O (F) is present (can oxidise it).

    Returns:
        The matrix [n, p], and what each column is: ("element" | "oxide" | "fluoride", atomic number).
    """
    oxide, fluoride = shift_weights(fractions, bounded=bounded)
    columns = [("element", int(z)) for z in np.flatnonzero((fractions > 0).any(axis=0))]
    parts = [fractions[:, z] for _, z in columns]
    for kind, weight in (("oxide", oxide), ("fluoride", fluoride)):
        for symbol in HUBBARD_METALS:
            part = fractions[:, NUMBER[symbol]] * weight
            if np.count_nonzero(part) >= FEWEST_FOR_SHIFT:
                columns.append((kind, NUMBER[symbol]))
                parts.append(part)
    return np.column_stack(parts), columns


def robust_least_squares(
    design: NDArray[np.float64],
    target: NDArray[np.float64],
    *,
    threshold: float = 0.01,
    rejection: float = 0.3,
    n_iterations: int = 50,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Huber fit by iteratively reweighted least squares, then without the gross outliers; deterministic.

    Residuals beyond `threshold` (eV/atom) count linearly; after convergence, rows beyond `rejection` (wrong
    magnetic states and broken rows) are dropped and the fit is repeated.

    Args:
        design: [n, p]
        target: [n]

    Returns:
        The solution [p], and its sandwich covariance [p, p] (robust to unequal scatter). Columns without data
        give zero.
    """
    sparse = csr_array(design)  # a crystal has a handful of elements
    ridge = 1e-10 * np.eye(design.shape[1])  # keeps the equations solvable where a column has no data
    solution = np.zeros(design.shape[1])

    for largest in (np.inf, rejection):
        kept = np.abs(target - sparse @ solution) < largest
        rows, goal = sparse[kept], target[kept]
        residual = np.zeros(len(goal))
        for _ in range(n_iterations):
            weighted = rows.multiply((threshold / np.maximum(np.abs(residual), threshold))[:, None]).tocsr()
            normal = (weighted.T @ rows).toarray() + ridge
            before, solution = solution, np.linalg.solve(normal, weighted.T @ goal)
            residual = goal - rows @ solution
            if np.abs(solution - before).max() < 1e-7:
                break
    inverse = np.linalg.inv(normal)
    scores = weighted.multiply(residual[:, None]).tocsr()
    return solution, inverse @ (scores.T @ scores).toarray() @ inverse


def error_summary(fractions: NDArray[np.float64], residuals: NDArray[np.float64]) -> dict[str, Any]:
    """Errors of held-out crystals: of all, by chemistry family, by element (symbol); NaN is left out.

    Each is {"n", "median", "mean", "p90"} of absolute errors and "bias" (median signed error), eV/atom.
    """
    valid = np.isfinite(residuals)
    families = family_names(fractions)

    def summary(mask: NDArray[np.bool_]) -> dict[str, float]:
        errors = residuals[mask & valid]
        size = np.abs(errors)
        return {
            "n": len(errors),
            "median": round(float(np.median(size)), 5),
            "mean": round(float(size.mean()), 5),
            "p90": round(float(np.quantile(size, 0.9)), 5),
            "bias": round(float(np.median(errors)), 5),
        }

    everything = np.ones(len(residuals), dtype=bool)
    return {
        "all": summary(everything),
        "families": {n: summary(families == n) for n in np.unique(families[valid]).tolist()},
        "elements": {
            SYMBOLS[z]: summary(fractions[:, z] > 0)
            for z in np.flatnonzero((fractions[valid] > 0).any(axis=0)).tolist()
        },
    }
