"""Each engine error: its example raises it here and on PyTorch, and its lines are named."""

from __future__ import annotations

import linecache
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from gradscope.record.from_runtime.script.aliases import torch_is_gradscope
from gradscope.record.recorder import record
from gradscope.runtime.core.errors.declare import PAGE, EngineError
from gradscope.runtime.core.errors.topics import TOPICS, declared
from gradscope.trace.spec import check
from tests.runtime.answers.kept import as_pytorch_answered
from tests.runtime.both import runtime

HOUSE = Path(__file__).parents[5]
FILE = "example.py"
NAMED = "# named below"


def with_example() -> list[Any]:
    return [pytest.param(error, id=error.slug) for error in declared() if error.example]


@contextmanager
def source(text: str) -> Iterator[Any]:
    """The example compiled, with its lines where tracebacks look for them."""
    lines = text.splitlines(keepends=True)
    linecache.cache[FILE] = (len(text), None, lines, FILE)
    try:
        yield compile(text, FILE, "exec", dont_inherit=True)
    finally:
        del linecache.cache[FILE]


def raised_by(text: str, torch: Any) -> tuple[type[BaseException], str, list[str]]:
    """The type, the message and the notes of what an example raises, or warns of."""
    with source(text) as code, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        before = torch.is_warn_always_enabled()
        torch.set_warn_always(True)  # an earlier test may have had what comes once
        try:
            exec(code, {"torch": torch, "__name__": "example"})
        except Exception as error:
            return type(error), str(error), list(getattr(error, "__notes__", ()))
        finally:
            torch.set_warn_always(before)
            if torch is not runtime():  # PyTorch keeps which kind of global hook came first
                torch.nn.modules.module._global_is_full_backward_hook = None
    (warning,) = [w for w in warned if "Triggered" not in str(w.message) or len(warned) == 1]
    assert torch is not runtime() or warning.filename == FILE, "it points at the program"
    message, _, more = str(warning.message).partition("\n")
    return warning.category, message, [more]


def without_origin(message: str) -> str:
    """Without what PyTorch says of its own C++ source."""
    return re.sub(r" \(Triggered internally at .*\)$", "", message)


ON_PYTORCH = {error.slug: error for error in declared() if error.example and error.on_pytorch}


@as_pytorch_answered({"errors": ON_PYTORCH})
def test_its_example_raises_the_same_on_pytorch(torch: Any, error: EngineError) -> Any:
    with torch_is_gradscope() if torch is runtime() else nullcontext():
        kind, message, more = raised_by(error.example, torch)
    kept = [without_origin(each) for each in more] if issubclass(kind, Warning) else []
    return kind.__name__, without_origin(message), kept


@pytest.mark.parametrize("error", with_example())
def test_its_note_ends_in_the_remedy_and_the_page(error: EngineError) -> None:
    with torch_is_gradscope():
        kind, _, notes = raised_by(error.example, runtime())

    if issubclass(kind, Warning):
        assert PAGE not in notes[0], "unwatched, a warning is PyTorch's and no more"
    else:
        (note,) = notes
        assert note.splitlines()[-1] == f"{error.remedy} See {PAGE}#{error.slug}"


@pytest.mark.parametrize("error", with_example())
def test_recorded_it_names_the_lines_that_matter(error: EngineError) -> None:
    with record() as recording, torch_is_gradscope():
        _, _, (note,) = raised_by(error.example, runtime())
    lines = enumerate(error.example.splitlines(), start=1)
    wanted = {number for number, line in lines if line.endswith(NAMED)}

    named = {int(number) for number in re.findall(rf"{FILE}:(\d+)", note)}
    assert named == wanted
    assert check(recording.trace()) == []


@pytest.mark.parametrize("error", declared(), ids=lambda error: error.slug)
def test_it_has_a_page_with_what_it_means_and_what_to_do(error: EngineError) -> None:
    page = (HOUSE / PAGE).read_text(encoding="utf-8")
    _, _, section = page.partition(f"\n## {error.slug}\n")

    assert section
    assert error.meaning
    assert re.fullmatch(r"[A-Z`].*[.)]", error.remedy, re.DOTALL), "a sentence, or several"
    assert error.remedy in section.partition("\n## ")[0]


def test_every_module_of_errors_is_a_topic() -> None:
    room = HOUSE / "gradscope" / "runtime" / "core" / "errors" / "engine"
    written = {path.stem for path in room.glob("*.py")} - {"__init__"}

    assert written == {topic.__name__.rpartition(".")[2] for topic in TOPICS}
    assert all(
        name in sys.modules
        for name in (f"gradscope.runtime.core.errors.engine.{n}" for n in written)
    )


ENGINE = (
    "autograd/*.py",
    "autograd/functional/*.py",
    "core/autograd/**/*.py",
    "core/calls/long_way.py",
    "core/calls/extra_arguments/out.py",
    "core/tensors/placement.py",
    "core/graph/*.py",
    "core/tensors/memory/overlap.py",
    "core/tensors/saved/saved_variable.py",
    "core/tensors/tensor/tensor.py",
    "core/tensors/views/*.py",
    "nn/modules/module_parts/*hook*.py",
)
"""Where the engine raises: there RuntimeErrors are declared ones, which explain themselves."""

WITHOUT_A_PAGE = {
    "autograd/_functions.py",  # a function of old programs, which checks its own sizes
    "autograd/graph.py",  # what is about torch.compile and CUDA alone
    "core/autograd/custom/once_differentiable.py",  # what the message of a DelayedError says
    "core/autograd/engine/backward.py",  # rows of gradients for an edge
    "core/autograd/engine/current_task.py",  # what only PyTorch's own tests ask in a backward
    "nn/modules/module_parts/hooks.py",  # the hook of a module that has died
}


def test_the_engine_raises_only_errors_that_have_a_page() -> None:
    runtime_room = HOUSE / "gradscope" / "runtime"
    found = {pattern: set(runtime_room.glob(pattern)) for pattern in ENGINE}
    assert all(found.values()), "each pattern names files that are there"
    files = set.union(*found.values())
    bare = {
        path.relative_to(runtime_room).as_posix()
        for path in files
        if "raise RuntimeError(" in path.read_text(encoding="utf-8")
    }

    assert len(files) > 30
    assert bare <= WITHOUT_A_PAGE, (
        "declare it in core/errors/engine (see docs/developing/adding.md)"
    )
