"""Learned models as files: safetensors with a card in the header. Nothing in them can run code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from anchor.errors import InputError, MissingDependencyError, nearest
from anchor.paths import BUNDLED
from anchor.priors.learned.crystalite import SETTINGS as CRYSTALITE_SETTINGS
from anchor.priors.learned.crystalite import Crystalite
from anchor.priors.learned.kldm import SETTINGS as KLDM_SETTINGS
from anchor.priors.learned.kldm import Kldm
from anchor.priors.learned.model import TrainableModel
from anchor.priors.learned.omatg import SETTINGS as OMATG_SETTINGS
from anchor.priors.learned.omatg import Omatg
from anchor.priors.wyckoff.model import SETTINGS as WYCKOFF_SETTINGS
from anchor.priors.wyckoff.model import Wyckoff

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
        name: (tensor.half() if half and name in parameters else tensor).detach().cpu().contiguous()
        for name, tensor in model.state_dict().items()
    }
    header = {"format": FORMAT, "name": model.name, "settings": model.settings(), **card}
    save_file(tensors, path, metadata={"anchor": json.dumps(header, sort_keys=True)})


def load_model(path: Path) -> tuple[TrainableModel, dict[str, Any]]:
    """The model of `save_model` on the CPU in single precision, and its card."""
    card, tensors = read_tensors(path)
    if card.get("format") != FORMAT or card.get("name") not in MODELS:
        raise InputError(f"{path} is of format {card.get('format')!r}, this version reads '{FORMAT}'")
    model = model_from(card["name"], card["settings"])
    try:
        model.load_state_dict({name: t.float() for name, t in tensors.items()})
    except RuntimeError as error:
        raise InputError(f"{path} is damaged: {error}") from None
    return model.eval().requires_grad_(False), card


def read_tensors(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The JSON in the header and the tensors of a file of ours."""
    if not path.is_file():
        raise MissingDependencyError(
            f"there are no weights at {path}", "train them: anchor prior train --help"
        )
    try:
        with safe_open(path, framework="pt") as file:
            card = json.loads((file.metadata() or {})["anchor"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, KeyError, ValueError) as error:
        raise InputError(f"{path} holds no weights of anchor: {error}") from None
    return card, tensors
