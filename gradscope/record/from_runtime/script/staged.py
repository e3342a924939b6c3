"""Prepares the process for a script that runs on the runtime."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

import gradscope.runtime  # noqa: F401  all of it: a trace begins with the operations there are
from gradscope.record.from_runtime.script.aliases import HOMES, explain_missing, torch_is_gradscope
from gradscope.record.from_runtime.script.fresh_runtime import fresh_state
from gradscope.record.notes.sites import PACKAGE
from gradscope.record.source import InScripts
from gradscope.runtime.core.autograd.engine import evaluators
from gradscope.runtime.core.state.frames import WRITTEN
from gradscope.runtime.core.state.signal_handlers import when_back

STARTED_BY_MPI = ("PMI_RANK", "OMPI_COMM_WORLD_RANK")


@contextmanager
def staged() -> Iterator[None]:
    """A context in which `import torch` returns the runtime, with all switches reset."""
    with fresh_state(), torch_is_gradscope():
        if any(name in os.environ for name in STARTED_BY_MPI):
            import_module("gradscope.runtime.distributed")  # sets RANK, which the script may read
        yield


ON_RUNTIME = InScripts(
    staged=staged,
    explain=explain_missing,
    lent=tuple(HOMES.values()),
    files=(os.path.join(PACKAGE, "runtime", ""), WRITTEN),  # noqa: PTH118
    when_back=when_back,
    nodes_run_in=(evaluators.FILES, ("run_arrays", "run_tensors")),
)
