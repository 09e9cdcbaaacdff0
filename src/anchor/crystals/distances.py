"""Distances in periodic crystals, right for any cell shape.

The naive minimum image (wrap fractional differences to [-1/2, 1/2]) is wrong in skewed cells. Here every cell
is Minkowski-reduced first; then the 27 nearest images hold the shortest vector (see `lattices`).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from anchor.crystals.crystals import Crystals
from anchor.crystals.lattices import minkowski_reduce, spans_a_cell

_IMAGES = np.array(list(product((-1, 0, 1), repeat=3)), dtype=np.float64)  # [27, 3]
_CHUNK = 20_000  # pairs at once: 27 images of them stay within a few MB of cache


@dataclass(frozen=True)
class Contacts:
    """Closest approach of site pairs; a site and its own nearest image are a pair with `first == second`.

    Attributes:
        crystal: Which crystal.  # [p]
        first: Index of one atom in the batch.  # [p]
        second: Index of the other atom, never smaller than `first`.  # [p]
        distance: Å; 0 in a cell that is not finite or spans no volume, where atoms meet their images.  # [p]
    """

    crystal: NDArray[np.int64]
    first: NDArray[np.int64]
    second: NDArray[np.int64]
    distance: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.distance)

    @property
    def between_sites(self) -> Contacts:
        """Without sites and their own images."""
        distinct = self.first != self.second
        if distinct.all():
            return self
        return Contacts(*(values[distinct] for values in vars(self).values()))


def minimum_image_distances(crystals: Crystals, *, self_images: bool = False) -> Contacts:
    """The minimum-image distance of every unordered pair of distinct sites.

    Args:
        crystals: Any cells; coordinates need not be wrapped.
        self_images: Append every site with its own nearest image (the shortest lattice vector).
    """
    usable = _usable(crystals)
    reduced, transform = minkowski_reduce(crystals.lattice)
    first, second = _site_pairs(crystals.counts)
    crystal = crystals.owner[first]
    frac = np.where(usable[crystals.owner, None], crystals.frac, 0.0)
    # frac @ lattice = (frac @ transform⁻¹) @ reduced, and the inverse of a unimodular matrix is integer
    back = np.rint(np.linalg.inv(transform.astype(np.float64)))
    distance = np.empty(len(first))
    for start in range(0, len(first), _CHUNK):
        part = slice(start, start + _CHUNK)
        owner = crystal[part]
        delta = frac[second[part]] - frac[first[part]]
        delta = np.einsum("pi,pij->pj", delta - np.rint(delta), back[owner])
        delta -= np.rint(delta)
        vectors = np.einsum("pki,pij->pkj", delta[:, None, :] + _IMAGES, reduced[owner])
        distance[part] = np.sqrt(np.einsum("pki,pki->pk", vectors, vectors).min(axis=1))
    distance[~usable[crystal]] = 0.0
    if self_images:
        atoms = np.arange(crystals.n_atoms)
        own = _shortest_lattice_vectors(reduced, usable)[crystals.owner]
        crystal = np.concatenate([crystal, crystals.owner])
        first, second = np.concatenate([first, atoms]), np.concatenate([second, atoms])
        distance = np.concatenate([distance, own])
    return Contacts(crystal, first, second, distance)


def shortest_lattice_vectors(crystals: Crystals) -> NDArray[np.float64]:
    """Distance of a site to its own nearest image, Å; 0 where the cell spans no volume.  # [n]"""
    return _shortest_lattice_vectors(minkowski_reduce(crystals.lattice)[0], _usable(crystals))


def shortest_distances(crystals: Crystals) -> NDArray[np.float64]:
    """The shortest distance between any two atoms, periodic images and a site's own images included, Å.

    0 for a crystal whose cell spans no volume or which holds numbers that are not finite, so that every
    comparison with a threshold refuses it.  # [n]
    """
    shortest = shortest_lattice_vectors(crystals)
    contacts = minimum_image_distances(crystals)
    np.minimum.at(shortest, contacts.crystal, contacts.distance)
    return shortest


def _usable(crystals: Crystals) -> NDArray[np.bool_]:
    bad_atom = ~np.isfinite(crystals.frac).all(axis=1)
    bad = np.bincount(crystals.owner[bad_atom], minlength=len(crystals)) > 0
    return spans_a_cell(crystals.lattice) & ~bad


def _shortest_lattice_vectors(reduced: NDArray[np.float64], usable: NDArray[np.bool_]) -> NDArray[np.float64]:
    return np.where(
        usable, np.linalg.norm(np.where(usable[:, None, None], reduced, 0.0), axis=2).min(axis=1), 0.0
    )


def _site_pairs(counts: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """All unordered pairs of distinct atoms within each crystal, crystal by crystal.  # [p], [p]"""
    offsets = np.concatenate([[0], np.cumsum(counts)])
    firsts, seconds, where = [], [], []
    for count in np.unique(counts):
        i, j = np.triu_indices(int(count), k=1)
        members = np.flatnonzero(counts == count)
        firsts.append((offsets[members][:, None] + i).ravel())
        seconds.append((offsets[members][:, None] + j).ravel())
        where.append(np.repeat(members, len(i)))
    if not firsts:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    order = np.argsort(np.concatenate(where), kind="stable")
    return np.concatenate(firsts)[order], np.concatenate(seconds)[order]
