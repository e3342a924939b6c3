"""`gradscope export`: rows a second, and bytes a row, of the trace of a training."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from time import process_time

from bench.measure import report
from gradscope.fleet.export import exporter
from gradscope.fleet.export.exporter import Exporter, ExportOptions
from gradscope.trace.load_save import load

TARGET = 1.0
"""Seconds of CPU time for a million rows, of a trace that is loaded."""
BYTES = 9.0
"""Of a row in the Parquet files."""
TIMES = 5
STEPS = 100

SCRIPT = """\
import sys
import torch
from torch import nn

torch.manual_seed(0)
layers = [each for _ in range(12) for each in (nn.Linear(32, 32), nn.LayerNorm(32), nn.Tanh())]
model = nn.Sequential(*layers, nn.Linear(32, 8))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(int(sys.argv[1])):
    optimizer.zero_grad()
    loss = model(torch.randn(16, 32)).square().mean()
    loss.backward()
    optimizer.step()
"""


def main() -> None:
    """Print what it costs to export a trace, apart from loading it, and with findings."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        trace = recorded(home)
        begin = process_time()
        loaded = load(trace)
        loading = process_time() - begin
        exporter.load = lambda _: loaded
        rows, size, best = 0, 0, float("inf")
        for number in range(TIMES):
            loaded._made.clear()
            begin = process_time()
            options = ExportOptions(findings=False)
            added = Exporter(home / f"fleet{number}", "bench", options).add(trace)
            best = min(best, process_time() - begin)
            rows, size = added.rows, added.bytes
        print(f"  {rows:,} rows in the fleet, loaded in {loading:.2f} s of CPU time")
        report("export of a million rows, without loading", best / rows * 1e6, TARGET, "s")
        report("size of a row", size / rows, BYTES, "bytes")
        begin = process_time()
        loaded._made.clear()
        Exporter(home / "with", "bench", ExportOptions()).add(trace)
        print(f"  with findings: {process_time() - begin:.2f} s instead of {best:.2f} s")


def recorded(home: Path) -> Path:
    """The trace of a training at level `values`."""
    script = home / "train.py"
    script.write_text(SCRIPT)
    command = ("-m", "gradscope", "trace", "-q", "--level", "values", script.name, str(STEPS))
    subprocess.run([sys.executable, *command], cwd=home, check=True, timeout=600)
    return home / "trace.json"
