"""Wrong energies are found; depths agree with pymatgen's phase diagram of the other entries."""

from __future__ import annotations

import numpy as np
import pytest
from pymatgen.analysis.phase_diagram import PDEntry, PhaseDiagram
from pymatgen.core import Composition, Element

from anchor.reference.quarantine import MAX_DEPTH, chemical_neighbours, find_suspects
from anchor.reference.raw import RawEnergies


def raw(entries: dict[str, float]) -> RawEnergies:
    terms = [sorted((e.Z, int(n)) for e, n in Composition(f).items()) for f in entries]
    padded = np.array([t + [(0, 0)] * (4 - len(t)) for t in terms], dtype=np.uint8)
    return RawEnergies(padded[..., 0], padded[..., 1], np.array(list(entries.values())))


def found(
    entries: dict[str, float], made: tuple[str, ...] = (), elsewhere: dict[str, float] | None = None
) -> dict[str, tuple[float, bool]]:
    names = list(entries)
    suspects = find_suspects(
        raw(entries),
        np.array([n not in made for n in names]),
        np.array([(elsewhere or {}).get(n, np.nan) for n in names]),
    )
    return {names[s.entry]: (s.depth, s.quarantined) for s in suspects}


def test_depths_agree_with_pymatgen() -> None:
    rng = np.random.default_rng(0)
    symbols = ["Li", "Mg", "Sn", "O"]  # no two of them are chemical neighbours
    formulas = {
        Composition(dict(zip(symbols, counts, strict=True))).reduced_formula
        for counts in rng.integers(0, 4, (60, 4))
        if (counts > 0).sum() > 1
    }
    entries = {
        f: float(e) for f, e in zip(sorted(formulas), rng.uniform(-0.9, 0.3, len(formulas)), strict=True)
    }
    elements = [PDEntry(Composition(s), 0.0) for s in symbols]
    phases = {f: PDEntry(Composition(f), e * Composition(f).num_atoms) for f, e in entries.items()}
    expected = {}
    for formula, entry in phases.items():
        others = PhaseDiagram(elements + [p for f, p in phases.items() if f != formula])
        depth = -others.get_e_above_hull(entry, allow_negative=True)
        if depth > MAX_DEPTH:
            expected[formula] = depth
    result = found(entries)
    assert expected
    assert set(expected) <= set(result)  # more can follow once the first ones are out
    for formula, depth in expected.items():
        assert result[formula] == (pytest.approx(depth, abs=1e-9), True)


def test_impossible_energy_goes_even_for_a_known_compound() -> None:
    assert found({"TcMg2": -198.0, "NaCl": -2.0}, made=("TcMg2", "NaCl")) == {"TcMg2": (np.inf, True)}


def test_known_compounds_are_never_touched() -> None:
    assert found({"NaCl": -2.0}, made=("NaCl",)) == {}
    assert found({"NaCl": -2.0})["NaCl"] == (pytest.approx(2.0), True)


def test_an_analogue_of_similar_energy_saves() -> None:
    made = ("LaP", "KCl")
    assert found({"AcP": -1.6, "LaP": -1.7}, made)["AcP"] == (pytest.approx(1.6), False)
    assert found({"AcP": -1.6, "LaP": -1.2}, made)["AcP"] == (pytest.approx(1.6), True)
    assert found({"NaCl": -2.0, "KCl": -2.2}, made)["NaCl"] == (pytest.approx(2.0), False)


def test_agreement_with_another_database_saves() -> None:
    assert found({"NaLaAu2": -2.8}, elsewhere={"NaLaAu2": -0.6})["NaLaAu2"] == (pytest.approx(2.8), True)
    assert found({"NaLaAu2": -0.7}, elsewhere={"NaLaAu2": -0.6})["NaLaAu2"] == (pytest.approx(0.7), False)
    assert found({"NaLaAu2": -0.7}, elsewhere={"NaLaAu2": -1.6})["NaLaAu2"] == (pytest.approx(0.7), False)


def test_a_wrong_entry_cannot_hide_another() -> None:
    """Both Al-Hg-W entries are wrong; each shallow below the other until the deeper one is out."""
    entries = {"Al2HgW": -2.0, "Al4HgW": -1.4}
    result = found(entries)
    assert {f for f, (_, out) in result.items() if out} == set(entries)


def test_chemical_neighbours() -> None:
    def symbols(z: int) -> set[str]:
        return {Element.from_Z(n).symbol for n in chemical_neighbours(z)}

    assert symbols(11) == {"Li", "K"}
    assert symbols(8) == {"S"}
    assert symbols(72) == {"Zr"}
    assert {"Y", "Sc", "Nd", "Lu", "Ac"} <= symbols(57)
    assert {"Th", "U", "Np", "Ac"} <= symbols(91)
    assert "Nd" not in symbols(92)
