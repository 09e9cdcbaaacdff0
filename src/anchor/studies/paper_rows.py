"""Every policy the paper trains around a frozen prior (tab:run-budget), as settings for `--preset paper`.

>>> from anchor.config import load_config
>>> load_config(preset="paper", overrides=PAPER_ROWS["– count bonus"]).config.reward.count_bonus
0.0
"""

from __future__ import annotations

FIXED, NO_COUNT, NO_MASK = "novelty.mode=fixed", "reward.count_bonus=0", "reward.subgroup_mask=false"
POTENTIAL_5M = "relax.potential=mattersim-5m"

BASE_MODEL: dict[str, tuple[str, ...]] = {
    "G=16 / 1M": ("grpo.group_size=16",),
    "G=16 / 5M": ("grpo.group_size=16", POTENTIAL_5M),
    "G=32 / 1M": (),
    "G=32 / 5M": (POTENTIAL_5M,),
    "G=64 / 1M": ("grpo.group_size=64",),
    "G=64 / 5M": ("grpo.group_size=64", POTENTIAL_5M),
}
"""app:stage1; G=32 / 1M is the selected configuration, the preset itself."""

INVALID_PENALTY: dict[str, tuple[str, ...]] = {
    "r_inv = -0.1": ("reward.invalid=-0.1",),
    "r_inv = -0.5": ("reward.invalid=-0.5",),
}
"""app:stage2-invalid_penalty; -0.2 is the preset itself."""

EXPLORATION: dict[str, tuple[str, ...]] = {
    "– count bonus": (NO_COUNT,),
    "– sub-group mask": (NO_MASK,),
    "– adaptive novelty": (FIXED,),
    "adaptive novelty only": (NO_COUNT, NO_MASK),
    "count bonus only": (FIXED, NO_MASK),
    "sub-group mask only": (FIXED, NO_COUNT),
    "none": (FIXED, NO_COUNT, NO_MASK),
    "binary novelty": ("novelty.mode=binary",),
}
"""tab:explore-ablation; the full method is the preset itself."""

GATE: dict[str, tuple[str, ...]] = {"LeMat-GenBench gate": ("gate.name=lemat",)}
"""app:gates."""

REWARD_TRAINED: dict[str, tuple[str, ...]] = {
    "Shared reward": ("prior.name=kldm", "prior.train=shared"),
    "Stability-only CSP reward": ("prior.name=kldm", "prior.train=stability"),
}
"""app:reward-ft, reward-trained KLDM-CSP: the one place where a search changes its prior."""

SOURCES: dict[str, tuple[str, ...]] = {
    "random formulas": ("policy.source=random",),
    "enumerated charge-neutral": ("policy.source=neutral",),
}
"""app:composition_ladder: nothing is trained."""

PAPER_ROWS = BASE_MODEL | INVALID_PENALTY | EXPLORATION | GATE | SOURCES
