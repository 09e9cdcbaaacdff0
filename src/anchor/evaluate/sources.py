"""Where compositions and structures to be evaluated come from.

    find_source(["default"])                    a policy: campaign folder, .safetensors file, 'default'
    find_source(["screened"])                   the ranking of `anchor screen`, the best first
    find_source(["random"]), ["neutral:flat"]   the untrained sources of the paper and their measures
    find_source(["generator:kldm-dng"])         crystals of a generator: a name, a file, a campaign
    find_source(["formulas:LiFePO4,NaCl"])      formulas, or a file of them
    find_source(["compositions-of:mg.extxyz"])  structures stripped to their compositions ("→ CSP")
    find_source(["mg.extxyz", "omatg.xyz"])     structures of anyone
    find_source(["runs/a:finds"])               a campaign's own structures: finds, generated, relaxed
    find_source(["runs/a:proposed"])            the compositions that a campaign proposed, in its order
    find_source(["eval/a"]), ["eval/a:relaxed"] the structures of another evaluation
    find_source(["self-test"])                  crystals of the bundled reference

A *composition source* proposes cells, which a prior then realises; a *structure source* brings its crystals.
"""

from __future__ import annotations

import hashlib
import json
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from anchor.arrays import content_hash
from anchor.chemistry.composition import Composition, Compositions, parse_formula
from anchor.chemistry.elements import SYMBOLS, VOCABULARY
from anchor.chemistry.spaces import MEASURES, sample_neutral, sample_random
from anchor.config import Config, load_config
from anchor.crystals.crystals import Crystals
from anchor.errors import InputError, nearest
from anchor.evaluate.store import Store
from anchor.formats import load
from anchor.models.finished import usable_cells
from anchor.outcomes.table import Outcomes
from anchor.policy.constraints import Limits
from anchor.random import generator
from anchor.reading import plain_file
from anchor.reference.reference import load_reference
from anchor.screening.order import order_identity, screened_order
from anchor.search.ledger import Ledger, decode_crystal
from anchor.search.policies import generator_of, load_trained, searchable_elements

CAMPAIGN_SETS = ("finds", "generated", "relaxed")


@dataclass(frozen=True)
class Source:
    """Compositions or structures by sampling seed.

    Attributes:
        name: As shown to people.
        kind: Whether a prior is needed.
        draw: The first n of a seed (all there are if None), a row each with cell, formula, file and, where
            it could not be read, the reason; a structure source brings the crystals.
        identity: What decides them, for JSON.
        seeds: The only seeds there are, for what was sampled before; None: any.
        config: Of the campaign or the training that proposes: it knows its own prior and how that was asked.
        evaluation: Folder of the evaluation whose structures these are, unchanged.
    """

    name: str
    kind: Literal["compositions", "structures"]
    draw: Callable[[int, int | None], Outcomes]
    identity: dict[str, Any] = field(default_factory=dict)
    seeds: tuple[int, ...] | None = None
    config: Config | None = None
    evaluation: Store | None = None


def find_source(
    texts: Sequence[str], *, elements: Sequence[str] | None = None, each_a_seed: bool = False
) -> Source:
    """The source that people name on the command line.

    Args:
        texts: One name, or several files with structures.
        elements: Draw from these only; None: the 84 of the paper, or those a policy was trained on.
        each_a_seed: Several files of structures are sampling seeds 0, 1, … instead of one set.
    """
    if not texts:
        raise InputError("no source is given", "give a campaign, a policy, a composition source or files")
    if len(texts) > 1:
        return structures([Path(text) for text in texts], each_a_seed=each_a_seed)
    text = texts[0]
    head, _, tail = text.partition(":")
    if head in MEASURES:
        return untrained(head, tail or MEASURES[head][0], tuple(elements or VOCABULARY))
    if text == "screened":
        return screened(elements)
    if head == "formulas":
        return formulas(tail)
    if head == "compositions-of":
        return stripped(tail, each_a_seed=each_a_seed)
    if head == "generator":
        return generated(tail)
    if text == "self-test":
        return reference_crystals()
    place, _, part = text.rpartition(":") if _has_part(text) else (text, "", "")
    folder = Path(place)
    if Store.is_one(folder):
        return earlier_evaluation(Store(folder), part or "structures")
    if part == "proposed":
        return proposed(place)
    if part:
        return campaign_structures(place, part)
    if text == "default" or text.endswith(".safetensors") or _is_campaign(text):
        return policy(text, elements=elements)
    if folder.exists() or folder.suffix.lower() in FILES:
        return structures([folder], each_a_seed=each_a_seed)
    names = [*MEASURES, "screened", "default", "generator:…", "self-test", "formulas:…", "compositions-of:…"]
    raise InputError(f"there is no source '{text}', and no such file", nearest(text, names))


FILES = frozenset({".cif", ".extxyz", ".xyz", ".zip", ".csv", ".parquet", ".json", ".vasp", ".lmdb", ".gz"})
"""Endings of files with structures: a missing one is not taken for a misspelt source."""


def _is_campaign(text: str) -> bool:
    if "://" in text or (Path(text) / "ledger.db").is_file():
        return True
    if not text.endswith(".db") or not Path(text).is_file():
        return False
    try:  # an ASE database has the same ending
        Ledger.open(text).close()
    except InputError:
        return False
    return True


def _has_part(text: str) -> bool:
    """Whether ':finds' or the like follows the name of a folder."""
    place, colon, part = text.rpartition(":")
    return bool(colon) and re.fullmatch(r"[a-z-]+", part) is not None and Path(place).exists()


# Composition sources


def untrained(name: str, measure: str, elements: tuple[str, ...]) -> Source:
    """Random or charge-neutral compositions without anything learned (app:composition_ladder)."""
    if measure not in MEASURES[name]:
        raise InputError(f"'{measure}' is not a measure of {name}", nearest(measure, MEASURES[name]))
    sampler: Any = sample_random if name == "random" else sample_neutral

    def draw(seed: int, n: int | None) -> Outcomes:
        rng = generator(seed, "evaluate", name, measure)
        return _proposed(sampler(_count(n), rng, measure, elements=elements))

    identity = {"source": name, "measure": measure, "elements": list(elements)}
    return Source(f"{name} ({measure})", "compositions", draw, identity)


def screened(elements: Sequence[str] | None) -> Source:
    """The ranking of formulas by the free estimate: seed 0 is its best n, seed 1 the next n, and so on.

    Of the elements that can be searched, unless others are given.
    """
    config = load_config().config
    allowed = tuple(elements or searchable_elements(config))
    limits = Limits.from_config(config.action_space, searchable=allowed)

    def draw(seed: int, n: int | None) -> Outcomes:
        size = _count(n)
        order = screened_order(limits, (seed + 1) * size)
        return _proposed(order.compositions[seed * size : (seed + 1) * size])

    identity = {"source": "screened", "elements": list(allowed), "order": order_identity(limits)}
    return Source("screened", "compositions", draw, identity)


def proposed(place: str) -> Source:
    """What a campaign proposed, in its order: seed 0 is its first n, seed 1 the next n, and so on."""
    ledger = Ledger.open(place)
    cells = [parse_formula(row["cell"]) for row in ledger.rows(("cell",))]

    def draw(seed: int, n: int | None) -> Outcomes:
        size = len(cells) if n is None else n
        if (seed + 1) * size > len(cells):
            raise InputError(
                f"the campaign '{place}' has proposed {len(cells)} compositions, "
                f"{seed + 1} × {size} are asked for",
                f"choose fewer (-n, --seeds), or let it go on: anchor resume {place} -n …",
            )
        return _proposed(Compositions.from_list(cells[seed * size : (seed + 1) * size]))

    identity = {"source": "proposed", "identity": ledger.identity, "n": len(cells)}
    config = Config.from_ledger(ledger.config)
    return Source(f"proposed by {place}", "compositions", draw, identity, config=config)


def policy(text: str, *, elements: Sequence[str] | None) -> Source:
    """A trained policy: w at the mean of its training, no sub-group mask, the limits of its training."""
    trained = load_trained(text).within({"elements": None if elements is None else tuple(elements)})

    def draw(seed: int, n: int | None) -> Outcomes:
        return _proposed(trained.draw(_count(n), seed=seed))

    identity = {
        "source": "policy",
        "weights": trained.hash(),
        "objectives": list(trained.weights),
        "space": trained.space.model_dump(mode="json"),
    }
    return Source(f"policy {text}", "compositions", draw, identity, config=trained.config)


def formulas(text: str) -> Source:
    """A comma list, or a file with a formula per line; '#' begins a remark, a CSV's first column counts."""
    if not text:
        raise InputError("no formulas are given", "formulas:LiFePO4,NaCl or formulas:FILE")
    path = Path(text)
    if path.exists() and "," not in text:
        lines = plain_file(path).read_text(encoding="utf-8", errors="replace").splitlines()
        typed = [line.partition("#")[0].split(",")[0].strip() for line in lines]
        if typed and typed[0].lower() in {"formula", "composition", "reduced_formula"}:
            del typed[0]
        place = str(path)
    elif "/" in text or path.suffix in {".txt", ".csv"}:
        raise InputError(f"there is no file '{text}'")
    else:
        typed, place = [part.strip() for part in text.split(",")], ""
    typed = [formula for formula in typed if formula]
    read = [_typed(formula) for formula in typed]

    def draw(_seed: int, n: int | None) -> Outcomes:
        return _rows([cell for cell, _ in read[:n]], place, [why for _, why in read[:n]])

    name = f"formulas {path.name}" if place else f"formulas {', '.join(typed[:3])}" + " …" * (len(typed) > 3)
    return Source(name, "compositions", draw, {"source": "formulas", "formulas": _digest(typed)})


def _typed(formula: str) -> tuple[Composition | None, str]:
    """What a formula means, or None and why it cannot be read."""
    try:
        return parse_formula(formula), ""
    except InputError as error:
        return None, f"'{formula}': {error.message}"


def stripped(text: str, *, each_a_seed: bool = False) -> Source:
    """Structures of anyone, or of another evaluation, reduced to the atoms of their cells."""
    full = find_source(text.split(","), each_a_seed=each_a_seed)
    if full.kind != "structures":
        raise InputError(f"'{text}' has no structures to strip", "name files with structures")

    # One set of compositions can be realised under any number of seeds, several have one seed each
    only = full.seeds[0] if full.seeds is not None and len(full.seeds) == 1 else None

    def draw(seed: int, n: int | None) -> Outcomes:
        found = full.draw(seed if only is None else only, n)
        return found.keep_crystals(np.zeros(found.n, dtype=bool))

    identity = {"source": "compositions-of", "of": full.identity}
    seeds = full.seeds if only is None else None
    return Source(f"compositions of {full.name}", "compositions", draw, identity, seeds)


# Structure sources


def structures(paths: Sequence[Path], *, each_a_seed: bool = False) -> Source:
    """Files, folders or archives with structures. What cannot be read keeps a row, after those that can."""
    sets = [[path] for path in paths] if each_a_seed else [list(paths)]
    for path in paths:
        if not path.exists():
            load(path)  # says that it does not, and what it could be
    sets = [[_of_one_kind(path) for path in one] for one in sets]

    def draw(seed: int, n: int | None) -> Outcomes:
        return _first_entries(sets[seed], n)

    names = ", ".join(path.name for path in paths[:3]) + " …" * (len(paths) > 3)
    identity = {"source": "structures", "files": [[_file_hash(path) for path in one] for one in sets]}
    return Source(names, "structures", draw, identity, seeds=tuple(range(len(sets))))


def _of_one_kind(path: Path) -> Path:
    """A file, or a folder with one kind of files: generators write the same structures in several formats.

    Of MatterGen's output folder, the file with all frames.
    """
    if path.is_file() or (path / "data.mdb").is_file():
        return path
    if (frames := path / "generated_crystals.extxyz").is_file():
        return frames
    endings = [file.suffixes for file in path.rglob("*") if file.is_file() and not file.name.startswith(".")]
    kinds = Counter(next((s for s in reversed(found) if s != ".gz"), "").lower() for found in endings)
    kinds = Counter({kind: n for kind, n in kinds.items() if kind in FILES | {".db"}})
    if len(kinds) > 1:
        listed = ", ".join(f"{n} {kind}" for kind, n in kinds.most_common())
        raise InputError(
            f"{path} holds several kinds of files ({listed}): structures may be there twice",
            f"name those of one kind, for instance {path}/*{kinds.most_common(1)[0][0]}",
        )
    return path


def _first_entries(paths: list[Path], n: int | None) -> Outcomes:
    """The first n entries of files, readable or not."""
    loaded = load(paths, on_error="skip", limit=n)
    good, bad = len(loaded), len(loaded.skipped)
    if n is not None and loaded.n_read > n:  # bad entries among the first n push good ones out
        tried = partial(_entries_tried, paths)
        good = bisect_right(range(good + 1), n, key=tried) - 1
        bad = n - good
    unread = loaded.skipped[:bad]
    nothing = _rows([None] * len(unread), [e.source for e in unread], [e.reason for e in unread])
    return Outcomes.concatenate([_crystals(loaded.crystals[:good], loaded.source[:good]), nothing])


def _entries_tried(paths: list[Path], good: int) -> int:
    """Entries up to and with the last of the first `good` readable ones."""
    return load(paths, on_error="skip", limit=good).n_read if good else 0


def given_crystals(crystals: Crystals, ids: Sequence[str]) -> Source:
    """Crystals at hand, with their names."""

    def draw(_seed: int, n: int | None) -> Outcomes:
        return _crystals(crystals[: n or len(crystals)], ids[: n or len(crystals)])

    arrays = {"numbers": crystals.numbers, "frac": crystals.frac, "lattice": crystals.lattice}
    identity = {"source": "given", "crystals": content_hash({**arrays, "counts": crystals.counts})}
    return Source(f"{len(crystals)} structures", "structures", draw, identity, seeds=(0,))


def reference_crystals() -> Source:
    """Crystals of the bundled reference, drawn uniformly: a good protocol finds nearly all of them valid."""
    reference = load_reference()

    def draw(seed: int, n: int | None) -> Outcomes:
        size = min(n or 200, len(reference.crystals))
        chosen = generator(seed, "self-test").choice(len(reference.crystals), size=size, replace=False)
        return _crystals(reference.crystals[chosen], [str(reference.ids[i]) for i in chosen])

    return Source("self-test", "structures", draw, {"source": "reference", "hash": reference.hash})


def generated(text: str) -> Source:
    """Crystals of a generator p(c, x); without a usable cell they keep a row."""
    maker = generator_of(text)

    def draw(seed: int, n: int | None) -> Outcomes:
        crystals = maker.draw(_count(n), seed=seed, stream=("evaluate",)).crystals
        usable = usable_cells(crystals)
        why = ["" if ok else "it has no usable cell" for ok in usable]
        rows = _rows(list(Compositions.of_atoms(crystals.owner, crystals.numbers)), "", why)
        return rows.with_crystals(crystals[np.flatnonzero(usable)], np.flatnonzero(usable))

    identity = {"source": "generator", "name": maker.name, "hash": maker.hash}
    return Source(f"generator {text}", "structures", draw, identity)


def campaign_structures(place: str, part: str) -> Source:
    """A campaign's own structures: refined finds, or all candidates as generated or relaxed by its reward."""
    if part not in CAMPAIGN_SETS:
        raise InputError(
            f"'{part}' is not a set of a campaign's structures", nearest(part, (*CAMPAIGN_SETS, "proposed"))
        )
    ledger = Ledger.open(place)
    if part == "finds":
        rows = [{**row, "structure": row["crystal"]} for row in ledger.find_rows()]
    else:
        columns = ("id", "cell", "reason", part)
        rows = [{**row, "structure": row[part]} for row in ledger.rows(columns)]
    if not rows:
        raise InputError(f"the campaign '{place}' has no {part}", "run it longer")

    def draw(_seed: int, n: int | None) -> Outcomes:
        return _candidates(rows[:n])

    identity = {"source": "campaign", "part": part, "identity": ledger.identity, "n": len(rows)}
    return Source(f"{part} of {place}", "structures", draw, identity, seeds=(0,))


def _candidates(rows: Sequence[dict[str, Any]]) -> Outcomes:
    at = np.array([i for i, row in enumerate(rows) if row["structure"] is not None], dtype=np.int64)
    found = _rows(
        [parse_formula(row["cell"]) for row in rows],
        [f"candidate {row.get('candidate', row.get('id'))}" for row in rows],
        ["" if row["structure"] is not None else row["reason"] or "it has no structure" for row in rows],
    )
    return found.with_crystals(Crystals.concatenate(decode_crystal(rows[i]["structure"]) for i in at), at)


def earlier_evaluation(store: Store, part: str) -> Source:
    """The structures another evaluation read or generated, or relaxed; the same seeds, the same order."""
    if part not in ("structures", "relaxed"):
        raise InputError(f"an evaluation has no '{part}'", "choose structures or relaxed")
    settings = store.settings

    def draw(seed: int, n: int | None) -> Outcomes:
        drawn = store.table("drawn", seed)
        if part == "relaxed":
            ended = store.table("measured", seed)
            drawn = drawn.with_crystals(ended.crystals, drawn.at[ended.at])
        there = drawn.has
        why = [
            "" if ok else why or "it was not relaxed"
            for ok, why in zip(there, drawn.texts("reason"), strict=True)
        ]
        found = drawn.only(("cell", "formula", "file")).with_columns(reason=why)
        return found if n is None else found.take(np.arange(min(n, found.n)))

    return Source(
        settings["label"] if part == "structures" else f"{settings['label']}, relaxed",
        "structures",
        draw,
        {"source": "evaluation", "part": part, "settings": _digest(settings)},
        seeds=tuple(settings["seeds"]),
        evaluation=store if part == "structures" else None,
    )


# Pieces


def composition_of(crystal: Crystals) -> Composition:
    """Atoms of one crystal's cell, by atomic number."""
    numbers, counts = np.unique(crystal.numbers, return_counts=True)
    return Composition(tuple(SYMBOLS[z] for z in numbers), tuple(counts.tolist()))


def _rows(
    compositions: Sequence[Composition | None],
    file: str | Sequence[str] = "",
    reason: str | Sequence[str] = "",
) -> Outcomes:
    """Rows without crystals; None stands for what could not be read."""
    n = len(compositions)
    return Outcomes.blank(n).with_columns(
        cell=[None if c is None else str(c) for c in compositions],
        formula=[None if c is None else c.formula for c in compositions],
        file=[file] * n if isinstance(file, str) else file,
        reason=[reason] * n if isinstance(reason, str) else reason,
    )


def _crystals(crystals: Crystals, file: Sequence[str]) -> Outcomes:
    """A row for each crystal."""
    rows = _rows([composition_of(crystal) for crystal in crystals], file)
    return rows.with_crystals(crystals, np.arange(len(crystals)))


def _proposed(compositions: Compositions) -> Outcomes:
    return _rows(list(compositions))


def _count(n: int | None) -> int:
    assert n is not None, "a source without end needs a number"
    return n


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _file_hash(path: Path) -> str:
    """SHA-256 of a file, or of all files of a folder with their names."""
    digest = hashlib.sha256()
    for file in [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file()):
        digest.update(file.name.encode())
        with file.open("rb") as stream:
            while block := stream.read(2**20):
                digest.update(block)
    return digest.hexdigest()
