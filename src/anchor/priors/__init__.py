"""Structure priors p(x|c): crystals for a composition, behind one small protocol."""

from anchor.priors.base import (
    ENTRIES,
    Availability,
    Prior,
    Request,
    is_learned,
    load_prior,
    prior_availability,
)

__all__ = [
    "ENTRIES",
    "Availability",
    "Prior",
    "Request",
    "is_learned",
    "load_prior",
    "prior_availability",
]
