"""The buckets in which DistributedDataParallel averages gradients, from what it logs of itself."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any
from weakref import ref

from gradscope.watch.in_place.by_identity import attributes

if TYPE_CHECKING:
    from collections.abc import Sequence

WITHIN_RANKS = ("post_localSGD_hook", "noop_hook")
"""PyTorch's communication hooks after which ranks have different gradients."""
Bucket = tuple[int, ...]
"""The indices of its parameters in the list of the model's parameters."""


class ModelBuckets:
    """The buckets of one model, now."""

    def __init__(self, model: Any, parameters: Sequence[Any]) -> None:
        self._model = ref(model)
        self._rebuilt = False
        self._elements = [each.numel() for each in parameters]
        sizes = [each.numel() * each.element_size() for each in parameters]
        said = self._logged().get("bucket_sizes", "")
        self.first = _from_the_end(sizes, [int(each) for each in said.split(",") if each])
        """The buckets of the first backward."""
        self._buckets = self.first

    def now(self) -> list[Bucket]:
        """The buckets, in the order in which they are reduced; empty if they are not known.

        The model makes them again after the first backward, in the order of arrival.
        """
        if not self._rebuilt:
            said = self._logged().get("rebuilt_per_bucket_param_indices", "")
            if said:
                self._rebuilt = True
                self._buckets = [tuple(map(int, each.split())) for each in said.split(",")]
        return self._buckets

    @property
    def are_made_again(self) -> bool:
        """Whether the model has said so, when `now` was called last."""
        return self._rebuilt

    def elements(self, bucket: Bucket) -> int:
        """Number of elements of its parameters."""
        return sum(self._elements[each] for each in bucket)

    @property
    def differ_on_purpose(self) -> bool:
        """Whether a hook averages them among some ranks only, as in local SGD, or not at all."""
        model = self._model()
        hooks = attributes(model).get("_comm_hooks", ()) if model is not None else ()
        return any(getattr(hook, "__name__", "") in WITHIN_RANKS for hook, _ in hooks)

    @property
    def has_run(self) -> bool:
        """Whether its first forward has begun: hooks and options are set before."""
        model = self._model()
        return model is None or attributes(model).get("_lazy_init_ran") is not False

    @property
    def searches(self) -> int:
        """1 if each step looks for parameters that are not used, else 0; -1: not known."""
        static = self._has("static_graph")
        return self._has("find_unused_parameters") if static == 0 else min(static, 0)

    @property
    def broadcasts(self) -> int:
        """1 if forwards pass the buffers of one rank to all others, else 0; -1: not known."""
        return self._has("forward_sync_buffers", "broadcast_buffers")

    def _has(self, *names: str) -> int:
        """The value of an option of the model, by any of its names."""
        model = self._model()
        held = attributes(model) if model is not None else {}
        value = next((held[name] for name in names if name in held), None)
        return int(value) if value is True or value is False else -1

    def _logged(self) -> dict[str, str]:
        """What the model logs of itself; empty if it cannot be read."""
        model: Any = self._model()
        with suppress(Exception):  # not part of an API
            return dict(model.logger._get_ddp_logging_data().strs_map)
        return {}


def _from_the_end(sizes: Sequence[int], buckets: Sequence[int]) -> list[Bucket]:
    """The first buckets: runs of parameters from the last to the first, by their sizes in bytes."""
    found, at = [], len(sizes)
    for wanted in buckets:
        end, left = at, wanted
        while at and left > 0:
            at -= 1
            left -= sizes[at]
        if left:
            return []
        found.append(tuple(range(at, end)))
    return found if not at else []
