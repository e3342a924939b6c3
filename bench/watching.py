"""Real PyTorch, watched by gradscope and by others, against itself unwatched."""

from __future__ import annotations

import contextlib
import gc
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from bench.measure import report
from bench.models import Step
from bench.watched_models import FORWARDS, WATCHED

LIMITS = {
    "tiny MLP": {"graph": 1.3, "engine": 1.7, "values": 2.0},
    "LSTMCell of 32 steps": {"engine": 1.5},
    "ResNet-18 on 64×64, batch 8": {"engine": 1.03, "values": 1.12},
    "transformer, 6 layers of 256, T=128": {"engine": 1.03, "values": 1.12},
}
START_UP = 0.3
LEFT_OUT = 1.02
ROUND, FEWEST = 0.5, 6
"""Seconds that the steps of a round take unwatched, about; and so many steps it has at least: what
comes once in a recording is not a step's."""

Watch = Callable[[], AbstractContextManager[Callable[[], None]]]
"""Watches what runs inside; what it hands over is called after the last step of a round."""


def main() -> None:
    """Print what watching costs, by model and watcher, and what it costs to start."""
    for name in WATCHED:
        print(f"  {name}", flush=True)
        _told("model", name)
    _told("start")


def _told(*words: str) -> None:
    """In a process of its own: what one watcher leaves behind is not measured with another."""
    subprocess.run([sys.executable, "-m", __name__, *words], check=True)


# -- the watchers ---------------------------------------------------------------------------------


@contextmanager
def recorded(level: str, *, native: bool = True, **limits: Any) -> Iterator[Callable[[], None]]:
    """By gradscope, into a file; its notes are written out within the round."""
    from gradscope.record.from_pytorch.pytorch_engine import PyTorch
    from gradscope.record.recording import Options, Recording
    from gradscope.trace.writer import FileWriter

    with tempfile.TemporaryDirectory() as folder:
        writer = FileWriter(Path(folder) / "trace.json")
        with Recording(
            writer, Options(level=level, native=native, **limits), PyTorch()
        ) as recording:
            assert recording.session is not None
            yield recording.session.flush  # type: ignore[misc]


@contextmanager
def inside(context: Callable[[], Any]) -> Iterator[Callable[[], None]]:
    """By what is a context manager."""
    with context():
        yield _nothing


def _nothing() -> None:
    pass


OTHERS = {"DebugMode", "VizTracer"}
"""Who may not be there."""


def peers() -> dict[str, Watch]:
    """Others who can tell what a program on PyTorch does."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    def profiled(*, stacks: bool) -> Watch:
        cpu = [ProfilerActivity.CPU]
        return lambda: inside(lambda: profile(activities=cpu, with_stack=stacks))

    found: dict[str, Watch] = {
        "detect_anomaly": lambda: inside(torch.autograd.detect_anomaly),
        "torch.profiler": profiled(stacks=False),
        "torch.profiler, with_stack": profiled(stacks=True),
    }
    with contextlib.suppress(ImportError):
        from torch.utils._debug_mode import DebugMode

        found["DebugMode"] = lambda: inside(DebugMode)
    with contextlib.suppress(ImportError):
        from viztracer import VizTracer

        found["VizTracer"] = lambda: inside(lambda: VizTracer(verbose=0))
    return found


# -- one model ------------------------------------------------------------------------------------


def watched(name: str) -> None:
    """Print the ratios of one model, and whether all of gradscope's are below detect_anomaly's."""
    import torch

    torch.set_num_threads(1)
    step = WATCHED[name](torch)
    times = [_seconds(step, 1) for _ in range(5)]
    steps = max(FEWEST, int(ROUND / median(times)))
    ours: dict[str, Watch] = {
        level: lambda level=level: recorded(level)  # type: ignore[misc]
        for level in ("graph", "engine", "values")
    }
    ours["steps left out"] = lambda: recorded("engine", steps=(0, 0))
    ratios: dict[str, float] = {}
    others = peers()
    for who in sorted(OTHERS - others.keys()):
        print(f"    {who}: not installed here", flush=True)
    for who, watch in (ours | others).items():
        rounds = 11 if who in ours else 5
        ratios[who], more = _cost(step, watch, steps, rounds)
        limit = LEFT_OUT if who == "steps left out" else LIMITS.get(name, {}).get(who)
        said = f"  {who}, {1e6 * more:,.0f} µs more a step"
        if limit is None:
            print(f"  {said}: {ratios[who]:.2f} ×", flush=True)
        else:
            report(said, ratios[who], limit, "×")
    if name in FORWARDS:
        logged(name)
    dearest = max(ratios[who] for who in ours)
    report("  the dearest of ours, over detect_anomaly", dearest / ratios["detect_anomaly"], 1, "×")


def logged(name: str) -> None:
    """Print the ratio of torchlens, which takes a model apart and no step: of a forward pass."""
    import torch

    try:
        import torchlens
    except ImportError:
        print("    torchlens, a forward: not installed here", flush=True)
        return
    made, shape = FORWARDS[name]
    model, x = made(torch), torch.randn(*shape)
    torchlens.trace(model, x)
    found = []
    for _ in range(5):
        plain = _seconds(lambda: model(x), 20) / 20
        found.append(_seconds(lambda: torchlens.trace(model, x), 2) / 2 / plain)
    print(f"    torchlens, a forward: {median(found):.0f} ×", flush=True)


def _cost(step: Step, watch: Watch, steps: int, rounds: int) -> tuple[float, float]:
    """Medians over rounds: watched over unwatched, alternating, and seconds more a step."""
    ratios, more = [], []
    for _ in range(rounds):
        plain = _seconds(step, steps)
        with watch() as finish:
            _seconds(step, 3)
            seconds = _seconds(step, steps, finish)
        plain = (plain + _seconds(step, steps)) / 2
        ratios.append(seconds / plain)
        more.append((seconds - plain) / steps)
    return median(ratios), median(more)


def _seconds(step: Step, steps: int, finish: Callable[[], None] = _nothing) -> float:
    gc.collect()
    begin = perf_counter()
    for _ in range(steps):
        step()
    finish()
    return perf_counter() - begin


# -- starting up ----------------------------------------------------------------------------------

STARTS = {
    "plain": "import torch",
    "watched": "import torch, gradscope; gradscope.record(on='torch', level='engine').start()",
}


def started() -> None:
    """Print how much later a watched program has imported torch."""
    times: dict[str, list[float]] = {name: [] for name in STARTS}
    for _ in range(7):
        for name, code in STARTS.items():
            begin = perf_counter()
            subprocess.run([sys.executable, "-c", f"{code}; import os; os._exit(0)"], check=True)
            times[name].append(perf_counter() - begin)
    more = median(w - p for w, p in zip(times["watched"], times["plain"], strict=True))
    report("starting, over `import torch`", more, START_UP, "s")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    what, *given = sys.argv[1:]
    {"model": watched, "start": started}[what](*given)
