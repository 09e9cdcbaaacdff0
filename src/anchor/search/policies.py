"""Trained policies that know how they were trained: objective weights, limits, prior, potential.

>>> from anchor.search.policies import load_trained
>>> default = load_trained("default")
>>> default.config.reward.alpha
(2.0, 2.0, 1.0, 1.0)
>>> len(default.draw(8, seed=1))
8
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from anchor.chemistry.composition import Compositions
from anchor.chemistry.elements import VOCABULARY
from anchor.config import ActionSpace, Config, load_config
from anchor.errors import InputError, Notice
from anchor.generators.generator import Generator, load_generator
from anchor.generators.learner import generator_in
from anchor.hull.references import load_hull
from anchor.paths import BUNDLED
from anchor.policy.constraints import Limits
from anchor.policy.draw import draw_compositions
from anchor.policy.network import CompositionPolicy
from anchor.policy.weights import load_policy, settings_in
from anchor.reading import read_json
from anchor.search.ledger import Ledger

DEFAULT_POLICY = BUNDLED / "policies" / "default.safetensors"
"""The policy that ships."""
NEEDED = ("reward", "action_space", "prior", "relax")
"""Sections of a policy's configuration that decide how it is drawn from and realised."""
SHARED = ("reward", "novelty", "gate", "prior", "relax", "hull")
"""Sections that decide how its proposals were judged, whatever machine it was on."""


@dataclass(frozen=True, eq=False)
class TrainedPolicy:
    """A policy with the settings it was trained with.

    Attributes:
        name: As people named it.
        network: Its weights.
        config: Of its training; the prior and the potential are there.
        elements: Those it was trained on.
    """

    name: str
    network: CompositionPolicy
    config: Config
    elements: tuple[str, ...]

    @property
    def weights(self) -> tuple[float, ...]:
        """w of evaluations: the mean of the Dirichlet of its training, or the w it was trained with."""
        reward = self.config.reward
        if reward.weights is not None:
            return reward.weights
        return tuple((np.asarray(reward.alpha) / sum(reward.alpha)).tolist())

    @property
    def space(self) -> ActionSpace:
        """What it may propose: the limits of its training, within the elements of its training."""
        return self.config.action_space.model_copy(update={"elements": self.elements})

    def within(self, limits: Mapping[str, Any]) -> TrainedPolicy:
        """The same policy with some limits of its action space replaced; None: not given."""
        base = {"action_space": self.space.model_dump()}
        values = {f"action_space.{name}": value for name, value in limits.items()}
        space = load_config(base=base, values=values).config.action_space
        changed = self.config.model_copy(update={"action_space": space})
        return replace(self, config=changed, elements=space.elements or VOCABULARY)

    def draw(self, n: int, *, seed: int = 0) -> Compositions:
        """n compositions, sampled stochastically at `weights` and without sub-group mask."""
        limits = Limits.from_config(self.space)
        return draw_compositions(self.network, n, limits, self.weights, seed=seed)[0]

    def settings(self) -> dict[str, Any]:
        """What a policy file and its card carry, for JSON."""
        return {"config": self.config.model_dump(mode="json"), "elements": list(self.elements)}

    def judging(self) -> dict[str, Any]:
        """The settings under which its proposals were judged, as a base of another configuration."""
        return {name: getattr(self.config, name).model_dump() for name in SHARED}

    def hash(self) -> str:
        """SHA-256 of the weights."""
        digest = hashlib.sha256()
        for name, tensor in sorted(self.network.state_dict().items()):
            digest.update(name.encode() + tensor.cpu().numpy().tobytes())
        return digest.hexdigest()


def policy_file(name: str) -> Path:
    """The file of a policy: a path, or 'default' for the one that ships."""
    path = DEFAULT_POLICY if name == "default" else Path(name)
    if not path.is_file():  # a pipe or a folder is none either
        raise InputError(
            f"there is no policy file '{path}'", "give a .safetensors file or a campaign's folder"
        )
    return path


def read_policy(path: Path) -> CompositionPolicy:
    """The policy of a file; what is wrong with it is said with its name."""
    try:
        return load_policy(path.read_bytes())
    except InputError as error:
        raise InputError(f"{path}: {error.message}", error.hint) from None


def load_trained(source: str) -> TrainedPolicy:
    """The policy of a campaign (folder, ledger file or database URL), of a file, or 'default'."""
    if "://" in source or Path(source).is_dir() or source.endswith(".db"):
        return policy_of(Ledger.open(source), name=source)
    path = policy_file(source)
    data = path.read_bytes()
    network, card = read_policy(path), path.with_suffix(".json")
    stored = settings_in(data) or (read_json(card) if card.is_file() else {})
    config, elements = dict(stored.get("config", {})), stored.get("elements")
    missing = [name for name in NEEDED if name not in config] + ["elements"] * (elements is None)
    if missing:
        warnings.warn(
            f"the card of the policy '{source}' says nothing about {', '.join(missing)}: defaults are taken",
            Notice,
            stacklevel=2,
        )
    if "reward" not in config:
        config["reward"] = _reward_of(network)
    found = Config.from_ledger(config)
    return TrainedPolicy(source, network, found, tuple(elements or searched_elements(found)))


def _reward_of(network: CompositionPolicy) -> dict[str, Any]:
    """The default α for as many objectives as a network has, own ones of unknown name at 1."""
    own = network.n_objectives - len(Config().reward.alpha)
    return {"alpha": (*Config().reward.alpha, *[1.0] * own), "objectives": ["unknown"] * own}


def policy_of(ledger: Ledger, *, name: str = "campaign") -> TrainedPolicy:
    """The latest policy of a campaign."""
    state = ledger.state()
    if not state:
        raise InputError(
            f"the campaign '{name}' has no policy",
            "it has not finished a step, or it drew from an untrained source",
        )
    config = Config.from_ledger(ledger.config)
    if config.policy.source == "generator":
        raise InputError(f"the campaign '{name}' has a generator, not a policy", f"name it generator:{name}")
    elements: Sequence[str] = ledger.identity.get("elements") or searched_elements(config)
    return TrainedPolicy(name, load_policy(state), config, tuple(elements))


def generator_of(text: str) -> Generator:
    """A generator by name or file, or of a campaign: its latest, or the one kept after a step (FOLDER:49)."""
    place, _, name = text.rpartition(":")
    if not place or not name.isdigit():
        place, name = text, "latest"
    if not (Path(place) / "ledger.db").is_file():
        return load_generator(text)
    ledger = Ledger.open(place)
    config, state = Config.from_ledger(ledger.config), ledger.state(name)
    if config.policy.source != "generator":
        raise InputError(f"the campaign '{place}' has no generator", "it drew from another source")
    if state is None:
        kept = ", ".join(ledger.state_names())
        raise InputError(f"the campaign '{place}' keeps no generator of step {name}", f"it keeps: {kept}")
    return generator_in(state, config)


def searched_elements(config: Config) -> tuple[str, ...]:
    """Elements that a campaign could propose, if nothing else says so."""
    space = config.action_space
    within = VOCABULARY if space.allow_loose_references else searchable_elements(config)
    return tuple(e for e in space.elements or within if e in within and e not in space.exclude)


def searchable_elements(config: Config) -> tuple[str, ...]:
    """Elements with a well-determined energy reference on the hull that a config names."""
    if config.hull.kind == "alex-mp":
        from anchor.potentials.registry import load_potential  # slow to import, and rarely needed
        from anchor.search.environment import load_campaign_hull

        return load_campaign_hull(config, load_potential(config.relax.potential)).searchable_elements
    return load_hull(config.relax.potential, config.hull.kind).searchable_elements
