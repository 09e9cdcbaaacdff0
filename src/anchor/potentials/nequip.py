"""NequIP and Allegro models compiled with `nequip-compile --target batch`; needs nequip 0.16 or newer."""

from __future__ import annotations

from pathlib import Path

import torch

from anchor.paths import sha256
from anchor.potentials.wrap import Wrapped


class NequIP(Wrapped):
    """A compiled model; nequip's own torch-sim interface evaluates it. Energies are taken as uncorrected.

    Args:
        path: File that nequip-compile wrote. It holds code: check its hash before (`weights.verified`).
        name: As in the registry.
        device: The one it was compiled for.
        dtype: Ignored: the compiled model has its own, and takes double-precision geometry.
    """

    def __init__(
        self,
        path: Path,
        *,
        name: str = "nequip",
        device: str | torch.device = "cpu",
        dtype: torch.dtype = torch.float32,  # noqa: ARG002
    ) -> None:
        from nequip.integrations.torchsim import NequIPTorchSimCalc

        model = NequIPTorchSimCalc.from_compiled_model(path, device=device, neighborlist_backend="vesin")
        types = model.transforms[0].lookup_table  # model type by atomic number, -1 for none
        super().__init__(
            model,
            name=name,
            elements=frozenset(torch.nonzero(types >= 0).view(-1).tolist()),
            energies_corrected=False,
            checkpoint_hash=sha256(path),
        )
