"""512 ranks: the CPU time and memory of looking at their traces."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from bench.measure import report
from gradscope.analysis.ranks.facts import shared_rows
from gradscope.trace.assemble import assemble
from gradscope.trace.load_save import load, save
from gradscope.trace.ragged import Data, Integers, Ragged
from gradscope.trace.schema import Meta, Phase, ProcessGroup, Span, String, Thread
from gradscope.trace.table import Block
from gradscope.trace.trace import Trace

RANKS = 512
LIMIT = 3.0
"""Seconds of CPU time."""
LATE = 5_000_000
"""ns by which the last rank enters a collective after the first one."""

SCRIPT = """\
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DistributedDataParallel(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    loss = model(torch.randn(8, 4)).square().mean()
    loss.backward()
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    optimizer.step()
dist.destroy_process_group()
"""


def main() -> None:
    """Print what it costs to look at the traces of many ranks."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        one = recorded(home)
        if one is None:
            print("  not measured: it needs PyTorch with torch.distributed")
            return
        paths = [home / f"many.rank{rank}.json" for rank in range(RANKS)]
        for path, trace in zip(paths, ranks_like(one, RANKS), strict=True):
            save(trace, path)
        whole, page = str(home / "all.json"), str(home / "page.html")
        looks = ("inspect", "--fail-on", "never"), ("timeline",), ("view", "--no-open", "-o", page)
        each = [str(path) for path in paths]
        _measured(f"merge of {RANKS} files", ["merge", "-o", whole, *each])
        for look in looks:
            _measured(f"{look[0]} of {RANKS} files", [*look, *each])
            _measured(f"{look[0]} of the merged file", [*look, whole])


def _measured(what: str, command: Sequence[str]) -> None:
    """Run gradscope, and report its CPU time and the most memory that it had."""
    ran = subprocess.Popen(
        [sys.executable, "-m", "gradscope", *command], stdout=subprocess.DEVNULL
    )  # fmt: skip
    _, status, used = os.wait4(ran.pid, 0)
    ran.returncode = os.waitstatus_to_exitcode(status)
    report(what, used.ru_utime + used.ru_stime, LIMIT, "s")
    print(f"    at most {used.ru_maxrss / 1e3:.0f} MB, exit code {ran.returncode}")


def recorded(home: Path) -> Trace | None:
    """The trace of the second of two ranks that train a small model; None without PyTorch."""
    script = home / "train.py"
    script.write_text(SCRIPT)
    command = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m")
    done = subprocess.run(
        [sys.executable, *command, "gradscope", "trace", "-q", script.name],
        cwd=home, capture_output=True, timeout=300, check=False,
    )  # fmt: skip
    path = home / "trace.rank1.json"
    return load(path) if done.returncode == 0 and path.exists() else None


def ranks_like(one: Trace, many: int) -> Iterator[Trace]:
    """Traces of many ranks that do what this one did; each enters collectives at its own time."""
    chance = np.random.default_rng(0)
    strings = one.table(String)
    known = dict(zip(strings["text"].tolist(), strings["id"].tolist(), strict=True))
    for rank in range(many):
        facts = {**one.meta, "rank": rank, "world_size": many}
        blocks = [*shared_rows({"": 0, **known}, [], facts)]
        for name, table in one.tables.items():
            if name in {String.TABLE, Meta.TABLE} or not len(table):
                continue
            data = dict(table.data)
            if name == Thread.TABLE:
                data["rank"] = np.full(len(table), rank)
            if name == ProcessGroup.TABLE:
                data["members"] = Ragged.of([range(many)] * len(table))
            if name == Span.TABLE:
                data["begin"] = _later(table.data, chance)
            blocks.append(Block(name, len(table), data))
        yield Trace(assemble(blocks).tables, version=one.version)


def _later(spans: Mapping[str, Data], chance: np.random.Generator) -> Integers:
    exchanges = np.asarray(spans["phase"]) == Phase.COLLECTIVE
    begin, end = np.asarray(spans["begin"]), np.asarray(spans["end"])
    by = np.minimum(chance.integers(0, LATE, len(begin)), np.maximum(end - begin - 1, 0))
    return np.where(exchanges, begin + by, begin)
