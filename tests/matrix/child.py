"""Records all programs inside of a cell: python -m tests.matrix.child FOLDER LEVEL NATIVE DRAWN.

Writes a trace for each ordinary program and for each group of random programs, and `outcomes.json`:
what each random program returned alone and recorded is the same or not, and errors.
"""

from __future__ import annotations

import json
import sys
import traceback
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import torch

from gradscope.analysis.report import inspect
from gradscope.record.from_pytorch.pytorch_engine import PyTorch
from gradscope.record.recording import Options, Recording
from gradscope.trace.load_save import save
from gradscope.trace.writer import MemoryWriter
from tests.matrix.programs import ordinary, random_programs
from tests.programs.running import outcome

Work = Callable[[], Any]


def main(folder: Path, level: str, native: bool, drawn: Path) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    found: dict[str, Any] = {"raised": {}, "changed": [], "findings": {}, "said": {}}
    for name, program in ordinary().items():
        keep(found, folder / f"{name}.json", level, native, lambda p=program: p(torch))
    for number, group in enumerate(random_programs(drawn)):
        alone = [repr(outcome(torch, each)) for each in group]
        name = f"random_{number}"

        def all_of(group: Any = group) -> list[str]:
            return [repr(outcome(torch, each)) for each in group]

        seen = keep(found, folder / f"{name}.json", level, native, all_of)
        if seen is not None:
            pairs = zip(group, alone, seen, strict=True)
            found["changed"] += [repr(each) for each, one, other in pairs if one != other]
    found["pytorch"], found["python"] = torch.__version__, sys.version.split()[0]
    (folder / "outcomes.json").write_text(json.dumps(found), encoding="utf-8")


def keep(found: dict[str, Any], file: Path, level: str, native: bool, work: Work) -> Any:
    """Record this work into a file. Returns its result."""
    torch.manual_seed(0)
    recording = Recording(MemoryWriter(), Options(level=level, native=native), PyTorch())
    result = None
    try:
        with recording, redirect_stdout(StringIO()):
            result = work()
    except Exception as error:
        found["raised"][file.stem] = traceback.format_exception_only(error)[-1].strip()
    trace = recording.trace()
    save(trace, file)
    for text in trace.meta.get("unseen", {}):
        found["said"].setdefault(text, []).append(file.stem)
    report = inspect(trace)
    found["findings"][file.stem] = sorted({each.rule for each in report.findings})
    return result


if __name__ == "__main__":
    _, where, at, natively, programs = sys.argv
    main(Path(where), at, natively == "on", Path(programs))
