"""Recurrent networks over sequences: RNN, LSTM and GRU."""

from __future__ import annotations

import math
import numbers
import warnings
from typing import Any

from gradscope.runtime.core.rows.offered import FUNCTIONS
from gradscope.runtime.core.tensors.making.factories import empty, zeros
from gradscope.runtime.nn import init
from gradscope.runtime.nn.modules.module import Module
from gradscope.runtime.nn.parameter import Parameter
from gradscope.runtime.nn.utils.rnn import PackedSequence

GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


class RNNBase(Module):
    """Base of recurrent networks: weights by layer and direction, and checks."""

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._check_options(dropout)
        self._flat_weights_names: list[str] = []
        self._all_weights: list[list[str]] = []
        for layer in range(num_layers):
            for direction in range(self._directions):
                self._add_weights(layer, direction, device, dtype)
        self.flatten_parameters()
        self.reset_parameters()

    def _check_options(self, dropout: Any) -> None:
        number = isinstance(dropout, numbers.Number) and not isinstance(dropout, bool)
        if not number or not 0 <= dropout <= 1:
            raise ValueError(
                "dropout should be a number in range [0, 1] representing the probability of an "
                "element being zeroed"
            )
        if dropout > 0 and self.num_layers == 1:
            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero "
                f"dropout expects num_layers greater than 1, but got dropout={dropout} and "
                f"num_layers={self.num_layers}",
                stacklevel=4,
            )
        for name in ("bias", "batch_first"):
            _check_type(name, getattr(self, name), bool)
        for name in ("input_size", "hidden_size"):
            size = getattr(self, name)
            _check_type(name, size, int)
            if size <= 0:
                raise ValueError(f"{name} must be greater than zero")
        if self.num_layers <= 0:
            raise ValueError("num_layers must be greater than zero")
        if self.proj_size < 0:
            raise ValueError(
                "proj_size should be a positive integer or zero to disable projections"
            )
        if self.proj_size >= self.hidden_size:
            raise ValueError("proj_size has to be smaller than hidden_size")
        if self.mode not in GATES:
            raise ValueError("Unrecognized RNN mode: " + self.mode)

    @property
    def _directions(self) -> int:
        return 2 if self.bidirectional else 1

    @property
    def _state_size(self) -> int:
        return self.proj_size or self.hidden_size

    def _add_weights(self, layer: int, direction: int, device: Any, dtype: Any) -> None:
        rows = GATES[self.mode] * self.hidden_size
        columns = self._state_size * self._directions if layer else self.input_size
        shapes: list[tuple[str, tuple[int, ...]]] = [
            ("weight_ih", (rows, columns)),
            ("weight_hh", (rows, self._state_size)),
        ]
        if self.bias:
            shapes += [("bias_ih", (rows,)), ("bias_hh", (rows,))]
        if self.proj_size:
            shapes += [("weight_hr", (self.proj_size, self.hidden_size))]
        names = []
        for kind, shape in shapes:
            names.append(f"{kind}_l{layer}{'_reverse' if direction else ''}")
            setattr(self, names[-1], Parameter(empty(shape, device=device, dtype=dtype)))
        self._flat_weights_names += names
        self._all_weights.append(names)

    @property
    def _flat_weights(self) -> list[Any]:
        """All weights in order, as they are now: a parametrization may have replaced some."""
        return [getattr(self, name, None) for name in self._flat_weights_names]

    @property
    def all_weights(self) -> list[list[Any]]:
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def flatten_parameters(self) -> None:
        """Do nothing: on the CPU weights need not be contiguous in memory."""

    def reset_parameters(self) -> None:
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    # -- what is checked of a call --------------------------------------------------------------

    def check_input(self, input: Any, batch_sizes: Any) -> None:
        weight = getattr(self, self._flat_weights_names[0])
        if input.dtype != weight.dtype:
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({weight.dtype}). "
                f"Convert input: input.to({weight.dtype}), or convert model: "
                f"model.to({input.dtype})"
            )
        dims = 3 if batch_sizes is None else 2
        if input.dim() != dims:
            raise RuntimeError(f"input must have {dims} dimensions, got {input.dim()}")
        if self.input_size != input.size(-1):
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got "
                f"{input.size(-1)}"
            )

    def _batch(self, input: Any, batch_sizes: Any) -> int:
        if batch_sizes is not None:
            return int(batch_sizes[0])
        return int(input.size(0 if self.batch_first else 1))

    def get_expected_hidden_size(self, input: Any, batch_sizes: Any) -> tuple[int, int, int]:
        count = self.num_layers * self._directions
        return count, self._batch(input, batch_sizes), self._state_size

    def check_hidden_size(
        self,
        hx: Any,
        expected_hidden_size: tuple[int, int, int],
        msg: str = "Expected hidden size {}, got {}",
    ) -> None:
        if hx.size() != expected_hidden_size:
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.size())))

    def check_forward_args(self, input: Any, hidden: Any, batch_sizes: Any) -> None:
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx: Any, permutation: Any) -> Any:
        return hx if permutation is None else hx.index_select(1, permutation)

    # -- a call ---------------------------------------------------------------------------------

    def _zeros(self, input: Any, batch_sizes: Any) -> Any:
        shape = self.get_expected_hidden_size(input, batch_sizes)
        return zeros(shape, dtype=input.dtype, device=input.device)

    def _in_batch(self, hx: Any, *, batched: bool) -> Any:
        """The given hidden state, with a batch dim of one if it has none."""
        if batched and hx.dim() != 3:
            raise RuntimeError(
                f"For batched 3-D input, hx should also be 3-D but got {hx.dim()}-D tensor"
            )
        if not batched and hx.dim() != 2:
            raise RuntimeError(
                f"For unbatched 2-D input, hx should also be 2-D but got {hx.dim()}-D tensor"
            )
        return hx if batched else hx.unsqueeze(1)

    def _without_batch(self, hidden: Any) -> Any:
        return hidden.squeeze(1)

    def _run(self, given: tuple[Any, ...], hx: Any, options: tuple[Any, ...]) -> tuple[Any, Any]:
        return FUNCTIONS[self.mode.lower()](*given, hx, self._flat_weights, *options)

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        options = (self.bias, self.num_layers, self.dropout, self.training, self.bidirectional)
        if isinstance(input, PackedSequence):
            return self._packed(input, hx, options)
        if input.dim() not in (2, 3):
            raise ValueError(
                f"{self._get_name()}: Expected input to be 2D or 3D, got {input.dim()}D instead"
            )
        batched = input.dim() == 3
        dim = 0 if self.batch_first else 1
        if not batched:
            input = input.unsqueeze(dim)
        hx = self._zeros(input, None) if hx is None else self._in_batch(hx, batched=batched)
        self.check_forward_args(input, hx, None)
        output, hidden = self._run((input,), hx, (*options, self.batch_first))
        if batched:
            return output, hidden
        return output.squeeze(dim), self._without_batch(hidden)

    def _packed(self, packed: Any, hx: Any, options: tuple[Any, ...]) -> tuple[Any, Any]:
        input, batch_sizes, order, undone = packed
        given = hx is not None
        hx = self.permute_hidden(hx, order) if given else self._zeros(input, batch_sizes)
        if self.mode != "LSTM":
            self.check_forward_args(input, hx, batch_sizes)
        output, hidden = self._run((input, batch_sizes), hx, options)
        made = PackedSequence(output, batch_sizes, order, undone)
        return made, self.permute_hidden(hidden, undone)

    def extra_repr(self) -> str:
        parts = [f"{self.input_size}, {self.hidden_size}"]
        usual = {
            "proj_size": 0,
            "num_layers": 1,
            "bias": True,
            "batch_first": False,
            "dropout": 0,
            "bidirectional": False,
        }
        for name, default in usual.items():
            if getattr(self, name) != default:
                parts.append(f"{name}={getattr(self, name)}")
        return ", ".join(parts)


def _check_type(name: str, value: Any, kind: type) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"{name} should be of type {kind.__name__}, got: {type(value).__name__}")


def _refuse_projection(kwargs: dict[str, Any]) -> None:
    if "proj_size" in kwargs:
        raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")


class RNN(RNNBase):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse_projection(kwargs)
        if len(args) > 3:
            nonlinearity, args = args[3], args[:3] + args[4:]
        else:
            nonlinearity = kwargs.pop("nonlinearity", "tanh")
        self.nonlinearity: str = nonlinearity
        if nonlinearity not in {"tanh", "relu"}:
            raise ValueError(
                f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'."
            )
        super().__init__(f"RNN_{nonlinearity.upper()}", *args, **kwargs)


class GRU(RNNBase):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse_projection(kwargs)
        super().__init__("GRU", *args, **kwargs)


class LSTM(RNNBase):
    """LSTM over sequences. Its hidden state is a pair: (h, c)."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def get_expected_cell_size(self, input: Any, batch_sizes: Any) -> tuple[int, int, int]:
        count = self.num_layers * self._directions
        return count, self._batch(input, batch_sizes), self.hidden_size

    def check_forward_args(self, input: Any, hidden: Any, batch_sizes: Any) -> None:
        self.check_input(input, batch_sizes)
        sizes = self.get_expected_hidden_size(input, batch_sizes)
        self.check_hidden_size(hidden[0], sizes, "Expected hidden[0] size {}, got {}")
        sizes = self.get_expected_cell_size(input, batch_sizes)
        self.check_hidden_size(hidden[1], sizes, "Expected hidden[1] size {}, got {}")

    def permute_hidden(self, hx: Any, permutation: Any) -> Any:
        if permutation is None:
            return hx
        return hx[0].index_select(1, permutation), hx[1].index_select(1, permutation)

    def _zeros(self, input: Any, batch_sizes: Any) -> Any:
        cells = self.get_expected_cell_size(input, batch_sizes)
        return (
            super()._zeros(input, batch_sizes),
            zeros(cells, dtype=input.dtype, device=input.device),
        )

    def _in_batch(self, hx: Any, *, batched: bool) -> Any:
        dims = 3 if batched else 2
        if hx[0].dim() != dims or hx[1].dim() != dims:
            raise RuntimeError(
                f"For {'batched' if batched else 'unbatched'} {dims}-D input, hx and cx should "
                f"also be {dims}-D but got ({hx[0].dim()}-D, {hx[1].dim()}-D) tensors"
            )
        return hx if batched else (hx[0].unsqueeze(1), hx[1].unsqueeze(1))

    def _without_batch(self, hidden: Any) -> Any:
        return hidden[0].squeeze(1), hidden[1].squeeze(1)

    def _run(self, given: tuple[Any, ...], hx: Any, options: tuple[Any, ...]) -> tuple[Any, Any]:
        made = FUNCTIONS["lstm"](*given, hx, self._flat_weights, *options)
        return made[0], tuple(made[1:])
