"""Real DFT of finds and of what they would fall apart into: PBE with GPAW, in a process of its own.

    hull = load_hull("mattersim-1m")
    stability = Stability(hull, Library("mattersim-1m", hull.identity.checkpoint_hash), Calculator())
    stability(crystal).above                # eV/atom above the higher of both hulls

GPAW is optional and never imported here. Rules for cut-offs, k-points, spin and U stand in `rules`, cells and
meshes in `cells`; one energy is a `Job` (`jobs`), `engine` runs it, `store` remembers it, `products` finds
structures of competing phases, and `stability` puts them together.
"""
