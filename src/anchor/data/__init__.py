"""Crystals as batched arrays, the bundled reference, and loaders for other people's data."""

from anchor.data.crystals import Crystals

__all__ = ["Crystals"]
