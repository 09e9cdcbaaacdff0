"""Real DFT of finds and of what they would fall apart into: PBE with GPAW, in a process of its own.

    from anchor.dft import Calculator, hull_distances

GPAW is optional and never imported here. Rules for cut-offs, k-points, spin and U stand in `rules`, cells and
meshes in `cells`, one energy is a `Job` (`jobs`), `engine` runs it, `store` remembers it.
"""
