"""Training of the composition surrogate on both databases' energies, and its errors on held-out formulas."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from anchor.arrays import content_hash, unpack_strings
from anchor.chemistry.bounds import MAX_ELEMENTS
from anchor.chemistry.charge import is_neutral
from anchor.chemistry.elements import NUMBERS
from anchor.errors import InputError
from anchor.policy.actions import from_actions
from anchor.random import generator
from anchor.reference.reference import Reference
from anchor.reference.splits import splits_of
from anchor.screening.surrogate import (
    DATABASES,
    PairNetwork,
    Sizes,
    calibrated_spread,
    member_energies,
    read_surrogate,
    save_surrogate,
    surrogate_hash,
)
from anchor.weights import read, write, write_json
from anchor.writing import replace_file

WITHIN_ONE = math.erf(1 / math.sqrt(2))
"""Fraction of a normal distribution within one standard deviation."""


@dataclass(frozen=True)
class Settings:
    """How a surrogate is trained.

    Attributes:
        members: Networks in the ensemble.
        epochs: Passes of each over the training formulas.
        batch: Formulas per update.
        learning_rate: Adam's, falling to zero along a half cosine.
        average: Decay of the running mean of the weights, which is what is kept.
        linear_beyond: Errors beyond count linearly (Huber), eV/atom: some energies are plainly wrong.
        seed: Of weights and shuffles.
    """

    members: int = 4
    epochs: int = 20
    batch: int = 1024
    learning_rate: float = 2e-3
    average: float = 0.999
    linear_beyond: float = 0.05
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Examples:
    """Formulas with energies.

    Attributes:
        elements: Vocabulary indices, −1 where there is none.  # [n, m]
        fractions: Atomic fractions.  # [n, m]
        energy: Lowest formation energy in each database, eV/atom, NaN where it is not listed.  # [n, 2]
        counts: Atoms per formula unit.  # [n, m]
        split: "train", "val" or "test".  # [n]
    """

    elements: NDArray[np.int64]
    fractions: NDArray[np.float64]
    energy: NDArray[np.float64]
    counts: NDArray[np.int64]
    split: NDArray[np.str_]

    @classmethod
    def of(cls, reference: Reference) -> Examples:
        """All formulas of either database whose elements are in the vocabulary: OQMD's, then MP's others."""
        mp = reference.mp_hull
        row = {formula: i for i, formula in enumerate(reference.hull_formulas)}
        formulas = [*reference.hull_formulas]
        listed = unpack_strings(mp["formulas"])
        new = np.array([formula not in row for formula in listed], dtype=bool)
        formulas += [formula for formula, absent in zip(listed, new, strict=True) if absent]
        numbers = _stacked(reference.hull_numbers, mp["numbers"][new])
        counts = _stacked(reference.hull_counts, mp["counts"][new])
        energy = np.full((len(formulas), len(DATABASES)), np.nan)
        energy[: len(row), 0] = reference.hull_formation_energy
        at = np.zeros(len(listed), dtype=np.int64)
        at[new] = len(row) + np.arange(new.sum())
        at[~new] = [row[formula] for formula, absent in zip(listed, new, strict=True) if not absent]
        energy[at, 1] = mp["formation_energy"]
        index = np.full(256, -1)
        index[NUMBERS] = np.arange(len(NUMBERS))
        elements = index[numbers]
        known = ((elements >= 0) | (numbers == 0)).all(axis=1)
        split = splits_of(f for f, keep in zip(formulas, known, strict=True) if keep)
        counts = counts[known]
        fractions = counts / counts.sum(axis=1, keepdims=True)
        return cls(elements[known], fractions, energy[known], counts, split)

    def __len__(self) -> int:
        return len(self.energy)

    def __getitem__(self, rows: NDArray | slice) -> Examples:
        """Some of them."""
        return Examples(
            self.elements[rows], self.fractions[rows], self.energy[rows], self.counts[rows], self.split[rows]
        )

    def of_split(self, name: str) -> Examples:
        """Those of one split."""
        return self[self.split == name]

    def of_database(self, name: str) -> Examples:
        """Those that one database lists."""
        return self[np.isfinite(self.energy[:, DATABASES.index(name)])]

    @property
    def k(self) -> NDArray[np.int64]:
        """Number of elements.  # [n]"""
        return (self.elements >= 0).sum(axis=1)

    @property
    def neutral(self) -> NDArray[np.bool_]:
        """Charge-neutral and of at most four elements: what a search asks for.  # [n]"""
        found = self.k <= MAX_ELEMENTS
        found[found] = is_neutral(from_actions(self.elements[found], self.counts[found]))
        return found


class Trainer:
    """Trains the members one after the other. It can be stopped after any epoch and go on later.

    Args:
        examples: Training formulas only.
        settings, sizes: What to train.
        data_hash: Of the reference the examples come from.
    """

    def __init__(self, examples: Examples, settings: Settings, sizes: Sizes, *, data_hash: str) -> None:
        self.settings, self.sizes = settings, sizes
        # Members are independent, so a run of three goes on as one of four.
        own = {name: value for name, value in asdict(settings).items() if name != "members"}
        self.identity = {"settings": own, "sizes": asdict(sizes), "data_hash": data_hash}
        self.inputs = torch.from_numpy(examples.elements), torch.from_numpy(examples.fractions).float()
        self.energy = torch.from_numpy(examples.energy).float()
        self.done: list[PairNetwork] = []
        self.epoch = 0
        self.cpu_seconds = 0.0
        self._begin()

    @property
    def finished(self) -> bool:
        return len(self.done) >= self.settings.members

    def run_epoch(self) -> float:
        """One pass of the current member; returns its mean training loss, eV/atom (Huber)."""
        settings, began = self.settings, time.process_time()
        order = torch.from_numpy(
            generator(settings.seed, "surrogate", len(self.done), self.epoch).permutation(len(self.energy))
        )
        batches = order.split(settings.batch)
        total = 0.0
        for number, rows in enumerate(batches):
            progress = (self.epoch + number / len(batches)) / settings.epochs
            for group in self.optimiser.param_groups:
                group["lr"] = learning_rate(progress, settings.learning_rate)
            predicted = self.network(self.inputs[0][rows], self.inputs[1][rows])
            loss = masked_loss(predicted, self.energy[rows], beyond=settings.linear_beyond)
            self.optimiser.zero_grad(set_to_none=True)
            loss.backward()
            self.optimiser.step()
            # Early on the mean runs over few steps, so that it forgets the initial weights.
            steps = self.epoch * len(batches) + number
            decay = min(settings.average, (1 + steps) / (10 + steps))
            torch._foreach_lerp_(list(self.mean.parameters()), list(self.network.parameters()), 1 - decay)
            total += float(loss.detach()) * len(rows)
        self.epoch += 1
        self.cpu_seconds += time.process_time() - began
        if self.epoch == settings.epochs:
            self.done.append(self.mean)
            self._begin()
        return total / len(self.energy)

    def save(self, path: Path) -> None:
        """Everything needed to go on, in one file."""
        tensors = {f"done.{k}.{n}": t for k, m in enumerate(self.done) for n, t in m.state_dict().items()}
        for name, network in (("network", self.network), ("mean", self.mean)):
            tensors |= {f"{name}.{n}": t for n, t in network.state_dict().items()}
        for name, parameter in self.network.named_parameters():
            for moment, value in self.optimiser.state.get(parameter, {}).items():
                tensors[f"adam.{name}.{moment}"] = value
        status = {"epoch": self.epoch, "done": len(self.done), "cpu_seconds": self.cpu_seconds}
        write(path, tensors, {"identity": self.identity, "status": status})

    def restore(self, path: Path) -> None:
        """Go on from `save`.

        Raises:
            InputError: The file belongs to other settings or data.
        """
        card, tensors = read(path, hint="delete it to begin anew")
        if card["identity"] != self.identity:
            raise InputError(
                f"'{path}' is a training run of other settings or data", "delete it, or give another --out"
            )
        status = card["status"]
        self.done = []
        for k in range(status["done"]):
            member = PairNetwork(self.sizes)
            member.load_state_dict(_part(tensors, f"done.{k}."))
            self.done.append(member)
        self._begin()
        self.network.load_state_dict(_part(tensors, "network."))
        self.mean.load_state_dict(_part(tensors, "mean."))
        for name, parameter in self.network.named_parameters():
            if moments := _part(tensors, f"adam.{name}."):
                self.optimiser.state[parameter] = moments
        self.epoch, self.cpu_seconds = status["epoch"], status["cpu_seconds"]

    def _begin(self) -> None:
        """Start the next member."""
        self.epoch = 0
        self.network, self.mean = (
            PairNetwork(self.sizes, seed=self.settings.seed, member=len(self.done)) for _ in range(2)
        )
        self.mean.requires_grad_(False)
        self.optimiser = torch.optim.Adam(self.network.parameters(), fused=True)


def masked_loss(predicted: Tensor, energy: Tensor, *, beyond: float) -> Tensor:
    """Mean Huber loss over the energies that are there; the others say nothing, not even to the gradient.

    Args:
        predicted, energy: eV/atom; NaN in `energy` where a database does not list the formula.  # [n, 2]
        beyond: Errors beyond count linearly, eV/atom.
    """
    there = energy.isfinite()
    return nn.functional.huber_loss(predicted[there], energy[there], delta=beyond) / beyond


def learning_rate(progress: float, largest: float) -> float:
    """Linear warm-up over the first 2 %, then a half cosine to zero."""
    return largest * min(progress / 0.02, (1 + math.cos(math.pi * progress)) / 2)


def train_surrogate(
    reference: Reference,
    out: Path,
    *,
    settings: Settings,
    sizes: Sizes,
    time_limit: float | None = None,
    on_epoch: Callable[[int, int, float], None] | None = None,
    command: str = "",
) -> dict[str, Any] | None:
    """Train, calibrate on the validation formulas, test on the test formulas, and write `out`.

    Args:
        reference: Whose energies, of both databases, are learned.
        out: File to write; its card goes beside it (.json), and the state of an unfinished run (.training).
        time_limit: Seconds of wall time after which to stop; the next call goes on.
        on_epoch: Called with (epochs done, epochs in all, training loss) after each.
        command: For the card.

    Returns:
        The card, or None when the time was up.
    """
    began = time.monotonic()
    examples = Examples.of(reference)
    data_hash = dataset_hash(reference)
    trainer = Trainer(examples.of_split("train"), settings, sizes, data_hash=data_hash)
    state = out.with_suffix(".training")
    out.parent.mkdir(parents=True, exist_ok=True)
    if state.is_file():
        trainer.restore(state)
    while not trainer.finished:
        if time_limit is not None and time.monotonic() - began > time_limit:
            return None
        loss = trainer.run_epoch()
        trainer.save(state)
        if on_epoch is not None:
            done = len(trainer.done) * settings.epochs + trainer.epoch
            on_epoch(done, settings.members * settings.epochs, loss)
    # Errors are those of the stored half-precision weights.
    nothing = [0.0] * len(DATABASES)
    stored = save_surrogate(trainer.done, sizes, floor=nothing, scale=nothing, card={})
    members = read_surrogate(stored).members
    # A search asks for neutral compositions only, and they are harder: the spread is made for them.
    validation = examples.of_split("val")
    validation = validation[validation.neutral]
    values = member_energies(members, validation.elements, validation.fractions)
    floor, scale = zip(*(_spread_of(values, validation, i) for i in range(len(DATABASES))), strict=True)
    data = save_surrogate(members, sizes, floor=floor, scale=scale, card={})
    card = {
        "what": "lowest formation energy of a composition in OQMD and in the Materials Project, eV/atom",
        "command": command,
        "reference_hash": reference.hash,
        "data_hash": data_hash,
        "hash": surrogate_hash(read_surrogate(data)),
        "settings": asdict(settings),
        "sizes": asdict(sizes),
        "parameters": sum(p.numel() for p in members[0].parameters()) * len(members),
        "training_formulas": {
            "all": len(trainer.energy),
            **{name: int(trainer.energy[:, i].isfinite().sum().item()) for i, name in enumerate(DATABASES)},
        },
        "cpu_seconds": round(trainer.cpu_seconds),
        "threads": torch.get_num_threads(),
        "errors": errors(members, examples.of_split("test"), floor=floor, scale=scale),
    }
    replace_file(out, save_surrogate(members, sizes, floor=floor, scale=scale, card=card))
    write_json(out.with_suffix(".json"), card)
    state.unlink(missing_ok=True)
    return card


def dataset_hash(reference: Reference) -> str:
    """SHA-256 of what both databases' energies are."""
    return hashlib.sha256((reference.hash + content_hash(reference.mp_hull)).encode()).hexdigest()


def _spread_of(values: NDArray[np.float64], examples: Examples, database: int) -> tuple[float, float]:
    there = np.isfinite(examples.energy[:, database])
    return fit_spread(values[:, there, database], examples.energy[there, database])


def fit_spread(values: NDArray[np.float64], energy: NDArray[np.float64]) -> tuple[float, float]:
    """Floor and scale of `calibrated_spread`, so that 68 % of errors lie within one, where the members agree
    (the lower half of the standard deviations) as well as where they do not.

    Args:
        values: Members' energies of validation formulas, eV/atom.  # [members, n]
        energy: What the database says.  # [n]
    """
    error, std = np.abs(values.mean(axis=0) - energy), values.std(axis=0)
    agree = std <= np.median(std)

    def coverage(floor: float, scale: float, rows: NDArray[np.bool_]) -> float:
        return float((error[rows] <= calibrated_spread(values[:, rows], floor=floor, scale=scale)).mean())

    floors = np.linspace(0, float(np.quantile(error, 0.7)), 21)
    scales = np.linspace(0, 4, 41)
    misfit = [
        (abs(coverage(f, s, agree) - WITHIN_ONE) + abs(coverage(f, s, ~agree) - WITHIN_ONE), f, s)
        for f in floors
        for s in scales
    ]
    _, floor, scale = min(misfit)
    return round(float(floor), 5), round(float(scale), 4)


def errors(
    members: Sequence[PairNetwork], examples: Examples, *, floor: Sequence[float], scale: Sequence[float]
) -> dict[str, dict[str, dict[str, float]]]:
    """Absolute errors by database and subset, eV/atom, with the coverage of the spread (0.68 and 0.95)."""
    found = {}
    for i, name in enumerate(DATABASES):
        listed = examples.of_database(name)
        values = member_energies(members, listed.elements, listed.fractions)[:, :, i]
        energy = listed.energy[:, i]
        error = np.abs(values.mean(axis=0) - energy)
        spread = calibrated_spread(values, floor=floor[i], scale=scale[i])
        subsets: Mapping[str, NDArray[np.bool_]] = {
            "all": np.ones(len(listed), dtype=bool),
            **{f"k={k}": listed.k == k for k in (2, 3, 4)},
            "neutral": listed.neutral,
            "below 0 eV/atom": energy < 0,
        }
        found[name] = {
            subset: {
                "n": int(rows.sum()),
                "median": round(float(np.median(error[rows])), 4),
                "mean": round(float(error[rows].mean()), 4),
                "p90": round(float(np.quantile(error[rows], 0.9)), 4),
                "within_1_spread": round(float((error[rows] <= spread[rows]).mean()), 4),
                "within_2_spread": round(float((error[rows] <= 2 * spread[rows]).mean()), 4),
            }
            for subset, rows in subsets.items()
            if rows.any()
        }
    return found


def _stacked(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Both lists' rows one after the other, padded with 0 to the wider of them.  # [n, m]"""
    width = max(first.shape[1], second.shape[1])
    padded = [np.pad(part, ((0, 0), (0, width - part.shape[1]))) for part in (first, second)]
    return np.concatenate(padded).astype(np.int64)


def _part(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}
