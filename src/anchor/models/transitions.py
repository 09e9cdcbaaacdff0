"""Samplers as transitions: every step is a Gaussian around what the network says.

    state = process.start(noise)
    for i in range(process.steps):
        state = process.transition(i, state).draw(noise)

So what was sampled can be recorded (`Trajectory`) and its density found again under other weights, with a
gradient (`log_prob`): all that policy-gradient fine-tuning (DDPO) of a model needs.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from anchor.errors import AnchorError
from anchor.models.cells import centre
from anchor.models.noise import Noise

State = dict[str, Tensor]
"""Everything the next step depends on, by name.  # [b, ...] each"""


@dataclass(frozen=True, eq=False)
class Gaussian:
    """mean + std · noise, of one part of the state.

    Attributes:
        mean: Depends on the weights.  # [b, ...]
        std: One for all, without weights in it; 0 where nothing is random.
        centred: Noise has no mean over the atoms, dimension 1: 3(n − 1) of its 3n numbers are free.
        periodic: The mean is known up to whole numbers only; what is drawn is not wrapped.
    """

    mean: Tensor
    std: float
    centred: bool = False
    periodic: bool = False

    def draw(self, noise: Noise) -> Tensor:
        """One draw for each crystal.  # [b, ...]"""
        normal = noise.normal(*self.mean.shape[1:])
        return self.mean + self.std * (centre(normal) if self.centred else normal)

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
        return -square / (2 * self.std**2) - free / 2 * math.log(2 * math.pi * self.std**2)


@dataclass(frozen=True, eq=False)
class Transition:
    """The distribution of the next state.

    Attributes:
        parts: What is drawn, in this order.
        follow: The rest of the next state from what was drawn; free of weights.
    """

    parts: Mapping[str, Gaussian]
    follow: Callable[[State], State] = lambda drawn: drawn

    @property
    def random(self) -> bool:
        """Whether every part is: only then has the step a density."""
        return all(part.std > 0 for part in self.parts.values())

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
    def transition(self, i: int, state: State) -> Transition:
        """Step i, 0 … steps − 1: calls the network."""

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
    def scored(self) -> list[int]:
        """Steps that have a density: all that is drawn in them has noise."""
        return [i for i, transition in enumerate(self.transitions) if transition.random]

    def log_prob(self, steps: Sequence[int] | None = None) -> Tensor:
        """ln of the density of steps under the weights that made them, without the network.  # [steps, b]"""
        return torch.stack([self._log_prob(i, self.transitions[i]) for i in self._chosen(steps)])

    def replay(self, process: Process, steps: Sequence[int] | None = None) -> Tensor:
        """ln of the density of steps under the weights of `process`, with gradient.  # [steps, b]

        Args:
            process: Of the same sampler and number of steps.
            steps: Of `scored`; by default all of them. One at a time needs the least memory.
        """
        if process.steps != len(self):
            raise AnchorError(f"a trajectory of {len(self)} steps cannot be replayed in {process.steps}")
        return torch.stack(
            [self._log_prob(i, process.transition(i, self.states[i])) for i in self._chosen(steps)]
        )

    def _chosen(self, steps: Sequence[int] | None) -> Sequence[int]:
        chosen = self.scored if steps is None else steps
        if not chosen or not set(chosen) <= set(self.scored):
            raise AnchorError(
                "these steps of the sampler are deterministic: they have no density",
                "sample with noise in all that is drawn (kldm: noise above 0; crystalite: churn above 0)",
            )
        return chosen

    def _log_prob(self, i: int, transition: Transition) -> Tensor:
        after, then = self.states[i + 1], self.transitions[i].parts
        return sum(
            (part.log_prob(after[name], then[name].mean) for name, part in transition.parts.items()),
            torch.zeros((), device=self.numbers.device),
        )
