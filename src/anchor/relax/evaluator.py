"""Energies and gradients of a working set, whatever one of its members does to the potential."""

from __future__ import annotations

from typing import Any

import torch
from torch_sim.models.interface import ModelInterface
from torch_sim.state import SimState

from anchor.potentials.base import Potential
from anchor.potentials.edges import SymmetricNeighbours
from anchor.potentials.state import SymmetricState, geometry_dtype
from anchor.relax.coordinates import Frame, geometry, gradient


class Evaluator:
    """Calls the potential; splits a batch that fails until the culprit is alone.

    Args:
        potential: Any torch-sim model with forces (and stresses, for a free cell).
        chunk_atoms: Atoms per call. Halved for good when memory runs out.
    """

    def __init__(self, potential: ModelInterface, chunk_atoms: int) -> None:
        self.potential = potential
        self.chunk_atoms = chunk_atoms
        ours = isinstance(potential, Potential)
        self._dtype = geometry_dtype(potential.device) if ours else potential.dtype

    def __call__(
        self, frame: Frame, coordinates: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, dict[int, str]]:
        """Evaluate all crystals of a working set.

        Returns:
            Energies [b] eV and gradients [b, r, 3] eV/Å, NaN where a crystal could not be evaluated, and for
            each row at which the potential raised an error, the error.
        """
        counts = frame.counts.tolist()
        positions, cells = geometry(frame, coordinates)
        energy = coordinates.new_full((len(counts),), torch.nan)
        forces = torch.full_like(positions, torch.nan)
        stress = torch.full_like(cells, torch.nan)
        numbers, orbit = frame.numbers[frame.atoms], frame.orbit[frame.atoms]
        offsets = [0]
        for count in counts:
            offsets.append(offsets[-1] + count)
        errors: dict[int, str] = {}
        waiting = [(0, len(counts))]
        while waiting:
            a, b = waiting.pop()
            if b - a > 1 and offsets[b] - offsets[a] > self.chunk_atoms:
                waiting += self._halves(a, b)
                continue
            atoms = slice(offsets[a], offsets[b])
            try:
                found = self._forward(
                    positions[atoms],
                    cells[a:b],
                    numbers[atoms],
                    frame.counts[a:b],
                    orbit[atoms] if frame.symmetric else None,
                    frame.neighbours.items[a:b],
                )
            # Any error may be the fault of one crystal: it is narrowed down and becomes that one's reason.
            except Exception as error:
                if _out_of_memory(error):
                    self._free_memory()
                    if b - a > 1:
                        self.chunk_atoms = max(1, (offsets[b] - offsets[a]) // 2)
                if b - a > 1:
                    waiting += self._halves(a, b)
                else:
                    errors[a] = f"{_kind(error)}: {error}".splitlines()[0][:300]
                continue
            energy[a:b], forces[atoms] = found["energy"], found["forces"]
            stress[a:b] = found.get("stress", 0.0)  # a model without stresses: cell fixed
        return energy, gradient(frame, coordinates, forces, stress), errors

    def _forward(
        self,
        positions: torch.Tensor,
        cells: torch.Tensor,
        numbers: torch.Tensor,
        counts: torch.Tensor,
        orbit: torch.Tensor | None,
        neighbours: list[SymmetricNeighbours | None],
    ) -> dict[str, torch.Tensor]:
        device = self.potential.device
        owner = torch.repeat_interleave(counts.to(device), output_size=len(positions))
        given: dict[str, Any] = {
            "positions": positions.to(device, self._dtype),
            "masses": torch.ones(len(positions), dtype=self._dtype, device=device),
            "cell": cells.mT.contiguous().to(device, self._dtype),
            "pbc": True,
            "atomic_numbers": numbers.to(device),
            "system_idx": owner,
        }
        found = self.potential(
            SimState(**given)
            if orbit is None
            else SymmetricState(**given, orbit=orbit.to(device), groups=neighbours)
        )
        wanted = {key: found[key] for key in ("energy", "forces", "stress") if key in found}
        return {key: value.detach().to(positions.device, torch.float64) for key, value in wanted.items()}

    def _halves(self, a: int, b: int) -> list[tuple[int, int]]:
        """Two parts of a range of rows, the first one last, so that it is popped first."""
        middle = (a + b) // 2
        return [(middle, b), (a, middle)]

    def _free_memory(self) -> None:
        if self.potential.device.type == "cuda":
            torch.cuda.empty_cache()


def _kind(error: Exception) -> str:
    """Its class; torch says on a CPU by a RuntimeError what is a want of memory and no fault of a crystal."""
    plain = type(error) is RuntimeError and _out_of_memory(error)
    return MemoryError.__name__ if plain else type(error).__name__


def _out_of_memory(error: Exception) -> bool:
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    text = str(error).lower()
    return isinstance(error, RuntimeError) and ("out of memory" in text or "can't allocate memory" in text)
