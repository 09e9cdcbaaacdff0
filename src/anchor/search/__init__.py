"""The campaign loop, the ledger and the finds. `anchor.search(…)` runs a campaign."""

from anchor.calling import can_be_called

can_be_called(__name__)
