from pymatgen.core import Element

from anchor.chemistry.elements import SYMBOLS
from anchor.chemistry.families import FAMILIES, FAMILY, MEMBERS


def test_families_partition_the_elements() -> None:
    assert len(FAMILIES) == 11
    assert sorted(s for members in MEMBERS.values() for s in members) == sorted(SYMBOLS[1:])
    assert all(SYMBOLS[z] in MEMBERS[FAMILIES[FAMILY[z]]] for z in range(1, 119))


def test_families_agree_with_the_periodic_table() -> None:
    def expected(e: Element) -> str:
        if e.is_lanthanoid:
            return "lanthanide"
        if e.is_actinoid:
            return "actinide"
        if e.symbol in ("H", "C") or e.group == 18:
            return "residual"
        if 3 <= e.group <= 12:
            return "early transition metal" if e.group <= 7 else "late transition metal"
        names = {1: "alkali", 2: "alkaline earth", 15: "pnictogen", 16: "chalcogen", 17: "halogen"}
        return names.get(e.group, "p-block metal or metalloid")

    assert {SYMBOLS[z]: FAMILIES[FAMILY[z]] for z in range(1, 119)} == {
        s: expected(Element(s)) for s in SYMBOLS[1:]
    }
