"""MNIST, Fashion-MNIST and KMNIST, read from existing IDX files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gradscope.runtime.standins.torchvision.datasets.idx import FILES, read_mnist
from gradscope.runtime.standins.torchvision.transforms.images import picture_of
from gradscope.runtime.utils.data import Dataset


class VisionDataset(Dataset[Any]):
    """Samples in a folder, with their transforms."""

    def __init__(
        self,
        root: Any = None,
        transforms: Callable[..., Any] | None = None,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
    ) -> None:
        self.root: Any = None if root is None else os.path.expanduser(os.fspath(root))  # noqa: PTH111
        if transforms is not None and (transform is not None or target_transform is not None):
            raise ValueError(
                "Only transforms or transform/target_transform can be passed as argument"
            )
        self.transforms = transforms
        self.transform = transform
        self.target_transform = target_transform

    def _transformed(self, image: Any, target: Any) -> tuple[Any, Any]:
        if self.transforms is not None:
            image, target = self.transforms(image, target)
        if self.transform is not None:
            image = self.transform(image)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return image, target

    def extra_repr(self) -> str:
        return ""

    def __repr__(self) -> str:
        body = [f"Number of datapoints: {len(self)}"]  # type: ignore[arg-type]
        if self.root is not None:
            body.append(f"Root location: {self.root}")
        body += self.extra_repr().splitlines()
        if self.transform is not None:
            body += ["StandardTransform", f"Transform: {self.transform!r}"]
        return "\n".join([f"Dataset {type(self).__name__}", *(f"    {line}" for line in body)])


class MNIST(VisionDataset):
    """Handwritten digits of 28 × 28 grey values: Pillow images, or arrays without Pillow."""

    classes = [  # noqa: RUF012 -- as torchvision has it
        "0 - zero", "1 - one", "2 - two", "3 - three", "4 - four",
        "5 - five", "6 - six", "7 - seven", "8 - eight", "9 - nine",
    ]  # fmt: skip

    def __init__(
        self,
        root: Any,
        train: bool = True,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        download: bool = False,
    ) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.train = train
        self.data, self.targets = self._read()

    def _read(self) -> tuple[Any, Any]:
        folders = [self.raw_folder, self.root]
        for folder in folders:
            try:
                return read_mnist(folder, train=self.train)
            except FileNotFoundError:
                continue
        names = " and ".join(f"{name}.gz" for name in FILES[self.train])
        raise RuntimeError(
            f"{type(self).__name__} is not there, and gradscope's stand-in for torchvision "
            f"downloads nothing: put {names} (compressed or not) into {Path(folders[0])}"
        )

    @property
    def raw_folder(self) -> str:
        return str(Path(self.root) / type(self).__name__ / "raw")

    @property
    def class_to_idx(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.classes)}

    def __getitem__(self, index: Any) -> tuple[Any, Any]:
        return self._transformed(picture_of(self.data[index].numpy()), int(self.targets[index]))

    def __len__(self) -> int:
        return len(self.data)

    def extra_repr(self) -> str:
        return f"Split: {'Train' if self.train else 'Test'}"


class FashionMNIST(MNIST):
    """Images of clothing, in MNIST's format."""

    classes = [  # noqa: RUF012 -- as torchvision has it
        "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
        "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
    ]  # fmt: skip


class KMNIST(MNIST):
    """Handwritten Hiragana, in MNIST's format."""

    classes = ["o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo"]  # noqa: RUF012
