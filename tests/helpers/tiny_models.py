"""Learned models small enough for a test, with random weights."""

from __future__ import annotations

import torch

from anchor.models import crystalite, kldm, omatg
from anchor.models.base import StructureModel
from anchor.models.network import CspSize
from anchor.models.transformer import TransformerSize

CSP = CspSize(hidden=64, messages=48, layers=3, frequencies=6, time_features=32, shells=12)
TRANSFORMER = TransformerSize(
    width=64, layers=3, heads=4, frequencies=6, pair_frequencies=4, gaussians=12, pair_hidden=32
)


def tiny(name: str) -> StructureModel:
    torch.manual_seed(0)
    if name == "omatg":
        return omatg.Omatg(
            omatg.OmatgSettings(
                size=CSP, cell_features="shape", time_scale=1000.0, target="end", cell_weight=0.02
            )
        )
    if name == "kldm":
        return kldm.Kldm(kldm.KldmSettings(size=CSP, cell_step="exact"))
    return crystalite.Crystalite(
        crystalite.CrystaliteSettings(size=TRANSFORMER, standardise=True, annealing=(0.0, 0.0))
    )
