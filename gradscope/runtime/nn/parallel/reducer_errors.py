"""Errors of DistributedDataParallel, with PyTorch's texts."""

from __future__ import annotations

import os
from typing import Any

NONE_UNUSED = (
    "find_unused_parameters=True was specified in DDP constructor, but did not find any unused "
    "parameters in the forward pass. This flag results in an extra traversal of the autograd graph "
    "every iteration,  which can adversely affect performance. If your model indeed never has any "
    "unused parameters in the forward pass, consider turning this flag off. Note that this warning "
    "may be a false positive if your model has flow control causing later iterations to have "
    "unused parameters."
)

_PRIOR = (
    "Expected to have finished reduction in the prior iteration before starting a new one. This "
    "error indicates that your "
)
_IN_LOSS = "making sure all `forward` function outputs participate in calculating loss. "
_NOT_FOUND = (
    "\nIf you already have done the above, then the distributed data parallel module wasn't able "
    "to locate the output tensors in the return value of your module's `forward` function. Please "
    "include the loss function and the structure of the return value of `forward` of your module "
    "when reporting this issue (e.g. list, dict, iterable)."
)


def not_finished(reducer: Any) -> RuntimeError:
    """A forward begins, and parameters of the last backward were never ready."""
    unused = f"{_PRIOR}module has parameters that were not used in producing loss. "
    if reducer.static_graph:
        text = (
            f"{_PRIOR}training graph has changed in this iteration, e.g., one parameter is used in "
            "first iteration, but then got unused in the second iteration. this is not compatible "
            "with static_graph set to True."
        )
    elif reducer.find_unused:
        text = (
            f"{unused}Since `find_unused_parameters=True` is enabled, this likely  means that not "
            f"all `forward` outputs participate in computing loss. You can fix this by {_IN_LOSS}"
            f"{_NOT_FOUND}"
        )
    else:
        text = (
            f"{unused}You can enable unused parameter detection by passing the keyword argument "
            "`find_unused_parameters=True` to `torch.nn.parallel.DistributedDataParallel`, and by "
            f"\n{_IN_LOSS}{_NOT_FOUND}"
        )
    return RuntimeError(text + _who(reducer))


def _who(reducer: Any) -> str:
    """The parameters that were not ready, by their numbers; with debug output by names, too."""
    rank, unmarked = reducer.group.rank(), reducer.unmarked
    numbers = (
        f"\nParameter indices which did not receive grad for rank {rank}: "
        f"{' '.join(map(str, unmarked))}"
    )
    if os.environ.get("TORCH_DISTRIBUTED_DEBUG", "OFF").upper() in ("INFO", "DETAIL"):
        names = ", ".join(reducer.names[at] for at in unmarked)
        return f"\nParameters which did not receive grad for rank {rank}: {names}{numbers}"
    return (
        f"{numbers}\n In addition, you can set the environment variable TORCH_DISTRIBUTED_DEBUG to "
        "either INFO or DETAIL to print out information about which particular parameters did not "
        "receive gradient on this rank as part of this error"
    )


def graph_changed() -> RuntimeError:
    """A static graph has used a parameter that it had not used at first."""
    return RuntimeError(
        "Your training graph has changed in this iteration, e.g., one parameter is unused in first "
        "iteration, but then got used in the second iteration. this is not compatible with "
        "static_graph set to True."
    )


_TWICE = """\
Expected to mark a variable ready only once. This error is caused by one of the following reasons: \
1) Use of a module parameter outside the `forward` function. Please make sure model parameters are \
not shared across multiple concurrent forward-backward passes. or try to use _set_static_graph() \
as a workaround if this module graph does not change during training loop.2) Reused parameters in \
multiple reentrant backward passes. For example, if you use multiple `checkpoint` functions to \
wrap the same part of your model, it would result in the same set of parameters been used by \
different reentrant backward passes multiple times, and hence marking a variable ready multiple \
times. DDP does not support such use cases in default. You can try to use _set_static_graph() as a \
workaround if your module graph does not change over iterations."""


def marked_twice(reducer: Any, at: int) -> RuntimeError:
    """A parameter was ready already in this backward."""
    return RuntimeError(
        f"{_TWICE}\nParameter at index {at} with name {reducer.names[at]} has been marked as ready "
        "twice. This means that multiple autograd engine  hooks have fired for this particular "
        "parameter during this iteration."
    )


def not_a_view() -> RuntimeError:
    """The gradient of a parameter is not the view of its bucket that it was."""
    return RuntimeError(
        "Detected at least one parameter gradient is not the expected DDP bucket view with "
        "gradient_as_bucket_view=True. This may happen (for example) if multiple allreduce hooks "
        "were registered onto the same parameter. If you hit this error, please file an issue with "
        "a minimal repro."
    )
