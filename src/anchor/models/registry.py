"""Models by name, and as files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from anchor.errors import InputError, nearest
from anchor.models.base import TrainableModel
from anchor.models.crystalite import SETTINGS as CRYSTALITE_SETTINGS
from anchor.models.crystalite import Crystalite
from anchor.models.kldm import SETTINGS as KLDM_SETTINGS
from anchor.models.kldm import Kldm
from anchor.models.omatg import SETTINGS as OMATG_SETTINGS
from anchor.models.omatg import Omatg
from anchor.models.wyckoff.model import SETTINGS as WYCKOFF_SETTINGS
from anchor.models.wyckoff.model import Wyckoff
from anchor.paths import BUNDLED
from anchor.weights import read, write

FORMAT = "anchor-prior-1"
SHIPPED = BUNDLED / "priors"
"""Folder of the weights that ship, <name>.safetensors."""
MODELS: dict[str, type[Wyckoff] | type[Omatg] | type[Kldm] | type[Crystalite]] = {
    "wyckoff": Wyckoff,
    "omatg": Omatg,
    "kldm": Kldm,
    "crystalite": Crystalite,
}
SETTINGS: dict[str, dict[str, Any]] = {
    "wyckoff": WYCKOFF_SETTINGS,
    "omatg": OMATG_SETTINGS,
    "kldm": KLDM_SETTINGS,
    "crystalite": CRYSTALITE_SETTINGS,
}


def new_model(name: str, size: str = "small") -> TrainableModel:
    """An untrained model by name and size."""
    if name not in MODELS:
        raise InputError(f"unknown learned prior '{name}'", nearest(name, MODELS))
    if size not in SETTINGS[name]:
        raise InputError(f"unknown size '{size}'", nearest(size, SETTINGS[name]))
    return MODELS[name](SETTINGS[name][size])


def model_from(name: str, settings: dict[str, Any]) -> TrainableModel:
    """An untrained model with the settings of `TrainableModel.settings`."""
    return MODELS[name].make(**settings)


def save_model(path: Path, model: TrainableModel, card: dict[str, Any], *, half: bool = False) -> None:
    """Weights and buffers of a model, parameters in half precision if asked, with `card` in the header."""
    parameters = {name for name, _ in model.named_parameters()}
    tensors = {
        name: tensor.half() if half and name in parameters else tensor
        for name, tensor in model.state_dict().items()
    }
    header = {"format": FORMAT, "name": model.name, "settings": model.settings(), **card}
    write(path, tensors, header)


def load_model(path: Path) -> tuple[TrainableModel, dict[str, Any]]:
    """The model of `save_model` on the CPU in single precision, frozen, and its card."""
    card, tensors = read(path, hint="train them: anchor prior train --help")
    if card.get("format") != FORMAT or card.get("name") not in MODELS:
        raise InputError(f"{path} is of format {card.get('format')!r}, this version reads '{FORMAT}'")
    model = model_from(card["name"], card["settings"])
    try:
        model.load_state_dict({name: t.float() for name, t in tensors.items()})
    except RuntimeError as error:
        raise InputError(f"{path} is damaged: {error}") from None
    return model.eval().requires_grad_(False), card
