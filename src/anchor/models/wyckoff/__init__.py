"""A prior that writes symmetry first: space group, Wyckoff positions, then coordinates and cell."""
