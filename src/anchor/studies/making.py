"""How each kind of cell is made, in a folder named by its settings, and what it then proposes."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch

from anchor.chemistry.elements import VOCABULARY
from anchor.config import Config
from anchor.distill.arms import START
from anchor.distill.run import TABLE, distill
from anchor.evaluate.sources import Source, find_source
from anchor.executors import ANYWHERE, Workplace
from anchor.generators.training import train as train_generator
from anchor.hull.references import load_hull
from anchor.models.registry import weights_file
from anchor.models.training import STATE_FILE
from anchor.paths import alone
from anchor.priors import Prior, load_prior
from anchor.search.campaign import Campaign
from anchor.search.ledger import Ledger
from anchor.search.prior_learner import save_trained
from anchor.studies.kinds import Cell, Distilled, Generated, Given, Searched, digest, identity
from anchor.studies.scales import Scale
from anchor.weights import read, write

SHORTENED = ("kldm", "crystalite", "omatg", "kldm-dng", "crystalite-dng")
"""Models whose samplers take steps."""
TRAINED_PRIOR = "prior.safetensors"


@dataclass(frozen=True)
class Place:
    """A folder in which cells are made at one scale.

    Attributes:
        folder: Shared by all studies.
        scale: Of all cells.
    """

    folder: Path
    scale: Scale

    def of(self, cell: Cell) -> Path:
        """Folder of a cell."""
        kind = "searches"
        if isinstance(cell, Distilled):
            kind = "distillations"
        elif isinstance(cell, Generated) and cell.reward is None:
            kind = "generators"
        return self.folder / kind / digest(identity(cell, self.scale))

    def finished(self, cell: Cell) -> bool:
        """Whether there is nothing left to make."""
        if isinstance(cell, Given):
            return True
        if isinstance(cell, Distilled):
            return (self.of(cell) / TABLE).is_file()
        if isinstance(cell, Generated) and cell.reward is None:
            return cell.ships or self._trained(cell).is_file()
        return campaign_finished(self.of(cell), cell.config(self.scale))

    def _trained(self, cell: Generated) -> Path:
        return self.of(cell) / f"{cell.name}.safetensors"

    def weights(self, name: str) -> str:
        """A model that ships, as this scale uses it: by its name, or a copy with a short sampler."""
        tiny = self.scale.tiny
        if tiny is None or name not in SHORTENED:
            return name
        return str(self._shortened(weights_file(name), tiny.sampler_steps))

    def _shortened(self, path: Path, steps: int) -> Path:
        out = self.folder / "weights" / f"{path.stem}-{steps}-steps.safetensors"
        if not out.is_file():
            card, tensors = read(path)
            settings = card["settings"]
            settings.get("csp", settings)["steps"] = steps
            write(out, tensors, card)
        return out

    def generator(self, cell: Generated) -> str:
        """What `generator:…` is to be followed by."""
        if cell.reward is not None:
            return str(self.of(cell))
        if cell.ships:
            return self.weights(cell.name)
        path, tiny = self._trained(cell), self.scale.tiny
        return str(path if tiny is None else self._shortened(path, tiny.sampler_steps))


def campaign_finished(folder: Path, config: Config) -> bool:
    """Whether a campaign has used its budget."""
    return begun(folder) and Ledger.open(folder).n_candidates >= config.run.structures


def begun(folder: Path) -> bool:
    """Whether a folder holds a campaign; a kill while one is made leaves a database without tables."""
    path = folder / "ledger.db"
    if not path.is_file():
        return False
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("select 1 from sqlite_master limit 1").fetchone() is not None


# Making


def make(cell: Cell, place: Place, *, where: Workplace = ANYWHERE) -> None:
    """Make what is missing of a cell whose needs are made; killed, the next call goes on."""
    if place.finished(cell):
        return
    with same_threads():
        if isinstance(cell, Searched):
            config = cell.config(place.scale)
            _campaign(_with_prior(config, place.weights(config.prior.name)), place.of(cell), where)
        elif isinstance(cell, Distilled):
            _distil(cell, place, where)
        elif isinstance(cell, Generated) and cell.reward is not None:
            config = cell.config(place.scale)
            named = config.generator.model_copy(update={"name": place.generator(cell.start)})
            _campaign(config.model_copy(update={"generator": named}), place.of(cell), where)
        elif isinstance(cell, Generated):
            _train(cell, place)


def _with_prior(config: Config, name: str) -> Config:
    return config.model_copy(update={"prior": config.prior.model_copy(update={"name": name})})


def _campaign(config: Config, folder: Path, where: Workplace) -> None:
    config = config.model_copy(update={"run": config.run.model_copy(update=asdict(where))})
    with alone(folder / "lock", f"searching in {folder}"):
        if begun(folder):
            campaign = Campaign.resume(folder, where=asdict(where))
        else:
            campaign = Campaign.start(config, folder)
        campaign.run(config.run.structures)


def _distil(cell: Distilled, place: Place, where: Workplace) -> None:
    settings = cell.settings(place.scale)
    settings = replace(
        settings,
        prior=place.weights(settings.prior),
        render=place.weights(settings.render),
    )
    distill([place.of(cell.campaign)], settings, place.of(cell), where=where)


def _train(cell: Generated, place: Place) -> None:
    folder, seen = place.of(cell), 0 if place.scale.tiny is not None else 200
    with alone(folder / "lock", f"training in {folder}"):
        resume = (folder / STATE_FILE).is_file()
        train_generator(cell.plan(place.scale), folder, watched=0, tested=seen, resume=resume)


# What it proposes


def proposals(cell: Cell, prior: str | None, place: Place) -> tuple[Source, Prior | None]:
    """What a finished cell proposes, and who makes the crystals of compositions.

    Args:
        prior: Asked for crystals; None: the cell has its own, or has trained the prior.
    """
    if isinstance(cell, Generated):
        text = f"generator:{place.generator(cell)}"
        if prior is None:
            return find_source([text]), None
        return find_source([f"compositions-of:{text}"]), load_prior(place.weights(prior))
    if isinstance(cell, Distilled):
        held_out = place.of(cell) / "corpus" / "held-out.extxyz"
        return find_source([f"compositions-of:{held_out}"]), load_prior(str(_weights_of_arm(cell, place)))
    made_by = load_prior(_own_prior(cell, place) if prior is None else place.weights(prior))
    if isinstance(cell, Given):
        scale = place.scale
        elements = VOCABULARY if scale.exact else load_hull(scale.potential).searchable_elements
        return find_source([cell.source], elements=elements), made_by
    return find_source([str(place.of(cell))]), made_by


def _weights_of_arm(cell: Distilled, place: Place) -> Path:
    if cell.arm == START:
        return weights_file(place.weights(cell.prior))
    return place.of(cell) / "arms" / cell.arm / f"{cell.prior}.safetensors"


def _own_prior(cell: Given | Searched, place: Place) -> str:
    """The prior that rewards trained in a search."""
    assert isinstance(cell, Searched), f"{cell} has no prior of its own"
    path = place.of(cell) / TRAINED_PRIOR
    if not path.is_file():
        save_trained(Ledger.open(place.of(cell)), path)
    return str(path)


@contextmanager
def same_threads() -> Iterator[None]:
    """One thread, as searches and evaluations have by default: threads change the last digits of sums."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
