"""Run all programs alone and recorded, compare, and update tests/watched/results.json.

make programs                              # all programs, at every level: about an hour
make programs ARGS='transformers bert'     # programs that need this package, or have this name

Prints a row for each run: program, level, exit codes, seconds, CPU seconds, megabytes, findings;
then what differs from the program alone.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from tests.watched.environments import HOUSE, Environment, environment_of
from tests.watched.program import Program, programs
from tests.watched.running import LEVELS, Outcome, differences, run

RESULTS = HOUSE / "tests/watched/results.json"
MODES = (*LEVELS, "full --no-native")


def main() -> int:
    """1: some program was changed, or gradscope failed."""
    asked = argparse.ArgumentParser("python -m tests.watched", description=__doc__)
    asked.formatter_class = argparse.RawDescriptionHelpFormatter
    asked.add_argument("names", nargs="*", help="of programs or of modules; default: all")
    asked.add_argument("--folder", type=Path, default=HOUSE / ".venv-programs/runs")
    asked.add_argument("--workers", type=int, default=2, help="how many programs run at a time")
    options = asked.parse_args()
    folder: Path = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    pairs = [
        (program, environment_of(program, folder))
        for program in programs()
        if not options.names or {*options.names} & {program.name, *program.words("needs")}
    ]
    results = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    wrong = 0
    with ThreadPoolExecutor(options.workers) as pool:
        for done in as_completed([pool.submit(tried, *pair, folder) for pair in pairs]):
            name, found, rows = done.result()
            print("\n".join(rows), flush=True)
            wrong += bool(found["differ"])
            results[name] = found
            RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n", "utf-8")
    print(f"{len(pairs)} programs, {wrong} of them changed")
    return int(bool(wrong))


def tried(
    program: Program, place: Environment, folder: Path
) -> tuple[str, dict[str, Any], list[str]]:
    """The program's name, its entry in the results, and rows to print."""
    where = folder / program.name
    shutil.rmtree(where, ignore_errors=True)
    alone = run(program, None, where / "alone", place.python)
    rows, differ = [row(program, "alone", alone)], {}
    if program.words("needs") and any(code for code, _, _ in alone.ended):
        differ["alone"] = "it fails"
    for mode in MODES:
        watched = run(program, mode, where / mode.replace(" ", ""), place.python)
        rows.append(row(program, mode, watched))
        if lines := differences(program, alone, watched):
            differ[mode] = lines[0]
            rows += [f"    {line}" for line in lines]
    if differ and run(program, None, where / "again", place.python).ended != alone.ended:
        rows.append("    alone it does not end twice alike: mend the program")
    found = {
        "pytorch": place.pytorch,
        "packages": dict(place.versions[module] for module in program.words("needs")),
        "levels": MODES,
        "differ": differ,
    }
    return program.name, found, rows


def row(program: Program, mode: str, outcome: Outcome) -> str:
    codes = ",".join(str(code) for code, _, _ in outcome.ended)
    numbers = f"{outcome.seconds:.1f}\t{outcome.cpu_seconds:.1f}\t{outcome.megabytes}"
    return f"{program.name}\t{mode}\t{codes}\t{numbers}\t{len(outcome.found)}"


if __name__ == "__main__":
    sys.exit(main())
