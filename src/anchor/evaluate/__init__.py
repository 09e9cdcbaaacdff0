"""Protocols, sources and metrics. `anchor.evaluate(…)` judges structures."""

from anchor.calling import can_be_called

can_be_called(__name__)
