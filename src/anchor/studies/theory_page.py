"""One page with figures of the paper's argument, every curve computed on an enumerable space."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from anchor.random import generator
from anchor.studies import theory
from anchor.studies.identities import best_tilt, theory_table

if TYPE_CHECKING:
    from anchor.studies.cells import Results
    from anchor.studies.declaration import Study

COMPOSITIONS, STRUCTURES = 40, 6
"""Of the space that is drawn."""
BETAS = np.geomspace(0.05, 5.0, 40)


def draw_theory(study: Study, results: Results, folder: Path) -> list[Path]:
    """theory.png and theory.md, with the table of identities."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    space = Space()
    figure, axes = plt.subplots(3, 3, figsize=(13, 10.5), layout="constrained")
    panels = (_optimum, _marginal, _bounds, _power, _covariance, _chain, _factors, _history, _allocation)
    for axis, panel in zip(axes.ravel(), panels, strict=True):
        panel(axis, space)
    picture, page = folder / "theory.png", folder / "theory.md"
    figure.savefig(picture, dpi=100)
    plt.close(figure)
    table = theory_table(study, results)
    lines = [table.head, ["---"] * len(table.head), *table.rows]
    body = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    head = "# The argument for a frozen prior\n\nMade by `anchor study run theory`. "
    about = f"The figure's space: {COMPOSITIONS} compositions × {STRUCTURES} structures, seed 0."
    page.write_text(
        f"{head}{table.notes[0]} {about}\n\n![Nine panels](theory.png)\n\n{body}\n", encoding="utf-8"
    )
    return [picture, page]


class Space:
    """A random p₀(c, x) whose compositions differ by orders of magnitude, rewards and successes."""

    def __init__(self, seed: int = 0) -> None:
        rng = generator(seed, "theory page")
        marginal = np.sort(rng.dirichlet(np.full(COMPOSITIONS, 0.3)))[::-1]
        inside = rng.dirichlet(np.ones(STRUCTURES), size=COMPOSITIONS)
        self.p0 = theory.joint(marginal, inside)
        self.success = rng.random(self.p0.shape) < rng.beta(0.3, 1.5, size=(COMPOSITIONS, 1))
        self.reward = rng.uniform(-0.2, 1.0, self.p0.shape) + 1.0 * self.success
        points = rng.random((STRUCTURES, 2))
        self.similar = np.exp(-((points[:, None] - points[None]) ** 2).sum(-1) / 0.05)

    @property
    def s0(self) -> theory.Table:
        """Success of the frozen conditional.  # [C]"""
        return (theory.conditional(self.p0) * self.success).sum(axis=1)


def _optimum(axis: Any, space: Space) -> None:
    small, reward = space.p0[:8] / space.p0[:8].sum(), space.reward[:8]
    q, found = theory.tilted(small, reward, 0.5), best_tilt(small, reward, 0.5)
    axis.loglog(q.ravel(), found.ravel(), "o", markersize=4)
    axis.plot([q.min(), q.max()], [q.min(), q.max()], color="grey", linewidth=0.8)
    axis.set(xlabel="q* ∝ p₀ exp(R/β)", ylabel="numerical optimum", title="eq:reward_tilt, β = 0.5")


def _marginal(axis: Any, space: Space) -> None:
    for beta in (0.25, 0.5, 1.0):
        q = theory.tilted_marginal(space.p0, space.success.astype(float), beta)
        order = np.argsort(space.s0)
        z = theory.binary_partition(space.s0, beta)[order]
        normaliser = float((theory.marginal(space.p0) * theory.binary_partition(space.s0, beta)).sum())
        (line,) = axis.plot(space.s0[order], z / normaliser, label=f"Z/ΣpZ, β = {beta:g}")
        axis.plot(space.s0, q / theory.marginal(space.p0), "o", markersize=3, color=line.get_color())
    axis.set(
        xlabel="s₀(c)", ylabel="q*(c)/p₀(c)", yscale="log", title="binary reward: Z = 1 + (e^{1/β}−1) s₀"
    )
    axis.legend(fontsize="x-small")


def _bounds(axis: Any, space: Space) -> None:
    ratios = [theory.tilted_marginal(space.p0, space.reward, b) / theory.marginal(space.p0) for b in BETAS]
    low, high = zip(*(theory.tilt_bounds(space.reward, b) for b in BETAS), strict=True)
    axis.loglog(BETAS, [r.max() for r in ratios], label="largest q*(c)/p₀(c)")
    axis.loglog(BETAS, [r.min() for r in ratios], label="smallest")
    axis.loglog(BETAS, high, "--", color="grey", label="e^{±ΔR/β}")
    axis.loglog(BETAS, low, "--", color="grey")
    axis.set(xlabel="β", ylim=(1e-6, 1e6), title="eq:bounded_tilt")
    axis.legend(fontsize="x-small")


def _power(axis: Any, space: Space) -> None:
    p = np.sort(theory.conditional(space.p0)[0])[::-1]
    for share in (0.0, 0.5, 1.0, 1.5):
        exact = theory.tilted(p, -share * np.log(p), 1.0)
        (line,) = axis.plot(theory.power_law(p, share, 1.0), label=f"α/β = {share:g}")
        axis.plot(exact, "o", markersize=4, color=line.get_color())
    axis.set(xlabel="structure, by p₀(x|c)", ylabel="q*(x|c)", yscale="log", title="eq:novelty_power")
    axis.legend(fontsize="x-small")


def _covariance(axis: Any, space: Space) -> None:
    step, points = 1e-4, []
    for p, reward in zip(theory.conditional(space.p0), space.reward, strict=True):
        near = [
            float((theory.tilted(p, sign * step * reward, 1.0) * np.log(p)).sum()) for sign in (1.0, -1.0)
        ]
        points.append((theory.drift(p, reward), (near[0] - near[1]) / (2 * step)))
    x, y = zip(*points, strict=True)
    axis.plot(x, y, "o", markersize=4)
    axis.axline((0, 0), slope=1, color="grey", linewidth=0.8)
    axis.set(xlabel="Cov(log p₀, R)", ylabel="d/dε E[log p₀]", title="eq:novelty_covariance")


def _chain(axis: Any, space: Space) -> None:
    parts = [theory.divergence_of_factors(theory.tilted(space.p0, space.reward, b), space.p0) for b in BETAS]
    joint = [theory.divergence(theory.tilted(space.p0, space.reward, b), space.p0) for b in BETAS]
    axis.stackplot(BETAS, *zip(*parts, strict=True), labels=("compositions", "structures"), alpha=0.6)
    axis.plot(BETAS, joint, "k--", linewidth=1, label="joint")
    axis.set(xlabel="β", xscale="log", ylabel="D_KL, nats", title="eq:kl_factorization_app")
    axis.legend(fontsize="x-small")


def _factors(axis: Any, space: Space) -> None:
    grid = np.geomspace(0.1, 100, 30)
    parts = [
        theory.divergence_of_factors(theory.tilted_with_factors(space.p0, space.reward, 0.3, b), space.p0)
        for b in grid
    ]
    for label, line in zip(("compositions", "structures"), zip(*parts, strict=True), strict=True):
        axis.loglog(grid, np.maximum(line, 1e-8), label=label)
    axis.set(xlabel="β_x, at β_c = 0.3", ylabel="D_KL, nats", title="eq:factor_specific_kl")
    axis.legend(fontsize="x-small")


def _history(axis: Any, space: Space) -> None:
    p = theory.conditional(space.p0)[0]
    found = np.argsort(-p).tolist()
    targets = theory.drifting_targets(p, np.full(STRUCTURES, 0.75), space.similar, found, 0.2)
    for x in range(STRUCTURES):
        axis.plot([q[x] for q in targets], label=f"found at t = {found.index(x) + 1}")
    axis.set(xlabel="structures found", ylabel="q*_t(x|c)", title="eq:adaptive_target: the target drifts")
    axis.legend(fontsize="x-small")


def _allocation(axis: Any, space: Space) -> None:
    p, s0 = theory.marginal(space.p0), space.s0
    tilts = [
        theory.allocation(theory.tilted_marginal(space.p0, space.success.astype(float), b), s0) for b in BETAS
    ]
    axis.semilogx(BETAS, tilts, label="q*(c) s₀(c), binary reward")
    axis.axhline(theory.allocation(p, s0), color="tab:green", label="p₀(c) s₀(c)")
    axis.axhline(s0.max(), color="tab:red", label="a free policy's best")
    axis.set(xlabel="β", ylabel="share that succeeds", title="eq:discovery_decomposition")
    axis.legend(fontsize="x-small")
