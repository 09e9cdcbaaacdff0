"""The calibration recovers what made the data, ignores broken rows, and knows which elements are loose."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from anchor.chemistry.elements import NUMBER, SYMBOLS
from anchor.errors import InputError
from anchor.hull.calibration import (
    Calibration,
    design_matrix,
    error_summary,
    family_names,
    fit_calibration,
    oxidised_share,
    robust_least_squares,
    shift_weights,
)
from anchor.hull.phases import composition_matrix
from anchor.paths import BUNDLED

ELEMENTS = ["Li", "Na", "Fe", "Mn", "O", "F", "S"]
MU = {"Li": -1.9, "Na": -1.3, "Fe": -8.2, "Mn": -9.0, "O": -4.9, "F": -1.7, "S": -4.1, "Tc": -10.3}
OXIDE_SHIFT = {"Fe": 2.1, "Mn": 1.6}
FLUORIDE_SHIFT = {"Fe": 1.2, "Mn": 0.7}


def fractions_of(formulas: list[str]) -> np.ndarray:
    amounts = composition_matrix(formulas)
    return amounts / amounts.sum(axis=1, keepdims=True)


def level(fractions: np.ndarray) -> np.ndarray:
    """What the calibration has to find, written out crystal by crystal."""
    found = []
    for row in fractions:
        total = sum(row[NUMBER[s]] * mu for s, mu in MU.items())
        if row[NUMBER["O"]] > 0:
            total += sum(row[NUMBER[s]] * shift for s, shift in OXIDE_SHIFT.items())
        elif row[NUMBER["F"]] > 0:
            total += sum(row[NUMBER[s]] * shift for s, shift in FLUORIDE_SHIFT.items())
        found.append(total)
    return np.array(found)


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Fractions, potential energies and formation energies of 600 crystals; three have technetium."""
    rng = np.random.default_rng(0)
    formulas = [
        "".join(f"{e}{rng.integers(1, 7)}" for e in rng.choice(ELEMENTS, rng.integers(1, 4), replace=False))
        for _ in range(600)
    ]
    formulas += ["TcO2", "TcS2", "Tc"]
    fractions = fractions_of(formulas)
    formation = rng.normal(-1, 0.5, len(formulas))
    return fractions, formation + level(fractions), formation


def fit(data: tuple[np.ndarray, np.ndarray, np.ndarray], noise: np.ndarray | float = 0.0) -> Calibration:
    fractions, energies, formation = data
    groups = np.arange(len(energies)) % 5
    return fit_calibration(
        fractions, energies + noise, formation, groups, potential="p", checkpoint_hash="w", fitted_on="c"
    )


def test_exact_data_give_back_their_parameters(data: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    found = fit(data)
    for symbol, mu in MU.items():
        assert found.element_energy[NUMBER[symbol]] == pytest.approx(mu, abs=1e-5)
    for symbol, shift in OXIDE_SHIFT.items():
        assert found.oxide_shift[NUMBER[symbol]] == pytest.approx(shift, abs=1e-5)
    for symbol, shift in FLUORIDE_SHIFT.items():
        assert found.fluoride_shift[NUMBER[symbol]] == pytest.approx(shift, abs=1e-5)
    fractions, energies, formation = data
    np.testing.assert_allclose(found.formation_energy(fractions, energies), formation, atol=1e-6)
    np.testing.assert_allclose(found.formation_energy(7 * fractions, energies), formation, atol=1e-6)
    assert found.errors["all"]["mean"] < 1e-5


def test_broken_rows_do_not_move_it(data: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    rng = np.random.default_rng(1)
    noise = rng.normal(0, 0.01, len(data[1]))
    broken = rng.random(len(noise)) < 0.05
    noise[broken] += rng.uniform(1, 4, broken.sum())
    noise[-3:] = 0.0
    found = fit(data, noise)
    for symbol in ELEMENTS:
        assert found.element_energy[NUMBER[symbol]] == pytest.approx(MU[symbol], abs=0.01)
    plain = np.linalg.lstsq(design_matrix(data[0])[0], data[1] + noise - data[2], rcond=None)[0]
    assert (
        np.abs(plain[:5] - [MU[s] for s in ("Li", "O", "F", "Na", "S")]).max() > 0.02
    )  # a plain fit is moved
    assert found.errors["all"]["median"] < 0.012


def test_standard_errors_match_the_scatter_of_repeated_fits(
    data: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> None:
    rng = np.random.default_rng(2)
    design, _ = design_matrix(data[0][:-3])
    truth = rng.normal(0, 1, design.shape[1])
    fits = [
        robust_least_squares(design, design @ truth + rng.normal(0, 0.01, len(design))) for _ in range(60)
    ]
    scatter = np.std([solution for solution, _ in fits], axis=0)
    claimed = np.mean([np.sqrt(np.diag(covariance)) for _, covariance in fits], axis=0)
    np.testing.assert_allclose(claimed, scatter, rtol=0.35)


def test_elements_with_few_crystals_are_loose(data: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    found = fit(data, np.random.default_rng(3).normal(0, 0.01, len(data[1])))
    assert "3 crystals" in found.loose_elements["Tc"]
    assert "0 crystals" in found.loose_elements["Ca"]
    assert set(found.searchable_elements) == set(ELEMENTS)


def test_elements_that_no_crystal_has_are_not_scored(data: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    found = fit(data)
    energy = found.formation_energy(composition_matrix(["CaO", "Li2O"]), np.zeros(2))
    assert np.isnan(energy[0])
    assert np.isfinite(energy[1])


def test_crystals_without_energy_are_left_out(data: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    noise = np.zeros(len(data[1]))
    noise[::7] = np.nan
    found = fit(data, noise)
    assert found.element_energy[NUMBER["O"]] == pytest.approx(MU["O"], abs=1e-5)
    assert found.errors["all"]["n"] <= np.isfinite(noise).sum()


def test_the_file_gives_back_the_same(
    data: tuple[np.ndarray, np.ndarray, np.ndarray], tmp_path: Path
) -> None:
    found = fit(data, 0.01)
    found.save(tmp_path / "a.json")
    again = Calibration.load(tmp_path / "a.json")
    assert again.to_dict() == found.to_dict()
    again.save(tmp_path / "b.json")
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    np.testing.assert_allclose(
        again.formation_energy(data[0], data[1]), found.formation_energy(data[0], data[1])
    )


def test_families() -> None:
    formulas = ["Fe2O3", "FeOF", "NaF", "NaCl", "FeS2", "GaN", "LiH", "GaAs", "SiC", "NiAl", "Cu"]
    expected = [
        "oxide", "oxide", "fluoride", "halide", "chalcogenide", "nitride", "hydride", "pnictide",
        "boride, carbide, silicide", "intermetallic", "element",
    ]  # fmt: skip
    assert family_names(fractions_of(formulas)).tolist() == expected


def test_error_summary_counts_and_leaves_out_nan() -> None:
    fractions = fractions_of(["Fe2O3", "NaCl", "FeO", "CaO"])
    summary = error_summary(fractions, np.array([0.1, -0.2, -0.3, np.nan]))
    assert summary["all"] == {"n": 3, "median": 0.2, "mean": 0.2, "p90": 0.28, "bias": -0.2}
    assert summary["families"]["oxide"]["n"] == 2
    assert summary["elements"]["Fe"]["mean"] == pytest.approx(0.2)
    assert "Ca" not in summary["elements"]


def test_known_compounds_take_the_whole_shift_and_metal_rich_ones_do_not() -> None:
    known = ["MnO", "Fe2O3", "LiFePO4", "LaFeAsO", "FeSO4", "Fe2SiO4", "WO2", "MoO3", "FeF2", "Cu2O", "FeOF"]
    np.testing.assert_allclose(oxidised_share(fractions_of(known)), 1.0)
    # written out: a = 1/20, x = 7/20, metal 11/20, two metals for each oxygen
    expected = (1 / 20) ** 2 / ((8 / 20) * (11 / 20) / 2)
    assert oxidised_share(fractions_of(["LiFe11P7O"]))[0] == pytest.approx(expected, rel=1e-12)
    assert oxidised_share(fractions_of(["NaCl"]))[0] == 1.0  # nothing to share


def test_bounded_shifts_are_recovered_and_kept(data: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    fractions, _, formation = data
    oxide, fluoride = shift_weights(fractions, bounded=True)
    scale = fractions @ [MU.get(s, 0.0) for s in SYMBOLS]
    scale += oxide * (fractions @ [OXIDE_SHIFT.get(s, 0.0) for s in SYMBOLS])
    scale += fluoride * (fractions @ [FLUORIDE_SHIFT.get(s, 0.0) for s in SYMBOLS])
    found = fit_calibration(
        fractions, formation + scale, formation, np.arange(len(scale)) % 5,
        potential="p", checkpoint_hash="w", fitted_on="c", bounded=True,
    )  # fmt: skip
    for symbol, shift in OXIDE_SHIFT.items():
        assert found.oxide_shift[NUMBER[symbol]] == pytest.approx(shift, abs=1e-5)
    again = Calibration.from_dict(found.to_dict())
    assert again.bounded
    np.testing.assert_allclose(again.formation_energy(fractions, formation + scale), formation, atol=1e-5)


@pytest.mark.parametrize("name", ["mattersim-1m", "mattersim-5m", "sevennet-0", "chgnet"])
def test_one_oxygen_added_to_a_mixed_anion_compound_gains_little(name: str) -> None:
    """All M–X–Li compositions of 20 atoms with one oxygen and three or more of P, S, Se, N, As."""
    metals = ("V", "Cr", "Mn", "Fe", "Co", "Ni", "Cu", "Mo", "W")
    rows = []
    for metal, other in product(metals, ("P", "S", "Se", "N", "As")):
        for n, m in product(range(3, 18), range(1, 17)):
            if n + m > 19:
                continue
            row = np.zeros(119)
            row[[NUMBER[metal], NUMBER[other], NUMBER["Li"], NUMBER["O"]]] = [m, n, 19 - n - m, 1]
            rows.append(row / 20)
    fractions = np.array(rows)
    for scheme, most in (("oqmd", 0.1), ("mp", 0.1), ("", np.inf)):
        ending = f"calibration-{scheme}" if scheme else "calibration"
        found = Calibration.load(BUNDLED / "energies" / f"{name}.{ending}.json")
        gain = shift_weights(fractions, bounded=found.bounded)[0] * (fractions @ found.oxide_shift)
        assert gain.max() < most
    assert gain.max() > 0.3  # by presence


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"potential": 3}'])
def test_a_damaged_file_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "calibration.json").write_text(content)
    with pytest.raises(InputError, match=r"calibration\.json is damaged"):
        Calibration.load(tmp_path / "calibration.json")
