"""What is fitted to the reference for the template prior and random crystals: `anchor prior index`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from anchor.arrays import Arrays, content_hash, load_arrays, save_arrays
from anchor.errors import AnchorError
from anchor.models.volumes import FITTED_FILE, Volumes, fit_volumes
from anchor.priors.prototypes import Prototypes, find_prototypes
from anchor.priors.similarity import Similarity, fit_similarity
from anchor.priors.units import anonymous, of_split
from anchor.reference.reference import Reference, load_reference


@dataclass(frozen=True, eq=False)
class Fitted:
    """What the template prior learned: prototypes of all reference crystals, the rest of the train split.

    Attributes:
        prototypes: Of every reference crystal.
        similarity: Of elements.
        volumes: Of elements.
        source: Content hash of the crystals it belongs to.
    """

    prototypes: Prototypes
    similarity: Similarity
    volumes: Volumes
    source: str

    def arrays(self) -> dict[str, NDArray]:
        return {
            "label": self.prototypes.label.astype(np.int32),
            "roles": self.prototypes.roles.astype(np.uint8),
            "symmetries": self.prototypes.symmetries,
            "distance": self.similarity.distance.astype(np.float32),
            "share_exponent": np.array(self.similarity.share_exponent),
            "instability": np.array(self.similarity.instability),
            "atomic_volume": self.volumes.atomic,
            "substitution_volume": self.volumes.substitution,
            "source": np.frombuffer(self.source.encode(), dtype=np.uint8),
        }

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Fitted:
        return cls(
            Prototypes(
                arrays["label"].astype(np.int64), arrays["roles"].astype(np.int64), arrays["symmetries"]
            ),
            Similarity(arrays["distance"], float(arrays["share_exponent"]), float(arrays["instability"])),
            Volumes(arrays["atomic_volume"], arrays["substitution_volume"]),
            arrays["source"].tobytes().decode(),
        )


def source_hash(reference: Reference) -> str:
    """Identity of the crystals and the split that a `Fitted` belongs to."""
    crystals = reference.crystals
    return content_hash(
        {
            "counts": crystals.counts,
            "numbers": crystals.numbers,
            "frac": crystals.frac,
            "lattice": crystals.lattice,
            "train": reference.split == "train",
        }
    )


def fit_templates(reference: Reference, *, epochs: int = 3, seed: int = 0) -> tuple[Fitted, list[float]]:
    """Learn prototypes (all crystals), similarity and volumes (train split only); a few minutes on one core.

    Returns: What was fitted, and the training loss of the similarity by epoch.
    """
    prototypes = find_prototypes(reference.crystals, reference.e_above_hull)
    train = of_split(reference, "train")
    described = [(ratio, units) for _, ratio, units in anonymous(reference.crystals[train])]
    of_train = Prototypes(prototypes.label[train], prototypes.roles[train], prototypes.symmetries)
    similarity, losses = fit_similarity(
        of_train,
        [ratio for ratio, _ in described],
        np.array([units for _, units in described]),
        reference.formulas[train],
        reference.e_above_hull[train],
        epochs=epochs,
        seed=seed,
    )
    volumes = fit_volumes(reference.crystals[train], of_train.label)
    return Fitted(prototypes, similarity, volumes, source_hash(reference)), losses


def save_fitted(fitted: Fitted, path: Path = FITTED_FILE) -> None:
    """Write the file that ships; the same content gives the same bytes."""
    save_arrays(path, fitted.arrays())


@cache
def load_fitted() -> Fitted:
    """The fit that ships with the bundled reference."""
    fitted = Fitted.from_arrays(load_arrays(FITTED_FILE))
    if fitted.source != source_hash(load_reference()):
        raise AnchorError(
            f"{FITTED_FILE.name} was made for another reference than the bundled one",
            "make it again with: anchor prior index",
        )
    return fitted
