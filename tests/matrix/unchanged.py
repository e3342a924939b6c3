"""Runs a few whole programs in a cell, alone and recorded at every level.

The programs run one after another in one process, since importing PyTorch takes longer than they
do.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.watched.program import ROOM, Program
from tests.watched.running import LEVELS, Outcome, differences, run

NAMES = (
    "autograd/checkpointing", "autograd/custom_function", "autograd/double_backward",
    "autograd/functional", "autograd/hooks", "autograd/in_place_errors", "autograd/saved_tensors",
    "distributed/fake_group", "tensors/subclasses", "training/autocast", "training/compiled",
    "training/compiled_hooks", "training/copied_models", "training/data_workers",
    "training/optimizers",
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


def changed(python: str, kept: Path, *, native: bool) -> list[str]:
    """What a recording changes in these programs, a line each: empty if nothing.

    The first line that differs of each program and level, and faults of gradscope.
    """
    kept.mkdir()
    file = kept / "programs.py"
    file.write_text(f"# arguments: {' '.join(NAMES)}\n{ALL}", encoding="utf-8")
    alone = run(Program(file), None, kept / "alone", python)
    return [
        line
        for level in LEVELS
        for line in _changed_at(level, alone, python, kept, () if native else ("--no-native",))
    ]


def _changed_at(
    level: str, alone: Outcome, python: str, kept: Path, options: tuple[str, ...]
) -> Iterator[str]:
    file = Program(kept / "programs.py")
    watched = run(file, " ".join((level, *options)), kept / level, python)
    pairs = parts(alone), parts(watched)
    for name, one, other in zip(NAMES, *pairs, strict=True):
        if lines := differences(Program(ROOM / f"{name}.py"), one, other):
            yield f"{level} {name}: {lines[-1]}"
    yield from (f"{level}: {line}" for line in watched.said if "fault" in line)


def parts(whole: Outcome) -> list[Outcome]:
    """What each of the programs wrote."""
    ((code, *streams),) = whole.ended
    texts = [dict(part.split("\n", 1) for part in each.split(BEGINS)[1:]) for each in streams]
    return [Outcome([(code, *(text.get(name, "nothing") for text in texts))]) for name in NAMES]
