"""Public functions and methods by name, filled in by the tables."""

from __future__ import annotations

from typing import Any

FUNCTIONS: dict[str, Any] = {}
"""Functions of the runtime's top module, by name."""
NN_FUNCTIONS: dict[str, Any] = {}
"""Functions of `nn.functional`, by name."""
METHODS: dict[str, Any] = {}
"""Methods of tensors, by name."""

ONE_OBJECT = frozenset({
    "adaptive_avg_pool1d", "avg_pool1d", "bilinear", "celu_", "channel_shuffle", "conv1d", "conv2d",
    "conv3d", "conv_tbc", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
    "cosine_similarity", "hardshrink", "native_channel_shuffle", "pairwise_distance", "pdist",
    "pixel_shuffle", "pixel_unshuffle", "prelu", "relu_", "rrelu_", "selu_", "threshold_",
})  # fmt: skip
"""Functions that the top module and `nn.functional` share; other names are two objects."""


def function(made: Any) -> Any:
    """Add a composite function to the runtime's top module."""
    FUNCTIONS[made.__name__] = made
    return made


def method(made: Any) -> Any:
    """Add a composite function as a method of tensors."""
    METHODS[made.__name__] = made
    return made


def both(made: Any) -> Any:
    """Add a composite function as a function and as a method."""
    return function(method(made))


def nn_function(made: Any) -> Any:
    """Add a composite function to `nn.functional`."""
    NN_FUNCTIONS[made.__name__] = made
    return made


def offered(module: str) -> dict[str, Any]:
    """The functions of `torch.<module>` by name; those of the top module for ""."""
    names = {name: name.rpartition(".") for name in FUNCTIONS}
    return {short: FUNCTIONS[name] for name, (home, _, short) in names.items() if home == module}
