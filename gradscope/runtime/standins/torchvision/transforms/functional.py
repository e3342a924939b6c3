"""Transforms as functions: `torchvision.transforms.functional`."""

from __future__ import annotations

from enum import Enum
from typing import Any

import numpy as np

from gradscope.runtime.core.dtypes.dtypes import get_default_dtype
from gradscope.runtime.core.tensors.making.factories import as_tensor as tensor_of, from_numpy
from gradscope.runtime.core.tensors.tensor.tensor import Tensor
from gradscope.runtime.nn import functional as nn
from gradscope.runtime.standins.torchvision.transforms.images import (
    array_of,
    as_tensor,
    is_pil,
    pil_image,
    size_of,
)


class InterpolationMode(Enum):
    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    LANCZOS = "lanczos"


BY_NUMBER = {
    0: InterpolationMode.NEAREST,
    1: InterpolationMode.LANCZOS,
    2: InterpolationMode.BILINEAR,
    3: InterpolationMode.BICUBIC,
}
"""Pillow's numbers of interpolation modes."""
PIL_NUMBER = {mode.value: number for number, mode in BY_NUMBER.items()}


def get_image_size(img: Any) -> list[int]:
    height, width = size_of(img)
    return [width, height]


def to_tensor(pic: Any) -> Any:
    """Convert an image (H, W) or (H, W, C) to a tensor (C, H, W); bytes are scaled to [0, 1]."""
    if not (is_pil(pic) or isinstance(pic, np.ndarray)):
        raise TypeError(f"pic should be PIL Image or ndarray. Got {type(pic)}")
    array = array_of(pic) if is_pil(pic) else pic
    if array.ndim not in (2, 3):
        raise ValueError(f"pic should be 2/3 dimensional. Got {array.ndim} dimensions.")
    planes = array[None] if array.ndim == 2 else array.transpose(2, 0, 1)
    made: Any = from_numpy(np.ascontiguousarray(planes))
    return made.to(get_default_dtype()).div(255) if array.dtype == np.uint8 else made


def pil_to_tensor(pic: Any) -> Any:
    """The same without scaling."""
    if not is_pil(pic):
        raise TypeError(f"pic should be PIL Image. Got {type(pic)}")
    return as_tensor(pic)[0]


def to_pil_image(pic: Any, mode: str | None = None) -> Any:
    """Convert a tensor (C, H, W) or an array to a Pillow image."""
    if isinstance(pic, Tensor):
        tensor: Any = pic
        if tensor.is_floating_point() and mode != "F":
            tensor = tensor.mul(255).byte()
        pic = tensor.numpy().transpose(1, 2, 0) if tensor.dim() == 3 else tensor.numpy()
    made = pil_image(np.ascontiguousarray(pic))
    return made if mode is None or mode == made.mode else made.convert(mode)


def convert_image_dtype(image: Any, dtype: Any) -> Any:
    """Convert the dtype; 1.0 corresponds to the maximum of an integer dtype."""
    if image.dtype == dtype:
        return image
    if image.is_floating_point():
        if dtype.is_floating_point:
            return image.to(dtype)
        greatest = np.iinfo(dtype.numpy).max
        return image.mul(greatest + 1.0 - 1e-3).to(dtype)
    greatest = np.iinfo(image.dtype.numpy).max
    if dtype.is_floating_point:
        return image.to(dtype) / greatest
    other = np.iinfo(dtype.numpy).max
    if greatest > other:
        return (image // ((greatest + 1) // (other + 1))).to(dtype)
    return image.to(dtype) * ((other + 1) // (greatest + 1))


def normalize(tensor: Any, mean: Any, std: Any, inplace: bool = False) -> Any:
    """Subtract each channel's mean and divide by its deviation."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"img should be Tensor Image. Got {type(tensor)}")
    if not tensor.is_floating_point():
        raise TypeError(f"Input tensor should be a float tensor. Got {tensor.dtype}.")
    if tensor.dim() < 3:
        raise ValueError(
            "Expected tensor to be a tensor image of size (..., C, H, W). Got tensor.size() = "
            f"{tensor.size()}"
        )
    made: Any = tensor if inplace else tensor.clone()
    means, deviations = (tensor_of(v, dtype=made.dtype, device=made.device) for v in (mean, std))
    if (deviations == 0).any():
        raise ValueError(
            f"std evaluated to zero after conversion to {made.dtype}, leading to division by zero."
        )
    means, deviations = (v.view(-1, 1, 1) if v.ndim == 1 else v for v in (means, deviations))
    return made.sub_(means).div_(deviations)


def _sizes(size: Any, height: int, width: int, max_size: int | None) -> tuple[int, int]:
    """The requested size: both sides, or the shorter one."""
    sizes = [size] if isinstance(size, int) else list(size)
    if len(sizes) == 2:
        return int(sizes[0]), int(sizes[1])
    short, long = sorted((height, width))
    new_short, new_long = sizes[0], int(sizes[0] * long / short)
    if max_size is not None:
        if max_size <= sizes[0]:
            raise ValueError(
                f"max_size = {max_size} must be strictly greater than the requested size for the "
                f"smaller edge size = {sizes}"
            )
        if new_long > max_size:
            new_short, new_long = int(max_size * new_short / new_long), max_size
    return (new_long, new_short) if width <= height else (new_short, new_long)


def resize(
    img: Any,
    size: Any,
    interpolation: Any = InterpolationMode.BILINEAR,
    max_size: int | None = None,
    antialias: bool | None = True,
) -> Any:
    """Resize; one number is the size of the shorter side."""
    mode = (BY_NUMBER[interpolation] if isinstance(interpolation, int) else interpolation).value
    height, width = size_of(img)
    wanted = _sizes(size, height, width, max_size)
    if wanted == (height, width):
        return img
    if is_pil(img):
        return img.resize(wanted[::-1], PIL_NUMBER[mode])
    tensor, back = as_tensor(img)
    batch = tensor.reshape(-1, *tensor.shape[-3:]) if tensor.dim() > 2 else tensor[None, None]
    smooth = mode in {"bilinear", "bicubic", "lanczos"}
    soft = bool(antialias) or not isinstance(img, Tensor)
    options = {"align_corners": False, "antialias": soft} if smooth else {}
    made = _interpolated(batch, wanted, mode, options)
    return back(made.reshape(*tensor.shape[:-2], *wanted))


def _interpolated(batch: Any, size: tuple[int, int], mode: str, options: dict[str, bool]) -> Any:
    """Interpolate in floating point; integers are rounded again."""
    if batch.is_floating_point() or not options:
        return nn.interpolate(batch, size, mode=mode, **options)
    made = nn.interpolate(batch.float(), size, mode=mode, **options)
    if str(batch.dtype) == "torch.uint8":
        made = made.clamp(0, 255)
    return made.round().to(batch.dtype)


def crop(img: Any, top: int, left: int, height: int, width: int) -> Any:
    """Crop a part of the image; outside is zero."""
    rows, columns = size_of(img)
    before = [max(-left, 0), max(-top, 0)]
    behind = [max(left + width - columns, 0), max(top + height - rows, 0)]
    if any(before) or any(behind):
        img = pad(img, [*before, *behind])
        top, left = max(top, 0), max(left, 0)
    tensor, back = as_tensor(img)
    return back(tensor[..., top : top + height, left : left + width])


def center_crop(img: Any, output_size: Any) -> Any:
    """Crop the center."""
    sizes = [output_size] if isinstance(output_size, int) else list(output_size)
    height, width = sizes * (2 // len(sizes))
    rows, columns = size_of(img)
    if width > columns or height > rows:
        missing = (max(width - columns, 0), max(height - rows, 0))
        img = pad(img, [*(n // 2 for n in missing), *((n + 1) // 2 for n in missing)])
        rows, columns = size_of(img)
    return crop(img, round((rows - height) / 2.0), round((columns - width) / 2.0), height, width)


MODES = {"edge": "replicate", "reflect": "reflect"}


def pad(img: Any, padding: Any, fill: Any = 0, padding_mode: str = "constant") -> Any:
    """Pad by one width, two (sides, top and bottom), or four (left, top, right, bottom)."""
    given = [padding] if isinstance(padding, int) else list(padding)
    left, top, right, bottom = given * (4 // len(given))
    tensor, back = as_tensor(img)
    edges = [left, right, top, bottom]
    if padding_mode == "constant":
        value = fill[0] if isinstance(fill, tuple | list) else fill
        return back(nn.pad(tensor, edges, value=value))
    if padding_mode == "symmetric":
        places = [
            from_numpy(np.pad(np.arange(size), pair, "symmetric"))
            for size, pair in zip(tensor.shape[-2:], ((top, bottom), (left, right)), strict=True)
        ]
        return back(tensor[..., places[0][:, None], places[1]])
    flat = tensor.reshape(-1, *tensor.shape[-2:])
    made = nn.pad(flat.float(), edges, mode=MODES[padding_mode]).to(tensor.dtype)
    return back(made.reshape(*tensor.shape[:-2], *made.shape[-2:]))


def hflip(img: Any) -> Any:
    """Flip left and right."""
    tensor, back = as_tensor(img)
    return back(tensor.flip(-1))


def vflip(img: Any) -> Any:
    """Flip top and bottom."""
    tensor, back = as_tensor(img)
    return back(tensor.flip(-2))


def rgb_to_grayscale(img: Any, num_output_channels: int = 1) -> Any:
    """The brightness, from red, green and blue."""
    if is_pil(img):
        grey = array_of(img.convert("L"))
        return pil_image(np.dstack([grey] * 3) if num_output_channels == 3 else grey)
    tensor, back = as_tensor(img)
    if tensor.shape[-3] == 3:
        red, green, blue = (tensor.select(-3, i) for i in range(3))
        bright = 0.2989 * red + 0.587 * green + 0.114 * blue
        tensor = bright.to(tensor.dtype).unsqueeze(-3)
    if num_output_channels == 3:
        tensor = tensor.expand(*tensor.shape[:-3], 3, *tensor.shape[-2:]).clone()
    return back(tensor)


to_grayscale = rgb_to_grayscale
