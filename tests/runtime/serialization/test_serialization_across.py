"""torch.save and torch.load from one engine to the other: each reads what the other wrote."""

from __future__ import annotations

import io
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.both import raises, runtime
from tests.runtime.serialization.test_serialization import saved


def everything(torch: Any) -> dict[str, Any]:
    """A tensor of each dtype, and one of each shape of things."""
    names = (
        "float16 bfloat16 float32 float64 complex64 complex128 bool uint8 int8 int16 int32 int64"
    )
    found = {name: torch.ones(2, 3).to(getattr(torch, name)) for name in names.split()}
    base = torch.arange(12.0).view(3, 4)
    parameter = torch.nn.Parameter(torch.ones(2), requires_grad=False)
    parameter.tag = "p"
    noted = torch.ones(1)
    noted.note = "n"
    return {
        **found,
        "uint16": torch.tensor([1, 60_000], dtype=torch.uint16),
        "view": base[1:, ::2],
        "turned": base.t(),
        "scalar": torch.tensor(3),
        "empty": torch.empty(0, 3),
        "leaf": torch.ones(2, requires_grad=True),
        "parameter": parameter,
        "noted": noted,
        "conj": torch.tensor([1 + 2j]).conj(),
        "state": torch.nn.Linear(2, 3).state_dict(),
        "dtype": torch.float16,
        "device": torch.device("cpu"),
        "size": torch.Size([1, 2]),
        "layout": torch.strided,
    }


@pytest.mark.torch
@pytest.mark.parametrize("ours", [True, False])
@pytest.mark.parametrize("weights_only", [True, False])
def test_each_engine_reads_what_the_other_wrote(
    tmp_path: Path, *, ours: bool, weights_only: bool
) -> None:
    import torch as real

    writer, reader = (runtime(), real) if ours else (real, runtime())
    path = tmp_path / "everything.pt"
    given = everything(writer)
    writer.save(given, path)
    found = reader.load(path, weights_only=weights_only)

    assert list(found) == list(given)
    for name, value in given.items():
        made = found[name]
        if name == "state":
            assert type(made) is OrderedDict
            assert {k: v.tolist() for k, v in made.items()} == {
                k: v.tolist() for k, v in value.items()
            }
            reader.nn.Linear(2, 3).load_state_dict(made)
        elif name in ("dtype", "device", "size", "layout"):
            assert repr(made) == repr(value)
        else:
            assert type(made).__name__ == type(value).__name__
            assert (made.tolist(), str(made.dtype), made.shape) == (
                value.tolist(),
                str(value.dtype),
                value.shape,
            )
            assert made.requires_grad == value.requires_grad
            assert made.stride() == value.stride()
            assert made.__dict__ == value.__dict__


@pytest.mark.torch
def test_what_this_engine_wrote_pytorch_may_map_into_memory(tmp_path: Path) -> None:
    import torch as real

    path = tmp_path / "x.pt"
    runtime().save(runtime().arange(10.0), path)

    assert real.load(path, mmap=True).tolist() == list(range(10))


@pytest.mark.torch
def test_files_of_pytorchs_older_format_are_refused_in_words() -> None:
    import torch as real

    file = saved(real, real.ones(2), _use_new_zipfile_serialization=False)

    assert raises(RuntimeError, lambda: runtime().load(file)).startswith(
        "this file is a pickle, as PyTorch wrote them before 1.6"
    )


@pytest.mark.torch
def test_numbers_in_another_order_of_bytes_are_turned_round() -> None:
    import torch as real

    for x in (real.arange(4.0), real.arange(4), real.tensor([1 + 2j, 3 - 1j])):
        swapped = io.BytesIO()
        with zipfile.ZipFile(saved(real, x)) as read, zipfile.ZipFile(swapped, "w") as written:
            for name in read.namelist():
                content = read.read(name)
                if name.endswith("data/0"):
                    size = x.element_size() // (2 if x.is_complex() else 1)
                    content = b"".join(
                        content[i : i + size][::-1] for i in range(0, len(content), size)
                    )
                written.writestr(name, b"big" if name.endswith("byteorder") else content)
        swapped.seek(0)
        assert runtime().load(swapped).tolist() == x.tolist()
