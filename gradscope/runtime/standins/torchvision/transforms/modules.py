"""Transforms as objects, which can be composed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradscope.runtime.core.rows.offered import FUNCTIONS
from gradscope.runtime.nn.modules.module import Module
from gradscope.runtime.standins.torchvision.transforms import functional
from gradscope.runtime.standins.torchvision.transforms.functional import InterpolationMode
from gradscope.runtime.standins.torchvision.transforms.images import size_of

Step = Callable[[Any], Any]


def _drawn() -> float:
    """A number below one from the script's generator."""
    return float(FUNCTIONS["rand"](1).item())


def _drawn_below(high: int) -> int:
    return int(FUNCTIONS["randint"](0, high, size=(1,)).item())


def _pair(size: Any) -> tuple[int, int]:
    if isinstance(size, int):
        return size, size
    if len(size) == 1:
        return size[0], size[0]
    if len(size) != 2:
        raise ValueError("Please provide only two dimensions (h, w) for size.")
    return tuple(size)


class Compose:
    """Several transforms in order."""

    def __init__(self, transforms: Sequence[Step]) -> None:
        self.transforms = transforms

    def __call__(self, img: Any) -> Any:
        for step in self.transforms:
            img = step(img)
        return img

    def __repr__(self) -> str:
        lines = [f"    {step}" for step in self.transforms]
        return "\n".join([f"{type(self).__name__}(", *lines, ")"])


class ToTensor:
    def __call__(self, pic: Any) -> Any:
        return functional.to_tensor(pic)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class PILToTensor:
    def __call__(self, pic: Any) -> Any:
        return functional.pil_to_tensor(pic)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class ToPILImage:
    def __init__(self, mode: str | None = None) -> None:
        self.mode = mode

    def __call__(self, pic: Any) -> Any:
        return functional.to_pil_image(pic, self.mode)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'' if self.mode is None else f'mode={self.mode}'})"


class Lambda:
    """A user's function as a transform."""

    def __init__(self, lambd: Step) -> None:
        if not callable(lambd):
            raise TypeError(f"Argument lambd should be callable, got {type(lambd).__name__!r}")
        self.lambd = lambd

    def __call__(self, img: Any) -> Any:
        return self.lambd(img)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _Transform(Module):
    """Base of transforms whose repr shows options in brackets."""

    shown: tuple[str, ...] = ()

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={getattr(self, name)}" for name in self.shown)
        return f"{type(self).__name__}({options})"


class ConvertImageDtype(Module):
    def __init__(self, dtype: Any) -> None:
        super().__init__()
        self.dtype = dtype

    def forward(self, image: Any) -> Any:
        return functional.convert_image_dtype(image, self.dtype)


class Normalize(_Transform):
    shown = ("mean", "std")

    def __init__(self, mean: Any, std: Any, inplace: bool = False) -> None:
        super().__init__()
        self.mean = mean
        self.std = std
        self.inplace = inplace

    def forward(self, tensor: Any) -> Any:
        return functional.normalize(tensor, self.mean, self.std, self.inplace)


class Resize(_Transform):
    def __init__(
        self,
        size: Any,
        interpolation: Any = InterpolationMode.BILINEAR,
        max_size: int | None = None,
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        if not isinstance(size, int | Sequence):
            raise TypeError(f"Size should be int or sequence. Got {type(size)}")
        if isinstance(size, Sequence) and len(size) not in (1, 2):
            raise ValueError("If size is a sequence, it should have 1 or 2 values")
        self.size = size
        self.max_size = max_size
        by_number = isinstance(interpolation, int)
        self.interpolation = functional.BY_NUMBER[interpolation] if by_number else interpolation
        self.antialias = antialias

    def forward(self, img: Any) -> Any:
        return functional.resize(img, self.size, self.interpolation, self.max_size, self.antialias)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(size={self.size}, interpolation={self.interpolation.value}, "
            f"max_size={self.max_size}, antialias={self.antialias})"
        )


class CenterCrop(_Transform):
    shown = ("size",)

    def __init__(self, size: Any) -> None:
        super().__init__()
        self.size = _pair(size)

    def forward(self, img: Any) -> Any:
        return functional.center_crop(img, self.size)


class Pad(_Transform):
    shown = ("padding", "fill", "padding_mode")

    def __init__(self, padding: Any, fill: Any = 0, padding_mode: str = "constant") -> None:
        super().__init__()
        if padding_mode not in {"constant", "edge", "reflect", "symmetric"}:
            raise ValueError("Padding mode should be either constant, edge, reflect or symmetric")
        if isinstance(padding, Sequence) and len(padding) not in (1, 2, 4):
            raise ValueError(
                "Padding must be an int or a 1, 2, or 4 element tuple, not a "
                f"{len(padding)} element tuple"
            )
        self.padding = padding
        self.fill = fill
        self.padding_mode = padding_mode

    def forward(self, img: Any) -> Any:
        return functional.pad(img, self.padding, self.fill, self.padding_mode)


class RandomCrop(_Transform):
    """A random crop of this size."""

    shown = ("size", "padding")

    def __init__(
        self,
        size: Any,
        padding: Any = None,
        pad_if_needed: bool = False,
        fill: Any = 0,
        padding_mode: str = "constant",
    ) -> None:
        super().__init__()
        self.size = _pair(size)
        self.padding = padding
        self.pad_if_needed = pad_if_needed
        self.fill = fill
        self.padding_mode = padding_mode

    @staticmethod
    def get_params(img: Any, output_size: tuple[int, int]) -> tuple[int, int, int, int]:
        rows, columns = size_of(img)
        height, width = output_size
        if rows < height or columns < width:
            raise ValueError(
                f"Required crop size {(height, width)} is larger than input image size "
                f"{(rows, columns)}"
            )
        if (rows, columns) == (height, width):
            return 0, 0, rows, columns
        return _drawn_below(rows - height + 1), _drawn_below(columns - width + 1), height, width

    def forward(self, img: Any) -> Any:
        if self.padding is not None:
            img = functional.pad(img, self.padding, self.fill, self.padding_mode)
        if self.pad_if_needed:
            for place, side in ((1, 0), (0, 1)):
                missing = self.size[place] - size_of(img)[place]
                if missing > 0:
                    edges = [missing, 0] if side == 0 else [0, missing]
                    img = functional.pad(img, edges, self.fill, self.padding_mode)
        return functional.crop(img, *self.get_params(img, self.size))


class RandomHorizontalFlip(_Transform):
    shown = ("p",)

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = p

    def forward(self, img: Any) -> Any:
        return functional.hflip(img) if _drawn() < self.p else img


class RandomVerticalFlip(_Transform):
    shown = ("p",)

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = p

    def forward(self, img: Any) -> Any:
        return functional.vflip(img) if _drawn() < self.p else img


class RandomApply(Module):
    """Apply all of these transforms, or none, at random."""

    def __init__(self, transforms: Sequence[Step], p: float = 0.5) -> None:
        super().__init__()
        self.transforms = transforms
        self.p = p

    def forward(self, img: Any) -> Any:
        if self.p < _drawn():
            return img
        for step in self.transforms:
            img = step(img)
        return img


class Grayscale(_Transform):
    shown = ("num_output_channels",)

    def __init__(self, num_output_channels: int = 1) -> None:
        super().__init__()
        self.num_output_channels = num_output_channels

    def forward(self, img: Any) -> Any:
        return functional.rgb_to_grayscale(img, self.num_output_channels)
