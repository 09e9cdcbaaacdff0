"""Results of other codes: read by their own formats, and placed where the databases' own energies lie."""

import gzip
import json
import os
import random
from pathlib import Path

import ase
import ase.io
import numpy as np
import pytest
from ase.units import Bohr, Ry

from anchor.crystals.crystals import Crystals
from anchor.dft.engine import Calculator
from anchor.dft.inputs import write_inputs
from anchor.dft.jobs import Job
from anchor.dft.products import Library
from anchor.dft.results import read_result, result_files
from anchor.dft.rules import settings_for
from anchor.dft.stability import Stability
from anchor.dft.store import Energy
from anchor.errors import InputError
from anchor.hull.databases import Calibration, DatabaseHulls, dft_hull
from anchor.hull.hull import HullIdentity
from anchor.hull.references import PotentialHull
from anchor.reference.reference import load_reference

VASPRUN = Path(ase.__file__).parent / "test" / "testdata" / "vasp" / "vasprun_pstress.xml"
"""One of ASE's own test files: a relaxation under pressure that ended well."""


def pw_output(crystal: Crystals, energy: float, *, ended: bool = True) -> str:
    """What pw.x prints, the lines that matter; energy in eV."""
    (atoms,) = crystal.to_atoms()
    alat = float(np.linalg.norm(atoms.cell[0]))
    axes = [
        f"  a({i + 1}) = ( {' '.join(f'{x / alat:.9f}' for x in row)} )" for i, row in enumerate(atoms.cell)
    ]
    sites = [
        f" {i + 1} {atom.symbol} tau( {i + 1}) = ( {' '.join(f'{x / alat:.9f}' for x in atom.position)} )"
        for i, atom in enumerate(atoms)
    ]
    return "\n".join(
        [
            "     Program PWSCF v.7.4 starts on 30Dec2024 at 16:10:39",
            f"     lattice parameter (alat)  = {alat / Bohr:.9f}  a.u.",
            f"     number of atoms/cell      = {len(atoms)}",
            "     kinetic-energy cutoff     =      80.0000  Ry",
            "     Exchange-correlation= PBE",
            f"     celldm(1)= {alat / Bohr:.9f}  celldm(2)=   0.000000  celldm(3)=   0.000000",
            "     crystal axes: (cart. coord. in units of alat)",
            *axes,
            "   Cartesian axes",
            "     site n.     atom                  positions (alat units)",
            *sites,
            "     End of self-consistent calculation",
            "",
            "     Number of k-points >= 100: set verbosity='high' to print the bands.",
            f"!    total energy              = {energy / Ry:.10f} Ry",
            *(["     JOB DONE."] if ended else []),
            "",
        ]
    )


@pytest.fixture(scope="module")
def salt() -> Crystals:
    reference = load_reference()
    (rows,) = np.nonzero(reference.formulas == "NaCl")
    return reference.crystals[[int(rows[0])]]


@pytest.mark.skipif(not VASPRUN.exists(), reason="this ASE comes without its test files")
def test_vasprun() -> None:
    result = read_result(VASPRUN)
    assert result.code == "VASP"
    assert result.energy.energy == pytest.approx(ase.io.read(VASPRUN).get_potential_energy(), abs=0.2)
    assert result.crystal.n_atoms == len(ase.io.read(VASPRUN))


def test_quantum_espresso(salt: Crystals, tmp_path: Path) -> None:
    (tmp_path / "pw.out").write_text(pw_output(salt, -100.0))
    result = read_result(tmp_path / "pw.out")
    assert (result.code, result.settings, result.formula) == ("Quantum ESPRESSO", "PBE, 80 Ry", "NaCl")
    assert result.energy.energy == pytest.approx(-100.0, abs=1e-4)
    assert np.abs(result.crystal.lattice - salt.lattice).max() < 1e-5
    (tmp_path / "pw.out").write_text(pw_output(salt, -100.0, ended=False))
    assert read_result(tmp_path / "pw.out").energy.text == "not converged: it did not end"


def test_our_own_gpaw_jobs_come_back(salt: Crystals, tmp_path: Path) -> None:
    job = Job.of(salt, settings_for(["NaCl"]))
    (folder,) = write_inputs([("salt", job)], "gpaw", tmp_path)
    (folder / "result.json").write_text(json.dumps({"status": "done", "energy_ev": -7.5}))
    (result,) = map(read_result, result_files([tmp_path]))
    assert result.energy.per_atom == pytest.approx(-7.5 / len(job.numbers))
    assert result.crystal.hash == job.crystal.hash


def gpaw_output(crystal: Crystals, energies: list[float], *, converged: bool = True) -> str:
    """What GPAW of 2026 prints, the lines that matter: an older geometry, then the crystal's own."""
    (atoms,) = crystal.to_atoms()

    def table(positions: np.ndarray, cell: np.ndarray) -> list[str]:
        sites = [
            f"| {i} |     {symbol} | {' | '.join(f'{x:.6f}' for x in place)} | ( 0.0000,  0.0000,  0.0000) |"
            for i, (symbol, place) in enumerate(zip(atoms.symbols, positions, strict=True))
        ]
        vectors = [f"|      yes | {' | '.join(f'{x:.6f}' for x in row)} | 2.9 | 60.0 |" for row in cell]
        return [
            "Atoms  # Å, Bohr magnetons", "|   | symbol | x | y | z | magnetic moments |", "|---|---|",
            *sites, "", "", "Unit cell  # Å", "| periodic | x | y | z | lengths | angles |", "|---|---|",
            *vectors, "", "",
        ]  # fmt: skip

    return "\n".join(
        [
            "  __  _  _", " | _ |_)|_||  |", " |__||  | ||/\\| - 26.7.0", "", "Input parameters:",
            "  mode=PW(ecut=350.0),", "  xc=XC(name='PBE')", "",
            *table(1.1 * atoms.positions, 1.1 * atoms.cell.array), "Cutoff: 350.0 eV", "",
            "xc functional:", "  name: PBE with 2 nearest neighbor stencil", "",
            *table(atoms.positions, atoms.cell.array),
            "Converged in 8 steps" if converged else "Did not converge!",
            *(f"  Extrapolated:     {energy:.6f}" for energy in energies),
        ]
    )  # fmt: skip


def test_text_of_gpaw(salt: Crystals, tmp_path: Path) -> None:
    (tmp_path / "salt.txt").write_text(gpaw_output(salt, [-6.5, -7.25]))
    (result,) = map(read_result, result_files([tmp_path]))
    assert (result.code, result.settings, result.formula) == ("GPAW", "PBE, 350 eV", "NaCl")
    assert result.energy.energy == pytest.approx(-7.25)
    assert np.abs(result.crystal.lattice - salt.lattice).max() < 1e-5
    (tmp_path / "salt.txt").write_text(gpaw_output(salt, [-7.0], converged=False))
    assert "not converged" in read_result(tmp_path / "salt.txt").energy.text
    (tmp_path / "salt.txt").write_text(gpaw_output(salt, []))
    with pytest.raises(InputError, match="damaged or unfinished"):
        read_result(tmp_path / "salt.txt")


def test_what_is_no_result_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("bought milk")
    with pytest.raises(InputError, match="no result of VASP"):
        read_result(tmp_path / "notes.txt")
    with pytest.raises(InputError, match="no result of a DFT code"):
        result_files([tmp_path])
    (tmp_path / "vasprun.xml").write_text("<modeling><kpoints>")
    with pytest.raises(InputError, match="damaged or unfinished"):
        read_result(tmp_path / "vasprun.xml")


def test_compressed_results(salt: Crystals, tmp_path: Path) -> None:
    packed = gzip.compress((pw_output(salt, -100.0) + random.Random(0).randbytes(40_000).hex()).encode())
    (tmp_path / "pw.out.gz").write_bytes(packed)
    result = read_result(tmp_path / "pw.out.gz")
    assert (result.code, result.source) == ("Quantum ESPRESSO", str(tmp_path / "pw.out.gz"))
    for damaged in (packed[:-900], packed[:-900] + bytes(900), packed[:500] + b"\xa5" * 200 + packed[700:]):
        (tmp_path / "pw.out.gz").write_bytes(damaged)
        with pytest.raises(InputError, match=r"damaged or unfinished|no result of VASP"):
            read_result(tmp_path / "pw.out.gz")


def test_a_bomb_is_refused(tmp_path: Path) -> None:
    (tmp_path / "vasprun.xml.gz").write_bytes(gzip.compress(b"<modeling>" + bytes(2**28), 1))
    with pytest.raises(InputError, match="bomb"):
        read_result(tmp_path / "vasprun.xml.gz")


def test_pipes_among_results_are_passed_over(salt: Crystals, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.log")
    (tmp_path / "b.log").symlink_to("nowhere")
    (tmp_path / "pw.out").write_text(pw_output(salt, -100.0))
    assert result_files([tmp_path]) == [tmp_path / "pw.out"]


def test_an_energy_that_is_no_number_does_not_count(salt: Crystals, tmp_path: Path) -> None:
    (tmp_path / "pw.out").write_text(pw_output(salt, float("nan")))
    assert read_result(tmp_path / "pw.out").energy.text == "not converged: its energy is nan"


SCALE = np.linspace(-3.0, -9.0, 119)
"""eV: energies of the elements on the scale of another code."""


def test_the_databases_own_energies_lie_on_their_hull() -> None:
    reference = load_reference()
    listed = dict(zip(reference.hull_formulas, reference.hull_formation_energy.tolist(), strict=True))
    dft = dft_hull("oqmd")
    nothing = np.full(119, np.nan)
    calibration = Calibration("none", "", "", nothing, nothing, nothing, nothing, np.zeros(119, int), {})
    hull = PotentialHull({"oqmd": DatabaseHulls(calibration, dft, dft, dft, np.zeros(0))}, HullIdentity(""))
    stability = Stability(hull, Library("none", ""), Calculator(known_only=True))

    def energy(amounts: dict[int, int], formula: str, above: float = 0.0) -> Energy:
        atoms = sum(amounts.values())
        scale = sum(n * SCALE[z] for z, n in amounts.items())
        return Energy("done", "", atoms * (listed.get(formula, 0.0) + above) + scale, atoms)

    potash, salt = energy({19: 1, 17: 1}, "KCl"), energy({11: 1, 17: 1}, "NaCl")
    own = energy({11: 1, 19: 1, 17: 2}, "KNaCl2", (listed["KCl"] + listed["NaCl"]) / 2 + 0.03)
    (both,) = stability.placed("KNaCl2", own, {"KCl": potash, "NaCl": salt})
    assert both.above == pytest.approx(0.03)
    assert not both.mixed
    metals = {"KCl": potash, "Na": energy({11: 1}, "Na"), "K": energy({19: 1}, "K")}
    (one,) = stability.placed("KNaCl2", own, metals)  # NaCl by OQMD's difference: KCl − K + Na
    assert one.above == pytest.approx(0.03)
    assert one.mixed
    (none,) = stability.placed("KNaCl2", own, {})
    assert none.above is None
