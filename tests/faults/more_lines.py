# ruff: noqa: E501  (one line each)
"""More wrong command lines: commands that came after those of `lines.py`, and options that several share."""

from __future__ import annotations

import os

from lines import SMALL, Line, cut, sql, text
from workspace import nacl

LAUGHS = '<?xml version="1.0"?>\n<!DOCTYPE modeling [<!ENTITY a0 "ha">' + "".join(
    f'<!ENTITY a{i + 1} "{f"&a{i};" * 10}">' for i in range(12)
) + "]>\n<modeling>&a12;</modeling>\n"  # fmt: skip
"""A thousand billion words, once all that they stand for is put in."""
JUNK = b"\xff\x00junk" * 9


def _loss() -> list[Line]:
    """Files of others at the place of a result."""
    ranking = "rank,formula,score\n1,NaCl,0.9\n2,KCl,0.8\n"
    table = {
        "catalogue build run --out mine.npz": "mine.npz",
        "policy chances --out mine.json": "mine.json",
        "policy labels eval --out mine.csv": "mine.csv",
        "screen --elements Li,O --max-atoms 6 -n 5 --out mine.csv": "mine.csv",
        "generator sample crystalite-dng -n 1 --out mine.extxyz": "mine.extxyz",
        "dft inputs nacl.cif --as-is --out mine.txt": "mine.txt",
        "verify nacl.cif --level 1 --out mine.txt": "mine.txt",
        "prior train omatg --out mine.txt --steps 1": "mine.txt",
        "generator train kldm-dng --out mine.txt --steps 1": "mine.txt",
        "generator finetune crystalite-dng --episodes 1 --out mine.txt": "mine.txt",
        "distill run --prior crystalite --steps 1 --out mine.txt": "mine.txt",
        "energies fill --elements Li,F --out mine.txt": "mine.txt",
        "study run exploration --scale smoke -n 1 --out mine.txt": "mine.txt",
        "prior save run --out mine.safetensors": "mine.safetensors",
            }  # fmt: skip
    lines = [Line("loss", command, "exist|folder|file", mine=(name,)) for command, name in table.items()]
    lines += [
        Line("loss", "policy fit --ranking r.csv --out mine.safetensors --steps 1", "exists", text("r.csv", ranking), ("mine.safetensors",)),
        Line("loss", "policy labels eval --out l.csv", "exists", mine=("l.json",)),
        Line("loss", "dft inputs nacl.cif --as-is --out other", "", mine=("other/notes.txt",), fine=True),
        Line("loss", "verify nacl.cif --level 1 --workers 1 --out other", "", mine=("other/notes.txt",), fine=True),
    ]  # fmt: skip
    return lines


def _names() -> list[Line]:
    """Things that are not there, and words that mean nothing."""
    commands = {
        "catalogue build nowhere --out c.npz": "nowhere",
        "catalogue list --file nowhere.npz": "nowhere.npz",
        "catalogue show Xx9": "Xx9",
        "catalogue show 999999999": "999999999",
        "catalogue list --elements Qq": "Qq",
        "catalogue list --where 'e_hull <'": "e_hull",
        "catalogue list --where 'nonsense = 1'": "nonsense",
        "compare nowhere": "nowhere",
        "compare eval run": "run",
        "compositions check ''": "formula|empty",
        "compositions sample --measure nonsense": "nonsense",
        "data build --wheels nowhere --out d": "nowhere",
        "data holes --elements Qq": "Qq",
        "dft energy nowhere.cif --known": "nowhere.cif",
        "dft energy nacl.cif --known --potential nonsense": "nonsense",
        "distill nowhere --prior crystalite --out d": "nowhere",
        "distill run --prior nonsense --out d": "nonsense",
        "distill run --prior crystalite --arms nonsense --out d": "nonsense",
        "energies build --potential nonsense": "nonsense",
        "energies calibrate --potential nonsense": "nonsense",
        "energies fill --elements Qq": "Qq",
        "energies fill --policy nowhere": "nowhere",
        "evaluate nowhere --out e": "nowhere",
        "evaluate generator:nowhere --out e": "nowhere",
        "export run --where 'e_hull <' --out x.csv": "e_hull",
        "export run --elements Qq --out x.csv": "Qq",
        "export run --as nonsense": "nonsense",
        "export run --which valid --out x.unknown": "unknown|ending|format",
        "export nowhere": "nowhere",
        "generator finetune nonsense --out d": "nonsense",
        "generator sample nonsense --out d": "nonsense",
        "generator sample run --out d": "generator",
        "generator test nonsense -n 1": "nonsense",
        "generator train nonsense --out d --steps 1": "nonsense",
        "generator train kldm-dng --start-from nowhere.safetensors --out d --steps 1": "nowhere",
        "hull nacl.cif --alex-mp nowhere.gz": "nowhere",
        "import-dft nowhere": "nowhere",
        "import-dft nacl.cif": "nacl.cif|vasprun|DFT",
        "policy chances --labels nowhere.csv --out c.json": "nowhere",
        "policy check nowhere -n 1": "nowhere",
        "policy fit --ranking nowhere.csv --out p.safetensors": "nowhere",
        "policy labels nowhere --out l.csv": "nowhere",
        "potentials check nonsense": "nonsense",
        "potentials fetch nonsense": "nonsense",
        "prior finetune nonsense --out d --steps 1": "nonsense",
        "prior save run --out p.safetensors": "prior|reward",
        "prior test nowhere.csv": "nowhere",
        "prior test --prior nonsense -n 1": "nonsense",
        "prior train nonsense --out d --steps 1": "nonsense",
        "prior train omatg --data nowhere --out d --steps 1": "nowhere",
        "prior train omatg --start-from nowhere.safetensors --out d --steps 1": "nowhere",
        "prior train omatg --resume --out nowhere --steps 1": "resume|nowhere|run",
        "report run --compare nowhere --summary s.json --out r.html": "nowhere",
        "sample default --elements Qq": "Qq",
        "sample nowhere": "nowhere",
        "screen --elements Qq": "Qq",
        "screen --elements Li,O --address nowhere:1 --executor inline": "address|ray",
        "serve nowhere": "nowhere",
        "serve nacl.cif": "nacl.cif|folder",
        "study decomposition nowhere eval eval": "nowhere",
        "study plan nonsense": "nonsense",
        "study run nonsense": "nonsense",
        "study run exploration --only nosuchrow": "nosuchrow",
        "study table nonsense": "nonsense",
        "study tilt nowhere nowhere": "nowhere",
        "study covariance --prior nonsense -n 2": "nonsense",
        "verify nowhere": "nowhere",
        "verify catalogue --where 'nonsense = 1'": "nonsense",
        f"search {SMALL} -n 8 --out new --source nonsense": "nonsense",
        f"search {SMALL} -n 8 --out new --must-contain Qq": "Qq",
        f"search {SMALL} -n 8 --out new --exclude Na,Cl": "elements|exclude",
        f"search {SMALL} -n 8 --out new --counts Na=5-2": "counts|Na",
        f"search {SMALL} -n 8 --out new --counts nonsense": "counts|nonsense",
        f"search {SMALL} -n 8 --out new --prior-train shared": "prior",
        f"search {SMALL} -n 8 --out new --set prior.name=nonsense": "nonsense",
        f"search {SMALL} -n 8 --out new --label x": "label",
        f"search {SMALL} -n 8 --out new --ledger nonsense://x": "nonsense",
    }  # fmt: skip
    return [Line("name", command, words) for command, words in commands.items()]


def _numbers() -> list[Line]:
    """Numbers that nobody can mean."""
    commands = {
        "catalogue build run --most nan --out c.npz": "most",
        "catalogue list --k x": "--k|k=|number",
        "catalogue list --most nan": "most",
        "catalogue list -n -1": "-n",
        "data convert nacl.cif -n -1 --out x.extxyz": "-n",
        "data holes --deeper nan": "deeper",
        "data holes -n -3": "-n",
        "dft energy nacl.cif --known --memory nan": "memory",
        "dft energy nacl.cif --known --minutes -1": "minutes",
        "dft hull nacl.cif --known --most-seconds nan": "seconds",
        "distill run --prior crystalite --out d --most nan": "most",
        "distill run --prior crystalite --out d --held-out -1": "held",
        "distill run --prior crystalite --out d --steps 0": "steps",
        "distill run --prior crystalite --out d --learning-rate nan": "learning.rate",
        "distill run --prior crystalite --out d --turns 0": "turns",
        "distill run --prior crystalite --out d --seeds 0": "seeds",
        "energies build --potential mattersim-1m --threads 0": "threads",
        "energies fill --elements Li,F --draws -1": "draws",
        "energies fill --elements Li,F --hours nan": "hours",
        "generator finetune crystalite-dng --out d --episodes 0": "episodes",
        "generator finetune crystalite-dng --out d --kl nan": "kl",
        "generator finetune crystalite-dng --out d --learning-rate nan": "learning.rate",
        "generator sample crystalite-dng -n 0": "-n",
        "generator sample crystalite-dng -n 99999999999": "-n|most|memory",
        "generator test crystalite-dng -n -1": "-n",
        "generator train kldm-dng --out d --steps 0": "steps",
        "generator train kldm-dng --out d --steps 1 --batch-size 0": "batch",
        "generator train kldm-dng --out d --steps 1 --learning-rate nan": "learning.rate",
        "generator train kldm-dng --out d --steps 1 --max-atoms 0": "atoms",
        "generator train kldm-dng --out d --steps 1 --warmup -1": "warmup",
        "generator train kldm-dng --out d --hours -1": "hours",
        "policy check default -n 0": "-n",
        "policy fit --ranking r.csv --out p.safetensors --steps 0": "steps",
        "policy fit --ranking r.csv --out p.safetensors --top 0": "top",
        "policy fit --ranking r.csv --out p.safetensors --effective -1": "effective",
        "policy fit --ranking r.csv --out p.safetensors --element-cap nan": "element.cap",
        "policy fit --ranking r.csv --out p.safetensors --hidden 0": "hidden",
        "policy surrogate --epochs 0 --out s.safetensors": "epochs",
        "policy surrogate --members 0 --out s.safetensors": "members",
        "policy surrogate --learning-rate nan --out s.safetensors": "learning.rate",
        "policy warm-start -n 16 --caution nan --out p.safetensors": "caution",
        "policy warm-start -n 16 --find-weight nan --out p.safetensors": "find.weight",
        "policy warm-start -n 16 --atom-cost inf --out p.safetensors": "atom.cost",
        "prior sample NaCl -n 1 --set steps=-1 --prior omatg": "steps",
        "prior test -n 0": "-n",
        "prior test -n 1 -k 0": "-k",
        "prior test -n 1 --set nonsense": "nonsense|setting",
        "prior train omatg --out d --steps 0": "steps",
        "prior train omatg --out d --steps 1 --batch-size 0": "batch",
        "prior train omatg --out d --steps 1 --learning-rate nan": "learning.rate",
        "prior train omatg --out d --steps 1 --max-atoms 0": "atoms",
        "prior train omatg --out d --hours nan": "hours",
        "relax nacl.cif --chunk-atoms 0": "chunk",
        "relax nacl.cif --workers -1": "workers",
        "relax nacl.cif --executor ray --gpus -1": "gpus",
        "sample default --k 99": "k|elements",
        "sample default --max-atoms -1": "atoms",
        "screen --elements Li,O --k 0": "k",
        "screen --elements Li,O --max-atoms -1": "atoms",
        "screen --elements Li,O --counts Li=x": "Li=x|counts",
        "screen --elements Li,O -n -1": "-n",
        "screen --elements Li,O --workers 0": "workers",
        "serve . --port 99999": "port",
        "serve . --port -1": "port",
        "study covariance -n 0": "-n",
        "study covariance -n 2 --each 0": "each",
        "study plan exploration -n -1": "-n",
        "study run exploration --scale smoke --at-a-time 0": "at.a.time",
        "study tilt formulas:r.csv formulas:r.csv -n 0": "-n",
        "verify run --level 9": "level",
        "verify run --top -1": "top",
        "verify run --sample -1": "sample",
        "verify run --cards -1": "cards",
        f"search {SMALL} -n 8 --out new --gpus nan": "gpus",
        f"search {SMALL} --finds -1 -n 8 --out new": "finds",
        f"search {SMALL} -n 8 --out new --verify -1": "verify",
        f"search {SMALL} -n 8 --out new --set search.staleness=-1": "staleness",
        f"search {SMALL} -n 8 --out new --set prior.temperature=nan": "prior|temperature",
    }  # fmt: skip
    ranking = text("r.csv", "rank,formula,score\n1,NaCl,0.9\n2,KCl,0.8\n")
    return [Line("number", command, words, ranking) for command, words in commands.items()]


def _content() -> list[Line]:
    """Files that are something else, or half of what they were."""
    lines = []
    for what, content in {
        "empty": b"",
        "junk": JUNK,
        "words": b"hello\n",
        "xml": b"<modeling><a>",
        "laughs": LAUGHS.encode(),
    }.items():
        lines.append(
            Line("content", "import-dft vasprun.xml", "vasprun|XML|0 ", text("vasprun.xml", content))
        )
        if what == "xml":
            continue
        for command, name, words in (
            ("catalogue list --file c.npz", "c.npz", "c.npz"),
            ("catalogue build c.npz --out d.npz", "c.npz", "c.npz"),
            ("export c.npz", "c.npz", "c.npz"),
            ("verify c.npz --level 1", "c.npz", "c.npz"),
            ("policy chances --labels l.csv --out c.json", "l.csv", "l.csv"),
            ("policy fit --ranking r.csv --out p.safetensors --steps 1", "r.csv", "r.csv"),
            ("policy check p.safetensors -n 1", "p.safetensors", "p.safetensors"),
            ("generator sample g.safetensors -n 1", "g.safetensors", "g.safetensors"),
            ("prior finetune w.safetensors --out d --steps 1", "w.safetensors", "w.safetensors"),
            ("prior train omatg --data x.cif --out d --steps 1", "x.cif", "x.cif|crystals"),
            ("prior test x.csv", "x.csv", "x.csv|crystals"),
        ):
            if what != "laughs":
                lines.append(Line("content", command, words, text(name, content)))
    pipe = "pipe|file"
    lines += [
        Line("content", "import-dft vasprun.xml", pipe, lambda w: os.mkfifo(w / "vasprun.xml")),
        Line("content", "catalogue list --file c.npz", pipe, lambda w: os.mkfifo(w / "c.npz")),
        Line("content", "policy fit --ranking r.csv --out p.safetensors", pipe, lambda w: os.mkfifo(w / "r.csv")),
        Line("content", "policy chances --labels /dev/zero --out c.json", "file|device"),
        Line("content", "policy chances --labels nowhere.csv", "--out"),
        Line("content", "policy fit --ranking /dev/zero --out p.safetensors", "file|device"),
        Line("content", "verify x.cif --level 1 --workers 1", "x.cif|failed", text("x.cif", nacl(z="nan"))),
        Line("content", "dft inputs x.cif --as-is --out d", "x.cif", text("x.cif", "hello")),
        Line("content", "dft energy x.cif --as-is --known", "x.cif|long", text("x.cif", nacl(a=1e8)), fine=True),
        Line("content", "study decomposition eval eval eval", "eval|JSON", text("eval/table.jsonl", "{nope\n")),
        Line("content", "study decomposition eval eval eval", "eval|JSON", text("eval/summary.json", "[]")),
        Line("content", "policy labels eval --out l.csv", "eval|table|0 ", text("eval/table.jsonl", "{nope\n")),
        Line("content", "verify run --level 1", "ledger|damaged", cut("run/ledger.db", 0.5)),
        Line("content", "verify run --level 1 --workers 1", "", sql("UPDATE candidates SET relaxed = x'0102'"), fine=True),
        Line("content", "distill run --prior crystalite --out d --steps 1", "ledger|damaged", cut("run/ledger.db", 0.5)),
        Line("content", "catalogue build run --out c.npz", "ledger|damaged", cut("run/ledger.db", 0.5)),
        Line("content", "prior train omatg --resume --out d --steps 1", "d", text("d/checkpoint.safetensors", JUNK)),
    ]  # fmt: skip
    return lines


def _output() -> list[Line]:
    """Results that do not fit on a full disk, or where none can be."""
    commands = {
        "catalogue build run catalogue --out {}/c.npz": "full|space",
        "catalogue build run catalogue --out /proc/none/c.npz": "/proc",
        "data convert nacl.cif --out {}/x.zip": "full|space",
        "data convert nacl.cif --out {}/x.db": "full|space",
        "data convert nacl.cif --out {}/x.parquet": "full|space",
        "dft inputs nacl.cif --as-is --out {}/d": "full|space",
        "export run --which valid --as optimade --out {}/x.json": "full|space",
        "export catalogue --elements Na,Cl,K --as vasp --out {}/d": "full|space",
        "generator sample crystalite-dng -n 1 --set steps=2 --out {}/x.extxyz": "full|space|option",
        "policy labels eval --out {}/l.csv": "full|space",
        "screen --elements Li,O --max-atoms 6 -n 5 --out {}/s.csv": "full|space",
        "verify nacl.cif --level 1 --workers 1 --out {}/v": "full|space",
        "prior train omatg --out {}/d --steps 1 --test 0 --match 0 --batch-size 2": "full|space",
    }  # fmt: skip
    return [Line("output", command.replace("{}", "{full}"), words) for command, words in commands.items()]


def all_lines() -> list[Line]:
    return [*_loss(), *_names(), *_numbers(), *_content(), *_output()]
