"""`import gradscope.runtime as torch`: what is there, and what is said of what is not."""

from __future__ import annotations

import subprocess
import sys
from array import array
from typing import Any

import numpy as np
import pytest

import gradscope.runtime as torch
from gradscope.runtime import nn
from gradscope.runtime.core.kernels.threads import blas_threads


def test_importing_it_brings_in_neither_numba_nor_pytorch() -> None:
    modules = "gradscope.runtime, gradscope.runtime.nn, gradscope.runtime.optim"
    code = f"import sys, {modules}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    found = set(done.stdout.split())
    assert {"numba", "torch", "llvmlite"}.isdisjoint(found)
    rare = {f"gradscope.runtime.{name}" for name in ("_lobpcg", "fft", "masked", "testing")}
    assert rare.isdisjoint(found)


def test_importing_it_loads_no_module_that_only_some_programs_need() -> None:
    code = (
        "import sys, numpy, ml_dtypes\n"
        "before = set(sys.modules)\n"
        "import gradscope.runtime\n"
        "print(*(sys.modules.keys() - before))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    rare = {"difflib", "numpy.random", "numpy.typing", "pathlib", "random", "secrets", "sysconfig"}
    rare |= {"asyncio", "logging", "mmap", "multiprocessing", "tempfile", "traceback"}
    rare |= {f"gradscope.runtime.{room}" for room in ("nn", "optim", "distributions", "utils")}
    rare.add("gradscope.runtime.core.errors.arguments.called_function")
    assert rare.isdisjoint(done.stdout.split())


def test_importing_it_makes_no_road_that_only_some_calls_take() -> None:
    code = (
        "import gradscope.runtime\n"
        "from gradscope.runtime.core.rows.operation import REGISTRY\n"
        "scopes = [row.road.__globals__.keys() for row in REGISTRY.values()]\n"
        "print(sum({'road_full', 'by_number'} & scope != set() for scope in scopes))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "0\n"


def test_it_says_which_pytorch_it_follows() -> None:
    assert torch.__version__ == "2.13.0+gradscope"


def test_no_class_of_tensors_or_nodes_answers_for_any_name() -> None:
    """Python looks up every attribute of such a class the slow way, seven times as slow."""
    node = (torch.ones(1, requires_grad=True) * 2).grad_fn

    for cls in (torch.Tensor, type(node), torch.nn.Parameter):
        assert not [c for c in cls.__mro__ if {"__getattr__", "__setattr__"} & vars(c).keys()][:-1]


def test_a_method_of_sparse_tensors_says_why_it_is_not_there() -> None:
    x = torch.ones(2)

    with pytest.raises(
        AttributeError, match=r"no attribute 'to_sparse'; gradscope's runtime has only dense"
    ):
        x.to_sparse()
    assert not hasattr(x, "coalesce")
    assert "coalesce" not in dir(x)


def test_what_is_missing_is_named_with_what_is_near() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'reshap' .* nearest there is: reshape"):
        torch.reshap  # noqa: B018 -- asking is the test


@pytest.mark.parametrize(
    "name",
    ["nn", "optim", "autograd", "cuda", "backends", "linalg", "special", "testing", "masked"],
)
def test_its_modules_are_there_without_being_imported(name: str) -> None:
    assert getattr(torch, name).__name__ == f"gradscope.runtime.{name}"


@pytest.mark.parametrize(
    ("module", "name"),
    [(nn, "torch.nn"), (nn.functional, "torch.nn.functional"), (torch.optim, "torch.optim")],
)
def test_its_modules_name_what_they_lack(module: object, name: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{name}' has no attribute 'Nonesuch'"):
        module.Nonesuch  # noqa: B018 -- asking is the test


def test_dtypes_go_by_all_their_names() -> None:
    pairs = {
        "float": torch.float32,
        "double": torch.float64,
        "half": torch.float16,
        "long": torch.int64,
        "int": torch.int32,
        "short": torch.int16,
        "cfloat": torch.complex64,
        "bool": torch.bool,
    }

    assert {name: getattr(torch, name) for name in pairs} == pairs


def test_the_legacy_types_make_and_recognise_tensors() -> None:
    made = torch.LongTensor([1, 2])

    assert made.dtype is torch.int64
    assert isinstance(made, torch.LongTensor)
    assert not isinstance(made, torch.FloatTensor)


@pytest.mark.parametrize(
    ("given", "values"),
    [
        (range(3), [0, 1, 2]),
        ([2**53 + 1], [2**53 + 1]),
        (np.arange(2.0), [0, 1]),
        (array("f", [1, 2]), [1, 2]),
        ((), []),
    ],
)
def test_the_legacy_types_take_any_sequence_in_their_own_precision(
    given: object, values: list[int]
) -> None:
    assert torch.LongTensor(given).tolist() == values
    assert torch.LongTensor([0]).new(given).tolist() == values


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (3.0, r"new\(\): data must be a sequence \(got float\)"),
        ({1, 2}, r"new\(\): data must be a sequence \(got set\)"),
        (np.float32(3), r"new\(\): data must be a sequence \(got numpy.float32\)"),
        ("ab", r"new\(\): invalid data type 'str'"),
    ],
)
def test_the_legacy_types_refuse_what_is_no_sequence(given: object, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        torch.Tensor(given)


def test_sizes_make_room_in_a_legacy_type() -> None:
    assert torch.LongTensor(2, 3).shape == (2, 3)
    assert torch.LongTensor(np.int64(2)).shape == (2,)
    assert torch.FloatTensor().shape == (0,)


def test_what_is_sparse_is_refused_with_a_way_out() -> None:
    for ask in (lambda: torch.sparse_coo_tensor, lambda: torch.ones(2).to_sparse):
        with pytest.raises(AttributeError, match="only dense tensors"):
            ask()


def test_a_tensor_changes_to_a_legacy_type_as_to_its_dtype() -> None:
    made = torch.ones(2)

    assert made.type(torch.LongTensor).dtype is torch.int64
    assert made.type(torch.FloatTensor) is made
    assert torch.ones(2, dtype=torch.int64).type(torch.Tensor).dtype is torch.float32
    assert torch.ones(2, dtype=torch.int64).type("torch.Tensor").dtype is torch.float32
    with pytest.raises(ValueError, match="invalid type: 'int'"):
        made.type(int)


def test_there_is_no_gpu() -> None:
    assert not torch.cuda.is_available()
    assert torch.cuda.device_count() == 0
    assert not torch.backends.mps.is_available()
    with pytest.raises(AssertionError, match="not compiled with CUDA"):
        torch.ones(1).cuda()


def test_products_run_in_as_many_threads_as_the_program_says() -> None:
    before = torch.get_num_threads()
    assert before == blas_threads()

    torch.set_num_threads(2 if before == 1 else 1)

    assert torch.get_num_threads() == blas_threads() != before
    torch.set_num_threads(before)


@pytest.mark.parametrize(("count", "words"), [(0, "a positive integer"), ("2", "an int")])
def test_a_threads_count_below_one_is_refused(count: Any, words: str) -> None:
    for tell in (torch.set_num_threads, torch.set_num_interop_threads):
        with pytest.raises(RuntimeError, match=f"expects {words}"):
            tell(count)


def test_two_operands_have_a_dtype_together() -> None:
    whole = torch.tensor([1])

    assert torch.result_type(whole, 1.5) is torch.float32
    assert torch.result_type(whole, torch.tensor(1.5, dtype=torch.float64)) is torch.float64
    assert torch.result_type(whole, 1) is torch.int64


def test_the_same_seed_gives_the_same_numbers() -> None:
    torch.manual_seed(7)
    first = torch.rand(3).tolist()
    state = torch.get_rng_state()
    second = torch.rand(3).tolist()
    torch.set_rng_state(state)

    assert torch.rand(3).tolist() == second
    torch.manual_seed(7)
    assert torch.rand(3).tolist() == first


def test_a_generator_of_its_own_does_not_move_the_default_one() -> None:
    torch.manual_seed(7)
    expected = torch.rand(1).item()
    torch.manual_seed(7)

    own = torch.rand(1, generator=torch.Generator().manual_seed(9)).item()

    assert torch.rand(1).item() == expected != own


def test_drawing_inside_a_fork_does_not_move_what_is_outside() -> None:
    torch.manual_seed(7)
    expected = torch.rand(2).tolist()
    torch.manual_seed(7)
    with pytest.raises(ZeroDivisionError), torch.random.fork_rng():
        torch.rand(5)
        1 / 0  # noqa: B018 -- the state comes back all the same

    assert torch.rand(2).tolist() == expected


def test_out_takes_the_result() -> None:
    kept = torch.zeros(0)

    assert torch.cat([torch.ones(1), torch.zeros(2)], out=kept) is kept
    assert kept.tolist() == [1, 0, 0]


def test_numbers_close_enough_are_close() -> None:
    torch.testing.assert_close(torch.ones(2), torch.ones(2) + 1e-7)
    torch.testing.assert_close([1.0, {"a": torch.ones(1)}], [1.0, {"a": torch.ones(1)}])


@pytest.mark.parametrize(
    ("actual", "expected", "words"),
    [
        (torch.ones(2), torch.tensor([1.0, 1.1]), "Mismatched elements: 1 / 2"),
        (torch.ones(2), torch.ones(3), "'shape' do not match"),
        (torch.ones(2), torch.ones(2).double(), "'dtype' do not match"),
        (torch.tensor(np.nan), torch.tensor(np.nan), "Expected nan but got nan"),
        ([1.0], [1.0, 2.0], "length of the sequences"),
        ({"a": 1}, {"b": 1}, "keys of the mappings"),
        (2.0, 2.1, "Scalars are not close"),
    ],
)
def test_what_is_not_close_is_said(actual: object, expected: object, words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        torch.testing.assert_close(actual, expected)


def test_nan_is_close_to_nan_when_asked_for() -> None:
    torch.testing.assert_close(torch.tensor(np.nan), torch.tensor(np.nan), equal_nan=True)
