"""Models by name, and as files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from anchor.errors import InputError, nearest
from anchor.models.base import TrainableModel
from anchor.models.crystalite import SETTINGS as CRYSTALITE_SETTINGS
from anchor.models.crystalite import Crystalite
from anchor.models.crystalite_dng import SETTINGS as CRYSTALITE_DNG_SETTINGS
from anchor.models.crystalite_dng import CrystaliteDng
from anchor.models.kldm import SETTINGS as KLDM_SETTINGS
from anchor.models.kldm import Kldm
from anchor.models.kldm_dng import SETTINGS as KLDM_DNG_SETTINGS
from anchor.models.kldm_dng import KldmDng
from anchor.models.omatg import SETTINGS as OMATG_SETTINGS
from anchor.models.omatg import Omatg
from anchor.models.wyckoff.model import SETTINGS as WYCKOFF_SETTINGS
from anchor.models.wyckoff.model import Wyckoff
from anchor.paths import BUNDLED
from anchor.weights import made_of_card, read, write

FORMAT = "anchor-prior-1"
SHIPPED = BUNDLED / "priors"
"""Folder of the weights that ship, <name>.safetensors."""
GENERATORS = BUNDLED / "generators"
"""The same of models that choose the elements as well."""
Model = type[Wyckoff] | type[Omatg] | type[Kldm] | type[Crystalite] | type[KldmDng] | type[CrystaliteDng]
MODELS: dict[str, Model] = {
    "wyckoff": Wyckoff,
    "omatg": Omatg,
    "kldm": Kldm,
    "crystalite": Crystalite,
    "kldm-dng": KldmDng,
    "crystalite-dng": CrystaliteDng,
}
SETTINGS: dict[str, dict[str, Any]] = {
    "wyckoff": WYCKOFF_SETTINGS,
    "omatg": OMATG_SETTINGS,
    "kldm": KLDM_SETTINGS,
    "crystalite": CRYSTALITE_SETTINGS,
    "kldm-dng": KLDM_DNG_SETTINGS,
    "crystalite-dng": CRYSTALITE_DNG_SETTINGS,
}


def weights_file(text: str | Path) -> Path:
    """A .safetensors file that is named, or that ships under a name."""
    path = Path(text)
    if path.suffix == ".safetensors":
        return path
    folder = GENERATORS if str(text).endswith("-dng") else SHIPPED
    return folder / f"{text}.safetensors"


def new_model(name: str, size: str = "small") -> TrainableModel:
    """An untrained model by name and size."""
    if name not in MODELS:
        raise InputError(f"unknown model '{name}'", nearest(name, MODELS))
    if size not in SETTINGS[name]:
        raise InputError(f"unknown size '{size}'", nearest(size, SETTINGS[name]))
    return MODELS[name](SETTINGS[name][size])


def model_from(name: str, settings: dict[str, Any]) -> TrainableModel:
    """An untrained model with the settings of `TrainableModel.settings`."""
    return MODELS[name].make(**settings)


def weights_path(name: str) -> Path:
    """The file of weights that ship, by name, or a .safetensors file as it was typed."""
    return Path(name) if name.endswith(".safetensors") else SHIPPED / f"{name}.safetensors"


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
    with made_of_card(f"file {path}"):
        model = model_from(card["name"], card["settings"])
        model.load_state_dict({name: t.float() for name, t in tensors.items()})
    return model.eval().requires_grad_(False), card
