"""Record the same programs in many cells, compare them, and update tests/matrix/results.json.

make matrix                                 # all cells: hours, and 12 GB in .venv-matrix
make matrix ARGS='2.10.0 3.14'              # the cells of these versions of PyTorch and Python
make matrix ARGS='--random 2000 2.6.0'      # more random programs
make matrix ARGS='2.13.0-py3.11-hooks'      # one cell, as results.json names it
make matrix ARGS='--check 2.14.1'           # compare with results.json, as CI does
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch

from tests.matrix.cells import CELLS, HOUSE, REFERENCE, Cell, find_python, interpreter, ran
from tests.matrix.compared import compare, new_findings, outcomes
from tests.matrix.programs import draw, ordinary
from tests.matrix.sites import site
from tests.matrix.unchanged import NAMES, changed

RESULTS = HOUSE / "tests/matrix/results.json"


def main() -> int:
    """1: in some cell a program was changed, or gradscope failed."""
    asked = argparse.ArgumentParser("python -m tests.matrix", description=__doc__)
    asked.formatter_class = argparse.RawDescriptionHelpFormatter
    asked.add_argument(
        "versions", nargs="*", help="of PyTorch or Python, or a cell's name; default: all"
    )
    asked.add_argument("--folder", type=Path, default=HOUSE / ".venv-matrix")
    asked.add_argument("--random", type=int, default=200, help="how many random programs")
    asked.add_argument("--level", default="engine")
    asked.add_argument(
        "--check", action="store_true", help="write nothing; fail on a new difference"
    )
    options = asked.parse_args()
    folder: Path = options.folder.resolve()
    folder.mkdir(exist_ok=True)
    draw(options.random, 1, folder / "drawn")
    results = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    wrong = False
    for cell in chosen(options.versions):
        began = time.monotonic()
        found, before = result(cell, options, folder), results.get(cell.name, {})
        print(f"{cell.name}: {in_short(found)} ({time.monotonic() - began:.0f} s)", flush=True)
        if cell == REFERENCE and "not_run" in found:
            break  # there is nothing to compare with
        wrong |= any(found.get(key) for key in ("crashed", "changed", "whole_changed"))
        if options.check:
            wrong |= are_new(cell.name, found.get("differ", {}), before.get("differ", {}))
            continue
        results[cell.name] = found
        RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return int(wrong)


def are_new(cell: str, differ: dict[str, str], before: dict[str, str]) -> bool:
    """Whether programs differ that did not differ before; they are printed."""
    for name in (new := sorted(differ.keys() - before.keys())):
        print(f"{cell}: {name}: {differ[name]}", flush=True)
    return bool(new)


def chosen(versions: list[str]) -> list[Cell]:
    """The cells of these versions, after the one that all are compared with."""
    asked = {*versions}
    cells = [each for each in CELLS if not asked or {each.pytorch, each.python, each.name} & asked]
    return [REFERENCE, *(cell for cell in cells if cell != REFERENCE)]


def result(cell: Cell, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """What holds in a cell, as it stands in tests/matrix/results.json."""
    python = find_python(cell.python)
    if python is None:
        return {"not_run": f"Python {cell.python} is not installed here"}
    here = python == sys.executable and torch.__version__.startswith(f"{cell.pytorch}+")
    place = folder
    if not here:
        try:
            place = site(cell.pytorch, cell.python, folder)
        except subprocess.CalledProcessError as error:
            return {
                "not_run": f"PyTorch {cell.pytorch} is not there: {error.stderr.strip()[-200:]}"
            }
        python = interpreter(python, place, folder / f"env-{cell.pytorch}-py{cell.python}")
    traces = folder / "traces" / cell.name
    shutil.rmtree(traces, ignore_errors=True)
    traces.mkdir(parents=True)
    natively = "on" if cell.native else "off"
    ended = ran(python, place, "-m", "tests.matrix.child", str(traces), options.level, natively,
                str(folder / "drawn"))  # fmt: skip
    if ended.returncode:
        return {"crashed": f"exit code {ended.returncode}: {ended.stderr.strip()[-300:]}"}
    os.environ["LD_LIBRARY_PATH"] = str(place / "stubs")
    whole = changed(python, traces / "whole", native=cell.native)
    return {
        **recorded(traces, folder / "traces" / REFERENCE.name),
        "whole_programs": len(NAMES),
        "whole_changed": whole,
    }


def recorded(traces: Path, reference: Path) -> dict[str, Any]:
    found, pair = outcomes(traces), compare(traces, reference)
    drawn = {name: text for name, text in pair.differ.items() if name.startswith("random_")}
    count = sum(1 for _ in traces.glob("random_*.json"))
    return {
        "pytorch": found["pytorch"],
        "python": found["python"],
        "ordinary": len(ordinary()),
        "random": count,
        "alike": pair.alike,
        "differ": {name: text for name, text in pair.differ.items() if name not in drawn},
        "random_differ": drawn,
        "not_there": pair.lacks,
        "changed": found["changed"],
        "findings": new_findings(traces, reference),
        "not_recorded": {text: len(names) for text, names in found["said"].items()},
    }


def in_short(found: dict[str, Any]) -> str:
    """One line about a cell."""
    if "alike" not in found:
        return next(iter(found.values()))
    parts = [f"{found['alike']} recordings alike"]
    for key, what in (
        ("differ", "programs differ"), ("random_differ", "random programs differ"),
        ("not_there", "not in this PyTorch"), ("changed", "changed"),
        ("whole_changed", "whole programs changed"),
        ("findings", "rules found more"), ("not_recorded", "facts not recorded"),
    ):  # fmt: skip
        if found[key]:
            parts.append(f"{len(found[key])} {what}")
    return ", ".join(parts)


if __name__ == "__main__":
    sys.exit(main())
