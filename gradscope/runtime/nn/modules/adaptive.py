"""A softmax over many classes, with the rare classes in clusters."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from gradscope.runtime.nn import functional
from gradscope.runtime.nn.modules.container import ModuleList, Sequential
from gradscope.runtime.nn.modules.linear import Linear
from gradscope.runtime.nn.modules.module import Module


class _ASMoutput(NamedTuple):
    output: Any
    loss: Any


class AdaptiveLogSoftmaxWithLoss(Module):
    """Adaptive softmax: the head scores frequent classes and clusters, a tail one cluster."""

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        cutoffs = list(cutoffs)
        _check_cutoffs(cutoffs, n_classes)
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, head_bias, device, dtype)
        self.tail = ModuleList()
        for i, (low, high) in enumerate(pairwise(self.cutoffs)):
            hidden = int(in_features // (div_value ** (i + 1)))
            down = Linear(in_features, hidden, False, device, dtype)
            self.tail.append(Sequential(down, Linear(hidden, high - low, False, device, dtype)))

    def reset_parameters(self) -> None:
        self.head.reset_parameters()
        for down, up in self.tail.children():
            down.reset_parameters()
            up.reset_parameters()

    def forward(self, input_: Any, target_: Any) -> Any:
        _check_pair(input_, target_)
        batched = target_.dim() > 0
        input = input_ if batched else input_.unsqueeze(0)
        target = target_ if batched else target_.unsqueeze(0)
        output, places = self._of_clusters(input, target)
        of_head = functional.log_softmax(self.head(input), dim=1)
        output += of_head.gather(1, places.unsqueeze(1)).squeeze()
        loss = (-output).mean()
        return _ASMoutput(output if batched else output.squeeze(0), loss)

    def _of_clusters(self, input: Any, target: Any) -> tuple[Any, Any]:
        """Each sample's log probability within its cluster, and its column in the head."""
        batch = target.size(0)
        output, places = input.new_zeros(batch), target.new_empty(batch)
        used = 0
        for i, (low, high) in enumerate(pairwise([0, *self.cutoffs])):
            mask = (target >= low) & (target < high)
            rows = mask.nonzero().squeeze()
            if rows.numel() == 0:
                continue
            if i == 0:
                places.index_copy_(0, rows, target[mask])
            else:
                relative = target[mask] - low
                scores = self.tail[i - 1](input.index_select(0, rows))
                places.index_fill_(0, rows, self.shortlist_size + i - 1)
                within = functional.log_softmax(scores, dim=1).gather(1, relative.unsqueeze(1))
                output.index_copy_(0, rows, within.squeeze(1))
            used += rows.numel()
        if used != batch:
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                f"[{target.min().item()}, {target.max().item()}] were found. "
            )
        return output, places

    def _get_full_log_prob(self, input: Any, head_output: Any) -> Any:
        out = input.new_empty((head_output.size(0), self.n_classes))
        of_head = functional.log_softmax(head_output, dim=1)
        short = self.shortlist_size
        out[:, :short] = of_head[:, :short]
        for i, (low, high) in enumerate(pairwise(self.cutoffs)):
            within = functional.log_softmax(self.tail[i](input), dim=1)
            out[:, low:high] = within + of_head[:, short + i].unsqueeze(1)
        return out

    def log_prob(self, input: Any) -> Any:
        """The log probability of every class."""
        return self._get_full_log_prob(input, self.head(input))

    def predict(self, input: Any) -> Any:
        """The most likely class. Computes only the tails it needs."""
        head_output = self.head(input)
        output = head_output.argmax(dim=1)
        rare = output >= self.shortlist_size
        if not rare.any():
            return output
        if rare.all():
            return self._get_full_log_prob(input, head_output).argmax(dim=1)
        output[rare] = self._get_full_log_prob(input[rare], head_output[rare]).argmax(dim=1)
        return output


def _check_cutoffs(cutoffs: list[int], n_classes: int) -> None:
    if not cutoffs:
        raise ValueError("cutoffs should be a sequence of length larger than 0")
    whole = all(int(cutoff) == cutoff for cutoff in cutoffs)
    unique = len(set(cutoffs)) == len(cutoffs)
    inside = min(cutoffs) > 0 and max(cutoffs) <= n_classes - 1
    if cutoffs != sorted(cutoffs) or not (whole and unique and inside):
        raise ValueError(
            "cutoffs should be a sequence of unique, positive integers sorted in an increasing "
            "order, where each value is between 1 and n_classes-1"
        )


def _check_pair(input: Any, target: Any) -> None:
    dims = target.dim()
    if dims > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if dims == 1 and input.size(0) != target.size(0):
        raise RuntimeError("Input and target should have the same size in the batch dimension.")
    if input.dim() != dims + 1:
        raise RuntimeError(
            f"{dims}D target tensor expects {dims + 1}D input tensors, but found inputs with size "
            f"{input.size()}"
        )
