"""Helpers around parameters: clipping gradients, parameters as one vector."""

from __future__ import annotations

from typing import Any

from gradscope.runtime import missing
from gradscope.runtime.nn.utils import rnn as rnn
from gradscope.runtime.nn.utils.clip_grad import (
    clip_grad_norm as clip_grad_norm,
    clip_grad_norm_ as clip_grad_norm_,
    clip_grad_value_ as clip_grad_value_,
    clip_grads_with_norm_ as clip_grads_with_norm_,
    get_total_norm as get_total_norm,
)
from gradscope.runtime.nn.utils.convert_parameters import (
    parameters_to_vector as parameters_to_vector,
    vector_to_parameters as vector_to_parameters,
)


def __getattr__(name: str) -> Any:
    raise missing.no_module_attribute("torch.nn.utils", name, list(globals()))
