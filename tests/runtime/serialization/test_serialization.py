"""torch.save and torch.load: what one engine wrote, both read."""

from __future__ import annotations

import gzip
import importlib
import io
import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.both import leaf, raises, runtime
from tests.runtime.core.autograd.conftest import torch

__all__ = ["torch"]


def parts(torch: Any) -> Any:
    return importlib.import_module(f"{torch.__name__}.serialization")


def saved(torch: Any, value: Any, **options: Any) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(value, file, **options)
    file.seek(0)
    return file


def again(torch: Any, value: Any, **options: Any) -> Any:
    return torch.load(saved(torch, value), **options)


class Plain:
    """A class of a program."""

    def __init__(self, value: int = 3) -> None:
        self.value = value


# A round trip ------------------------------------------------------------------------------------


def test_tensors_come_back_as_they_were(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)
    base = torch.arange(12.0).view(3, 4)
    made = again(torch, {"x": x, "y": x * 2, "view": base[1:, ::2], "t": base.t()})

    assert (made["x"].tolist(), made["x"].requires_grad, made["x"].dtype) == (
        [1.0, 2.0],
        True,
        torch.float64,
    )
    assert (made["y"].is_leaf, made["y"].requires_grad) == (True, True)
    assert made["view"].tolist() == [[4.0, 6.0], [8.0, 10.0]]
    assert (made["view"].stride(), made["view"].storage_offset()) == ((4, 2), 4)
    assert made["t"].stride() == (1, 4)


def test_a_storage_is_saved_once_and_stays_shared(torch: Any) -> None:
    base = torch.zeros(100, 100)
    file = saved(torch, [base, base[0], base.t()])
    whole, row, turned = torch.load(file)
    whole[0, 1] = 5.0

    assert (row[1].item(), turned[1, 0].item()) == (5.0, 5.0)
    assert len(file.getvalue()) < 2 * 40_000


def test_training_goes_on_where_a_checkpoint_was_made(torch: Any, tmp_path: Path) -> None:
    def build() -> tuple[Any, Any]:
        torch.manual_seed(0)
        model = torch.nn.Sequential(
            torch.nn.Linear(4, 8), torch.nn.LayerNorm(8), torch.nn.Linear(8, 1)
        )
        return model, torch.optim.Adam(model.parameters(), lr=0.01)

    def step(model: Any, optimizer: Any) -> float:
        optimizer.zero_grad()
        loss = (model(torch.ones(3, 4) * torch.arange(3.0).unsqueeze(1)) ** 2).mean()
        loss.backward()
        optimizer.step()
        return float(loss.item())

    model, optimizer = build()
    step(model, optimizer)
    path = tmp_path / "model.pt"
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "at": 1}, path)
    expected = [step(model, optimizer) for _ in range(3)]

    other, others = build()
    found = torch.load(path)
    other.load_state_dict(found["model"])
    others.load_state_dict(found["optimizer"])
    assert found["at"] == 1
    assert type(found["model"]) is OrderedDict
    assert [step(other, others) for _ in range(3)] == expected


def test_plain_data_and_the_words_of_a_tensor(torch: Any) -> None:
    value = {
        "numbers": [1, 2.5, -3, 1 << 70, True, None, 1 + 2j],
        "text": ("a", "ü"),
        "bytes": bytearray(b"ab"),
        "set": {1, 2},
        "ordered": OrderedDict(b=1, a=2),
        "dtype": torch.bfloat16,
        "device": torch.device("cpu"),
        "size": torch.Size([2, 3]),
        "layout": torch.strided,
    }

    assert again(torch, value) == value


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_every_protocol_is_read_where_any_class_is_allowed(torch: Any, protocol: int) -> None:
    file = saved(torch, [leaf(torch, 1.0), Plain(4)], pickle_protocol=protocol)
    x, plain = torch.load(file, weights_only=False)

    assert (x.item(), plain.value) == (1.0, 4)


def test_paths_strings_open_files_and_compressed_ones(torch: Any, tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    torch.save(torch.ones(2), str(path))
    assert torch.load(path).tolist() == [1.0, 1.0]
    with path.open("wb") as file:
        torch.save(torch.zeros(2), file)
    with path.open("rb") as file:
        assert torch.load(file).tolist() == [0.0, 0.0]
    with gzip.open(tmp_path / "x.gz", "wb") as packed:
        torch.save(torch.ones(3), packed)
    with gzip.open(tmp_path / "x.gz", "rb") as packed:
        assert torch.load(packed).tolist() == [1.0] * 3


def test_parameters_and_attributes(torch: Any) -> None:
    p = torch.nn.Parameter(torch.ones(2))
    p.tag = "x"
    x = torch.ones(1)
    x.note = [1]
    made, plain = again(torch, [p, x])

    assert type(made) is torch.nn.Parameter
    assert (made.tag, made.requires_grad, plain.note) == ("x", True, [1])


@pytest.mark.parametrize("location", ["cpu", {"cpu": "cpu"}, lambda storage, location: None])
def test_a_location_may_be_mapped(torch: Any, location: Any) -> None:
    assert again(torch, torch.ones(2), map_location=location).tolist() == [1.0, 1.0]
    assert again(torch, torch.ones(2), map_location=torch.device("cpu")).tolist() == [1.0, 1.0]
    kept: list[str] = []

    def keep(storage: Any, location: str) -> Any:
        kept.append(location)
        return storage

    assert again(torch, torch.ones(2), map_location=keep).tolist() == [1.0, 1.0]
    assert kept == ["cpu"]


# What is refused ---------------------------------------------------------------------------------


def test_a_class_of_the_program_is_only_rebuilt_when_it_is_allowed(torch: Any) -> None:
    file = saved(torch, Plain())

    def load(**options: Any) -> Any:
        file.seek(0)
        return torch.load(file, **options)

    with pytest.raises(pickle.UnpicklingError) as caught:
        load()
    name = f"{Plain.__module__}.Plain"
    first, *_ = str(caught.value).splitlines()
    assert first == (
        "Weights only load failed. This file can still be loaded, to do so you have two options, "
        "\033[1mdo those steps only if you trust the source of the checkpoint\033[0m. "
    )
    assert (
        f"Unsupported global: GLOBAL {name} was not an allowed global by default. Please use "
        f"`torch.serialization.add_safe_globals([{name}])`"
    ) in str(caught.value)

    assert load(weights_only=False).value == 3
    with parts(torch).safe_globals([Plain]):
        assert load().value == 3
    with parts(torch).safe_globals([(Plain, name)]):
        assert load().value == 3
        assert (Plain, name) in parts(torch).get_safe_globals()
    assert (Plain, name) not in parts(torch).get_safe_globals()
    assert raises(pickle.UnpicklingError, load) == first

    before = parts(torch).get_safe_globals()
    parts(torch).add_safe_globals([Plain])
    assert load().value == 3
    parts(torch).clear_safe_globals()
    assert parts(torch).get_safe_globals() == []
    parts(torch).add_safe_globals(before)


def archive_of(pickled: bytes) -> io.BytesIO:
    """A file with this pickle and no storages."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", pickled)
        archive.writestr("archive/version", b"3\n")
        archive.writestr("archive/byteorder", b"little")
    file.seek(0)
    return file


@pytest.mark.parametrize(
    ("pickled", "text"),
    [
        (b"\x80\x02cposix\nsystem\nX\x04\x00\x00\x00true\x85R.", "posix is blocked"),
        (b"\x80\x02cbuiltins\neval\nX\x01\x00\x00\x001\x85R.", "GLOBAL eval was not an allowed"),
        (b"\x80\x02ctorch\nTensor\n}X\x01\x00\x00\x00aK\x01sb.", "Can only build Tensor, Param"),
        (b"\x80\x02X\x01\x00\x00\x00aQ.", "persistent_load"),
    ],
)
def test_a_file_that_would_do_something_else_is_refused(
    torch: Any, pickled: bytes, text: str
) -> None:
    with pytest.raises(pickle.UnpicklingError, match=text):
        torch.load(archive_of(pickled))


def test_files_that_are_none(torch: Any, tmp_path: Path) -> None:
    with pytest.raises(EOFError):
        torch.load(io.BytesIO(b""))
    assert raises(RuntimeError, lambda: torch.load(io.BytesIO(b"PK\x03\x04hello"))).startswith(
        "PytorchStreamReader failed reading zip archive: not a ZIP archive."
    )
    with pytest.raises(FileNotFoundError):
        torch.load(tmp_path / "nothing.pt")
    assert raises(AttributeError, lambda: torch.load(3)) == (
        "'int' object has no attribute 'seek'. You can only torch.load from a file that is "
        "seekable. Please pre-load the data into a buffer like io.BytesIO and try to load from it "
        "instead."
    )
    assert raises(AttributeError, lambda: torch.save(1, 3)) == (
        "expected 'f' to be string, path, or a file-like object with a 'write' attribute"
    )
    missing = tmp_path / "no" / "where.pt"
    text = raises(RuntimeError, lambda: torch.save(1, missing))
    assert text == f"Parent directory {missing.parent} does not exist."


def test_options_that_do_not_go_together(torch: Any) -> None:
    file = saved(torch, 1)
    assert raises(
        RuntimeError, lambda: torch.load(file, pickle_module=pickle, weights_only=True)
    ) == ("Can not safely load weights when explicit pickle_module is specified")
    assert raises(ValueError, lambda: torch.load(file, mmap=True)) == (
        "f must be a file path in order to use the mmap argument"
    )
    x = torch.ones(2)
    assert raises(RuntimeError, lambda: saved(torch, [x, x.view(torch.int32)])) == (
        "Cannot save multiple tensors or storages that view the same data as different types"
    )


def test_a_place_that_is_not_there(torch: Any) -> None:
    def said(location: Any) -> str:
        return raises(RuntimeError, lambda: again(torch, torch.ones(2), map_location=location))

    assert said("cuda:0") == (
        "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False. "
        "If you are running on a CPU-only machine, please use torch.load with "
        "map_location=torch.device('cpu') to map your storages to the CPU."
    )
    assert said({"cpu": "moon"}) == (
        "don't know how to restore data location of torch.storage.UntypedStorage (tagged with moon)"
    )


# Of this engine ----------------------------------------------------------------------------------


def test_the_same_object_gives_the_same_bytes() -> None:
    torch = runtime()
    value = {"w": torch.arange(5.0), "n": 1}

    assert saved(torch, value).getvalue() == saved(torch, value).getvalue()


def test_a_file_that_was_cut_off_is_no_archive() -> None:
    torch = runtime()
    whole = saved(torch, torch.ones(1000)).getvalue()
    for length in (10, len(whole) // 2, len(whole) - 30):
        assert raises(RuntimeError, lambda n=length: torch.load(io.BytesIO(whole[:n]))).startswith(
            "PytorchStreamReader failed reading zip archive: not a ZIP archive."
        )


def test_a_storage_of_another_size_than_the_file_says_is_found() -> None:
    torch = runtime()
    damaged = io.BytesIO()
    with (
        zipfile.ZipFile(saved(torch, torch.ones(4))) as read,
        zipfile.ZipFile(damaged, "w") as written,
    ):
        for name in read.namelist():
            content = read.read(name)
            written.writestr(name, content[:-4] if name.endswith("data/0") else content)
    damaged.seek(0)

    assert raises(RuntimeError, lambda: torch.load(damaged)).startswith(
        "storage 0 of this file has 12 bytes, not the 16 of 4 elements of torch.float32"
    )


def test_tensors_of_simulated_devices_go_back_to_theirs_or_elsewhere() -> None:
    torch = runtime()
    x = torch.ones(3, device="sim:0")
    assert str(again(torch, x).device) == "sim:0"
    assert str(again(torch, x, map_location="cpu").device) == "cpu"
    assert str(again(torch, torch.ones(3), map_location="sim:0").device) == "sim:0"


@pytest.mark.parametrize("pickled", [b"\x80\x02", b"\x80\x02R.", b"\x80\x02X\x01\x00\x00\x00\xff."])
def test_a_pickle_with_a_wrong_byte_is_said_to_be_damaged(pickled: bytes) -> None:
    with pytest.raises(pickle.UnpicklingError, match=r"its data.pkl is damaged \("):
        runtime().load(archive_of(pickled))
