"""Each potential against its package's own ASE calculator, and against slopes of its energy."""

from __future__ import annotations

import contextlib
import io

import numpy as np
import pytest

from anchor.potentials import availability
from anchor.potentials.check import check_potential
from anchor.potentials.registry import REGISTRY, find
from anchor.potentials.weights import verified

HERE = ("mattersim-1m", "mattersim-5m", "chgnet", "sevennet-0", "sevennet-l3i5")


def stock_calculator(name: str):
    path = str(verified(find(name).weights, hint=""))
    with contextlib.redirect_stdout(io.StringIO()):
        if name.startswith("mattersim"):
            from mattersim.forcefield import MatterSimCalculator

            return MatterSimCalculator(load_path=path, device="cpu")
        if name == "chgnet":
            from chgnet.model.dynamics import CHGNetCalculator

            return CHGNetCalculator(use_device="cpu")
        from sevenn.calculator import SevenNetCalculator

        return SevenNetCalculator(path, device="cpu")


@pytest.mark.parametrize("name", HERE)
def test_equals_the_packages_own_calculator(name, load, solids, crystals):
    potential = load(name)
    ours = potential.evaluate(crystals)
    calculator = stock_calculator(name)
    for k, atoms in enumerate(solids):
        atoms = atoms.copy()
        atoms.calc = calculator
        part = slice(*crystals.offsets[k : k + 2])
        assert ours.energy[k] / len(atoms) == pytest.approx(
            atoms.get_potential_energy() / len(atoms), abs=1e-5
        )
        assert np.allclose(ours.forces[part], atoms.get_forces(), atol=5e-5)
        assert np.allclose(ours.stress[k], atoms.get_stress(voigt=False), atol=5e-6)


@pytest.mark.parametrize("name", [name for name in REGISTRY if name != "sevennet-l3i5"])
def test_forces_and_stresses_are_slopes_of_the_energy(name, load):
    """Every registered potential, wherever its package and weights are (l3i5 is SevenNet-0's code)."""
    if name not in HERE and not availability(name).ok:
        pytest.skip(f"{name}: {availability(name).reason}")
    checks = check_potential(load(name, "float64"))
    assert len(checks) == 4
    assert all(check.passed for check in checks), checks


@pytest.mark.parametrize("name", HERE)
def test_registry_and_adapter_agree(name, load):
    potential, entry = load(name), find(name)
    assert potential.name == name
    assert len(potential.elements) == entry.elements
    assert potential.energies_corrected is entry.energies_corrected
    assert potential.checkpoint_hash == entry.weights.sha256


def test_only_chgnet_is_on_the_corrected_scale(load):
    assert [name for name in HERE if load(name).energies_corrected] == ["chgnet"]
