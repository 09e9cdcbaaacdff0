"""Attacks on finds: a find is a claim, each level tries to break it, and what it survived is written down.

`anchor.verify(structures)` attacks anybody's.
"""

from anchor.calling import can_be_called

can_be_called(__name__)
