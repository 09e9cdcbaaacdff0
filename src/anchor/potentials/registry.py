"""Every potential by name, as data: where its weights come from, what it needs, how it is loaded.

`load_potential("mattersim-1m")` gives a potential, `load_potential("mattersim-1m+chgnet")` an ensemble.
"""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path

import torch

from anchor.devices import usable_device
from anchor.errors import InputError, MissingDependencyError, nearest
from anchor.own_code import imported
from anchor.potentials.base import Potential
from anchor.potentials.weights import (
    Bundled,
    Downloaded,
    Report,
    Weights,
    Wheel,
    fetch,
    locate,
    obtained,
    pinned,
    verified,
)

DEFAULT_TRAINING = "mattersim-1m"
DEFAULT_EVALUATION = "mattersim-5m"


@dataclass(frozen=True)
class PotentialEntry:
    """What the registry knows about a potential.

    Attributes:
        name: What people type.
        summary: One line.
        adapter: "module:Class" under anchor.potentials; the class takes (path, *, name, device, dtype).
        package: Import name of the package its network comes from; None when anchor has its own.
        extra: `pip install "anchor-crystals[extra]"` brings that package.
        weights: Where its weights come from.
        elements: How many elements it covers.
        energies_corrected: Whether energies are on the Materials Project 2020 corrected scale.
        license: Of the weights.
        manual: What a person must do by hand to get the weights, when no download can.
        conflicts: Packages that cannot be installed beside it (their pins exclude each other).
    """

    name: str
    summary: str
    adapter: str
    package: str | None
    extra: str | None
    weights: Weights
    elements: int
    energies_corrected: bool
    license: str
    manual: str | None = None
    conflicts: tuple[str, ...] = ()

    @property
    def how_to_get(self) -> str:
        """The way to a working potential, in one line."""
        steps = [] if self.extra is None else [f"pip install 'anchor-crystals[{self.extra}]'"]
        fetch_file = f"anchor potentials fetch {self.name} --from FILE"
        if self.manual is not None:
            steps += [self.manual, fetch_file]
        elif isinstance(self.weights, Downloaded):
            steps.append(f"anchor potentials fetch {self.name}")
            steps[-1] += f" (without a network: bring {self.weights.url} here yourself and run {fetch_file})"
        return ", then ".join(steps)


@dataclass(frozen=True)
class Availability:
    """Whether a potential can be used here and now.

    Attributes:
        ok: It can be loaded.
        reason: Why not, or where its weights are.
        how_to_get: What to do about it; empty when ok.
    """

    ok: bool
    reason: str
    how_to_get: str


_MATTERSIM = "https://raw.githubusercontent.com/microsoft/mattersim/main/pretrained_models"
_MATTERSIM_FILES = {
    "mattersim-v1.0.0-1M.pth": "28b0b0b0f13efefee06b47ea4c9105a26bd3e2c8396da193430da96b3b49a8be",
    "mattersim-v1.0.0-5M.pth": "e3df9fa708725e3d453140646c7d1838324b347a3d1214cf1440522146f872b5",
}
_MATTERSIM_WHEEL = Wheel(
    requirement="mattersim==1.0.0rc8",
    python_version="3.9",
    members={
        f"mattersim/pretrained_models/{file}": (file, digest) for file, digest in _MATTERSIM_FILES.items()
    },
)


def _mattersim(size: str, summary: str) -> PotentialEntry:
    file = f"mattersim-v1.0.0-{size}.pth"
    return PotentialEntry(
        name=f"mattersim-{size.lower()}",
        summary=summary,
        adapter="mattersim:MatterSim",
        package=None,
        extra=None,
        weights=Downloaded(file, f"{_MATTERSIM}/{file}", _MATTERSIM_FILES[file], _MATTERSIM_WHEEL),
        elements=89,
        energies_corrected=False,
        license="MIT",
    )


def _sevennet(name: str, summary: str, path: str, digest: str) -> PotentialEntry:
    return PotentialEntry(
        name=name,
        summary=summary,
        adapter="sevennet:SevenNet",
        package="sevenn",
        extra="sevennet",
        weights=Bundled("sevenn", f"pretrained_potentials/{path}", digest),
        elements=89,
        energies_corrected=False,
        license="MIT",
    )


_ENTRIES = (
    _mattersim("1M", "MatterSim-v1.0.0, 1M parameters: the default training potential"),
    _mattersim("5M", "MatterSim-v1.0.0, 5M parameters: the default evaluation potential"),
    PotentialEntry(
        name="chgnet",
        summary="CHGNet 0.3.0, trained on MPtrj: an independent one",
        adapter="chgnet:CHGNet",
        package="chgnet",
        extra="chgnet",
        weights=Bundled(
            "chgnet",
            "pretrained/0.3.0/chgnet_0.3.0_e29f68s314m37.pth.tar",
            "d14ab7c0f093efe64b60a7bcd540bca10e74fb7f46c86108a079af60524659d1",
        ),
        elements=89,
        energies_corrected=True,
        license="BSD-3-Clause",
    ),
    _sevennet(
        "sevennet-0",
        "SevenNet-0 (11 July 2024), trained on MPtrj",
        "SevenNet_0__11Jul2024/checkpoint_sevennet_0.pth",
        "7052cb42b7b3be42b40b97fa0d21077a48c54b5548948fc4dcf346629f813c36",
    ),
    _sevennet(
        "sevennet-l3i5",
        "SevenNet-l3i5, trained on MPtrj: an independent, more accurate and slower one",
        "SevenNet_l3i5/checkpoint_l3i5.pth",
        "a7ff190d41efe5b8317a03d20a468e4036a1a3e64e0b14fdbab64ac3f4bfc09d",
    ),
    PotentialEntry(
        name="mace",
        summary="MACE-MPA-0 medium, trained on MPtrj and sAlex",
        adapter="mace:MACE",
        package="mace",
        extra="mace",
        weights=Downloaded(
            "mace-mpa-0-medium.model",
            "https://github.com/ACEsuit/mace-mp/releases/download/mace_mpa_0/mace-mpa-0-medium.model",
            None,
        ),
        elements=89,
        energies_corrected=False,
        license="MIT",
        conflicts=("sevenn", "nequip", "fairchem"),
    ),
    PotentialEntry(
        name="orb",
        summary="Orb-v3, conservative, unlimited neighbours, trained on OMat24",
        adapter="orb:Orb",
        package="orb_models",
        extra="orb",
        weights=Downloaded(
            "orb-v3-conservative-inf-omat-20250404.ckpt",
            "https://orbitalmaterials-public-models.s3.us-west-1.amazonaws.com/forcefields/orb-v3/"
            "orb-v3-conservative-inf-omat-20250404.ckpt",
            None,
        ),
        elements=89,
        energies_corrected=False,
        license="Apache-2.0",
    ),
    PotentialEntry(
        name="uma",
        summary="UMA-s-1p1 of fairchem, answering as OMat24",
        adapter="uma:UMA",
        package="fairchem",
        extra="uma",
        weights=Downloaded("uma-s-1p1.pt", None, None),
        elements=89,
        energies_corrected=False,
        license="FAIR Chemistry License",
        manual="accept the licence at https://huggingface.co/facebook/UMA and download uma-s-1p1.pt",
        conflicts=("mace",),
    ),
    PotentialEntry(
        name="nequip",
        summary="Any NequIP or Allegro model compiled with nequip-compile --target batch",
        adapter="nequip:NequIP",
        package="nequip",
        extra="nequip",
        weights=Downloaded("nequip-batch.nequip.pt2", None, None),
        elements=89,
        energies_corrected=False,
        license="of the model",
        manual="nequip-compile nequip.net:mir-group/NequIP-OAM-L:0.1 FILE --mode aotinductor --target batch",
        conflicts=("mace",),
    ),
)

REGISTRY: dict[str, PotentialEntry] = {entry.name: entry for entry in _ENTRIES}


def find(name: str) -> PotentialEntry:
    """The entry of a name, or an error with the nearest one."""
    if name not in REGISTRY:
        raise InputError(f"unknown potential '{name}'", nearest(name, REGISTRY))
    return REGISTRY[name]


def availability(name: str) -> Availability:
    """Whether a potential (or an ensemble, "a+b") can be used here, and if not, why and what to do."""
    if "+" in name:
        parts = [availability(part) for part in name.split("+")]
        return next((part for part in parts if not part.ok), Availability(True, "all members are here", ""))
    entry = find(name)
    if entry.package is not None and importlib.util.find_spec(entry.package) is None:
        return Availability(False, f"the package {entry.package} is not installed", entry.how_to_get)
    path = locate(entry.weights)
    if path is None:
        return Availability(False, "the weights are not here", entry.how_to_get)
    if pinned(entry.weights) is None:
        return Availability(False, f"no hash is pinned for {path}", entry.how_to_get)
    return Availability(True, f"weights: {path}", "")


def fetch_weights(name: str, *, report: Report = lambda _: None) -> Path:
    """Bring the weights of a potential here, unless they are; the file is hash-checked either way."""
    entry = find(name)
    if isinstance(entry.weights, Downloaded):
        return fetch(entry.weights, hint=entry.how_to_get, report=report)
    return verified(entry.weights, hint=entry.how_to_get)


def refuse_conflicts(names: list[str]) -> None:
    """An ensemble runs in one process, so its members' packages must fit in one environment."""
    packages = {entry.package: entry.name for entry in map(find, names)}
    for entry in map(find, names):
        for rival in entry.conflicts:
            if rival in packages:
                raise MissingDependencyError(
                    f"{entry.name} and {packages[rival]} cannot be members of one ensemble: the packages "
                    f"{entry.package} and {rival} do not install together",
                    "evaluate with each in an environment of its own, and compare the results",
                )


def load_potential(
    name: str, *, device: str | torch.device = "cpu", dtype: str | torch.dtype = "float32"
) -> Potential:
    """Load a potential by name, several joined by "+" as an ensemble, or your own as "module:factory".

    Args:
        name: As `anchor potentials list` shows, "mattersim-1m+chgnet", or where to find a callable that takes
            `device` and `dtype` and makes a `Potential`.
        device: "cpu", "cuda", "cuda:1", "mps".
        dtype: Of the network: "float32" (as trained) or "float64".
    """
    kind = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if kind not in (torch.float32, torch.float64):
        raise InputError(f"dtype '{dtype}' is not a network precision", "choose one of: float32, float64")
    device = usable_device(device)
    if "+" in name:
        from anchor.potentials.ensemble import Ensemble

        refuse_conflicts([part for part in name.split("+") if ":" not in part])
        return Ensemble([load_potential(part, device=device, dtype=kind) for part in name.split("+")])
    if ":" in name:
        return _own(name, device, kind)
    entry = find(name)
    path = obtained(entry.weights, hint=entry.how_to_get)
    module, _, cls = entry.adapter.partition(":")
    try:
        adapter = getattr(importlib.import_module(f"anchor.potentials.{module}"), cls)
        return adapter(path, name=name, device=device, dtype=kind)
    except ImportError as error:
        raise MissingDependencyError(
            f"{name} needs a package that cannot be imported here: {error}", entry.how_to_get
        ) from error


def _own(place: str, device: str | torch.device, dtype: torch.dtype) -> Potential:
    """A potential of the user's own, called by its place, so that other processes load it again."""
    potential = imported(place, "potential")(device=device, dtype=dtype)
    if not isinstance(potential, Potential):
        raise InputError(f"'{place}' made a {type(potential).__name__}, not an anchor.potentials.Potential")
    potential.name = place
    return potential
