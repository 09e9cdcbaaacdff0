"""KLDM-DNG: kinetic Langevin diffusion of coordinates and cell, and elements that are masked and uncovered.

Beside the process of `kldm`, at time t an atom shows its element with probability
    a(t) = (1 − 2e-4)(1 − t) + 1e-4
and is masked otherwise, each by itself. The network sees 0 for a masked atom and tells the chances of its
element. Reverse: a masked atom is uncovered with u = (a(t') − a(t))/(1 − a(t)), its element drawn from those
chances; what is uncovered never changes. The last step uncovers all that is left.

Atoms that are uncovered in one step do not know of each other: of 10 atoms in 50 steps about one pair. The
small model therefore uncovers them in turn, as many in each step as it is time for (n i/K before step i),
which are chosen by lot: with at least n steps every atom knows all before it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from anchor.crystals.crystals import Crystals
from anchor.errors import InputError
from anchor.models.base import JointModel, Recipe, TrainableModel
from anchor.models.data import Batch
from anchor.models.kldm import SETTINGS as CSP_SETTINGS
from anchor.models.kldm import EulerMaruyama, Kldm, KldmSettings
from anchor.models.noise import Noise
from anchor.models.transitions import (
    InTurn,
    Part,
    Process,
    State,
    Trajectory,
    Transition,
    Unmasking,
    number,
)
from anchor.models.types import KINDS, Marginals, TypeHead

_EDGE = 1e-4  # of a(t) at both ends


@dataclass(frozen=True)
class KldmDngSettings:
    """Everything that decides a KLDM-DNG model beside its weights.

    Attributes:
        csp: Of the process and network of coordinates and cell.
        type_weight: Of the loss of elements; those of velocity and cell are 1 (the mean of the three is
            taken, as published).
        uncovering: Which masked atoms get an element in a step: 'by chance', each by itself, or 'in turn'.
    """

    csp: KldmSettings = field(default_factory=KldmSettings)
    type_weight: float = 1.0
    uncovering: Literal["by chance", "in turn"] = "by chance"


SETTINGS = {
    # Full noise in every step, the paper's 50 of them: steps without noise have no density.
    "small": KldmDngSettings(replace(CSP_SETTINGS["small"], noise=1.0, steps=50), uncovering="in turn"),
    "published": KldmDngSettings(CSP_SETTINGS["published"]),
}


def shown(t: Tensor) -> Tensor:
    """a(t): chance that an atom shows its element."""
    return (1 - 2 * _EDGE) * (1 - t) + _EDGE


def due(n: int, i: int | Tensor, steps: int) -> int | Tensor:
    """Atoms of n that show their element before step i, in turn: n i/K, rounded."""
    return (2 * n * i + steps) // (2 * steps)


class KldmDng(JointModel):
    """See the module."""

    name = "kldm-dng"
    begins_as = "kldm"
    recipes: ClassVar[Mapping[str, Recipe]] = Kldm.recipes

    def __init__(self, settings: KldmDngSettings = SETTINGS["small"]) -> None:
        super().__init__()
        self.chosen = settings
        self.default_steps = settings.csp.steps
        self.csp = Kldm(settings.csp)
        self.type_head = TypeHead(settings.csp.size.hidden)
        self.marginals = Marginals()
        self.term_weights = {"velocity": 1 / 3, "cell": 1 / 3, "types": settings.type_weight / 3}

    @classmethod
    def make(cls, csp: KldmSettings | dict[str, Any], **settings: Any) -> KldmDng:
        """From `settings()`."""
        csp = Kldm.make(**csp).chosen if isinstance(csp, dict) else csp
        return cls(KldmDngSettings(csp=csp, **settings))

    def settings(self) -> dict[str, Any]:
        return asdict(self.chosen)

    def entries(self, n: int) -> dict[str, int]:
        return {**self.csp.entries(n), "types": n}

    def fit_statistics(self, crystals: Crystals) -> None:
        self.csp.fit_statistics(crystals)
        self.marginals.fit(crystals)

    def begin_as(self, other: TrainableModel) -> None:
        if not isinstance(other, Kldm) or other.chosen.size != self.chosen.csp.size:
            raise InputError(
                f"'{self.name}' cannot begin as these weights of '{other.name}'",
                f"name weights of '{self.begins_as}' of the same size",
            )
        cells = {name: tensor.clone() for name, tensor in self.csp.cells.state_dict().items()}
        self.csp.load_state_dict(other.state_dict())
        self.csp.cells.load_state_dict(cells)  # of the crystals at hand
        with torch.no_grad():  # a masked atom looks like the average one
            every = self.csp.network.elements
            average = every(torch.arange(KINDS, device=self.marginals.elements.device)[None])[0]
            bias = 0 if every.project is None else every.project.bias
            every.table.weight[0] = self.marginals.elements @ average - bias

    # Training

    def loss_sums(self, batch: Batch, u: Tensor, rng: torch.Generator) -> dict[str, Tensor]:
        t, state, target, clean = self.csp.noised_batch(batch, u, rng)
        masked = torch.rand(batch.numbers.shape, generator=rng) >= shown(t)[:, None]
        seen = torch.where(masked, 0, batch.numbers)
        prediction, cell, log_chances = self.predict(seen, t, *(state[name] for name in "rvl"))
        told = torch.gather(log_chances, -1, batch.numbers[..., None])[..., 0]
        return {
            "velocity": ((prediction - target) ** 2).sum(),
            "cell": ((cell - clean) ** 2).sum(),
            "types": -(told * masked).sum(),
        }

    def composition_loss(self, numbers: Tensor, u: Tensor, rng: torch.Generator) -> Tensor:
        there = numbers > 0
        masked = there & (torch.rand(numbers.shape, generator=rng) >= shown(u)[:, None])
        known = nn.functional.one_hot(torch.where(masked, 0, numbers), KINDS).float() * there[..., None]
        scores = self.type_head.of_composition(known) + self.marginals.log_elements
        told = torch.gather(torch.log_softmax(scores[:, 0], dim=-1), -1, numbers)
        return -(told * masked).sum() / masked.sum().clamp(min=1)

    def predict(
        self, numbers: Tensor, t: Tensor, r: Tensor, v: Tensor, l: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Scaled score [b, n, 3], clean cell numbers [b, 6], ln of the chances of elements [b, n, 101]."""
        score, cell, atoms = self.csp.predict_with_atoms(numbers, t, r, v, l)
        known = nn.functional.one_hot(numbers, KINDS).to(score.dtype)
        scores = self.type_head(atoms, known) + self.marginals.log_elements
        return score, cell, torch.log_softmax(scores, dim=-1)

    # Sampling

    def create(
        self, n: int, noise: Noise, *, steps: int | None = None, recorder: Trajectory | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        blank = torch.zeros(len(noise), n, dtype=torch.long, device=self.marginals.sizes.device)
        end = self.process(blank, steps=steps).run(noise, recorder)
        return end["h"], (end["r"] / (2 * math.pi)) % 1.0, self.csp.cells.decode(end["l"], n)

    def process(self, numbers: Tensor, *, steps: int | None = None) -> Process:
        if self.chosen.csp.sampler == "pc":
            return super().process(numbers)  # refuses: its predictor is deterministic
        return Uncovering(self, numbers, steps or self.default_steps)


class Uncovering(EulerMaruyama):
    """Euler–Maruyama of `kldm`, with elements h that are uncovered on the way.

    Args:
        model: Its network and settings.
        numbers: Zeros.  # [b, n]
        steps: K.
    """

    def __init__(self, model: KldmDng, numbers: Tensor, steps: int) -> None:
        csp = model.chosen.csp
        super().__init__(
            model.csp.predict, numbers, steps, cell_step=csp.cell_step, span=csp.span, heat=csp.noise
        )
        self.model = model

    def start(self, noise: Noise) -> State:
        return {**super().start(noise), "h": torch.zeros_like(self.numbers)}

    def transition(self, i: int | Tensor, state: State) -> Transition:
        every = self.times[i].expand(len(self.numbers))
        prediction, clean, log_chances = self.model.predict(
            state["h"], every, *(state[name] for name in "rvl")
        )
        rest = self.towards(i, state, prediction, clean)
        return Transition({**rest.parts, "h": self.uncovered(i, state["h"], log_chances)}, rest.follow)

    def uncovered(self, i: int | Tensor, numbers: Tensor, log_chances: Tensor) -> Part:
        """Who gets an element in step i, and which."""
        if self.model.chosen.uncovering == "in turn":
            before, after = (due(numbers.shape[1], step, self.steps) for step in (i, i + 1))
            return InTurn(numbers, after - before, log_chances)
        now, then = shown(self.times[i]), shown(self.times[i + 1])
        last = torch.as_tensor(i == self.steps - 1, device=now.device)
        return Unmasking(numbers, number(torch.where(last, 1.0, (then - now) / (1 - now))), log_chances)
