"""`GRADSCOPE=1 python train.py`: records a PyTorch program without `gradscope trace`.

Python reads `gradscope.pth` when it starts (tools/gradscope.pth; next to the package if installed).
If GRADSCOPE is set, this calls `begin`, unless Python ignores the environment (`-E`, `-I`). Nothing
else happens before the program has imported PyTorch. From then on the program is recorded to its
end, and its child processes run without GRADSCOPE.
"""

from __future__ import annotations

import atexit
import os
import sys
from pathlib import PurePath
from typing import TYPE_CHECKING

from gradscope.record.from_pytorch.installed import WhenImported

if TYPE_CHECKING:
    from pathlib import Path

    from gradscope.record.recording import Recording

VARIABLE = "GRADSCOPE"
LAUNCHERS = frozenset({
    "torchrun", "accelerate", "deepspeed", "torch.distributed.run", "torch.distributed.launch",
    "accelerate.commands.launch",
})  # fmt: skip
"""Launchers, whose child processes are recorded instead of themselves."""

WORKERS = frozenset({"--multiprocessing-fork"})
"""Arguments of Python in worker processes that a program started."""


def begin() -> None:
    """Record this process from the end of its `import torch`, unless it is a launcher or worker.

    In a virtual environment, Python may read each `.pth` file twice.
    """
    if any(isinstance(finder, WhenImported) for finder in sys.meta_path):
        return
    program = _program()
    if program == "gradscope" or WORKERS & {*sys.orig_argv}:
        os.environ.pop(VARIABLE, None)  # gradscope records on its own, or the parent is recorded
    elif program not in LAUNCHERS:
        WhenImported(_imported).start()


def _program() -> str:
    """The program that Python runs: the name of a file or of a module."""
    words = sys.orig_argv
    if sys.argv[:1] == ["-m"] and "-m" in words[:-1]:
        return words[words.index("-m") + 1]
    return PurePath(sys.argv[0]).name.removesuffix(".exe") if sys.argv else ""


def _imported() -> None:
    """Called when PyTorch is imported. If recording fails, the program continues."""
    asked = os.environ.pop(VARIABLE, "")
    try:
        if asked:
            _record(asked)
    except Exception as error:  # noqa: BLE001  print one line; the program is unaffected
        _say(f"not recording: {str(error) or type(error).__name__}")


def _record(asked: str) -> None:
    from pathlib import Path

    from gradscope.errors import NoMemoryError
    from gradscope.record.engines import TORCH, named
    from gradscope.record.process.claim import current
    from gradscope.record.process.memory_limit import leaves_too_little
    from gradscope.record.process.ranks import this_process, wanted, writing_to
    from gradscope.record.process.trace_file import MOST_BYTES, trace_file
    from gradscope.record.recording import Options, Recording

    rank, ranks = this_process(), wanted(os.environ.get("GRADSCOPE_RANKS"))
    if current() is not None or (ranks is not None and rank.number not in ranks):
        return
    if leaves_too_little():
        raise NoMemoryError("the memory limit (such as ulimit -v) leaves too little")
    options = Options(
        level=os.environ.get("GRADSCOPE_LEVEL") or "engine",
        steps=os.environ.get("GRADSCOPE_STEPS") or None,
        every=_number("GRADSCOPE_EVERY"),
        keep=_number("GRADSCOPE_KEEP"),
        max_bytes=MOST_BYTES,
        source=os.environ.get("GRADSCOPE_SOURCE") != "0",
        script=sys.argv[0],
        arguments=tuple(sys.argv[1:]),
        keeps_arguments=os.environ.get("GRADSCOPE_ARGUMENTS") != "0",
    )
    engine = named(TORCH)
    engine.facts(options.level)  # raises for a level that the engine does not have
    asked_for = Path("trace.json" if asked == "1" else asked)
    rank = writing_to(asked_for)
    path = rank.file(asked_for)
    source = sys.argv[0] if os.path.isfile(sys.argv[0]) else None  # noqa: PTH113
    writer, said = trace_file(path, source, options.max_bytes, options.keep)
    restart = rank.said(asked_for) if rank.number == min(ranks or {0}) else ""
    for line in filter(None, (restart, said)):
        _say(line)
    path = path.with_name(writer.path.name)
    recording = Recording(writer, options, engine)
    recording.start()
    _say(f"recording PyTorch into {path}, because {VARIABLE} is set")
    atexit.register(_finish, recording, path, writer.path)


def _number(variable: str) -> int | None:
    """The number in a variable of the environment, if it is set."""
    from gradscope.errors import UsageError
    from gradscope.trace.text import quoted

    text = os.environ.get(variable)
    if text and not text.isdecimal():
        raise UsageError(f"{variable} expects a number, not {quoted(text)}")
    return int(text) if text else None


def _finish(recording: Recording, shown: Path, path: Path) -> None:
    """Finish the recording at the end of the program; only an exception is known here."""
    if recording.session is None:
        return
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    recording.stop(error, None if error is not None else {})
    if not recording.trouble:
        _say(f"wrote {shown}; next: gradscope inspect {shown}")


def _say(text: str) -> None:
    if sys.stderr is not None and os.environ.get("GRADSCOPE_QUIET", "") in {"", "0"}:
        sys.stderr.write(f"gradscope: {text}\n")
