"""Templates and the wyckoff prior together: candidates of both, in the order of a learned score.

A template says "something like this is known"; the network says "these elements would do that". The score of
a candidate is linear in what both say of it (`FEATURES`), with weights fitted to held-out crystals so that
the right ones come first (`anchor prior index --combined`, validation split).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from anchor.chemistry.composition import Composition
from anchor.data.crystals import Crystals
from anchor.errors import MissingDependencyError
from anchor.priors.base import Prior, Request, load_prior
from anchor.priors.overlaps import make_room
from anchor.priors.supercells import supercell
from anchor.priors.templates import TemplatePrior
from anchor.priors.testing import cell_of, displacement, held_out
from anchor.priors.units import choose_units
from anchor.priors.wyckoff.encoding import Encoded, encode
from anchor.priors.wyckoff.prior import Written, WyckoffPrior

FITTED_FILE = Path(__file__).parent / "files" / "combined.json"
FEATURES = ("log_votes", "log_probability", "undescribed", "written", "tight")
"""Of templates: the logarithm of their share of the votes, the network's log-probability of group and
positions, and whether there is none (cells that are not primitive). Of written crystals: the log-probability,
1, and whether atoms are too close."""
TEMPLATES = 5
"""Templates that compete."""
_LEAST_VOTES, _LEAST_LOG_P = 1e-6, -20.0
_RIDGE = 1e-3


@dataclass(frozen=True, eq=False)
class Candidate:
    """A crystal and what is known of it before any energy.

    Attributes:
        crystal: A batch of one.
        features: As in FEATURES.  # [5]
    """

    crystal: Crystals
    features: NDArray[np.float64]


class CombinedPrior(Prior):
    """See the module.

    Args:
        templates: Gives known prototypes.
        wyckoff: Writes crystals and scores those of templates.
        weights: Of FEATURES.  # [5]
    """

    chooses_units: ClassVar[bool] = True

    def __init__(self, templates: TemplatePrior, wyckoff: WyckoffPrior, weights: NDArray[np.float64]) -> None:
        self.templates, self.wyckoff, self.weights = templates, wyckoff, weights
        self.name, self.device = "combined", wyckoff.device
        self.max_atoms = min(templates.max_atoms, wyckoff.max_atoms)
        self.elements = templates.elements & wyckoff.elements
        self.hash = hashlib.sha256(
            f"{templates.hash}|{wyckoff.hash}|{TEMPLATES}|{weights.tolist()}".encode()
        ).hexdigest()

    def draw(self, requests: Sequence[Request]) -> Crystals:
        """Draw d of a composition is its d-th best candidate; beyond the last, a random crystal."""
        ranked: dict[tuple[Any, ...], list[Crystals]] = {}
        asked = {_key(request): request for request in reversed(requests)}
        for key, candidates in zip(asked, self.candidates(list(asked.values())), strict=True):
            scores = np.array([candidate.features @ self.weights for candidate in candidates])
            ranked[key] = [candidates[i].crystal for i in np.argsort(-scores, kind="stable")]
        beyond = [request for request in requests if request.draw >= len(ranked[_key(request)])]
        random = iter(self.wyckoff.random([_with_units(r, ranked[_key(r)][0]) for r in beyond]))
        found = [
            ranked[_key(request)][request.draw] if request.draw < len(ranked[_key(request)]) else next(random)
            for request in requests
        ]
        return make_room(Crystals.concatenate(found), self.wyckoff.shortest)

    def candidates(self, requests: Sequence[Request]) -> list[list[Candidate]]:
        """All crystals that compete for each request, templates first, both from likely to unlikely."""
        known = [self._from_templates(request) for request in requests]
        asked = [
            request
            if request.units is not None
            else _with_units(request, mine[0][0] if mine else None, self.max_atoms)
            for request, mine in zip(requests, known, strict=True)
        ]
        beams = self.wyckoff.best([_counts(request) for request in asked])
        return [self._compete(mine, beam) for mine, beam in zip(known, beams, strict=True)]

    def _compete(self, known: Sequence[tuple[Crystals, float]], beam: Sequence[Written]) -> list[Candidate]:
        described = [_described(crystal) for crystal, _ in known]
        names = {_name(one) for one in described if one is not None}
        new = [
            one for one in beam if _name(one.description) not in names
        ]  # the template's geometry is better
        log_p = self._log_p([*described, *(one.description for one in new)])
        features = [
            *(
                (math.log(max(votes, _LEAST_VOTES)), p, one is None, 0.0, 0.0)
                for (_, votes), one, p in zip(known, described, log_p, strict=False)
            ),
            *((0.0, p, 0.0, 1.0, one.tight) for one, p in zip(new, log_p[len(known) :], strict=True)),
        ]
        crystals = [*(crystal for crystal, _ in known), *(one.crystal for one in new)]
        return [
            Candidate(crystal, np.array(row, dtype=float))
            for crystal, row in zip(crystals, features, strict=True)
        ]

    def _from_templates(self, request: Request) -> list[tuple[Crystals, float]]:
        """Crystals of the first templates, and their shares of the votes."""
        made: list[tuple[Crystals, float]] = []
        for choice in self.templates.choices(request, TEMPLATES):
            crystal = self.templates.substitute(choice)
            if request.units is not None and crystal.n_atoms < request.composition.n_atoms:
                times = request.composition.n_atoms // crystal.n_atoms
                crystal = supercell(crystal, times, request.rng("supercell", len(made)))
            made.append((crystal, choice.probability))
        return made

    def _log_p(self, described: Sequence[Encoded | None]) -> NDArray[np.float64]:
        """Log-probabilities, 0 where there is no description.  # [n]"""
        answers = np.zeros(len(described))
        there = [i for i, one in enumerate(described) if one is not None]
        if there:
            found = self.wyckoff.writer.log_probabilities([one for one in described if one is not None])
            answers[there] = np.maximum(found, _LEAST_LOG_P)
        return answers


def _key(request: Request) -> tuple[Any, ...]:
    return (request.stream, request.composition, request.units)


def _counts(request: Request) -> dict[int, int]:
    numbers, counts = np.unique(request.composition.numbers, return_counts=True)
    return dict(zip(numbers.tolist(), counts.tolist(), strict=True))


def _described(crystal: Crystals) -> Encoded | None:
    """The description of a crystal; None if its cell is not primitive."""
    one = encode(crystal)
    return one if one is not None and sum(one.counts.values()) == crystal.n_atoms else None


def _name(one: Encoded) -> tuple[Any, ...]:
    return (one.group, *((orbit.element, orbit.position) for orbit in one.orbits))


def _with_units(request: Request, like: Crystals | None, max_atoms: int = 0) -> Request:
    """A request for as many formula units as another crystal has; where there is none, chosen."""
    if request.units is not None:
        return request
    unit = request.composition
    times = choose_units(request, max_atoms) if like is None else like.n_atoms // unit.n_atoms
    composition = Composition(unit.elements, tuple(n * times for n in unit.counts))
    return replace(request, composition=composition, units=times)


# The learned score


def fit_weights(prior: CombinedPrior, truth: Crystals, *, seed: int = 0) -> tuple[NDArray[np.float64], dict]:
    """Weights under which right candidates come first, and how often they then do.

    Maximises the mean log of the softmax of features · weights, summed over a crystal's right candidates.

    Args:
        prior: Any weights; its templates must not know the crystals.
        truth: Held-out crystals.
    """
    requests = [
        Request(cell_of(crystal), math.gcd(*cell_of(crystal).counts), 0, seed, ("fit", i))
        for i, crystal in enumerate(truth)
    ]
    shown = []
    for request, crystal in zip(requests, truth, strict=True):
        candidates = prior.candidates([request])[0]
        made = make_room(Crystals.concatenate(c.crystal for c in candidates), prior.wyckoff.shortest)
        right = np.array([not math.isnan(displacement(one, crystal)) for one in made])
        shown.append((np.array([c.features for c in candidates]), right))

    def loss(weights: NDArray[np.float64]) -> float:
        total = _RIDGE * float((weights**2).sum())
        for features, right in shown:
            if right.any():
                scores = features @ weights
                total -= float(np.logaddexp.reduce(scores[right]) - np.logaddexp.reduce(scores)) / len(shown)
        return total

    start = np.array([1.0, 0.5, 0.0, -3.0, -2.0])
    weights = minimize(loss, start, method="Nelder-Mead", options={"maxiter": 2000, "xatol": 1e-3}).x
    first = [right[np.argmax(features @ weights)] for features, right in shown]
    alone = [features[0, 3] == 0 and right[0] for features, right in shown]
    report = {
        "crystals": len(shown),
        "right_first": int(np.sum(first)),
        "right_first_templates_alone": int(np.sum(alone)),
        "right_anywhere": int(sum(right.any() for _, right in shown)),
    }
    return weights, report


def fit(n: int | None = 600, *, seed: int = 0) -> dict[str, Any]:
    """Fit the weights that ship, to n validation crystals; returns what is written to `FITTED_FILE`."""
    prior = CombinedPrior(_templates("train"), _wyckoff("cpu"), np.zeros(len(FEATURES)))
    weights, report = fit_weights(prior, held_out("val", n, seed=seed), seed=seed)
    named = dict(zip(FEATURES, (round(float(w), 4) for w in weights), strict=True))
    document = {"weights": named, "templates": prior.templates.hash, "wyckoff": prior.wyckoff.hash, **report}
    FITTED_FILE.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return document


def load(*, device: str = "cpu", split: Literal["train", "all"] = "train") -> CombinedPrior:
    """Both priors as they ship, with the weights that ship.

    Args:
        split: Of the templates, as in the template prior.
    """
    if not FITTED_FILE.is_file():
        raise MissingDependencyError(
            f"the weights of the combined prior are missing ({FITTED_FILE})",
            "fit them: anchor prior index --combined",
        )
    fitted = json.loads(FITTED_FILE.read_text(encoding="utf-8"))
    weights = np.array([fitted["weights"][name] for name in FEATURES])
    return CombinedPrior(_templates(split), _wyckoff(device), weights)


def _templates(split: str) -> TemplatePrior:
    prior = load_prior("templates", split=split, temperature=0.0)
    assert isinstance(prior, TemplatePrior)
    return prior


def _wyckoff(device: str) -> WyckoffPrior:
    prior = load_prior("wyckoff", device=device)
    assert isinstance(prior, WyckoffPrior)
    return prior
