"""`torch.utils.tensorboard`: a writer that accepts every call and writes nothing.

A program can print the values. The trace of gradscope records what the engine did.
"""

from __future__ import annotations

from typing import Any, Self

from gradscope.runtime.core.errors import missing
from gradscope.runtime.core.state.warned import warn_once

__all__ = ["FileWriter", "SummaryWriter"]


class SummaryWriter:
    """Accepts scalars, images, histograms, …, and discards them."""

    def __init__(self, log_dir: Any = None, *args: Any, **kwargs: Any) -> None:
        self.log_dir = "runs" if not log_dir else str(log_dir)
        warn_once(
            "torch.utils.tensorboard: gradscope's runtime writes no event files; a "
            "SummaryWriter discards its values"
        )

    def get_logdir(self) -> str:
        return self.log_dir

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass


class FileWriter(SummaryWriter):
    """PyTorch's class that writes the files; discards everything here."""


def _take(self: Any, *args: Any, **kwargs: Any) -> None:
    """Do nothing."""


for _name in (
    "add_audio", "add_custom_scalars", "add_custom_scalars_marginchart",
    "add_custom_scalars_multilinechart", "add_embedding", "add_event", "add_figure", "add_graph",
    "add_hparams", "add_histogram", "add_histogram_raw", "add_image", "add_image_with_boxes",
    "add_images", "add_mesh", "add_onnx_graph", "add_pr_curve", "add_pr_curve_raw", "add_scalar",
    "add_scalars", "add_summary", "add_tensor", "add_text", "add_video", "close", "flush", "reopen",
):  # fmt: skip
    setattr(SummaryWriter, _name, _take)


def __getattr__(name: str) -> Any:
    raise missing.no_module_attribute("torch.utils.tensorboard", name, __all__)
