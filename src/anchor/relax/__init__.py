"""One batched relaxation engine for every potential."""

from anchor.relax.engine import relax
from anchor.relax.result import Relaxation, Trajectory

__all__ = ["Relaxation", "Trajectory", "relax"]

from anchor.calling import can_be_called

can_be_called(__name__)
