"""Your own data: load crystals from the formats people have them in, and write them back.

    from anchor.data.loaders import load, write

    loaded = load("mp_20/train.csv")
    loaded.crystals, loaded.ids, loaded.properties["formation_energy_per_atom"]
    write("train.extxyz", loaded.crystals, loaded.ids, loaded.properties)

All formats give the same `LoadedCrystals`, in which whatever could not be read is named and counted.
"""

from anchor.data.loaders.load import READERS, load
from anchor.data.loaders.records import LoadedCrystals, Skipped
from anchor.data.loaders.write import WRITERS, write

__all__ = ["READERS", "WRITERS", "LoadedCrystals", "Skipped", "load", "write"]
