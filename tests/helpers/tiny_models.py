"""Learned models small enough for a test, with random weights."""

from __future__ import annotations

from dataclasses import replace

import torch

from anchor.models import crystalite, crystalite_dng, kldm, kldm_dng, omatg
from anchor.models.base import JointModel, StructureModel
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


def tiny_joint(name: str, *, answer: str = "expected") -> JointModel:
    torch.manual_seed(0)
    if name == "kldm-dng":
        csp = kldm.KldmSettings(size=CSP, cell_step="exact", view="denoiser", span=4.0, pairing="nearest")
        return kldm_dng.KldmDng(kldm_dng.KldmDngSettings(csp, uncovering="in turn"))
    small = crystalite_dng.SETTINGS["small"]
    size = replace(TRANSFORMER, shared_bias=True, descriptors=True, roles=True, pair_values=True)
    return crystalite_dng.CrystaliteDng(replace(small, csp=replace(small.csp, size=size), answer=answer))
