"""Machine code is kept between runs, and is that of what is asked for."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradscope.machine_code import build, kept_code, llvm, loaded
from gradscope.machine_code.callables import ONE, Callables
from gradscope.machine_code.interpreter import as_int, from_int
from gradscope.machine_code.language import Address, load
from tests.shared.foreign_files import another_owns, becomes_a_link, others_can_write
from tests.shared.forked_starts import as_tests_start

_here = np.zeros(1, np.int64)
HERE = Address(_here.ctypes.data, "a_word_of_a_test")
BY = 3


def multiplied(self: int, given: int) -> int:
    return from_int(as_int(given) * BY + load(HERE) + load(as_int(self)))


class Owner:
    words = np.array([1000], np.int64)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(kept_code, "cache_folder", lambda: tmp_path)
    return tmp_path


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What was compiled, and not read."""
    found: list[Any] = []

    class Counted(build.MachineModule):
        def __init__(self, functions: Any) -> None:
            found.append(functions)
            super().__init__(functions)

    monkeypatch.setattr(build, "MachineModule", Counted)
    return found


def of(number: int) -> int:
    made: int = Callables({multiplied: ONE}).over(multiplied, Owner())(number)
    return made


def test_it_is_compiled_once_and_then_read(built: list[Any]) -> None:
    assert [of(7), of(8), of(9)] == [1021, 1024, 1027]
    assert len(built) == 1


def test_where_things_are_may_differ(built: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    of(7)
    elsewhere = np.array([50], np.int64)
    address = Address(elsewhere.ctypes.data, HERE.symbol)
    monkeypatch.setattr(f"{__name__}.HERE", address)

    assert of(7) == 1071
    assert len(built) == 1


def test_what_names_another_number_is_other_code(
    built: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    of(7)
    monkeypatch.setattr(f"{__name__}.BY", 5)

    assert of(7) == 1035
    assert len(built) == 2


def test_a_file_that_is_not_whole_is_made_again(built: list[Any], folder: Path) -> None:
    of(7)
    (path,) = folder.iterdir()
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])

    assert of(7) == 1021
    assert len(built) == 2
    assert len(path.read_bytes()) == len(whole)


@pytest.mark.skipif(os.name == "nt", reason="it has no such modes")
@pytest.mark.parametrize("spoil", [others_can_write, another_owns, becomes_a_link])
def test_a_file_that_another_could_write_is_not_loaded(
    spoil: Callable[[Path], None], built: list[Any], folder: Path
) -> None:
    of(7)
    (path,) = folder.iterdir()
    spoil(path)

    assert [of(7), of(8)] == [1021, 1024]
    assert len(built) == 2  # once more, and what is kept then is read
    assert path.lstat().st_mode == stat.S_IFREG | 0o600


def test_where_nothing_can_be_kept_it_is_compiled_each_time(
    built: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_code, "cache_folder", lambda: None)

    assert [of(7), of(8)] == [1021, 1024]
    assert len(built) == 2


def test_not_too_many_files_are_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_code, "MOST_KEPT", 2)
    for number in range(4):
        monkeypatch.setattr(f"{__name__}.BY", 100 + number)
        of(1)

    assert len(list(folder.iterdir())) == 2


def test_what_is_kept_is_loaded_without_llvm(folder: Path) -> None:
    """It takes 50 MB of the watched program's memory."""
    script = (
        "import sys; from gradscope.machine_code.statistics import elements; elements(); "
        "print('llvmlite' in sys.modules)"
    )
    environment = {**as_tests_start(os.environ), "NUMBA_CACHE_DIR": str(folder)}
    said = [
        subprocess.run(
            [sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE, check=True
        ).stdout
        for _ in range(2)
    ]

    assert said == [b"True\n", b"False\n"]


def test_llvm_loads_what_nobody_else_can(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_elf(*_: Any) -> None:
        raise loaded.NotLoadable("on purpose")

    monkeypatch.setattr(loaded, "_sections", no_elf)

    assert [of(7), of(8)] == [1021, 1024]


def test_a_file_that_names_what_is_not_there_is_not_loaded() -> None:
    code = llvm.compiled(
        "declare i64 @nowhere_at_all()\n"
        "define i64 @asks() {\n %x = call i64 @nowhere_at_all()\n ret i64 %x\n}\n",
        0,
    )

    with pytest.raises(loaded.NotLoadable, match="nowhere_at_all"):
        loaded.Loaded(code, {})
    answer = loaded.Loaded(code, {"nowhere_at_all": 1})
    assert answer.get_function_address("asks") > 0
