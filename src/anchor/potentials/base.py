"""What a potential is: crystals in, energies, forces and stresses out.

A `Potential` is a torch-sim model (`forward` takes a SimState), so torch-sim's runners take it as it is; it
adds what a search must know about it: which elements it covers, whether its energies carry the Materials
Project corrections, and the hash of its weights. A new potential implements one function: `energies(graph)`
of `GradientPotential` (energy as a differentiable function of a neighbour graph), or `compute(state)` of
`Potential`.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from ase.data import chemical_symbols
from numpy.typing import NDArray
from torch_sim.models.interface import ModelInterface
from torch_sim.state import SimState

from anchor.crystals.crystals import Crystals
from anchor.crystals.lattices import LONGEST_EDGE
from anchor.devices import keep_freed_memory
from anchor.errors import InputError
from anchor.potentials.graph import Graph, neighbour_graph
from anchor.potentials.state import SymmetricState, to_state

MIN_VOLUME_PER_ATOM = 1.0
"""Å³. Denser cells are not evaluated (their energy is NaN): no crystal is (diamond has 5.7), and the number
of neighbours, hence memory, grows without bound. One collapsing cell must not take the batch with it."""

MIN_CELL_HEIGHT = 0.5
"""Å, between opposite faces; thinner cells are not evaluated, for the same reason."""

COMMON_ELEMENTS = frozenset(range(1, 95)) - {84, 85, 86, 87, 88}
"""The 89 elements of the Materials Project's and OMat24's data: H to Pu without Po, At, Rn, Fr, Ra."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Energies, forces and stresses of n crystals; NaN where a crystal cannot be evaluated.

    Attributes:
        energy: Total energies, eV.  # [n]
        forces: eV/Å.  # [n_atoms, 3]
        stress: eV/Å³, positive = tension, as ASE.  # [n, 3, 3]
        energy_std: Spread over an ensemble's members, eV; None for a single potential.  # [n]
        forces_std: The same for forces, eV/Å.  # [n_atoms, 3]
    """

    energy: NDArray[np.float64]
    forces: NDArray[np.float64]
    stress: NDArray[np.float64]
    energy_std: NDArray[np.float64] | None = None
    forces_std: NDArray[np.float64] | None = None


class Potential(ModelInterface):
    """A torch-sim model that knows its elements, its energy scale and its weights.

    Args:
        name: As in the registry ("mattersim-1m").
        elements: Atomic numbers it was trained on.
        energies_corrected: True when energies are on the Materials Project 2020 corrected scale.
        checkpoint_hash: SHA-256 of the weights.
        device: "cpu", "cuda", "mps", ….
        dtype: Of the network. Geometry and energy sums are in the state's own type (double by default).

    Attributes:
        cpu_chunk_atoms: About how many atoms are evaluated at once on a CPU. Batching gains little there, and
            larger work arrays fall out of the caches, the sooner the wider the network.
        takes_orbits: Whether it looks at one atom of each orbit only in a `SymmetricState`.
    """

    cpu_chunk_atoms = 96
    takes_orbits = False

    def __init__(
        self,
        *,
        name: str,
        elements: frozenset[int],
        energies_corrected: bool,
        checkpoint_hash: str,
        device: str | torch.device = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        self.name = name
        self.elements = elements
        self.energies_corrected = energies_corrected
        self.checkpoint_hash = checkpoint_hash
        self._device = torch.device(device)
        if self._device.type == "cpu":
            keep_freed_memory()
        self._dtype = dtype
        self._compute_forces = True
        self._compute_stress = True
        self._covered = torch.zeros(256, dtype=torch.bool, device=self._device)
        self._covered[sorted(elements)] = True

    @abstractmethod
    def compute(self, state: SimState) -> dict[str, torch.Tensor]:
        """Energy [n] eV, forces [n_atoms, 3] eV/Å and stress [n, 3, 3] eV/Å³ of well-formed crystals.

        `forward` has checked elements and cells before, and casts what comes out to the state's type.
        """

    def forward(self, state: SimState | dict[str, Any], **_: Any) -> dict[str, torch.Tensor]:
        """Evaluate all systems of a state; the input is not changed, the output carries no gradient.

        Returns:
            energy [n_systems] eV, forces [n_atoms, 3] eV/Å and stress [n_systems, 3, 3] eV/Å³ (positive =
            tension), all of the state's type. A collapsed or non-finite cell gives NaN for that system only.
        """
        state = _as_state(state)
        if state.device != self._device:
            state = state.to(self._device)
        self._refuse_unknown(state.atomic_numbers)
        result = {
            "energy": state.positions.new_full((state.n_systems,), torch.nan),
            "forces": torch.full_like(state.positions, torch.nan),
            "stress": torch.full_like(state.cell, torch.nan),
        }
        for systems in self._chunks(state):
            whole_state = len(systems) == state.n_systems
            part = state if whole_state else state[systems]
            atoms = slice(None) if whole_state else torch.isin(state.system_idx, systems)
            for key, value in self.compute(part).items():
                rows, like = (
                    (atoms, result["forces"]) if key.startswith("forces") else (systems, result["energy"])
                )
                whole = result.setdefault(key, torch.full_like(like, torch.nan))
                whole[rows] = value.detach().to(whole.dtype)
        return result

    def _chunks(self, state: SimState) -> list[torch.Tensor]:
        """Well-formed systems, in order, in groups that suit the device's caches.  # each [m], int64"""
        systems = torch.nonzero(well_formed(state)).view(-1)
        if state.device.type != "cpu":
            return [systems] if len(systems) else []
        representative = self._representatives(state)
        atoms = state.system_idx
        if representative is not None:
            atoms = atoms[representative == torch.arange(state.n_atoms)]
        counts = torch.bincount(atoms)[systems]
        group = (torch.cumsum(counts, 0) - 1) // self.cpu_chunk_atoms
        return list(torch.split(systems, torch.unique_consecutive(group, return_counts=True)[1].tolist()))

    def _representatives(self, state: SimState) -> torch.Tensor | None:
        """The atom that stands for each one's orbit, if there is anything to gain from it.  # [n_atoms]"""
        return state.representatives() if self.takes_orbits and isinstance(state, SymmetricState) else None

    def evaluate(self, crystals: Crystals) -> Evaluation:
        """Energies, forces and stresses of all crystals in one batch, as NumPy arrays."""
        if len(crystals) == 0:
            return Evaluation(np.zeros(0), np.zeros((0, 3)), np.zeros((0, 3, 3)))
        result = self.forward(to_state(crystals, device=self._device))
        arrays = {key: value.cpu().double().numpy() for key, value in result.items()}
        fields = Evaluation.__dataclass_fields__
        return Evaluation(**{key: value for key, value in arrays.items() if key in fields})

    def supports(self, crystals: Crystals) -> NDArray[np.bool_]:
        """Which crystals hold covered elements only.  # [n]"""
        covered = np.isin(crystals.numbers, sorted(self.elements))
        unknown = np.bincount(crystals.owner[~covered], minlength=len(crystals))
        return unknown == 0

    def _refuse_unknown(self, numbers: torch.Tensor) -> None:
        known = self._covered[numbers]
        if not bool(known.all()):
            symbols = [chemical_symbols[z] for z in numbers[~known].unique().tolist()]
            raise InputError(
                f"{self.name} does not cover {', '.join(symbols)}",
                "leave these crystals out (potential.supports(crystals) says which) or use another potential",
            )


class GradientPotential(Potential):
    """A potential whose forces and stresses are gradients of its energy: one backward pass gives both.

    A subclass sets `cutoff` (Å) and writes `energies`; it sets `takes_orbits` if its atoms' features are
    scalars and it sums energies by `graph.sum_per_system`.
    """

    cutoff: float

    @abstractmethod
    def energies(self, graph: Graph) -> torch.Tensor:
        """Total energies, eV, differentiable in `graph.vectors` (and positions, cell).  # [n_systems]"""

    def compute(self, state: SimState) -> dict[str, torch.Tensor]:
        positions = state.positions.detach().requires_grad_()
        strain = torch.zeros_like(state.cell).requires_grad_()
        chosen = self._representatives(state)
        with torch.enable_grad():
            graph = neighbour_graph(state, positions, strain, cutoff=self.cutoff, representative=chosen)
            energy = self.energies(graph)
            gradients = torch.autograd.grad(energy.sum(), [positions, strain], allow_unused=True)
        # Unused means that no atom has a neighbour: nothing pulls.
        forces, virial = (
            torch.zeros_like(x) if g is None else g
            for x, g in zip([positions, strain], gradients, strict=True)
        )
        volume = torch.linalg.det(state.cell).abs()
        return {"energy": energy, "forces": -forces, "stress": virial / volume[:, None, None]}


def well_formed(state: SimState) -> torch.Tensor:
    """Which systems are finite and neither collapsed, flat nor endless.  # [n_systems], bool"""
    cell = state.cell.detach()
    finite = torch.isfinite(cell).all(dim=(1, 2))
    bad_atoms = (~torch.isfinite(state.positions).all(dim=1)).to(torch.int64)
    finite &= torch.zeros_like(finite, dtype=torch.int64).index_add(0, state.system_idx, bad_atoms) == 0
    volume = torch.linalg.det(torch.nan_to_num(cell)).abs()
    a, b, c = torch.nan_to_num(cell).unbind(dim=2)
    faces = torch.stack([torch.linalg.cross(x, y).norm(dim=1) for x, y in ((b, c), (c, a), (a, b))])
    counts = torch.bincount(state.system_idx, minlength=state.n_systems)
    usable = finite & (torch.nan_to_num(cell).abs().amax(dim=(1, 2)) <= LONGEST_EDGE)
    return usable & (volume >= MIN_VOLUME_PER_ATOM * counts) & (volume >= MIN_CELL_HEIGHT * faces.amax(dim=0))


def _as_state(state: SimState | dict[str, Any]) -> SimState:
    """torch-sim also passes plain dictionaries, without masses."""
    if isinstance(state, SimState):
        return state
    return SimState(**{"masses": torch.ones_like(state["positions"][:, 0]), **state})
