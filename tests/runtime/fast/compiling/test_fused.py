"""Fused chains are kept beside other kernels: the next process compiles nothing."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradscope.runtime.fast.compiling import compiled, fused
from tests.shared.foreign_files import another_owns, becomes_a_link, others_can_write

LINES = ("y0 = x0 * x1", "y1 = y0 + f(0.25)")
CHAIN = (LINES, 2, ("y1",), "<f4", 2)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Kernels are kept there, and nowhere else."""
    for module in (compiled, fused):
        monkeypatch.setattr(module, "cache_folder", lambda: tmp_path)
    return tmp_path


def made_anew() -> Any:
    """The kernel as a process has it that has not made it before."""
    kernel = fused.fused_kernel.__wrapped__(*CHAIN)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    out = np.empty_like(x)
    kernel(x, x, out)
    np.testing.assert_array_equal(out, x * x + np.float32(0.25))
    return kernel


def compilations(kernel: Any) -> tuple[int, int]:
    """How often it was compiled, and how often read."""
    stats = kernel.stats
    return sum(stats.cache_misses.values()), sum(stats.cache_hits.values())


def test_what_was_compiled_once_is_read_afterwards(folder: Path) -> None:
    assert compilations(made_anew()) == (1, 0)
    assert compilations(made_anew()) == (0, 1)

    assert [compilations(kernel) for kernel in fused.kept_kernels()] == [(0, 1)]


def test_a_text_that_is_not_as_it_was_written_is_not_run(folder: Path) -> None:
    made_anew()
    (file,) = (folder / "fused").glob("*.py")
    file.write_text(file.read_text("utf-8") + "1 / 0\n", "utf-8")

    assert list(fused.kept_kernels()) == []
    assert compilations(made_anew())[0] <= 1  # and it is written anew
    assert len(list(fused.kept_kernels())) == 1


@pytest.mark.skipif(os.name == "nt", reason="it has no such modes")
@pytest.mark.parametrize("spoil", [others_can_write, another_owns, becomes_a_link])
@pytest.mark.parametrize("kind", ["nbi", "nbc", "py"])
def test_a_file_that_another_could_write_is_made_anew(
    kind: str, spoil: Callable[[Path], None], folder: Path
) -> None:
    umask = os.umask(0)
    try:
        made_anew()
        (file,) = folder.rglob(f"*.{kind}")
        spoil(file)

        assert len(list(fused.kept_kernels())) == (kind != "py")
        assert compilations(made_anew()) == (0, 1)
    finally:
        os.umask(umask)

    assert {each.lstat().st_mode for each in folder.rglob("*.*")} == {stat.S_IFREG | 0o600}


def test_without_a_folder_each_process_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (compiled, fused):
        monkeypatch.setattr(module, "cache_folder", lambda: None)

    made_anew()

    assert list(fused.kept_kernels()) == []
