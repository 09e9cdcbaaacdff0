"""One configuration tree: every hyper-parameter of the paper, its value as default, its symbol and table.

A configuration is made from the defaults, then a preset, then a YAML file, then `--set a.b=c` overrides, then
the values of options such as `--elements`:

>>> from anchor.config import load_config
>>> loaded = load_config(overrides=["grpo.group_size=16"])
>>> loaded.config.grpo.group_size, loaded.sources["grpo.group_size"]
(16, '--set')
"""

from __future__ import annotations

import types
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from anchor.errors import InputError, Notice, nearest
from anchor.plain_yaml import YAMLError, read_yaml, write_yaml
from anchor.reading import plain_file

MOST_STRUCTURES = 100_000_000
"""Budget of a campaign beyond which a number is a slip of the finger: a thousand times the paper's."""
Positive = Annotated[float, Field(gt=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]


class Section(BaseModel):
    """Part of the tree: unknown names are refused, values are checked, nothing changes after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False)


class ActionSpace(Section):
    """Which compositions may be proposed (paper: app. D.1, tab:hparams 'Action space'). Limits are masks."""

    k: tuple[int, ...] = Field((2, 3, 4), description="𝒦, admissible numbers of distinct elements")
    max_atoms: int = Field(20, ge=2, le=20, description="N, most atoms per cell")
    min_atoms: int = Field(2, ge=2, le=20, description="fewest atoms per cell (ours)")
    max_atoms_per_element: int = Field(12, ge=1, le=19, description="most atoms of one element")
    elements: tuple[str, ...] | None = Field(
        None, description="only these elements; none: all 84 of tab:elements"
    )
    exclude: tuple[str, ...] = Field((), description="never these elements")
    must_contain: tuple[str, ...] = Field((), description="every composition has these elements")
    max_counts: dict[str, int] = Field({}, description="most atoms of single elements, e.g. {O: 8}")
    min_counts: dict[str, int] = Field({}, description="fewest atoms of single elements where they occur")
    allow_loose_references: bool = Field(
        False,
        description="also search elements whose energy reference is under-determined (Pm, Ac, Pa, Tc, …)",
    )

    @model_validator(mode="after")
    def _possible(self) -> ActionSpace:
        if not self.k or not set(self.k) <= {2, 3, 4}:
            raise ValueError(f"k must be a non-empty subset of 2, 3, 4, not {self.k}")
        if self.min_atoms > self.max_atoms:
            raise ValueError(f"min_atoms {self.min_atoms} is larger than max_atoms {self.max_atoms}")
        if both := set(self.must_contain) & set(self.exclude):
            raise ValueError(f"{', '.join(sorted(both))}: both required and excluded")
        if len(self.must_contain) > max(self.k):
            raise ValueError(f"{len(self.must_contain)} required elements do not fit in k = {max(self.k)}")
        return self


class Policy(Section):
    """Policy network (tab:hparams 'Policy network')."""

    state_dim: int = Field(32, ge=1, description="state dim, projected sub-group summary (eq:state)")
    hidden_dim: int = Field(256, ge=1, description="hidden dim, width of each head's MLP")
    element_embedding: int = Field(32, ge=1, description="element embedding")
    heads: Literal["paper", "informed"] = Field(
        "paper",
        description="of an untrained policy (a file has its own): the paper's, or heads that know how many "
        "elements are to come and draw counts one after another (ours)",
    )
    source: Literal["policy", "imagined", "adaptive", "screened", "random", "neutral", "generator"] = Field(
        "policy",
        description="who proposes: the policy; the policy, learning from free rollouts on what outcomes "
        "teach (imagined, ours); the screened ranking, learning from outcomes (adaptive) or not (screened; "
        "both ours); an untrained source (app:composition_ladder); or a generator, which proposes crystals, "
        "too",
    )
    draws: int = Field(
        64, ge=2, description="free draws for each composition that is realised, of the source 'imagined'"
    )
    kl: Annotated[float, Field(ge=0)] = Field(
        0.1, description="β of ln(π/π_0) in its rewards, π_0 being the policy that it started from"
    )
    start_from: str | None = Field(
        None, description="weights to start from: a file, 'default' for the shipped policy"
    )


class Grpo(Section):
    """Group-relative policy optimisation (tab:hparams 'GRPO', eq:advantage, eq:ppo)."""

    group_size: int = Field(32, ge=2, description="G, compositions per group; swept in app:stage1")
    groups_per_step: int = Field(1, ge=1, description="groups per update (ours; the paper uses one)")
    epochs: int = Field(2, ge=1, description="K, update epochs per step")
    clip: Annotated[float, Field(gt=0, lt=1)] = Field(0.2, description="ε, PPO clip (eq:ppo)")
    advantage_std_floor: Positive = Field(0.05, description="ε_A, floor of the group's std (eq:advantage)")
    learning_rate: Positive = Field(1e-4, description="Adam learning rate")


class Entropy(Section):
    """Entropy bonus: schedule and controller (tab:hparams 'Entropy schedule', eq:loss, eq:hmax)."""

    base: Positive = Field(7.5e-3, description="β_H base")
    minimum: Annotated[float, Field(ge=0)] = Field(2e-3, description="β_H min")
    maximum: Positive = Field(2.5e-2, description="β_H max")
    target: Fraction = Field(0.85, description="target fraction of H_max")
    deadband: Fraction = Field(0.03, description="half width of the controller's dead band")
    gain: Annotated[float, Field(ge=0)] = Field(3.0, description="gain of the controller")
    warmup: Fraction = Field(0.02, description="warm-up, fraction of the horizon")
    warm_start: Fraction = Field(0.5, description="fraction of the base coefficient at step 0")
    decay_start: Fraction = Field(1.0, description="where the cosine decay begins; 1: none within the budget")
    horizon: int = Field(100_000, ge=1, description="structures the schedule is keyed to")
    h_max: Literal["paper", "subgroup"] = Field(
        "paper",
        description="H_max over the whole vocabulary (eq:hmax), or over the rollout's sub-group (ours)",
    )

    @model_validator(mode="after")
    def _ordered(self) -> Entropy:
        if not self.minimum <= self.base <= self.maximum:
            raise ValueError(
                f"minimum {self.minimum} <= base {self.base} <= maximum {self.maximum} does not hold"
            )
        return self


class Novelty(Section):
    """Continuous adaptive novelty (tab:novelty-hparams, eq:knn-novelty, eq:novelty)."""

    mode: Literal["adaptive", "fixed", "binary", "creativity"] = Field(
        "adaptive",
        description="CAN, CAN without history, binary flag, Chemeleon2's creativity (app:explore_ablation)",
    )
    r_max: Positive = Field(7.0, description="r_max, RDF cut-off, Å")
    n_bins: int = Field(80, ge=1, description="n_bins, RDF resolution")
    k_nn: int = Field(10, ge=1, description="k_nn (k_cfg), neighbours")
    bootstrap: Fraction = Field(0.75, description="ν_0, score of the first structure of an unknown formula")
    history_cap: int = Field(20, ge=1, description="C_hist, first-in-first-out cap per formula")
    sigma_floor: Positive | None = Field(
        None, description="σ_floor, least RBF bandwidth; none: the reference's calibration (10th percentile)"
    )
    primitive: bool = Field(False, description="reduce to the primitive cell before embedding (ours)")


class Gate(Section):
    """Validity gate (tab:hparams 'Evaluator', eq:bond-thresh)."""

    name: Literal["paper", "lemat"] = Field(
        "paper", description="bonds and ICSD charges, or LeMat-GenBench's checks"
    )
    bond_tolerance: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.2, description="τ, fractional bond-length tolerance"
    )
    fallback_distance: Positive = Field(
        1.2, description="d_floor, Å, for pairs of elements never seen together"
    )
    fallback: Literal["constant", "radii"] = Field(
        "constant", description="d_floor for unseen pairs, or a floor from atomic radii (ours)"
    )
    oxidation_bounds: dict[str, tuple[int, int]] = Field(
        {}, description="allowed oxidation states per element, e.g. {Fe: [2, 3]}; off in the paper"
    )


class Reward(Section):
    """Reward (tab:hparams 'Reward', eq:reward)."""

    alpha: tuple[Positive, ...] = Field(
        (1.0, 4.0, 1.0, 1.0),
        description="α, Dirichlet: stability, novelty, d_struct, d_comp, then own objectives",
    )
    weights: tuple[float, ...] | None = Field(None, description="fixed w instead of Dirichlet draws")
    count_bonus: Annotated[float, Field(ge=0)] = Field(1.0, description="λ_c, count bonus; 0 switches it off")
    stability_width: Positive = Field(
        1.0, description="E_hull at which the stability score reaches 0, eV/atom (ours; the paper has 1)"
    )
    invalid: Annotated[float, Field(lt=0)] = Field(-0.2, description="r_inv, reward of an invalid structure")
    subgroup_mask: bool = Field(True, description="draw an element sub-group for each rollout (eq:subgroup)")
    subgroup_smallest: int = Field(
        0, ge=0, le=84, description="fewest elements of a sub-group (ours); 0: the largest k, as in the paper"
    )
    struct_bandwidth: Positive | None = Field(
        None, description="bandwidth of K_struct; none: calibrated on the reference (the paper gives none)"
    )
    objectives: tuple[str, ...] = Field((), description="own objectives, 'package.module:function' (ours)")
    order: Literal["paper", "fast"] = Field(
        "fast", description="realise every sibling (paper), or skip what is known invalid by charge (fast)"
    )

    @model_validator(mode="after")
    def _lengths(self) -> Reward:
        if self.weights is not None and len(self.weights) != len(self.alpha):
            raise ValueError(f"{len(self.weights)} weights for {len(self.alpha)} objectives (alpha)")
        if self.weights is not None and (min(self.weights) < 0 or not any(self.weights)):
            raise ValueError("weights must not be negative, and not all of them zero")
        if len(self.alpha) != 4 + len(self.objectives):
            raise ValueError(
                f"alpha has {len(self.alpha)} entries for 4 + {len(self.objectives)} own objectives"
            )
        return self


class Prior(Section):
    """The structure prior p(x | c) (app. D.2), frozen unless `train` says otherwise."""

    name: str = Field(
        "templates-all",
        description="templates-all, templates (train split), merged-all, wyckoff, omatg, kldm, crystalite, "
        "random, portfolio:cheap, portfolio:standard, portfolio:full, or your own module:factory",
    )
    query: Literal["cell", "reduced", "free"] = Field(
        "cell",
        description="ask with the atoms as proposed, with the reduced formula (the paper), or let the prior "
        "choose the number of formula units",
    )
    candidates: int = Field(
        1,
        ge=1,
        description="crystals per composition, of which the one of lowest energy is relaxed; of a portfolio "
        "all its proposals at least",
    )
    rounds: tuple[tuple[Annotated[int, Field(ge=0)], Annotated[int, Field(ge=1)]], ...] | None = Field(
        None,
        min_length=1,
        description="how one of several is chosen, e.g. [[0, 3], [10, 1]]: after single points three stay, "
        "after ten steps one; none: by single points, or as the portfolio says",
    )
    fallback: str = Field(
        "templates",
        description="prior that answers where a learned one fails, or 'none'; others never need one",
    )
    noise: Annotated[float, Field(ge=0)] | None = Field(
        None,
        description="factor of the noise of kldm's sampler; none: as its weights say, and 1 (the paper's) "
        "where rewards train it, because steps without noise have no density",
    )
    train: Literal["none", "shared", "stability"] = Field(
        "none",
        description="rewards that train the prior, too (app:reward-ft): none, all of them, stability alone; "
        "of kldm and crystalite",
    )
    train_after: int = Field(50, ge=0, description="policy steps for which the prior is held")
    train_learning_rate: Positive = Field(5e-5, description="Adam learning rate of the prior")
    train_clip: Annotated[float, Field(gt=0, lt=1)] = Field(0.05, description="ε of the prior (eq:ddpo)")
    train_epochs: int = Field(2, ge=1, description="K of the prior")
    train_trust: Positive = Field(
        0.05, description="mean |ln η| above which an epoch of the prior is discarded"
    )
    train_scored: Annotated[float, Field(gt=0, le=1)] = Field(
        1.0,
        description="share of the denoising steps that an update replays, drawn anew for each; the expected "
        "gradient is the same. 1: all, the paper's",
    )


class Generator(Section):
    """A generator p(c, x) that proposes crystals, for the source 'generator' (app:reward-ft)."""

    name: str = Field("kldm-dng", description="kldm-dng, crystalite-dng, or a .safetensors file of them")
    steps: int | None = Field(None, ge=2, description="sampler steps; none: the model's own")
    train: bool = Field(False, description="fine-tune it on the reward by DDPO (eq:ddpo)")
    learning_rate: Positive = Field(5e-6, description="of Adam (tab:ddpo-hparams)")
    clip: Annotated[float, Field(gt=0, lt=1)] = Field(0.05, description="ε, clip (eq:ddpo)")
    epochs: int = Field(1, ge=1, description="inner epochs per batch")
    trust: Positive = Field(0.05, description="mean |ln η| beyond which an epoch is discarded")
    kl: Annotated[float, Field(ge=0)] = Field(
        0.0, description="weight of the KL to the pretrained model; the paper has none"
    )
    scored: Annotated[float, Field(gt=0, le=1)] = Field(
        1.0,
        description="share of the scored denoising steps that an episode replays, drawn anew for each; the "
        "expected gradient is the same. 1: all, the paper's",
    )


class Relax(Section):
    """Relaxation inside the reward (app. D.3)."""

    potential: str = Field("mattersim-1m", description="training potential")
    cell: bool = Field(False, description="relax the cell too; the paper's reward keeps it fixed")
    max_steps: int = Field(100, ge=0, description="step budget")
    fmax: Positive = Field(0.02, description="f_max, eV/Å")
    optimizer: Literal["quasi-newton", "fire", "ase-bfgs"] = Field(
        "quasi-newton", description="ours; the paper uses ASE's BFGS one by one ('ase-bfgs')"
    )
    symmetry: bool = Field(
        True, description="keep the space group that the prior gave: half the work; not with 'ase-bfgs'"
    )
    chunk_atoms: int = Field(256, ge=1, description="atoms per batch of the potential")
    second: str | None = Field(
        None, description="potential that is asked too where the training potential says metastable (ours)"
    )
    caution: Annotated[float, Field(ge=0)] = Field(
        0.5,
        description="with a second potential: E_hull is the mean of both plus this times their difference "
        "(0.5: the larger one)",
    )


class Hull(Section):
    """Convex hull of reference energies (app:reward/stability)."""

    kind: Literal["union", "strict", "unfilled", "mp", "oqmd", "dft", "potential", "alex-mp"] = Field(
        "union",
        description="both databases (the larger distance counts), the same with the elements where the "
        "potential has them if that is lower, without the phases that the potential "
        "filled in, the Materials Project's, OQMD's as before the second database, OQMD's DFT "
        "energies or the potential's own alone, or MatterGen's Alex-MP",
    )
    path: Path | None = Field(None, description="file of the Alex-MP reference, for kind 'alex-mp'")


class Thresholds(Section):
    """When a candidate counts as new and as stable (app:eval_protocol)."""

    novel_above: Fraction = Field(0.5, description="Novel: ν(x) above this")
    stable_below: float = Field(0.0, description="Stable: E_hull at most this, eV/atom")
    metastable_below: float = Field(0.1, description="Meta: E_hull at most this, eV/atom")


class Search(Section):
    """How steps overlap (ours; the paper's follow one another)."""

    staleness: int = Field(
        0,
        ge=0,
        le=64,
        description="updates that the policy may have had since a step was sampled: so many more steps are "
        "relaxed meanwhile. It decides the results; 0 is the paper's",
    )


class Run(Section):
    """How a campaign runs on this machine."""

    seed: int = Field(0, ge=0, description="seed of every random draw")
    structures: int = Field(
        100_000, ge=1, le=MOST_STRUCTURES, description="budget: compositions proposed (tab:hparams 'budget')"
    )
    device: str = Field("cpu", description="cpu, cuda, cuda:1, mps")
    executor: Literal["inline", "processes", "ray"] | None = Field(
        None,
        description="where relaxations are made: this process, several, or Ray; none: processes, if several. "
        "Results do not depend on it",
    )
    workers: int | None = Field(
        None,
        ge=1,
        le=1024,
        description="processes that relax, on a CPU, or tasks of Ray at a time; none: as many as cores. "
        "Results do not depend on it",
    )
    address: str | None = Field(
        None,
        description="Ray cluster that this machine is in, 'auto' or host:port; none: a Ray of this machine",
    )
    gpus: Annotated[float, Field(ge=0)] = Field(
        0.0, description="GPUs of each task of Ray, 0.25: four share one; 0: tasks use CPUs"
    )
    labels: dict[str, str] = Field({}, description="only machines of the Ray cluster with these labels")
    threads: int | None = Field(
        None, ge=1, description="threads of the numerical libraries in each process; none: one"
    )
    keep_policy_every: int = Field(
        100, ge=1, description="steps between kept policy states; the latest is always kept"
    )
    loggers: tuple[Literal["tensorboard", "wandb"], ...] = Field((), description="further metric loggers")


class Config(Section):
    """Everything that decides a campaign's result."""

    run: Run = Run()
    search: Search = Search()
    action_space: ActionSpace = ActionSpace()
    policy: Policy = Policy()
    grpo: Grpo = Grpo()
    entropy: Entropy = Entropy()
    reward: Reward = Reward()
    novelty: Novelty = Novelty()
    gate: Gate = Gate()
    prior: Prior = Prior()
    generator: Generator = Generator()
    relax: Relax = Relax()
    hull: Hull = Hull()
    evaluation: Thresholds = Thresholds()

    @classmethod
    def from_ledger(cls, stored: Mapping[str, Mapping[str, Any]]) -> Self:
        """A stored configuration, perhaps of an older version; settings that no longer exist are named."""
        kept: dict[str, dict[str, Any]] = {}
        gone: list[str] = []
        if not isinstance(stored, Mapping) or not all(isinstance(v, Mapping) for v in stored.values()):
            raise InputError(
                "the stored configuration is damaged: it is not made of sections", "bring back a copy"
            )
        for section, values in stored.items():
            if section not in cls.model_fields:
                gone.append(section)
                continue
            known = _fields(section)
            kept[section] = {name: value for name, value in values.items() if name in known}
            gone += [f"{section}.{name}" for name in values if name not in known]
        if gone:
            text = f"settings that no longer exist are left out: {', '.join(gone)}"
            warnings.warn(text, Notice, stacklevel=2)
        try:
            return cls.model_validate(kept)
        except ValidationError as error:
            raise InputError(f"the stored configuration is damaged: {_explain(error, {})}") from None


PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    # What `make search` runs: the screened ranking, learning from what comes of it, a few minutes on two
    # cores. With `--source policy` the shipped policy proposes and learns.
    "quick": {
        "run": {"structures": 960},
        "policy": {"source": "adaptive", "start_from": "default"},
        "prior": {"query": "free", "candidates": 2},
    },
    # A search that learns from the shipped policy on: with the paper's α and width little of the spread of
    # rewards inside a group comes from stability, and its entropy target is out of reach (docs/policy.md).
    "learn": {
        "run": {"structures": 20_000},
        "policy": {"start_from": "default"},
        "prior": {"query": "free", "candidates": 2},
        "grpo": {"groups_per_step": 4, "learning_rate": 3e-4},
        "reward": {
            "alpha": [6.0, 2.0, 1.0, 1.0],
            "stability_width": 0.3,
            "count_bonus": 0.5,
            "subgroup_smallest": 30,
        },
        "entropy": {"base": 2e-3, "minimum": 0.0, "maximum": 1e-2, "target": 0.3},
    },
    # The paper to the letter where our defaults are faster: order of evaluation, optimiser, prior query.
    "paper": {
        "reward": {"order": "paper"},
        "prior": {"query": "reduced"},
        "relax": {"optimizer": "ase-bfgs", "symmetry": False},
        "action_space": {"allow_loose_references": True},
    },
}
# The policy of 'learn', taught by free rollouts on what outcomes teach (docs/policy.md).
PRESETS["climb"] = PRESETS["learn"] | {"policy": {"source": "imagined", "start_from": "default"}}


@dataclass(frozen=True)
class LoadedConfig:
    """A configuration and where each value came from ('default', 'preset paper', a file's name, '--set')."""

    config: Config
    sources: dict[str, str] = field(default_factory=dict)

    def describe(self) -> str:
        """The effective configuration as YAML, each line naming its source unless it is the default."""
        lines: list[str] = []
        for section, values in self.config.model_dump(mode="json").items():
            lines.append(f"{section}:")
            for name, value in values.items():
                source = self.sources.get(f"{section}.{name}", "default")
                remark = "" if source == "default" else f"  # {source}"
                lines.append(f"  {name}: {write_yaml(value)}{remark}")
        return "\n".join(lines)


def load_config(
    path: Path | str | None = None,
    *,
    preset: str = "default",
    overrides: Sequence[str] = (),
    values: Mapping[str, Any] | None = None,
    base: Mapping[str, Mapping[str, Any]] | None = None,
) -> LoadedConfig:
    """Build the configuration; of what is given, later ones win.

    Args:
        base: Sections below everything else.
        preset: Name of a preset.
        path: YAML file.
        overrides: Texts `a.b=value`, the value as YAML.
        values: Name → value as it is, of options of the command line; None: not given.

    Raises:
        InputError: An unknown name (with the nearest valid one), an impossible value, or an unreadable file.
    """
    if preset not in PRESETS:
        raise InputError(f"unknown preset '{preset}'", nearest(preset, PRESETS))
    layers: list[tuple[str, Mapping[str, Any]]] = [("default", base or {})]
    layers.append((f"preset {preset}", PRESETS[preset]))
    if path is not None:
        layers.append((Path(path).name, _read_yaml(Path(path))))
    layers += [("--set", _parse_override(text)) for text in overrides]
    for place, value in (values or {}).items():
        if value is not None:
            section, _, name = place.partition(".")
            layers.append((OPTIONS.get(place, f"--{name.replace('_', '-')}"), {section: {name: value}}))

    tree: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for source, layer in layers:
        for section, name, value in _entries(layer, source):
            tree.setdefault(section, {})[name] = value
            sources[f"{section}.{name}"] = source
    try:
        return LoadedConfig(Config.model_validate(tree), sources)
    except ValidationError as error:
        raise InputError(_explain(error, sources)) from None


OPTIONS = {
    "run.structures": "-n",
    "action_space.min_counts": "--counts",
    "action_space.max_counts": "--counts",
    "prior.train": "--prior-train",
}
"""Options of the command line whose name is not that of the value."""


def describe_fields() -> Iterator[tuple[str, str, str]]:
    """(name, default, description) of every value of the tree, for the documentation."""
    for section_name in Config.model_fields:
        for name, info in _fields(section_name).items():
            yield f"{section_name}.{name}", str(info.default), info.description or ""


def _read_yaml(path: Path) -> dict[str, Any]:
    try:
        if not path.exists():
            raise InputError(
                f"no config file '{path}'", "see the defaults with: anchor search --print-config"
            )
        content = read_yaml(plain_file(path).read_text(encoding="utf-8"))
    except RecursionError:
        raise InputError(
            f"'{path}' is nested too deeply", "a configuration has sections with values"
        ) from None
    except (YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"'{path}' is not readable YAML: {error}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise InputError(f"'{path}' must hold sections such as 'grpo:', not {type(content).__name__}")
    return content


def _parse_override(text: str) -> dict[str, Any]:
    key, equals, value = text.partition("=")
    parts = key.strip().split(".")
    if not equals or len(parts) != 2:
        raise InputError(
            f"'--set {text}' is not of the form section.name=value", "for example: --set grpo.group_size=16"
        )
    section, name = parts
    try:
        parsed = read_yaml(value)
    except RecursionError:
        raise InputError(f"the value of '--set {key}' is nested too deeply") from None
    except YAMLError as error:
        if not _is_text(section, name):
            raise InputError(f"the value in '--set {text}' is not readable: {error}") from None
        parsed = value
    if _is_text(section, name) and parsed is not None and value.strip()[:1] not in ("'", '"'):
        parsed = value.strip()  # a name or a path, even where YAML sees a number, a remark or a mapping
    return {section: {name: parsed}}


def _fields(section: str) -> Mapping[str, Any]:
    """Fields of a section, by name."""
    fields: Mapping[str, Any] = type(Config.model_fields[section].default).model_fields
    return fields


def _is_text(section: str, name: str) -> bool:
    """Whether a value is a text or a path, perhaps none."""
    if section not in Config.model_fields or name not in (fields := _fields(section)):
        return False
    kind = fields[name].annotation
    kinds = set(get_args(kind)) if get_origin(kind) is types.UnionType else {kind}
    return kinds <= {str, Path, types.NoneType}


def _entries(layer: Mapping[str, Any], source: str) -> Iterator[tuple[str, str, Any]]:
    """(section, name, value) of a layer, refusing unknown names."""
    for section, values in layer.items():
        if section not in Config.model_fields:
            raise InputError(
                f"unknown section '{section}' ({source})", nearest(str(section), Config.model_fields)
            )
        known = _fields(section)
        if not isinstance(values, Mapping):
            raise InputError(
                f"section '{section}' ({source}) must hold names and values", f"it knows: {', '.join(known)}"
            )
        for name, value in values.items():
            if name not in known:
                raise InputError(f"unknown name '{section}.{name}' ({source})", nearest(str(name), known))
            yield section, name, value


def _explain(error: ValidationError, sources: dict[str, str]) -> str:
    lines = []
    for item in error.errors():
        place = ".".join(str(part) for part in item["loc"])
        where = ".".join(str(part) for part in item["loc"][:2])
        # A rule over several names of a section is told with all places that set one of them.
        section = {said: None for name, said in sources.items() if name.startswith(f"{where}.")}
        source = sources.get(where) or ", ".join(section) or "default"
        message = item["msg"].removeprefix("Value error, ")
        value = "" if isinstance(item["input"], (dict, BaseModel)) else f" (got {item['input']!r})"
        lines.append(f"{place}: {message}{value}, from {source}")
    return "\n".join(lines)
