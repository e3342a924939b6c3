"""Run a few programs alone and watched under other versions of PyTorch; print a table.

python -m tests.watched.versions /tmp/site-2.6.0 /tmp/site-2.14.1

Each argument is a folder into which one version was installed, as by `pip install --target`; all
other packages come from this environment. A folder `stubs` in it is searched for libraries, which
lets a build for CUDA be imported without them. The programs run one after another in one process,
since importing PyTorch takes longer than they do. Exit code 1: some program ended otherwise than
alone, or gradscope spoke of a fault of its own.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import venv
from collections.abc import Iterator
from pathlib import Path

from tests.watched.program import ROOM, Program
from tests.watched.running import LEVELS, Outcome, differences, run

NAMES = (
    "autograd/checkpointing", "autograd/custom_function", "autograd/double_backward",
    "autograd/functional", "autograd/hooks", "autograd/in_place_errors", "autograd/saved_tensors",
    "distributed/fake_group", "sharded/dtensors", "tensors/subclasses", "training/autocast",
    "training/compiled", "training/compiled_hooks", "training/copied_models",
    "training/data_workers", "training/optimizers",
)  # fmt: skip

BEGINS = "-- program "
ALL = f"""
import runpy, sys, traceback
for name in sys.argv[1:]:
    for stream in (sys.stdout, sys.stderr):
        print("{BEGINS}" + name, file=stream, flush=True)
    try:
        runpy.run_path("{ROOM}/" + name + ".py", run_name="__main__")
    except BaseException:
        traceback.print_exc()
"""


def main() -> int:
    asked = argparse.ArgumentParser("python -m tests.watched.versions", description=__doc__)
    asked.formatter_class = argparse.RawDescriptionHelpFormatter
    asked.add_argument("folders", type=Path, nargs="+", metavar="FOLDER")
    asked.add_argument("--levels", default=",".join(LEVELS))
    asked.add_argument(
        "--programs", default=",".join(NAMES), help="names in tests/watched/programs"
    )
    options = asked.parse_args()
    levels, names = options.levels.split(","), options.programs.split(",")
    wrong = False
    print("| PyTorch |", " | ".join(levels), "|\n|" + " --- |" * (1 + len(levels)), flush=True)
    for folder in options.folders:
        with tempfile.TemporaryDirectory() as kept:
            texts = list(compared(folder.resolve(), Path(kept), levels, names))
        wrong |= any("changed" in text or "fault" in text for text in texts)
        print(f"| {version_of(folder)} |", " | ".join(texts), "|", flush=True)
    return int(wrong)


def version_of(folder: Path) -> str:
    found = re.search(r"version__ = '(.*)'", (folder / "torch" / "version.py").read_text("utf-8"))
    return found[1] if found else folder.name


def compared(folder: Path, kept: Path, levels: list[str], names: list[str]) -> Iterator[str]:
    """For each level, how many programs ended as they do alone."""
    python, file = interpreter(folder, kept / "venv"), kept / "programs.py"
    file.write_text(f"# arguments: {' '.join(names)}\n{ALL}", encoding="utf-8")
    alone = run(Program(file), None, kept / "alone", python)
    for level in levels:
        watched = run(Program(file), level, kept / level, python)
        pairs = parts(alone, names), parts(watched, names)
        changed = 0
        for name, one, other in zip(names, *pairs, strict=True):
            lines = differences(Program(ROOM / f"{name}.py"), one, other)
            changed += bool(lines)
            tell(version_of(folder), level, f"{name}: ", lines)
        faults = [line for line in watched.said if "fault" in line]
        tell(version_of(folder), level, "", watched.said + watched.found)
        yield ", ".join(
            f"{many} {what}"
            for many, what in (
                (len(names) - changed, "alike"),
                (changed, "changed"),
                (len(faults), "faults"),
            )
            if many
        )


def interpreter(folder: Path, where: Path) -> str:
    """The Python of a new virtual environment that finds this folder's PyTorch first."""
    venv.create(where, with_pip=False)
    site = next(where.glob("lib/python*/site-packages"))
    others = [path for path in sys.path if path.endswith("site-packages")]
    paths = [str(folder), str(ROOM.parents[2]), *others]
    (site / "first.pth").write_text("\n".join(paths) + "\n", encoding="utf-8")
    os.environ["LD_LIBRARY_PATH"] = str(folder / "stubs")
    return str(where / "bin" / "python")


def parts(whole: Outcome, names: list[str]) -> list[Outcome]:
    """What each of the programs wrote."""
    ((code, *streams),) = whole.ended
    texts = [dict(part.split("\n", 1) for part in each.split(BEGINS)[1:]) for each in streams]
    return [Outcome([(code, *(text.get(name, "nothing") for text in texts))]) for name in names]


def tell(version: str, level: str, start: str, lines: list[str]) -> None:
    """One line after another, for who waits."""
    sys.stderr.writelines(f"    {version} {level} {start}{line}\n" for line in lines)


if __name__ == "__main__":
    sys.exit(main())
