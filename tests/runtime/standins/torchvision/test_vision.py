"""The stand-in for torchvision: its networks, transforms and data sets, in torchvision's words."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradscope.runtime as torch
from gradscope.runtime.standins.torchvision import datasets, models, transforms as T
from gradscope.runtime.utils.data import DataLoader

# What torchvision 0.29 has after torch.manual_seed(0), with num_classes=10.
FIRST = {
    "resnet18": {
        "conv1.weight": [0.002197, 0.035336, 0.016136],
        "layer2.0.downsample.0.weight": [-0.110101, 0.074139, -0.284802],
        "layer4.1.conv2.weight": [0.010853, -0.023178, -0.016243],
        "fc.weight": [-0.020315, 0.018678, 0.037556],
        "fc.bias": [0.025505, -0.004076, -0.02946],
    },
    "resnet50": {
        "layer1.0.conv3.weight": [-0.005334, -0.118203, -0.129304],
        "layer4.2.conv2.weight": [-0.017776, 0.0019, -0.005463],
        "fc.bias": [0.020908, 0.005387, 0.014565],
    },
}
ENTRIES = {"resnet18": 122, "resnet34": 218, "resnet50": 320}


@pytest.mark.parametrize("name", FIRST)
def test_the_same_seed_gives_torchvisions_first_weights(name: str) -> None:
    torch.manual_seed(0)
    state = getattr(models, name)(num_classes=10).state_dict()

    assert len(state) == ENTRIES[name]
    found = {key: [round(v, 6) for v in state[key].flatten()[:3].tolist()] for key in FIRST[name]}
    assert found == FIRST[name]


def test_a_network_learns() -> None:
    torch.manual_seed(0)
    model = models.resnet18(num_classes=2, zero_init_residual=True)
    x, labels = torch.randn(4, 3, 16, 16), torch.tensor([0, 1, 0, 1])
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    losses = []
    for _ in range(4):
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), labels)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())

    assert losses[-1] < losses[0]


@pytest.mark.parametrize("asked", [{"weights": "DEFAULT"}, {"pretrained": True}])
def test_weights_are_not_downloaded_and_that_is_said(asked: dict[str, Any]) -> None:
    with pytest.raises(RuntimeError, match="downloads nothing"):
        models.resnet18(**asked)


def test_what_is_not_there_is_named_with_the_nearest() -> None:
    with pytest.raises(AttributeError, match="nearest there is: resnet18"):
        _ = models.resnet_18


IMAGE = np.random.default_rng(0).integers(0, 256, (9, 12, 3)).astype(np.uint8)


def test_an_array_becomes_a_tensor_from_0_to_1() -> None:
    made = T.ToTensor()(IMAGE)

    np.testing.assert_allclose(made.numpy(), IMAGE.transpose(2, 0, 1) / 255, rtol=1e-6)
    assert T.ToTensor()(IMAGE[:, :, 0]).shape == (1, 9, 12)


def test_normalising_takes_each_channel_to_its_own_scale() -> None:
    x = torch.ones(3, 2, 2)

    made = T.Normalize((0.5, 1.0, 0.0), (0.5, 1.0, 2.0))(x)

    assert made[:, 0, 0].tolist() == [1.0, 0.0, 0.5]
    assert x[0, 0, 0] == 1


@pytest.mark.parametrize(
    ("step", "size"),
    [
        (T.Resize(6), (6, 8)),
        (T.Resize((5, 7)), (5, 7)),
        (T.Resize(8, max_size=9), (7, 9)),
        (T.CenterCrop(5), (5, 5)),
        (T.CenterCrop((10, 4)), (10, 4)),
        (T.RandomCrop(5), (5, 5)),
        (T.RandomCrop(9, padding=2), (9, 9)),
        (T.RandomCrop(20, pad_if_needed=True), (20, 20)),
        (T.Pad((1, 2)), (13, 14)),
        (T.Pad((1, 2, 3, 4), padding_mode="symmetric"), (15, 16)),
        (T.Pad(1, padding_mode="edge"), (11, 14)),
        (T.RandomHorizontalFlip(), (9, 12)),
        (T.RandomVerticalFlip(1.0), (9, 12)),
    ],
)
def test_arrays_and_tensors_are_transformed_alike(step: Any, size: tuple[int, int]) -> None:
    torch.manual_seed(3)
    array = step(IMAGE)
    torch.manual_seed(3)
    tensor = step(torch.from_numpy(IMAGE.transpose(2, 0, 1).copy()))

    assert (array.dtype, array.shape[:2]) == (np.uint8, size)
    np.testing.assert_array_equal(tensor.numpy().transpose(1, 2, 0), array)


def test_a_chain_is_written_as_torchvision_writes_it() -> None:
    chain = T.Compose([T.Resize(3), T.RandomCrop(2, 1), T.ToTensor(), T.Lambda(lambda x: x)])

    assert repr(chain) == (
        "Compose(\n    Resize(size=3, interpolation=bilinear, max_size=None, antialias=True)\n"
        "    RandomCrop(size=(2, 2), padding=1)\n    ToTensor()\n    Lambda()\n)"
    )


def idx(array: Any) -> bytes:
    sizes = b"".join(size.to_bytes(4) for size in array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + array.tobytes()


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("nested", [False, True])
def test_digits_are_read_from_files_that_are_there(
    tmp_path: Path, compressed: bool, nested: bool
) -> None:
    images = np.random.default_rng(0).integers(0, 256, (6, 28, 28)).astype(np.uint8)
    labels = np.arange(6, dtype=np.uint8)
    folder = tmp_path / "FashionMNIST" / "raw" if nested else tmp_path
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in (("images-idx3", images), ("labels-idx1", labels)):
        content = idx(array)
        ending = ".gz" if compressed else ""
        (folder / f"train-{name}-ubyte{ending}").write_bytes(
            gzip.compress(content) if compressed else content
        )
    chain = T.Compose([T.ToTensor(), T.Normalize((0.5,), (0.5,))])

    found = datasets.FashionMNIST(tmp_path, train=True, transform=chain, download=True)
    batch, targets = next(iter(DataLoader(found, batch_size=6)))

    expected = (images[:, None] / 255 - 0.5) / 0.5
    np.testing.assert_allclose(batch.numpy(), expected, rtol=1e-5, atol=1e-6)
    assert targets.tolist() == list(range(6))
    assert repr(found).startswith("Dataset FashionMNIST\n    Number of datapoints: 6\n")


def test_missing_digits_are_asked_for_by_name(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError) as said:
        datasets.MNIST(tmp_path, train=False, download=True)

    assert "t10k-images-idx3-ubyte.gz" in str(said.value)
    assert str(tmp_path / "MNIST" / "raw") in str(said.value)
