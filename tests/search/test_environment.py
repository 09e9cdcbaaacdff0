"""What a configuration names is what a campaign gets."""

from typing import Any

import pytest

from anchor.config import Prior, load_config
from anchor.search import environment
from anchor.search.environment import load_configured_prior


def test_the_fallback_reaches_learned_priors_and_only_them(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, dict[str, Any]]] = []
    monkeypatch.setattr(environment, "load_prior", lambda name, **options: asked.append((name, options)))
    for name in ("kldm", "mine.safetensors", "templates-all", "package.module:factory"):
        load_configured_prior(Prior(name=name, fallback="none"), device="cpu")
    assert asked == [
        ("kldm", {"device": "cpu", "fallback": "none"}),
        ("mine.safetensors", {"device": "cpu", "fallback": "none"}),
        ("templates-all", {"device": "cpu"}),
        ("package.module:factory", {"device": "cpu"}),
    ]


def test_the_fallback_is_part_of_a_learned_priors_identity() -> None:
    settings = load_config(overrides=["prior.name=kldm"]).config.prior
    usual = load_configured_prior(settings, device="cpu")
    other = load_configured_prior(settings.model_copy(update={"fallback": "random"}), device="cpu")
    assert usual.hash != other.hash
