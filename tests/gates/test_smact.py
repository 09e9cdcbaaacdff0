"""MatterGen's validities against SMACT itself and pymatgen."""

import numpy as np
import pytest
from pymatgen.core import Composition, Lattice, Structure

from anchor.chemistry.elements import VOCABULARY
from anchor.crystals.crystals import Crystals
from anchor.crystals.distances import minimum_image_distances
from anchor.gates.smact import SmactGate, composition_fault, structures_valid
from anchor.random import generator

smact_screening = pytest.importorskip("smact.screening")


@pytest.mark.parametrize(
    ("formula", "fault"),
    [
        ("NaCl", ""),
        ("NaCl2", "no charge-neutral oxidation states"),
        ("FeNi", ""),  # alloys of metals are valid
        ("S8", ""),  # elements too
        ("Fe3O4", "no charge-neutral oxidation states"),  # one state per element: mixed valence fails
        ("PmCl3", "SMACT has no oxidation states of Pm"),  # MatterGen stops here with a TypeError
    ],
)
def test_compositions_by_hand(formula: str, fault: str) -> None:
    assert composition_fault({k: int(n) for k, n in Composition(formula).get_el_amt_dict().items()}) == fault


def test_compositions_against_smact() -> None:
    """SMACT's own function with the same table, on random formulas; unreduced ones too."""
    stream = generator(5, "smact")
    answers = []
    for _ in range(250):
        symbols = stream.choice([s for s in VOCABULARY if s != "Pm"], stream.integers(2, 4), replace=False)
        atoms = {str(s): int(stream.integers(1, 5)) for s in symbols}
        expected = smact_screening.smact_validity(Composition(atoms), oxidation_states_set="icsd24")
        assert (not composition_fault(atoms)) == expected, atoms
        answers.append(expected)
    assert 0.2 < np.mean(answers) < 0.8


def test_structures_against_pymatgens_distances() -> None:
    stream = generator(6, "structures")
    structures = []
    for size in stream.uniform(1.0, 3.0, 60):
        n = int(stream.integers(2, 5))
        lattice = Lattice(size * (np.eye(3) + stream.normal(0, 0.2, (3, 3))))
        structures.append(Structure(lattice, ["H"] * n, stream.random((n, 3))))
    crystals = Crystals.from_structures(structures)
    found = structures_valid(crystals, minimum_image_distances(crystals))
    expected = [
        s.distance_matrix[~np.eye(len(s), dtype=bool)].min() >= 0.5 and s.volume >= 0.1 for s in structures
    ]
    assert found.tolist() == expected
    assert 0 < sum(expected) < len(expected)


def test_own_images_count_unless_as_published() -> None:
    thin = Structure(Lattice.orthorhombic(0.4, 3, 3), ["H"], [[0, 0, 0]])
    fine = Structure(Lattice.cubic(5.6), ["Na", "Cl", "Cl"], [[0, 0, 0], [0.5, 0, 0], [0, 0.5, 0]])
    crystals = Crystals.from_structures([thin, fine])
    contacts = minimum_image_distances(crystals, self_images=True)
    found, published = (
        SmactGate(as_published).verdicts(crystals, contacts) for as_published in (False, True)
    )
    assert found.columns["structure_validity"].tolist() == [False, True]
    assert published.columns["structure_validity"].tolist() == [True, True]
    assert found.columns["comp_validity"].tolist() == [True, False]
    assert found.reason == ["atoms too close, or no volume", "no charge-neutral oxidation states"]
    assert (found.ok.tolist(), published.ok.tolist()) == ([False, False], [True, False])
