"""A script recorded as two ranks, in forks of a process that has imported PyTorch."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import socket
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from gradscope.analysis.findings import Finding
from gradscope.analysis.ranks.merge import merged
from gradscope.analysis.report import inspect
from gradscope.trace.load_save import load
from tests.shared.forked_starts import as_tests_start, next_number, server

SIZE = 2
LEVEL = "values"
LONGEST = {"buggy": 60.0, "fixed": 300.0}
"""Seconds after which a rank is ended: a hang is one of the bugs."""
GRACE = 30.0
"""Seconds from SIGTERM, after which a recorded program still writes its trace, to SIGKILL."""
SHORT, PATIENT = "timedelta(seconds=10)", "timedelta(minutes=4)"
"""How long a script waits in a collective; its twin has more time, because a test may be slow."""


@dataclass(frozen=True)
class Ranks:
    """How the ranks of a script ended, what they wrote, and what their traces show together."""

    codes: tuple[int, ...]
    out: str
    err: str
    traces: int
    findings: tuple[Finding, ...]


def recorded(folder: Path, name: str, text: str, level: str = LEVEL) -> Ranks:
    """Record the ranks of a script, in a folder `buggy` or `fixed`, and look at their traces."""
    text = text.replace(SHORT, PATIENT) if folder.name == "fixed" else text
    script, kept = folder / f"{name}.py", folder / "codes.json"
    if not (kept.exists() and script.read_text(encoding="utf-8") == text):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        script.write_text(text, encoding="utf-8")
        asked = ["trace", "-q", "--on", "torch", "--level", level, "-o", "trace.json", script.name]
        kept.write_text(json.dumps(run(asked, folder)), encoding="utf-8")
    out, err = (
        "".join((folder / f"{rank}.{end}").read_text(encoding="utf-8") for rank in range(SIZE))
        for end in ("out", "err")
    )
    traces = [load(each) for each in sorted(folder.glob("trace.rank*.json"))]
    findings = inspect(merged(traces)).findings if len(traces) == SIZE else ()
    codes = tuple(json.loads(kept.read_text(encoding="utf-8")))
    return Ranks(codes, out, err, len(traces), findings)


def run(asked: list[str], folder: Path) -> list[int]:
    """Run gradscope for each rank, and give the exit codes; what they write goes to files."""
    forking = server("all of torch")
    assert forking is not None, "the zoo needs fork"
    shared = {"WORLD_SIZE": str(SIZE), "LOCAL_WORLD_SIZE": str(SIZE)}
    shared |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port())}
    started = []
    for rank in range(SIZE):
        own = {"RANK": str(rank), "LOCAL_RANK": str(rank)}
        environment = as_tests_start({**os.environ, **shared, **own})
        with ExitStack() as files:
            none = files.enter_context(Path(os.devnull).open())
            out = files.enter_context((folder / f"{rank}.out").open("w"))
            err = files.enter_context((folder / f"{rank}.err").open("w"))
            streams = none.fileno(), out.fileno(), err.fileno()
            started.append(forking.fork(asked, str(folder), environment, streams))
    last = time.monotonic() + LONGEST[folder.name]
    return [_code(*each, last) for each in started]


def _code(process: int, ending: int, last: float) -> int:
    """The exit code of a rank; one that hangs is asked to end, and then made to."""
    for number, grace in ((signal.SIGTERM, GRACE), (signal.SIGKILL, 0.0)):
        if select.select([ending], [], [], max(last - time.monotonic(), 0.0))[0]:
            break
        os.kill(process, number)
        last = time.monotonic() + grace
    status = next_number(ending)
    os.close(ending)
    return os.waitstatus_to_exitcode(status)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
