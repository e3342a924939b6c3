"""Runs a program alone and watched at each level, and says what differs."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from tests.watched.fuzz.programs import Program

HERE = Path(__file__).parent
SOURCES = str(HERE.parents[2])
LEVELS = ("graph", "engine", "values", "full")
SECONDS = 120
"""After so long a run is called hanging."""

ENDED_BY_US = {-2: 130}
"""A recording ends with the exit code of a shell where a signal would have killed the process."""


@dataclass(frozen=True)
class Run:
    """How one run ended."""

    code: int | str
    out: str
    err: str


@dataclass(frozen=True)
class Difference:
    """What is not as it was alone."""

    level: str
    what: str
    words: str


class Harness:
    """Runs programs in a folder: in forks of a server or, without one, in fresh processes."""

    def __init__(self, folder: Path, server: Server | None) -> None:
        folder.mkdir()
        self.folder = folder
        self._stream = None if server is None else server.connected()

    def differences(self, program: Program, levels: Sequence[str] = LEVELS) -> list[Difference]:
        """What each of these levels changes of this program."""
        (self.folder / "program.py").write_text(program.text(), encoding="utf-8")
        alone = self.run("alone")
        found = [each for level in levels for each in self.at(level, alone)]
        traced = [level for level in levels if (self.folder / f"{level}.json").exists()]
        found += self.broken(traced)
        again = self.run("alone") if found else alone
        for what in ("code", "out", "err"):
            pair = getattr(alone, what), getattr(again, what)
            if pair[0] != pair[1]:
                return [Difference("alone", "unsteady", difference(*pair))]
        return found

    def at(self, level: str, alone: Run) -> Iterator[Difference]:
        """What this level changes."""
        trace = self.folder / f"{level}.json"
        trace.unlink(missing_ok=True)
        watched = self.run("watched", level)
        for what in ("code", "out", "err"):
            pair = getattr(alone, what), getattr(watched, what)
            if pair[0] != pair[1]:
                yield Difference(level, what, difference(*pair))
        if not trace.exists() and watched.code != -9:
            yield Difference(level, "trace", "there is none")

    def broken(self, levels: Sequence[str]) -> Iterator[Difference]:
        """What is wrong with their traces."""
        checked = self.run("check", ",".join(levels))
        if checked.code:
            yield Difference(",".join(levels), "trace", checked.err[-1000:])
        for line in checked.out.splitlines():
            level, _, words = line.partition(": ")
            yield Difference(level, "trace", words)

    def run(self, what: str, level: str = "") -> Run:
        """One run, and its words without what differs between any two."""
        code = self._started(what, level) if self._stream is None else self._forked(what, level)
        code = ENDED_BY_US.get(code, code) if isinstance(code, int) else code
        out, err = (
            plain((self.folder / name).read_text(encoding="utf-8", errors="replace"))
            for name in ("out", "err")
        )
        return Run(code, out, err)

    def close(self) -> None:
        """Let its part of the server end."""
        if self._stream is not None:
            self._stream.close()

    def _forked(self, what: str, level: str) -> Any:
        asked = {
            "what": what, "folder": str(self.folder), "program": "program.py", "level": level,
            "out": "out", "err": "err", "seconds": SECONDS,
        }  # fmt: skip
        assert self._stream is not None
        self._stream.write(json.dumps(asked) + "\n")
        self._stream.flush()
        return json.loads(self._stream.readline())["code"]

    def _started(self, what: str, level: str) -> Any:
        traced = ("-m", "gradscope", "trace", "-q", "--on", "torch", "-o", f"{level}.json")
        command = {
            "alone": ("program.py",),
            "watched": (*traced, "--level", level, "program.py"),
            "check": (str(HERE / "server.py"), "check", level),
        }[what]
        with (self.folder / "out").open("w") as out, (self.folder / "err").open("w") as err:
            return subprocess.run(
                [sys.executable, *command], cwd=self.folder, stdout=out, stderr=err, check=False,
                stdin=subprocess.DEVNULL, timeout=SECONDS, env=environment(),
            ).returncode  # fmt: skip


class Server:
    """The process that forks; it has imported all that is slow to import."""

    def __init__(self, folder: Path) -> None:
        self._place = str(folder / "server")
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "server.py"), "listen", self._place], cwd=folder, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(),
        )  # fmt: skip
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "ready\n":
            raise ChildProcessError("the process that forks could not begin")

    def connected(self) -> TextIO:
        """A stream to a server of its own."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(self._place)
            return connection.makefile("rw")

    def stop(self) -> None:
        """Let it end."""
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()
        self._process.wait()


def environment() -> dict[str, str]:
    """Programs find gradscope in the checkout; PyTorch has one thread."""
    return {**os.environ, "PYTHONPATH": SOURCES, "OMP_NUM_THREADS": "1"}


def plain(text: str) -> str:
    """Without addresses, numbers of processes, and what gradscope says by itself."""
    text = re.sub(r"^gradscope: (?!.*please report).*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r' *File ".*/fuzz/server\.py".*\n(?: {4}.*\n)*', "", text)
    return re.sub(r"0x[0-9a-f]+|\b\d{9,}\b|(?<=repeated )\d+", "~", text)


def difference(alone: object, watched: object) -> str:
    """The first lines that differ."""
    if not isinstance(alone, str) or not isinstance(watched, str):
        return f"{alone} alone, {watched} watched"
    ours, theirs = alone.splitlines(), watched.splitlines()
    at = next((nr for nr, pair in enumerate(zip(ours, theirs, strict=False)) if pair[0] != pair[1]),
              min(len(ours), len(theirs)))  # fmt: skip
    return "\n".join(
        [f"line {at + 1}", "alone:", *ours[at : at + 4], "watched:", *theirs[at : at + 4]]
    )
