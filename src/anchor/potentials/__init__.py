"""Potentials: crystals in, energies, forces and stresses out. Names and weights are in `registry`."""

from anchor.potentials.base import Evaluation, GradientPotential, Potential
from anchor.potentials.registry import availability, load_potential

__all__ = ["Evaluation", "GradientPotential", "Potential", "availability", "load_potential"]
