"""Records all programs inside of a cell: python -m tests.matrix.child FOLDER LEVEL NATIVE DRAWN.

Writes a trace for each program, and `outcomes.json`: errors, findings, what was not recorded, and
random programs that returned something else when they were recorded.
"""

from __future__ import annotations

import json
import sys
import traceback
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import partial
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
from tests.programs.language import Program
from tests.programs.running import outcome

Work = Callable[[], Any]


def main(folder: Path, level: str, native: bool, file: Path) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    found: dict[str, Any] = {"raised": {}, "changed": [], "findings": {}, "said": {}}
    for name, program in ordinary().items():
        options = Options(level=level, native=native)
        keep(found, folder / f"{name}.json", options, partial(program, torch))
    for number, drawn in enumerate(random_programs(file)):
        name, work = f"random_{number}", partial(_shown, drawn)
        alone = work()
        options = Options(level=level, native=native, source=False)  # it is always the same
        seen = keep(found, folder / f"{name}.json", options, work)
        if seen not in (None, alone):
            found["changed"].append(repr(drawn))
    found["pytorch"], found["python"] = torch.__version__, sys.version.split()[0]
    (folder / "outcomes.json").write_text(json.dumps(found), encoding="utf-8")


def _shown(program: Program) -> str:
    """Everything a user can see of a random program."""
    return repr(outcome(torch, program))


def keep(found: dict[str, Any], file: Path, options: Options, work: Work) -> Any:
    """Record this work into a file. Returns its result."""
    torch.manual_seed(0)
    recording = Recording(MemoryWriter(), options, PyTorch())
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
