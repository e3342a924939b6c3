"""A program run alone, or watched at a level, each time in an empty folder of its own."""

from __future__ import annotations

import difflib
import os
import re
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from resource import struct_rusage

from gradscope.analysis.findings import Severity
from gradscope.analysis.ranks.merge import merged
from gradscope.analysis.report import inspect
from gradscope.trace.load_save import load
from tests.watched.program import Program

LEVELS = ("graph", "engine", "values", "full")
LONGEST = 900.0  # seconds: a program that takes longer hangs

EXPLAINED = re.compile(r"(error|warning|note) GS\d+ ")

OF_ONE_RUN = re.compile(
    r"\btmp[a-z0-9_]{8}\b|^(\[rank\d+\]:)?[A-Z]\d{4} [\d:.]+ \d+ |^USDT:[\d-]+ [\d:]+ [\d:]+ ",
    re.MULTILINE,
)
"""Names of temporary files, and when PyTorch's own log was written: no two runs share them."""

SETTINGS = {
    "CUDA_VISIBLE_DEVICES": "",
    "HF_HUB_OFFLINE": "1",
    "MPLBACKEND": "agg",
    "OMP_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONWARNINGS": "default",  # also those that Python does not show: none may be ours
    "TOKENIZERS_PARALLELISM": "false",
    "TORCHINDUCTOR_COMPILE_THREADS": "1",  # workers warn at exit, or not
}


@dataclass
class Outcome:
    """How a program ended, and what it wrote, for each of its ranks."""

    ended: list[tuple[int, str, str]]  # exit code or signal, stdout, stderr without our lines
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    megabytes: int = 0
    said: list[str] = field(default_factory=list)  # lines of gradscope's own
    found: list[str] = field(default_factory=list)  # findings above a note


def run(program: Program, level: str | None, folder: Path, python: str = sys.executable) -> Outcome:
    """Run a program alone, or recorded at a level, which options of `trace` may follow."""
    folder.mkdir(parents=True)
    count = program.ranks
    port = free_port() if count else 0
    started = time.monotonic()
    starts = partial(start, program, level, folder, python)
    processes = [starts(rank, port) for rank in range(max(count, 1))]
    outcome = Outcome([])
    for rank, process in enumerate(processes):
        status = wait(process, started)
        outcome.cpu_seconds += status.ru_utime + status.ru_stime
        outcome.megabytes = max(outcome.megabytes, status.ru_maxrss // 1024)
        out, err = (
            (folder / f"{rank}.{stream}").read_text(encoding="utf-8", errors="backslashreplace")
            for stream in ("out", "err")
        )
        theirs, said = parted(OF_ONE_RUN.sub("~", err))
        outcome.said += said
        outcome.ended.append((process.returncode, out, theirs))
    outcome.seconds = time.monotonic() - started
    if level is not None:
        outcome.found = findings(folder)
    return outcome


def parted(text: str) -> tuple[str, list[str]]:
    """What the program wrote to stderr, and the lines of gradscope's own in it."""
    theirs, ours = [], []
    explaining = False  # an exception, as far as the next empty line
    for line in text.splitlines(keepends=True):
        begins = bool(EXPLAINED.match(line))
        if explaining or begins or line.startswith("gradscope: "):
            ours.append(line.rstrip())
        else:
            theirs.append(line)
        explaining = bool(line.strip()) and (explaining or begins)
    return "".join(theirs), ours


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def start(
    program: Program, level: str | None, folder: Path, python: str, rank: int, port: int
) -> subprocess.Popen[bytes]:
    command = [python]
    if level is not None:
        command += ["-m", "gradscope", "trace", "--level", *level.split(), "-o", "trace.json"]
    environment = os.environ | SETTINGS
    for name in (
        "PYTHONPATH",
        "PYTHONDONTWRITEBYTECODE",
    ):  # bytecode: or each start compiles all of torch
        environment.pop(name, None)
    if "as a module" in program.comments:
        command += ["-m", program.path.stem]
        environment["PYTHONPATH"] = str(program.path.parent)
    else:
        command += [str(program.path)]
    command += program.words("arguments")
    if program.ranks:
        environment |= {"RANK": str(rank), "LOCAL_RANK": str(rank)}
        environment |= {"WORLD_SIZE": str(program.ranks), "LOCAL_WORLD_SIZE": str(program.ranks)}
        environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    (folder / "stdin").write_text(program.stdin, encoding="utf-8")
    with (
        (folder / "stdin").open("rb") as stdin,
        (folder / f"{rank}.out").open("wb") as out,
        (folder / f"{rank}.err").open("wb") as err,
    ):
        return subprocess.Popen(
            command, cwd=folder, env=environment, stdin=stdin, stdout=out, stderr=err
        )


def wait(process: subprocess.Popen[bytes], started: float) -> struct_rusage:
    """What the process used, with its children; one that hangs is killed."""
    while True:
        pid, status, used = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return used
        if time.monotonic() - started > LONGEST:
            process.kill()
        time.sleep(0.05)


def findings(folder: Path) -> list[str]:
    """What `gradscope inspect` finds in the traces of a folder, above a note.

    In each trace, and in those of several ranks together.
    """
    traces = [load(path) for path in sorted(folder.glob("trace*.json"))]
    together = [merged(traces)] if len(traces) > 1 else []
    return [
        f"{each.rule} {each.severity.name.lower()}: {each.message}"
        for trace in traces + together
        for each in inspect(trace).findings
        if each.severity > Severity.NOTE
    ]


def differences(program: Program, alone: Outcome, watched: Outcome) -> list[str]:
    lines: list[str] = []
    for (code, *texts), (other_code, *other_texts) in zip(alone.ended, watched.ended, strict=True):
        if code != other_code:
            lines.append(f"exit code {other_code}, alone {code}")
        for stream, text, other in zip(("stdout", "stderr"), texts, other_texts, strict=True):
            pair = text.splitlines(), other.splitlines()
            changed = difflib.unified_diff(*pair, "alone", "watched", lineterm="", n=0)
            lines += [f"{stream} {line}" for line in changed]
    lines += [f"said: {line}" for line in watched.said if "fault" in line]
    lines += [
        f"found: {each}" for each in watched.found if each.split()[0] not in program.true_findings
    ]
    return lines
