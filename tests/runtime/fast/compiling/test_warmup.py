"""What is compiled, when, where it is kept, and what a person sees of it."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gradscope.runtime.fast.compiling import warmup
from tests.shared.searching import SEARCHING

SWAP = """
import numpy as np
from gradscope.runtime.fast.arrays import fast_elementwise as fast
from gradscope.machine_code.cache_folder import cache_folder
order = np.arange(4)
fast.swap_forward(order, np.array([2, 1]))
stats = fast.swap_forward.stats
print(order.tolist(), sum(stats.cache_misses.values()), cache_folder())
"""


def swap(errors: int = subprocess.PIPE, **environment: str) -> tuple[str, str, str]:
    """What a run that needs one kernel says: its result, how much it compiled, and where to."""
    ours = {k: v for k, v in os.environ.items() if k not in {"NUMBA_CACHE_DIR", "XDG_CACHE_HOME"}}
    done = subprocess.run(
        [sys.executable, "-c", SWAP],
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        env={**ours, "PYTHONPATH": str(Path.cwd()), **environment},
        check=True,
    )
    assert not done.stderr
    result, _, rest = done.stdout.strip().partition("] ")
    compiled, _, folder = rest.partition(" ")
    return f"{result}]", compiled, folder


class Noted:
    """A kernel that is called and not compiled."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.py_func, self.__module__ = function, function.__module__
        self.signatures: list[tuple[Any, ...]] = []

    def __call__(self, *given: Any) -> None:
        self.signatures.append(given)


@pytest.mark.search
def test_every_kernel_of_a_file_is_called_by_its_warm_up() -> None:
    """`make search` compiles them all: that takes 40 seconds and 300 MB, in a process of its own.
    That they can be compiled is seen where they are compared with their twins.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        found = pool.submit(left_out, compiles=SEARCHING).result()

    assert len(found) > 10
    assert {name: kernels for name, kernels in found.items() if kernels} == {}


def left_out(*, compiles: bool) -> dict[str, list[str]]:
    """Of each file the kernels that are none to `warm_up`, or that its `warm` does not call."""
    from gradscope.runtime.fast.compiling import compiled

    if not compiles:
        compiled.njit = lambda **options: Noted
    return {name: left_out_of(warmup.family(name)) for name in warmup.families()}


def left_out_of(family: Any) -> list[str]:
    from gradscope.runtime.fast.compiling.compiled import INNER, KERNELS

    family.warm()
    kernels = [value for value in vars(family).values() if hasattr(value, "py_func")]
    here = [kernel for kernel in kernels if kernel.__module__ == family.__name__]
    assert here, f"{family.__name__} has no kernels"
    return [
        k.py_func.__name__
        for k in here
        if k not in KERNELS + INNER or not (k in INNER or k.signatures)
    ]


def test_what_is_compiled_is_kept_for_the_next_run(kept: Path) -> None:
    assert swap(NUMBA_CACHE_DIR=str(kept)) == ("[2, 1, 0, 3]", "0", str(kept))


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one compiled kernel in it."""
    folder = tmp_path_factory.mktemp("kept")
    swap(NUMBA_CACHE_DIR=str(folder))
    return folder


@pytest.mark.parametrize(
    ("kind", "spoil"), [("nbi", "garbage"), ("nbc", "empty"), ("nbc", "a bit")]
)
def test_a_spoilt_cache_is_written_anew(kind: str, spoil: str, tmp_path: Path, kept: Path) -> None:
    shutil.copytree(kept, tmp_path, dirs_exist_ok=True)
    files = list(tmp_path.rglob(f"*.{kind}"))
    assert files
    for file in files:
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes({"empty": b"", "garbage": b"nonsense", "a bit": bytes(content)}[spoil])

    assert swap(NUMBA_CACHE_DIR=str(tmp_path)) == ("[2, 1, 0, 3]", "1", str(tmp_path))


def test_kernels_are_kept_at_home(tmp_path: Path) -> None:
    _, _, folder = swap(HOME=str(tmp_path))

    assert folder == str(tmp_path / ".cache" / "gradscope")


def test_without_a_home_kernels_are_kept_among_temporary_files(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)

    assert swap(HOME="", TMPDIR=str(tmp_path))[2].startswith(f"{tmp_path}/gradscope-")
    assert swap(HOME=os.devnull, TMPDIR=str(tmp_path))[1] == "0"


def test_a_folder_that_others_can_write_to_is_not_trusted(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    home = tmp_path / "home"

    _, _, folder = swap(NUMBA_CACHE_DIR=str(shared), HOME=str(home))

    assert folder == str(home / ".cache" / "gradscope")


def test_a_link_of_another_to_a_folder_of_ours_is_not_followed(tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root can give a link away")
    ours, link = tmp_path / "ours", tmp_path / "link"
    ours.mkdir(mode=0o700)
    link.symlink_to(ours)

    assert swap(NUMBA_CACHE_DIR=str(link))[2] == str(link)
    os.lchown(link, 4242, -1)
    assert swap(NUMBA_CACHE_DIR=str(link), HOME=str(tmp_path))[2] == f"{tmp_path}/.cache/gradscope"


def test_a_terminal_sees_what_the_wait_is_for(tmp_path: Path) -> None:
    terminal, theirs = pty.openpty()

    swap(theirs, NUMBA_CACHE_DIR=str(tmp_path), TERM="xterm")
    os.close(theirs)

    assert "gradscope: compiling swap forward, this once" in os.read(terminal, 4096).decode()
    os.close(terminal)


def test_a_kernel_is_known_by_all_files_its_parts_are_in(tmp_path: Path) -> None:
    from gradscope.runtime.fast.compiling.compiled import source_stamp

    part, whole, written = (tmp_path / f"{name}.py" for name in ("part", "whole", "written"))
    part.write_text("def part(x):\n    return written(x) + 1\n")
    whole.write_text("def near(x):\n    return part(x)\ndef whole(x):\n    return near(x)\n")
    written.write_text("def written(typing, x):\n    return x\n")

    def stamp() -> str:
        scope: dict[str, object] = {}
        for file in (part, whole, written):
            exec(compile(file.read_text(), str(file), "exec"), scope)
        for name in ("part", "near"):
            scope[name] = SimpleNamespace(py_func=scope[name])
        scope["written"] = SimpleNamespace(_defn=scope["written"])  # what @intrinsic makes
        return source_stamp(scope["whole"])  # type: ignore[arg-type]

    before = stamp()
    assert stamp() == before
    part.write_text("def part(x):\n    return written(x) + 2\n")
    changed = stamp()
    assert changed != before
    written.write_text("def written(typing, x):\n    return typing\n")
    assert stamp() not in {before, changed}
