"""Samplers as transitions: every step draws around what the network says, Gaussians and kinds of atoms.

    state = process.start(noise)
    for i in range(process.steps):
        state = process.transition(i, state).draw(noise)

So what was sampled can be recorded (`Trajectory`) and its density found again under other weights, with a
gradient (`log_prob`): all that policy-gradient fine-tuning (DDPO) of a model needs. Many steps of a way are
found again in one call of the network, each crystal at a step of its own (`Trajectory.at`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from anchor.errors import AnchorError
from anchor.models.cells import centre, wrap
from anchor.models.noise import Noise

State = dict[str, Tensor]
"""Everything the next step depends on, by name.  # [b, ...] each"""
Each = float | Tensor
"""A number for all crystals, or one for each.  # [b]"""


def beside(number: Each, values: Tensor) -> Each:
    """A number as it is multiplied with values of crystals.  # [b], [b, ...] -> [b, 1, ...]"""
    return number.view(-1, *[1] * (values.dim() - 1)) if isinstance(number, Tensor) else number


def entry(table: Sequence[float], i: int | Tensor) -> Each:
    """Of step i, or of the step of each crystal."""
    return torch.tensor(table, device=i.device)[i] if isinstance(i, Tensor) else table[i]


def number(value: Tensor) -> Each:
    """A single one as a float."""
    return value if value.dim() else float(value)


class Part(Protocol):
    """What a step draws of one part of the state."""

    @property
    def around(self) -> Tensor:
        """What later weights are compared at: see `Gaussian.log_prob`."""

    @property
    def random(self) -> bool:
        """Whether anything is random: only then is there a density."""

    def draw(self, noise: Noise) -> Tensor:
        """One draw for each crystal.  # [b, ...]"""

    def log_prob(self, value: Tensor, drawn_around: Tensor) -> Tensor:
        """ln of the density of what was drawn.  # [b]"""

    def divergence(self, other: Any) -> Tensor:
        """KL(this ‖ other), of a part of the same kind, in closed form.  # [b]"""


@dataclass(frozen=True, eq=False)
class Gaussian:
    """mean + std · noise, of one part of the state.

    Attributes:
        mean: Depends on the weights.  # [b, ...]
        std: Without weights in it; 0 where nothing is random.
        centred: Noise has no mean over the atoms, dimension 1: 3(n − 1) of its 3n numbers are free.
        periodic: The mean is known up to whole numbers only; what is drawn is not wrapped.
    """

    mean: Tensor
    std: Each
    centred: bool = False
    periodic: bool = False

    @property
    def around(self) -> Tensor:
        return self.mean

    @property
    def random(self) -> bool:
        return bool(torch.as_tensor(self.std).min() > 0)

    def draw(self, noise: Noise) -> Tensor:
        """One draw for each crystal.  # [b, ...]"""
        normal = noise.normal(*self.mean.shape[1:])
        return self.mean + beside(self.std, normal) * (centre(normal) if self.centred else normal)

    def log_prob(self, value: Tensor, drawn_around: Tensor) -> Tensor:
        """ln of the density of what was drawn, summed over the free dimensions.  # [b]

        With D free dimensions, −|e|²/(2 std²) − D/2 ln(2π std²), e = value − mean.

        Args:
            value: What was drawn.
            drawn_around: Mean it was drawn around. A periodic mean of other weights is taken at the image
                nearest to that one: e ← e − round(e − e_then).
        """
        error = value - self.mean
        if self.periodic:
            error = error - torch.round(error - (value - drawn_around)).detach()
        free = error[0].numel() - (error.shape[2] if self.centred else 0)
        square = (error**2).flatten(1).sum(dim=1)
        variance = torch.as_tensor(self.std, dtype=square.dtype, device=square.device) ** 2
        return -square / (2 * variance) - free / 2 * torch.log(2 * math.pi * variance)

    def divergence(self, other: Gaussian) -> Tensor:
        """|m − m'|²/(2 std²); periodic means by their nearest images, which bounds the KL from above."""
        gap = self.mean - other.mean
        if self.periodic:
            gap = wrap(gap)
        return (gap**2).flatten(1).sum(dim=1) / (2 * self.std**2)


@dataclass(frozen=True, eq=False)
class Unmasking:
    """Atoms without an element get one, each with the same chance; those that have one keep it.

    Attributes:
        numbers: Atomic numbers, 0 where masked.  # [b, n]
        chance: Of a masked atom to get an element in this step.
        log_chances: ln of the chances of the elements, by atomic number.  # [b, n, kinds]
    """

    numbers: Tensor
    chance: Each
    log_chances: Tensor

    @property
    def around(self) -> Tensor:
        return self.numbers

    @property
    def random(self) -> bool:
        return bool(torch.as_tensor(self.chance).min() > 0)

    def draw(self, noise: Noise) -> Tensor:
        n = self.numbers.shape[1]
        opens = noise.uniform(n) < beside(self.chance, self.numbers)
        return torch.where(opens & (self.numbers == 0), _kinds(self.log_chances, noise), self.numbers)

    def log_prob(self, value: Tensor, drawn_around: Tensor) -> Tensor:
        """Σ over masked atoms: ln(1 − u) where still masked, else ln u + ln p(element).  # [b]"""
        del drawn_around
        masked = self.numbers == 0
        chosen = torch.gather(self.log_chances, -1, value[..., None])[..., 0]
        chance = torch.as_tensor(beside(self.chance, chosen), dtype=chosen.dtype, device=chosen.device)
        each = torch.where(value == 0, torch.log1p(-chance), chance.log() + chosen)
        return torch.where(masked, each, torch.zeros_like(each)).sum(dim=1)

    def divergence(self, other: Unmasking) -> Tensor:
        """Σ over masked atoms: u Σ_e p(e) ln(p(e) / p'(e))"""
        apart = torch.where(self.numbers == 0, _apart(self.log_chances, other.log_chances), 0.0)
        return self.chance * apart.sum(dim=1)


@dataclass(frozen=True, eq=False)
class InTurn:
    """As many of the atoms without an element as it is time for get one, any of them alike; the others wait.

    Attributes:
        numbers: Atomic numbers, 0 where masked.  # [b, n]
        count: Atoms that get an element in this step, at most as many as are masked.
        log_chances: ln of the chances of the elements, by atomic number.  # [b, n, kinds]
    """

    numbers: Tensor
    count: int | Tensor
    log_chances: Tensor

    @property
    def around(self) -> Tensor:
        return self.numbers

    @property
    def random(self) -> bool:
        return True  # where nobody's turn has come, what happens has the chance 1

    def draw(self, noise: Noise) -> Tensor:
        n, masked = self.numbers.shape[1], self.numbers == 0
        lots = torch.where(masked, noise.uniform(n).to(self.log_chances.dtype), 2.0)
        place = lots.argsort(dim=1).argsort(dim=1)
        opens = masked & (place < beside(self.count, place))
        return torch.where(opens, _kinds(self.log_chances, noise), self.numbers)

    def log_prob(self, value: Tensor, drawn_around: Tensor) -> Tensor:
        """Σ over uncovered atoms of ln p(element), and −ln of how many choices of them there are.  # [b]"""
        del drawn_around
        masked = self.numbers == 0
        opened = masked & (value != 0)
        chosen = torch.gather(self.log_chances, -1, value[..., None])[..., 0]
        told = torch.where(opened, chosen, torch.zeros_like(chosen)).sum(dim=1)
        count, among = self._counts(told)
        choices = torch.lgamma(among + 1) - torch.lgamma(count + 1) - torch.lgamma(among - count + 1)
        return torch.where(opened.sum(dim=1) == count, told - choices, -math.inf)

    def divergence(self, other: InTurn) -> Tensor:
        """Σ over masked atoms: count/masked Σ_e p(e) ln(p(e) / p'(e))"""
        apart = torch.where(self.numbers == 0, _apart(self.log_chances, other.log_chances), 0.0).sum(dim=1)
        count, among = self._counts(apart)
        return count / among.clamp(min=1) * apart

    def _counts(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """How many get an element, and among how many.  # [b], [b]"""
        count = torch.as_tensor(self.count, device=like.device).to(like).expand(len(like))
        return count, (self.numbers == 0).sum(dim=1).to(like)


def _kinds(log_chances: Tensor, noise: Noise) -> Tensor:
    """An element for every atom.  # [b, n, kinds] -> [b, n]"""
    upto = log_chances.exp().cumsum(dim=-1)
    # In units of the whole, which rounding leaves a little beside 1
    place = noise.uniform(log_chances.shape[1], 1).to(upto.dtype) * upto[..., -1:]
    return (upto <= place).sum(dim=-1).clamp(max=upto.shape[-1] - 1)


def _apart(log_chances: Tensor, other: Tensor) -> Tensor:
    """Σ_e p(e) ln(p(e) / p'(e))  # [b, n, kinds], same -> [b, n]"""
    chances = log_chances.exp()
    return torch.where(chances > 0, chances * (log_chances - other), 0.0).sum(dim=-1)


@dataclass(frozen=True, eq=False)
class Transition:
    """The distribution of the next state.

    Attributes:
        parts: What is drawn, in this order.
        follow: The rest of the next state from what was drawn; free of weights.
    """

    parts: Mapping[str, Part]
    follow: Callable[[State], State] = lambda drawn: drawn

    @property
    def random(self) -> bool:
        """Whether every part is: only then has the step a density."""
        return all(part.random for part in self.parts.values())

    def divergence(self, other: Transition) -> Tensor:
        """KL(this ‖ other).  # [b]"""
        return torch.stack([part.divergence(other.parts[name]) for name, part in self.parts.items()]).sum(0)

    def draw(self, noise: Noise) -> State:
        """The next state."""
        return self.follow({name: part.draw(noise) for name, part in self.parts.items()})


class Process(ABC):
    """A sampler of some crystals of one size, step by step.

    Attributes:
        numbers: Atomic numbers.  # [b, n]
        steps: Transitions from the start to the end.
    """

    numbers: Tensor
    steps: int

    @abstractmethod
    def start(self, noise: Noise) -> State:
        """The first state: noise, without weights in it."""

    @abstractmethod
    def transition(self, i: int | Tensor, state: State) -> Transition:
        """Step i, 0 … steps − 1, of all crystals or of each: calls the network.  # [b]"""

    def run(self, noise: Noise, recorder: Trajectory | None = None) -> State:
        """The last state; the way there is added to the recorder."""
        state = self.start(noise)
        if recorder is not None:
            recorder.begin(self, state)
        for i in range(self.steps):
            transition = self.transition(i, state)
            state = transition.draw(noise)
            if recorder is not None:
                recorder.add(transition, state)
        return state


@dataclass(eq=False)
class Trajectory:
    """The way of some crystals from noise to the end, recorded by `Process.run`.

    Attributes:
        states: steps + 1 of them.
        transitions: Between them, as they were drawn from.
    """

    numbers: Tensor = field(default_factory=lambda: torch.zeros(0, 0, dtype=torch.long))
    states: list[State] = field(default_factory=list)
    transitions: list[Transition] = field(default_factory=list)

    def begin(self, process: Process, state: State) -> None:
        """Forget all, and start at a state."""
        self.numbers, self.states, self.transitions = process.numbers, [state], []

    def add(self, transition: Transition, state: State) -> None:
        """One more step."""
        self.transitions.append(transition)
        self.states.append(state)

    def __len__(self) -> int:
        return len(self.transitions)

    @property
    def sound(self) -> Tensor:
        """Which crystals were finite numbers all the way.  # [b], bool"""
        each = [value.flatten(1).isfinite().all(dim=1) for state in self.states for value in state.values()]
        return torch.stack(each).all(dim=0)

    def of(self, members: Tensor) -> Trajectory:
        """The same way of some of the crystals, to be replayed but not drawn again.  # [b] bool"""
        transitions = []
        for transition in self.transitions:
            parts = {name: _some(part, members) for name, part in transition.parts.items()}
            transitions.append(Transition(parts))
        states = [{name: value[members] for name, value in state.items()} for state in self.states]
        return Trajectory(self.numbers[members], states, transitions)

    @property
    def scored(self) -> list[int]:
        """Steps that have a density: all that is drawn in them has noise."""
        return [i for i, transition in enumerate(self.transitions) if transition.random]

    def log_prob(self, steps: Sequence[int] | None = None) -> Tensor:
        """ln of the density of steps under the weights that made them, without the network.  # [steps, b]"""
        return torch.stack([self.log_prob_of(i, self.transitions[i]) for i in self._chosen(steps)])

    def replay(self, process: Process, steps: Sequence[int] | None = None) -> Tensor:
        """ln of the density of steps under the weights of `process`, with gradient.  # [steps, b]

        Args:
            process: Of the same sampler and number of steps.
            steps: Of `scored`; by default all of them. One at a time needs the least memory.
        """
        if process.steps != len(self):
            raise AnchorError(f"a trajectory of {len(self)} steps cannot be replayed in {process.steps}")
        return torch.stack(
            [self.log_prob_of(i, process.transition(i, self.states[i])) for i in self._chosen(steps)]
        )

    def _chosen(self, steps: Sequence[int] | None) -> Sequence[int]:
        chosen = self.scored if steps is None else steps
        if not chosen or not set(chosen) <= set(self.scored):
            raise AnchorError(
                "these steps of the sampler are deterministic: they have no density",
                "sample with noise in all that is drawn (kldm: noise above 0; crystalite: churn above 0)",
            )
        return chosen

    def at(self, process_of: Callable[[Tensor], Process], steps: Sequence[int]) -> Transition:
        """Several steps in one call of the network: a row for each crystal at each step, steps first.

        Args:
            process_of: The process of atomic numbers [rows, n].
            steps: S of them.  # S · b rows
        """
        rows = torch.tensor(steps, device=self.numbers.device).repeat_interleave(len(self.numbers))
        process = process_of(self.numbers.repeat(len(steps), 1))
        return process.transition(rows, _joined([self.states[i] for i in steps]))

    def log_prob_at(self, steps: Sequence[int], transition: Transition) -> Tensor:
        """ln of the density of steps, had they been drawn from the `transition` of `at`.  # [S, b]"""
        after = _joined([self.states[i + 1] for i in steps])
        around = _joined(
            [{name: part.around for name, part in self.transitions[i].parts.items()} for i in steps]
        )
        every = [part.log_prob(after[name], around[name]) for name, part in transition.parts.items()]
        return torch.stack(every).sum(dim=0).view(len(steps), -1)

    def log_prob_of(self, i: int, transition: Transition) -> Tensor:
        """ln of the density of step i, had it been drawn from `transition`.  # [b]"""
        return self.log_prob_at([i], transition)[0]


def _joined(states: Sequence[State]) -> State:
    """One below the other."""
    return {name: torch.cat([state[name] for state in states]) for name in states[0]}


def _some(part: Any, members: Tensor) -> Any:
    """What is drawn of some crystals only: tensors have a row for each crystal."""
    values = {field.name: getattr(part, field.name) for field in fields(part)}
    return replace(part, **{name: v[members] for name, v in values.items() if isinstance(v, Tensor)})
