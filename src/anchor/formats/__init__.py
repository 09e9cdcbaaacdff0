"""Your own data: load crystals from the formats people have them in, and write them back.

    from anchor.formats import load, write

    loaded = load("mp_20/train.csv")
    loaded.crystals, loaded.ids, loaded.properties["formation_energy_per_atom"]
    write("train.extxyz", loaded.crystals, loaded.ids, loaded.properties)

All formats give the same `LoadedCrystals`, in which whatever could not be read is named and counted.
"""

from anchor.formats.load import READERS, load
from anchor.formats.records import LoadedCrystals, Skipped
from anchor.formats.write import WRITERS, write

__all__ = ["READERS", "WRITERS", "LoadedCrystals", "Skipped", "load", "write"]
