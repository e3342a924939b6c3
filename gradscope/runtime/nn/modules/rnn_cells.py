"""Cells: one step of a recurrent network as a module."""

from __future__ import annotations

import math
from typing import Any

from gradscope.runtime.core.rows.offered import FUNCTIONS
from gradscope.runtime.core.tensors.making.factories import empty, zeros
from gradscope.runtime.nn import init
from gradscope.runtime.nn.modules.module import Module
from gradscope.runtime.nn.parameter import Parameter


class RNNCellBase(Module):
    """Base of cells: weights of the input and of the state, and their biases."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = num_chunks * hidden_size
        shapes = {"weight_ih": (rows, input_size), "weight_hh": (rows, hidden_size)}
        for name, shape in shapes.items():
            setattr(self, name, Parameter(empty(shape, device=device, dtype=dtype)))
        for name in ("bias_ih", "bias_hh"):
            made = Parameter(empty(rows, device=device, dtype=dtype)) if bias else None
            self.register_parameter(name, made)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        nonlinearity = self.__dict__.get("nonlinearity", "tanh")
        return text if nonlinearity == "tanh" else f"{text}, nonlinearity={nonlinearity}"

    def _batched(self, input: Any) -> tuple[Any, bool]:
        if input.dim() not in (1, 2):
            raise ValueError(
                f"{self._get_name()}: Expected input to be 1D or 2D, got {input.dim()}D instead"
            )
        batched = input.dim() == 2
        return input if batched else input.unsqueeze(0), batched

    def _zeros(self, input: Any) -> Any:
        return zeros(input.size(0), self.hidden_size, dtype=input.dtype, device=input.device)

    def _check_state(self, name: str, state: Any) -> None:
        if state.dim() not in (1, 2):
            raise ValueError(
                f"{self._get_name()}: Expected {name} to be 1D or 2D, got {state.dim()}D instead"
            )

    def _weights(self) -> tuple[Any, ...]:
        return self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh


class _OneState(RNNCellBase):
    """Base of cells whose hidden state is one tensor."""

    _function = ""

    def forward(self, input: Any, hx: Any = None) -> Any:
        given, batched = self._batched(input)
        if hx is None:
            hx = self._zeros(given)
        else:
            self._check_state("hidden", hx)
            hx = hx if batched else hx.unsqueeze(0)
        made = FUNCTIONS[self._function](given, hx, *self._weights())
        return made if batched else made.squeeze(0)


class RNNCell(_OneState):
    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Any, hx: Any = None) -> Any:
        if self.nonlinearity not in {"tanh", "relu"}:
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        self._function = f"rnn_{self.nonlinearity}_cell"
        return super().forward(input, hx)


class GRUCell(_OneState):
    _function = "gru_cell"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)


class LSTMCell(RNNCellBase):
    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Any, hx: Any = None) -> Any:
        given, batched = self._batched(input)
        if hx is None:
            nothing = self._zeros(given)
            hx = nothing, nothing
        else:
            for i, state in enumerate(hx):
                self._check_state(f"hx[{i}]", state)
            hx = hx if batched else (hx[0].unsqueeze(0), hx[1].unsqueeze(0))
        made = FUNCTIONS["lstm_cell"](given, hx, *self._weights())
        return made if batched else (made[0].squeeze(0), made[1].squeeze(0))
