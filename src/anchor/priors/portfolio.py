"""Portfolio prior: several priors propose, whoever asks chooses by energy.

Draw 0 of a composition is the first proposal, draw 1 the second, … in an order that is fixed by the setting:
templates first, so that with one draw a portfolio is the template prior. How many proposals there are
(`proposals`) and how they are thinned out before one is relaxed (`rounds`) belongs to the setting; the
choosing itself belongs to the judge of whoever asks (`anchor.outcomes.judge.Judge.contest`), because a prior
knows no potential.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from anchor.arrays import content_hash
from anchor.chemistry.elements import NUMBER
from anchor.crystals.crystals import Crystals
from anchor.errors import InputError, nearest
from anchor.priors.base import Prior, Rounds, Sampled
from anchor.priors.registry import load_prior
from anchor.priors.request import Request
from anchor.priors.units import with_units


@dataclass(frozen=True)
class Setting:
    """What a portfolio costs.

    Attributes:
        members: Who makes each proposal, in order: t(emplates), m(erged), w(yckoff), c(rystalite), o(matg).
        rounds: How the judge chooses among them.
    """

    members: str
    rounds: Rounds


NAMES = {"t": "templates", "m": "merged", "w": "wyckoff", "c": "crystalite", "o": "omatg"}
SETTINGS: dict[str, Setting] = {
    "cheap": Setting("ttmm", ((0, 1),)),
    "standard": Setting("tmctwmcto", ((3, 3), (10, 2), (20, 1))),
    "full": Setting("tmctwmctomcotwmco", ((3, 6), (10, 3), (30, 2), (100, 1))),
}
"""Chosen on 24 formulas of another seed than those of `benchmarks/portfolio.py`. Three steps come before the
first choice where networks propose: as made their crystals are high, even if they end lowest."""


class Portfolio(Prior):
    """See the module's docstring.

    A member that does not know an element, or has no (further) answer, leaves its proposal out.

    Args:
        members: By letter; the first knows every element that any request may have.
        setting: Who proposes, and how it is chosen.
    """

    chooses_units: ClassVar[bool] = True

    def __init__(self, members: Mapping[str, Prior], setting: Setting, *, name: str = "portfolio") -> None:
        self.members, self.setting, self.name = dict(members), setting, name
        first = self.members[setting.members[0]]
        self.elements, self.max_atoms, self.device = first.elements, first.max_atoms, first.device
        self.proposals, self.rounds = len(setting.members), setting.rounds

    @property
    def hash(self) -> str:  # type: ignore[override]  # read-only here
        """Of all members as they are now, and the setting."""
        parts = [self.setting.members, repr(self.rounds), *(m.hash for m in self.members.values())]
        return content_hash({"parts": np.frombuffer("|".join(parts).encode(), dtype=np.uint8)})

    @property
    def makers(self) -> frozenset[str]:
        return frozenset(member.name for member in self.members.values())

    def proposer(self, draw: int) -> tuple[str, int]:
        """Who answers this draw of a composition, and with which draw of its own."""
        order = self.setting.members
        turn, place = divmod(draw, len(order))
        letter = order[place]
        return letter, turn * Counter(order)[letter] + order[:place].count(letter)

    def draw(self, requests: Sequence[Request]) -> Sampled:
        made: dict[int, tuple[Crystals, str]] = {}
        missing: dict[int, str] = {}
        asked: dict[str, list[tuple[int, Request]]] = {}
        for i, request in enumerate(requests):
            letter, own = self.proposer(request.draw)
            member = self.members[letter]
            if why := _refusal(member, request):
                missing[i] = why
                continue
            mine = replace(request, draw=own)
            if mine.units is None and not member.chooses_units:
                mine = with_units(mine, member.max_atoms)
            asked.setdefault(letter, []).append((i, mine))
        for letter, pairs in asked.items():
            answer = self.members[letter].answer([request for _, request in pairs])
            for k, crystal, by in zip(answer.request.tolist(), answer.crystals, answer.made_by, strict=True):
                made[pairs[k][0]] = (crystal, by)
            missing |= {pairs[k][0]: why for k, why in answer.missing.items()}
        return Sampled.gather(made, missing)


def _refusal(member: Prior, request: Request) -> str:
    unknown = [e for e in request.composition.elements if NUMBER[e] not in member.elements]
    if unknown:
        return f"'{member.name}' does not know {', '.join(unknown)}"
    if request.composition.n_atoms > member.max_atoms:
        return f"'{member.name}' places at most {member.max_atoms} atoms"
    return ""


def load(
    *, device: str = "cpu", setting: str = "standard", split: Literal["train", "all"] = "all"
) -> Portfolio:
    """A portfolio over the bundled reference and the weights that ship.

    Args:
        setting: cheap, standard or full.
        split: Which reference crystals serve as templates; "train" for a test on the others.
    """
    if setting not in SETTINGS:
        raise InputError(f"there is no portfolio '{setting}'", nearest(setting, SETTINGS))
    if split not in ("train", "all"):
        raise InputError(f"a portfolio has no split '{split}'", "choose train or all")
    chosen = SETTINGS[setting]
    suffix = "-all" if split == "all" else ""
    members = {}
    for letter in dict.fromkeys(chosen.members):
        name = NAMES[letter]
        if letter in "tm":
            name += suffix
        alone = {} if letter == "t" else {"fallback": "none"}
        members[letter] = load_prior(name, device=device, **alone)
    return Portfolio(members, chosen)
