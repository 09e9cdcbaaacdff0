"""The composition policy's network: one small MLP head per factor of eq:policy-factor."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from anchor.chemistry.bounds import MAX_ELEMENTS
from anchor.chemistry.elements import VOCABULARY
from anchor.chemistry.features import element_features
from anchor.config import Policy
from anchor.errors import InputError
from anchor.policy.constraints import CARDINALITIES, CELL_SIZES
from anchor.random import torch_generator

N_OBJECTIVES = 4
"""Stability, novelty, structural and compositional diversity (eq:reward); own objectives come after."""

OUTPUT_GAIN = 0.01
"""Initial scale of every head's last layer: an untrained policy is uniform to within about a per cent."""


class CompositionPolicy(nn.Module):
    """π_θ(c | s): logits of the number of elements k, the elements, the cell size T and the stoichiometry.

    The network knows nothing of masks; `anchor.policy.distribution` turns logits into probabilities. In every
    head's input the objective weights w come last, so that further objectives append columns.

    With the heads of the paper the element head does not know k, and all surplus atoms fall independently: no
    logits make A2BX6 likelier than 40 % once its elements are drawn. Informed heads (`policy.heads`) know how
    many elements are still to come, and draw one count after another (`anchor.policy.sequence`).

    Args:
        config: Sizes (tab:hparams 'Policy network').
        n_objectives: Length of w, four or more.
        seed: Seed of the initial weights.
    """

    descriptors: Tensor

    def __init__(
        self, config: Policy | None = None, *, n_objectives: int = N_OBJECTIVES, seed: int = 0
    ) -> None:
        super().__init__()
        if n_objectives < N_OBJECTIVES:
            raise InputError(f"{n_objectives} objectives, at least {N_OBJECTIVES} are needed")
        self.config = config or Policy()
        self.n_objectives = n_objectives
        features = torch.from_numpy(element_features().copy())
        self.register_buffer("descriptors", features, persistent=False)  # f_e, fixed  # [84, 38]

        generator = torch_generator(seed, "policy")
        width, embedding = self.config.hidden_dim, self.config.element_embedding
        state = self.config.state_dim + n_objectives
        self.projection = linear(features.shape[1], self.config.state_dim, generator)  # W_f
        self.embedding = nn.Parameter(torch.randn(len(VOCABULARY), embedding, generator=generator))
        self.cardinality = _head(state, width, len(CARDINALITIES), generator)
        self.informed = self.config.heads == "informed"
        slots = MAX_ELEMENTS if self.informed else 0
        self.element = _head(embedding + slots + state, width, len(VOCABULARY), generator)
        self.size = _head(embedding + state, width, len(CELL_SIZES), generator)
        if self.informed:
            known = 3 * embedding + MAX_ELEMENTS + CELL_SIZES[-1] + 1 + state
            self.stoichiometry = _head(known, width, CELL_SIZES[-1] - CELL_SIZES[0] + 1, generator)
        else:
            self.stoichiometry = _head(2 * embedding + state, width, 1, generator)

    def state(self, subgroup: Tensor, weights: Tensor) -> Tensor:
        """s = [W_f f̄_S ; w] (eq:state).

        Args:
            subgroup: Elements of the rollout.  # [n, 84] bool
            weights: w.  # [n, n_objectives]

        Returns: # [n, state_dim + n_objectives]
        """
        members = subgroup.to(self.descriptors.dtype)
        mean = members @ self.descriptors / members.sum(-1, keepdim=True)
        return torch.cat([self.projection(mean), weights], dim=-1)

    def cardinality_logits(self, state: Tensor) -> Tensor:
        """g_k(s) (eq:head-k).  # [n, 3], in the order of CARDINALITIES"""
        return self.cardinality(state)

    def element_logits(self, state: Tensor, drawn: Tensor, slots: Tensor) -> Tensor:
        """g_e(s, e_<i) (eq:head-e), from the summed embeddings of the elements drawn.  # [..., 84]

        Args:
            slots: Elements still to draw, this one included; only informed heads look at it.  # [...]
        """
        to_come = [_one_hot(slots - 1, MAX_ELEMENTS, state)] if self.informed else []
        return self.element(torch.cat([drawn, *to_come, state], dim=-1))

    def size_logits(self, state: Tensor, drawn: Tensor) -> Tensor:
        """g_T(s, e) (eq:head-T), from the summed embeddings of all elements.  # [n, 19]"""
        return self.size(torch.cat([drawn, state], dim=-1))

    def stoichiometry_logits(self, state: Tensor, own: Tensor, drawn: Tensor) -> Tensor:
        """g_ρ(s, e) (eq:head-c), one logit per element from its own and the summed embeddings.  # [..., 4]"""
        return self.stoichiometry(torch.cat([own, drawn, state], dim=-1)).squeeze(-1)

    def count_logits(
        self, state: Tensor, own: Tensor, drawn: Tensor, placed: Tensor, left: Tensor, slots: Tensor
    ) -> Tensor:
        """Logits of an element's surplus, informed heads only: what has been placed before it is known.

        Args:
            own, drawn: Embedding of the element, sum of all.  # [..., d]
            placed: Sum of embeddings times counts over the elements before it.  # [..., d]
            left: Surplus atoms that are left for it and those after it.  # [...]
            slots: Elements without a count, this one included.  # [...]

        Returns: # [..., 19], for 0 to 18 atoms beyond the first
        """
        known = [
            own,
            drawn,
            placed / CELL_SIZES[-1],
            _one_hot(slots - 1, MAX_ELEMENTS, state),
            _one_hot(left, CELL_SIZES[-1] + 1, state),
        ]
        return self.stoichiometry(torch.cat([*known, state], dim=-1))

    def extend_objectives(self, n_objectives: int) -> CompositionPolicy:
        """A policy for more objectives that ignores the new ones until it learns: zero columns for them."""
        if n_objectives < self.n_objectives:
            raise InputError(f"a policy of {self.n_objectives} objectives cannot lose some ({n_objectives})")
        extended = CompositionPolicy(self.config, n_objectives=n_objectives)
        extended.to(self.embedding)
        target = extended.state_dict()
        for name, values in self.state_dict().items():
            if target[name].shape == values.shape:
                target[name] = values
            else:
                target[name] = torch.zeros_like(target[name])
                target[name][:, : values.shape[1]] = values
        extended.load_state_dict(target)
        return extended


def _one_hot(index: Tensor, size: int, like: Tensor) -> Tensor:
    """One-hot of an index clipped to the range, in the type of `like`.  # [...] -> [..., size]"""
    return nn.functional.one_hot(index.clamp(0, size - 1), size).to(like)


def _head(n_in: int, width: int, n_out: int, generator: torch.Generator) -> nn.Sequential:
    """MLP with two hidden layers; its output starts near zero, so that every choice starts equally likely."""
    return nn.Sequential(
        linear(n_in, width, generator),
        nn.SiLU(),
        linear(width, width, generator),
        nn.SiLU(),
        linear(width, n_out, generator, gain=OUTPUT_GAIN),
    )


def linear(n_in: int, n_out: int, generator: torch.Generator, gain: float = 1.0) -> nn.Linear:
    """Linear layer with weights uniform in ±gain·√(3 / n_in), drawn from `generator`, and zero bias."""
    layer = nn.Linear(n_in, n_out, device="meta")  # draws nothing of its own
    bound = gain * math.sqrt(3 / n_in)
    layer.weight = nn.Parameter(torch.empty(n_out, n_in).uniform_(-bound, bound, generator=generator))
    layer.bias = nn.Parameter(torch.zeros(n_out))
    return layer
