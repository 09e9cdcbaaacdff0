"""Structure priors p(x|c): crystals for a composition, behind one small protocol."""

from anchor.priors.base import Prior, Sampled
from anchor.priors.registry import (
    PRIORS,
    Availability,
    PriorEntry,
    is_learned,
    load_prior,
    prior_availability,
)
from anchor.priors.request import Request

__all__ = [
    "PRIORS",
    "Availability",
    "Prior",
    "PriorEntry",
    "Request",
    "Sampled",
    "is_learned",
    "load_prior",
    "prior_availability",
]
