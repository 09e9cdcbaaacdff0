"""The three-body trick piece by piece, each against SciPy or a plain sum over triplets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.special import eval_legendre, spherical_jn

from anchor.potentials.base import GradientPotential
from anchor.potentials.far_edges import POINTS, FarEdges, sums_by_gather, sums_of_rows
from anchor.potentials.functions import DEGREES, SolidHarmonics, Table, bessel_roots, three_body_radial
from anchor.potentials.graph import neighbour_graph
from anchor.potentials.messages import Links, MessagePassing
from anchor.potentials.state import to_state
from anchor.potentials.three_body import ThreeBody

ONE = torch.ones(1, dtype=torch.float64)


def unit_vectors(n: int, seed: int) -> torch.Tensor:
    vectors = torch.from_numpy(np.random.default_rng(seed).normal(size=(n, 3)))
    return vectors / vectors.norm(dim=1, keepdim=True)


def test_roots_are_the_first_zeros_of_the_spherical_bessel_functions():
    roots = bessel_roots()
    for l in range(DEGREES):
        assert np.abs(spherical_jn(l, roots[l])).max() < 1e-12
        grid = np.linspace(1e-3, roots[l, -1] + 1e-3, 100_000)
        values = spherical_jn(l, grid)
        assert int((np.sign(values[1:]) != np.sign(values[:-1])).sum()) == DEGREES


def test_addition_theorem():
    u, v = unit_vectors(50, 1), unit_vectors(50, 2)
    harmonics = SolidHarmonics(ONE)
    products = harmonics(u)[0] * harmonics(v)[0]
    for l, part in enumerate(products.split([1, 3, 5, 7], dim=1)):
        assert np.allclose(part.sum(dim=1), eval_legendre(l, (u * v).sum(dim=1)), atol=1e-12)


def test_gradients_of_harmonics_are_those_of_finite_differences():
    harmonics, unit = SolidHarmonics(ONE), unit_vectors(20, 5)
    by = torch.from_numpy(np.random.default_rng(6).normal(size=(20, 16)))
    got = harmonics.backward(harmonics(unit)[1], by)
    step = 1e-6
    for axis in range(3):
        move = torch.zeros(3, dtype=torch.float64)
        move[axis] = step
        change = (harmonics(unit + move)[0] - harmonics(unit - move)[0]) / (2 * step)
        assert torch.allclose(got[:, axis], (by * change).sum(dim=1), atol=1e-8)


def test_table_follows_its_functions_and_their_slopes():
    """Up to the cutoff, where an edge of just that length falls beyond the last interval."""
    radial = three_body_radial(5.0, 4.0)
    table = Table(radial, 4.0, ONE)
    r = np.append(np.random.default_rng(0).uniform(0.3, 4.0, 2000), 4.0 - 1e-12)
    values, slopes = table(torch.from_numpy(r))
    assert np.abs(values.numpy() - radial(r)).max() < 1e-12
    step = 1e-5
    assert np.abs(slopes.numpy() - (radial(r + step) - radial(r - step)) / (2 * step)).max() < 1e-8
    roots = bessel_roots()
    envelope = values[:, 16].numpy()
    for l in range(DEGREES):
        expected = spherical_jn(l, roots[l] * r[:, None] / 5.0) * envelope[:, None]
        assert np.allclose(values[:, 4 * l : 4 * l + 4], expected, atol=1e-12)


def test_density_sum_equals_the_sum_over_triplets():
    rng = np.random.default_rng(3)
    center = torch.tensor([0, 0, 0, 0, 1, 1, 2])
    length = torch.from_numpy(rng.uniform(1.5, 3.9, len(center)))
    vectors = unit_vectors(len(center), 4) * length[:, None]
    cutoff, short = 5.0, 4.0
    got, _ = ThreeBody(cutoff, short, ONE)(vectors / length[:, None], length, center, 3)

    def envelope(r: float) -> float:
        return 1 - 6 * (r / short) ** 5 + 15 * (r / short) ** 4 - 10 * (r / short) ** 3

    roots = bessel_roots()
    expected = np.zeros((len(center), DEGREES, DEGREES))
    for a in range(len(center)):
        for b in range(len(center)):
            if a == b or center[a] != center[b]:
                continue
            cosine = float(vectors[a] @ vectors[b] / (length[a] * length[b]))
            for l in range(DEGREES):
                angular = np.sqrt((2 * l + 1) / (4 * np.pi)) * eval_legendre(l, cosine)
                radial = spherical_jn(l, roots[l] * float(length[b]) / cutoff)
                radial = radial * np.sqrt(2 / cutoff**3) / np.abs(spherical_jn(l + 1, roots[l]))
                expected[a, l] += angular * radial * envelope(float(length[a])) * envelope(float(length[b]))
    assert np.allclose(got, expected.reshape(len(center), -1), atol=1e-12)
    assert got[-1].abs().max() < 1e-15, "one neighbour makes no triplet"


def test_gradients_of_three_body_terms_are_those_of_finite_differences():
    rng = np.random.default_rng(5)
    center = torch.tensor([0, 0, 0, 0, 1, 1, 2])
    length, unit = torch.from_numpy(rng.uniform(1.5, 3.9, 7)), unit_vectors(7, 6)
    three_body = ThreeBody(5.0, 4.0, ONE)
    for wanted in (None, torch.tensor([1, 3, 4])):
        terms, seen = three_body(unit, length, center, 3, wanted)
        by = torch.from_numpy(rng.normal(size=terms.shape))
        by_unit, by_length = three_body.backward(seen, by)

        def energy(u: torch.Tensor, r: torch.Tensor, wanted=wanted, by=by) -> float:
            return float((three_body(u, r, center, 3, wanted)[0] * by).sum())

        for edge in range(7):
            step = torch.zeros_like(length)
            step[edge] = 1e-5
            slope = (energy(unit, length + step) - energy(unit, length - step)) / 2e-5
            assert abs(by_length[edge] - slope) < 1e-7
            for axis in range(3):
                move = torch.zeros_like(unit)
                move[edge, axis] = 1e-5
                slope = (energy(unit + move, length) - energy(unit - move, length)) / 2e-5
                assert abs(by_unit[edge, axis] - slope) < 1e-7


def test_far_edges_are_what_the_first_layer_makes_of_them(load):
    """The table against the layers themselves, with all edges given three-body terms of zero."""
    network = load("mattersim-1m", "float64").network
    far: FarEdges = network.layers.far
    rng = np.random.default_rng(0)
    r = torch.from_numpy(np.concatenate([rng.uniform(4.0, 5.0, 60), [4.0, 5.0]]))
    numbers = torch.from_numpy(rng.choice([1, 3, 8, 11, 17, 22, 26, 57, 83], size=(2, len(r)))).reshape(-1)
    i, j = torch.arange(len(r)), torch.arange(len(r)) + len(r)
    one_layer = MessagePassing.__new__(MessagePassing)
    vars(one_layer).update(vars(network.layers), blocks=network.layers.blocks[:1])
    atom, basis = network.embedding[numbers], network.radial(r)[0]
    links = Links(i, j, len(r), None, len(numbers))
    exact, _ = one_layer(atom, numbers, r[:0], basis, basis.new_zeros(len(r), 16), links)
    links = Links(i, j, 0, None, len(numbers))
    got, tape = one_layer(atom, numbers, r, basis, basis.new_zeros(0, 16), links)
    assert (got - exact).abs().max() < 1e-9
    assert (exact[: len(r)] - atom[: len(r)]).abs().max() > 0.01, "messages are not zero"
    by = torch.from_numpy(rng.normal(size=got.shape))
    by_length = one_layer.backward(tape, by)[0]
    step = 1e-5
    values = [far(numbers[i], numbers[j], r + d)[0][:, network.embedding.shape[1] :] for d in (step, -step)]
    slope = ((values[0] - values[1]) / (2 * step) * by[: len(r)]).sum(dim=1)
    assert (by_length - slope)[:-2].abs().max() < 1e-6, "both ends have neighbours on one side only"


def test_tables_do_not_depend_on_what_came_before(load, monkeypatch):
    far: FarEdges = load("mattersim-1m").network.layers.far
    z = torch.tensor([3, 8, 8, 11])
    r = torch.linspace(4.1, 4.9, 4, dtype=torch.float64)
    first = far(z, z.flip(0), r)
    monkeypatch.setattr("anchor.potentials.far_edges.MOST_PAIRS", 5)
    far(torch.arange(20, 24), torch.arange(20, 24), r)
    assert len(far._values) == 4 * POINTS, "older tables went when there was no room"
    again = far(z, z.flip(0), r)
    assert torch.equal(first[0], again[0])
    assert torch.equal(first[1], again[1])
    mixed = far(torch.tensor([8, 22, 22, 22]), torch.tensor([8, 22, 23, 24]), r)
    assert torch.isfinite(mixed[0]).all()


@pytest.mark.parametrize("weighted", [False, True])
def test_sums_of_rows_are_sums_of_gathered_rows(weighted: bool):
    random = torch.Generator().manual_seed(0)
    table, rows = torch.randn(9, 6, generator=random), torch.randint(9, (11, 4), generator=random)
    weights = torch.randn(11, 4, generator=random) if weighted else None
    expected = (table[rows] * (torch.ones(11, 4) if weights is None else weights)[..., None]).sum(dim=1)
    assert torch.allclose(sums_of_rows(table, rows, weights), expected, atol=1e-6)
    assert torch.allclose(sums_by_gather(table, rows, weights), expected, atol=1e-6)


def test_forces_by_hand_are_those_of_automatic_differentiation(load, crystals):
    """`compute` goes back from vectors to positions and cells by itself; others do it automatically."""
    potential = load("mattersim-1m", "float64")
    state = to_state(crystals)
    by_hand = potential.compute(state)
    automatic = GradientPotential.compute(potential, state)
    for key, tolerance in (("energy", 1e-10), ("forces", 1e-10), ("stress", 1e-12)):
        assert (by_hand[key] - automatic[key]).abs().max() < tolerance
    graph = neighbour_graph(state, state.positions, None, cutoff=potential.cutoff)
    step = 1e-5
    moved = [graph.vectors.clone() for _ in range(2)]
    moved[0][7, 1] += step
    moved[1][7, 1] -= step
    energies = [float(potential.network.run(replace(graph, vectors=one))[0].sum()) for one in moved]
    energy, kept = potential.network.run(graph)
    pulled = potential.network.pull(kept, torch.ones_like(energy))
    assert abs(pulled[7, 1] - (energies[0] - energies[1]) / (2 * step)) < 1e-6
