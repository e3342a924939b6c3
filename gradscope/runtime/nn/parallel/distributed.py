"""DistributedDataParallel: one model, trained by several processes on parts of each batch."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import ref

import numpy as np

from gradscope.runtime.core.autograd.custom.function import Function
from gradscope.runtime.core.autograd.engine.engine import engine
from gradscope.runtime.core.autograd.modes.grad_mode import is_grad_enabled
from gradscope.runtime.core.tensors.wrapping import wrap
from gradscope.runtime.distributed.buckets import GradBucket
from gradscope.runtime.distributed.calls.objects import everybodys
from gradscope.runtime.distributed.calls.telling import replicated, told
from gradscope.runtime.distributed.errors import not_available
from gradscope.runtime.distributed.exchange.progress import progress
from gradscope.runtime.distributed.exchange.work import Work
from gradscope.runtime.distributed.groups import ProcessGroup, default_group, resolved
from gradscope.runtime.futures import Future
from gradscope.runtime.nn.modules.module import Module
from gradscope.runtime.nn.parallel.reducer import Reducer
from gradscope.runtime.nn.parallel.unused import tensors_in
from gradscope.runtime.nn.parameter import UninitializedParameter
from gradscope.runtime.profiler import record_function
from gradscope.runtime.utils._pytree import tree_flatten, tree_unflatten

MEGABYTE = 1 << 20


class DistributedDataParallel(Module):
    """Averages the gradients of a module over all ranks of a group, during each backward.

    Parameters and buffers start as those of rank 0. See Note [How gradients are averaged] in
    reducer.py.
    """

    def __init__(
        self, module: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0,
        broadcast_buffers: bool | None = None, init_sync: bool = True,
        process_group: ProcessGroup | None = None, bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False, check_reduction: bool = False,
        gradient_as_bucket_view: bool = False, static_graph: bool = False,
        delay_all_reduce_named_params: Any = None, param_to_hook_all_reduce: Any = None,
        mixed_precision: Any = None, device_mesh: Any = None,
        skip_all_reduce_unused_params: bool = False,
        bucket_cap_mb_list: Sequence[float] | None = None, batched_grad_copy: bool = False,
        forward_sync_buffers: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        _refuse(
            delay_all_reduce_named_params=delay_all_reduce_named_params,
            mixed_precision=mixed_precision,
            device_mesh=device_mesh,
            skip_all_reduce_unused_params=skip_all_reduce_unused_params or None,
        )
        self.process_group = default_group() if process_group is None else resolved(process_group)
        self.parameters_to_ignore = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        named = _trained(module, self.parameters_to_ignore)
        _check(module, named, device_ids, output_device)
        self.module, self.dim = module, dim
        self._module_parameters = [
            each
            for name, each in module.named_parameters()
            if name not in self.parameters_to_ignore
        ]
        self.device_ids = self.output_device = None
        self.device = self._module_parameters[0].device
        self.device_type = self.device.type
        self.find_unused_parameters = find_unused_parameters
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.static_graph = static_graph
        self.batched_grad_copy = batched_grad_copy
        self.forward_sync_buffers, buffers_at_start = _syncs(
            broadcast_buffers, forward_sync_buffers
        )
        self.require_backward_grad_sync = self.require_forward_param_sync = True
        self._reduces_after_backward = static_graph  # until the first backward
        if init_sync:
            _verify(self.process_group, list(named.values()))
            sent = [*self._module_parameters, *(self._buffers_of() if buffers_at_start else ())]
            _broadcast(self.process_group, sent)
        self.reducer = Reducer(
            list(named.values()), list(named), self.process_group,
            _limits(bucket_cap_mb, bucket_cap_mb_list), find_unused=find_unused_parameters,
            static_graph=static_graph, as_views=gradient_as_bucket_view,
        )  # fmt: skip
        replicated(self.process_group, self._module_parameters)

    @property
    def broadcast_buffers(self) -> bool:
        """The older name of `forward_sync_buffers`."""
        return self.forward_sync_buffers

    def _buffers_of(self) -> list[Any]:
        ignored = self.parameters_to_ignore
        return [each for name, each in self.module.named_buffers() if name not in ignored]

    # -- forward ---------------------------------------------------------------------------------

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        with record_function("DistributedDataParallel.forward"):
            if is_grad_enabled():
                self.reducer.rebuild()
            if self.require_forward_param_sync and self.forward_sync_buffers:
                _broadcast(self.process_group, self._buffers_of())
            return self._prepared(self.module(*inputs, **kwargs))

    def _prepared(self, output: Any) -> Any:
        """What the module returned, made ready for a backward that is reduced."""
        syncs = is_grad_enabled() and self.require_backward_grad_sync
        self.require_forward_param_sync = syncs
        finds = self.find_unused_parameters and not self.static_graph
        if syncs:
            self.reducer.prepare([*tensors_in(output)] if finds else [])
        if not finds and not self._reduces_after_backward:
            return output
        leaves, spec = tree_flatten(output)
        passed = _DDPSink.apply(ref(self), *leaves)
        return tree_unflatten(
            [
                own if getattr(own, "grad_fn", None) is None else through
                for own, through in zip(leaves, passed, strict=True)
            ],
            spec,
        )

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Gradients of backwards in this block are added up, and reduced by the next one after."""
        before = self.require_backward_grad_sync
        self.require_backward_grad_sync = False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    # -- how gradients are reduced ---------------------------------------------------------------

    def register_comm_hook(self, state: object, hook: Callable[..., Any]) -> None:
        """Call `hook(state, bucket)` instead of the all-reduce. It returns a future of a tensor."""
        if not callable(hook):
            raise TypeError("Communication hook must be callable.")
        signature = inspect.signature(hook)
        wanted = signature.parameters["bucket"].annotation
        if not isinstance(wanted, str) and wanted not in (inspect.Parameter.empty, GradBucket):
            raise ValueError("Communication hook: bucket annotation should be dist.GradBucket.")
        made = signature.return_annotation
        if made is not inspect.Parameter.empty and not isinstance(made, str) and made is not Future:
            raise ValueError(
                "Communication hook: return annotation should be "
                "torch.futures.Future[torch.Tensor]."
            )
        if self.reducer.hook is not None:
            raise RuntimeError(
                "register_comm_hook or register_builtin_comm_hook can only be called once."
            )
        self.reducer.hook = hook, state

    def _set_static_graph(self) -> None:
        """As `static_graph=True`; called before training."""
        if self.reducer.has_begun:
            raise RuntimeError(
                "set_static_graph() should be called before training loop starts and after "
                "DistributedDataParallel is constructed."
            )
        self.static_graph = self.reducer.static_graph = self._reduces_after_backward = True

    def join(self, *args: Any, **kwargs: Any) -> Any:
        """Not available: uneven inputs need ranks that shadow the others."""
        raise not_available("DistributedDataParallel.join", "give all ranks the same batches")

    def _get_ddp_logging_data(self) -> dict[str, Any]:
        """What is known of buckets, under PyTorch's names."""
        sizes = [bucket.elements.nbytes for bucket in self.reducer.buckets]
        return {
            "world_size": self.process_group.size(), "rank": self.process_group.rank(),
            "bucket_sizes": ", ".join(map(str, sizes)),
            "has_rebuilt_buckets": int(self.reducer.rebuilt),
            "find_unused_parameters": int(self.find_unused_parameters),
            "gradient_as_bucket_view": int(self.gradient_as_bucket_view),
        }  # fmt: skip

    @staticmethod
    def _set_params_and_buffers_to_ignore_for_model(
        module: Any, params_and_buffers_to_ignore: Sequence[str]
    ) -> None:
        """Leave these names out of what is kept equal."""
        module._ddp_params_and_buffers_to_ignore = params_and_buffers_to_ignore

    def __getstate__(self) -> dict[str, Any]:
        if self.process_group is not default_group():
            raise RuntimeError(
                "DDP Pickling/Unpickling are only supported when using DDP with the default "
                "process group. That is, when you have called init_process_group and have not "
                "passed process_group argument to DDP constructor"
            )
        state = dict(self.__dict__)
        del state["process_group"], state["reducer"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.process_group = default_group()
        named = _trained(self.module, self.parameters_to_ignore)
        self.reducer = Reducer(
            list(named.values()), list(named), self.process_group, None,
            find_unused=self.find_unused_parameters, static_graph=self.static_graph,
            as_views=self.gradient_as_bucket_view,
        )  # fmt: skip


class _DDPSink(Function):
    """Passes outputs on. Its backward shows that the model's backward begins."""

    @staticmethod
    def forward(ctx: Any, model: Any, *outputs: Any) -> Any:
        ctx.set_materialize_grads(False)
        ctx.model = model
        return tuple(each.clone() if hasattr(each, "clone") else each for each in outputs)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        model = ctx.model()
        if model._reduces_after_backward:
            engine.queue_callback(model.reducer.reduce_after_backward)
            model._reduces_after_backward = False
        return (None, *grads)


def _refuse(**options: Any) -> None:
    """Options of PyTorch's that this runtime does not have."""
    for name, value in options.items():
        if value is not None:
            raise not_available(f"DistributedDataParallel({name}=…)", "leave it out")


def _trained(module: Any, ignored: set[str]) -> dict[str, Any]:
    """The parameters that are trained, by PyTorch's names for them; each once."""
    found: dict[str, Any] = {}
    known: set[int] = set()
    for path, part in module.named_modules():
        for name, parameter in part.named_parameters(recurse=False):
            full = f"{path}.{name}"
            is_ignored = full in ignored or full.removeprefix(".") in ignored
            if parameter.requires_grad and not is_ignored and id(parameter) not in known:
                known.add(id(parameter))
                found[full] = parameter
    return found


def _check(module: Any, named: dict[str, Any], device_ids: Any, output_device: Any) -> None:
    if not named:
        raise RuntimeError(
            "DistributedDataParallel is not needed when a module doesn't have any parameter that "
            "requires a gradient."
        )
    if device_ids is not None and len(device_ids) > 1:
        raise ValueError("device_ids can only be None or contain a single element.")
    if device_ids or output_device:
        raise ValueError(
            "DistributedDataParallel device_ids and output_device arguments only work with "
            "single-device/multiple-device GPU modules or CPU modules, but got device_ids "
            f"{device_ids}, output_device {output_device}, and module parameters "
            f"{ {each.device for each in named.values()} }."
        )
    if any(each.device.type != "cpu" for each in named.values()):
        raise not_available("DistributedDataParallel on other devices", "move the model to the CPU")
    if any(isinstance(each, UninitializedParameter) for each in module.parameters()):
        raise RuntimeError(
            "Modules with uninitialized parameters can't be used with `DistributedDataParallel`. "
            "Run a dummy forward pass to correctly initialize the modules"
        )


def _syncs(broadcast: bool | None, forward: bool | None) -> tuple[bool, bool]:
    """Whether buffers are those of rank 0 in each forward, and at the start."""
    if broadcast is None:
        return (True if forward is None else forward), True
    if forward is not None:
        warnings.warn(
            "Both `broadcast_buffers` and `forward_sync_buffers` were specified. "
            "`broadcast_buffers` is deprecated and its value is ignored when "
            "`forward_sync_buffers` is provided.",
            FutureWarning,
            stacklevel=3,
        )
        return forward, True
    warnings.warn(
        "`broadcast_buffers` is deprecated. Use `forward_sync_buffers` instead. IMPORTANT: unlike "
        "`broadcast_buffers=False`, `forward_sync_buffers=False` still syncs buffers at init. If "
        "you rely on buffers NOT being synced at init (e.g. rank-local buffers), keep using "
        "`broadcast_buffers=False` until `init_sync_buffers` is available.",
        FutureWarning,
        stacklevel=3,
    )
    return broadcast, broadcast


def _limits(cap: float | None, caps: Sequence[float] | None) -> list[int] | None:
    """The sizes of buckets in bytes; None: the usual ones."""
    if caps:
        return [int(each * MEGABYTE) for each in caps]
    return None if cap is None else [int(cap * MEGABYTE)]


def _verify(group: ProcessGroup, parameters: Sequence[Any]) -> None:
    """All ranks must have the same parameters."""
    mine = [tuple(each._array.shape) for each in parameters]
    every = everybodys(group, "parameters of DistributedDataParallel", mine)
    for rank, theirs in enumerate(every):
        if len(theirs) != len(mine):
            raise RuntimeError(
                "DDP expects same model across all ranks, but Rank "
                f"{group.rank()} has {len(mine)} params, while rank {rank} has inconsistent "
                f"{len(theirs)} params."
            )
    for at, (shape, first) in enumerate(zip(mine, every[0], strict=True)):
        if shape != first:
            raise RuntimeError(
                f"[{group.rank()}]: params[{at}] in this process with sizes {[*shape]} appears not "
                "to match sizes of the same param in process 0."
            )


def _broadcast(group: ProcessGroup, tensors: Sequence[Any]) -> None:
    """Copy these tensors of rank 0 to all ranks, those of one dtype together."""
    by_dtype: dict[Any, list[Any]] = {}
    for each in tensors:
        by_dtype.setdefault(each._array.dtype, []).append(each)
    for several in by_dtype.values():
        flat = np.concatenate([each._array.reshape(-1) for each in several])
        with told("broadcast", group, wrap(flat), caller="DistributedDataParallel"):
            progress.run(_broadcast_work(group, flat))
        ends = np.cumsum([each._array.size for each in several])[:-1]
        for each, part in zip(several, np.split(flat, ends), strict=True):
            each._array[...] = part.reshape(each._array.shape)


def _broadcast_work(group: ProcessGroup, flat: Any) -> Work:
    return Work("broadcast", group, lambda: group.transport.broadcast(flat, 0))
