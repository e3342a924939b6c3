"""Collective operations, sends and receives, with which processes exchange tensors.

Also models that DistributedDataParallel keeps equal on all ranks. Collectives that PyTorch calls in
C++ are observed by works.py, from the moment when the process has a process group.
"""

from __future__ import annotations

import sys
from functools import cache
from inspect import signature
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch.distributed import device_mesh
from torch.nn.parallel import DistributedDataParallel

from gradscope.errors import leave_no_frame
from gradscope.watch.called.ranks.buckets import ModelBuckets
from gradscope.watch.called.ranks.callers import caller_of, unit_of
from gradscope.watch.called.ranks.handles import WorkHandles
from gradscope.watch.called.ranks.tensors import (
    carried_writes,
    nodes_behind,
    reduction,
    written,
)
from gradscope.watch.in_place.by_identity import attributes, is_a
from gradscope.watch.in_place.sharded import FUNCTIONAL_HOME
from gradscope.watch.in_place.standing_in import HERE, Replaced, passed_over
from gradscope.watch.listener import Exchange, RankGroup
from gradscope.watch.runs import works
from gradscope.watch.unseen import stands_for, unseen

if TYPE_CHECKING:
    from types import FrameType

    from gradscope.watch.called.ranks.carried import CarriedWrites
    from gradscope.watch.called.ranks.works import WorkObserver
    from gradscope.watch.in_place.faults import Faults
    from gradscope.watch.listener import Listener

NAMES = (
    "all_gather", "all_gather_into_tensor", "all_gather_object", "all_gather_single", "all_reduce",
    "all_to_all", "all_to_all_single", "barrier", "broadcast", "broadcast_object_list", "gather",
    "gather_object", "monitored_barrier", "reduce", "reduce_scatter", "reduce_scatter_single",
    "reduce_scatter_tensor", "scatter", "scatter_object_list",
    "batch_isend_irecv", "recv", "send",
)  # fmt: skip
"""Not `isend` and `irecv`: PyTorch compares what a `P2POp` is given with its own functions."""

MAKE_GROUPS = "new_group", "new_subgroups", "new_subgroups_by_enumeration", "split_group"
"""Functions that make groups: all ranks of the program, or of `parent_pg`, must call them."""

ONLY_MEMBERS = "use_local_synchronization"
"""An argument with which only the ranks of the new group call."""

BATCH, RECEIVES = "p2p_op_list", ("recv",)

FUNCTIONAL = (
    "all_gather_into_tensor_coalesced", "all_gather_single", "all_gather_single_autograd",
    "all_gather_single_coalesced", "all_gather_tensor", "all_gather_tensor_autograd", "all_reduce",
    "all_reduce_coalesced", "all_to_all_single", "all_to_all_single_autograd", "broadcast",
    "permute_tensor", "reduce_scatter_single", "reduce_scatter_single_autograd",
    "reduce_scatter_single_coalesced", "reduce_scatter_tensor", "reduce_scatter_tensor_autograd",
    "reduce_scatter_tensor_coalesced",
)  # fmt: skip
"""Functional collectives, as DTensor calls them: a result is waited for where it is used."""


PASSED = ("self", "inputs", "input", "input_tensor", "input_tensor_list", "input_list", "tensor")
"""Parameters with the tensor that a rank passes, or with several of them."""


@cache
def _places(function: Any) -> dict[str, int]:
    """The places of its parameters."""
    try:
        return {name: at for at, name in enumerate(signature(function).parameters)}
    except (TypeError, ValueError):
        return {}


def group_of(asked: Any) -> RankGroup | None:
    """The group that is meant by an argument; None is the group of all ranks.

    A mesh stands for its groups; with a dim, for one of them.
    """
    group: Any = dist.group.WORLD if asked is None else asked
    mesh, *dims = group if is_a(group, tuple) and group else (group,)
    if type(mesh).__name__ == "DeviceMesh" and (dims or mesh.ndim == 1):
        group = mesh.get_group(*dims)
    if not is_a(group, dist.ProcessGroup):
        return None
    name, described = str(group.group_name), str(getattr(group, "group_desc", "undefined"))
    return RankGroup(
        name,
        name if described == "undefined" else described,
        tuple(dist.get_process_group_ranks(group)),
    )


def _group_asked(asked: dict[str, Any], first: Any, *, makes: bool) -> Any:
    """What a call says of its group. `first`: of a batch, the first operation."""
    if makes:
        return asked.get("parent_pg")
    return getattr(first, "group", asked.get("group"))


def _made_by(asked: dict[str, Any]) -> tuple[int, ...]:
    """The ranks of the group that is made by these arguments; empty if there are several groups."""
    if "ranks_per_subgroup_list" in asked or "group_size" in asked or "split_ranks" in asked:
        return ()
    ranks = asked.get("ranks")
    return tuple(range(dist.get_world_size())) if ranks is None else tuple(map(int, ranks))


def _first(passed: Any) -> Any:
    """The tensor, or the first of several; None: it is neither."""
    if is_a(passed, (list, tuple)) and len(passed):
        passed = passed[0]
    return passed if is_a(passed, torch.Tensor) else None


class Collectives:
    """Replaces these functions in `torch.distributed`.

    `native`: also observe works, with machine code. `measures`: their values.
    """

    def __init__(self, listener: Listener, faults: Faults, *, native: bool, measures: bool) -> None:
        self._listener = listener
        self._faults = faults
        self._replaced = Replaced(stands_for)
        self._on = False
        self._native, self._measures = native, measures
        self._handles = WorkHandles(listener, faults)
        self._carried: CarriedWrites | None = None
        self.works: WorkObserver | None = None
        self.unseen = ""
        """Why collectives in C++ are not observed; "": they are, or there is no process group."""

    def start(self) -> None:
        self._on = dist.is_available()
        for name in NAMES if self._on else ():
            if hasattr(dist, name):
                self._replaced.put(dist, name, self._told(name, getattr(dist, name)))
        for name in MAKE_GROUPS if self._on else ():
            if hasattr(dist, name):
                stand_in = self._told(name, getattr(dist, name), makes=True)
                self._replaced.put(dist, name, stand_in)
                if hasattr(device_mesh, name):
                    self._replaced.put(device_mesh, name, stand_in)
        if self._on:
            made = self._made(DistributedDataParallel.__init__)
            self._replaced.put(DistributedDataParallel, "__init__", made)
            first = self._first(dist.init_process_group)
            self._replaced.put(dist, "init_process_group", first)
            self._handles.put(self._replaced)
            if dist.is_initialized():
                self._faults.guarded("collectives were observed", self._observe)
        self.imported()

    def stop(self) -> None:
        self._on = False
        self._replaced.take_back()
        if self.works is not None:
            self.works.stop()
        if self._carried is not None:
            self._carried.stop()

    def _observe(self) -> None:
        """Observe works, when there is a process group."""
        if not self._native:
            self.unseen = self.unseen or "this needs machine code"
        elif self.works is None:
            with unseen():
                self.works, self.unseen = works(measures=self._measures)
            self._native = self.works is not None
        if self.works is not None:
            self.works.start()
            self._listener.shared.observes(self.works)
        if self._measures and self._native and self._carried is None:
            self._carried = carried_writes()
        if self._carried is not None:
            self._carried.start()
            self._listener.shared.carries(self._carried)

    def _first(self, own: Any) -> Any:
        guarded = self._faults.guarded

        @passed_over
        def init_process_group(*given: Any, **more: Any) -> Any:
            result = own(*given, **more)
            guarded("collectives were observed", self._observe)
            return result

        return init_process_group

    def _made(self, own: Any) -> Any:
        guarded, shared = self._faults.guarded, self._listener.shared

        def noted(module: Any, frame: FrameType) -> None:
            parameters = attributes(module).get("_module_parameters", ())
            group = group_of(attributes(module).get("process_group"))
            if parameters and group is not None:
                with unseen():
                    buckets = ModelBuckets(module, parameters)
                shared.replicated(group, parameters, buckets, frame)

        @passed_over
        def __init__(module: Any, *given: Any, **more: Any) -> None:  # noqa: N807
            guarded("a model was replicated", shared.wraps, sys._getframe(1))
            try:
                own(module, *given, **more)
            finally:
                guarded("a model was replicated", shared.wrapped)
            guarded("a model was replicated", noted, module, sys._getframe(1))

        return __init__

    def imported(self) -> None:
        """Replace functional collectives, when the program has imported them."""
        home = sys.modules.get(FUNCTIONAL_HOME)
        for name in FUNCTIONAL if self._on and home is not None else ():
            own = getattr(home, name, None)
            if own is not None:
                self._replaced.put(home, name, self._told(name, own, functional=True))

    def _told(self, name: str, own: Any, *, functional: bool = False, makes: bool = False) -> Any:
        listener, guarded = self._listener, self._faults.guarded

        def exchanges(token: Any, given: Any, more: Any, frame: FrameType) -> dict[str, Any]:
            """Report a call. Returns its arguments, if what it writes and returns is followed."""
            asked = {each: given[at] for each, at in _places(own).items() if at < len(given)} | more
            batch = asked.get(BATCH)
            first = batch[0] if is_a(batch, (list, tuple)) and len(batch) else None
            group = group_of(_group_asked(asked, first, makes=makes))
            passed = () if name in RECEIVES else PASSED
            tensor = _first(next((asked[each] for each in passed if each in asked), None))
            with unseen():
                shape = () if tensor is None else tuple(tensor.shape)
            dtype, caller = None if tensor is None else tensor.dtype, caller_of(frame)
            unit = unit_of(frame) if caller == "FSDP" else ()
            nodes = () if caller or functional else nodes_behind(asked, name, self._carried)
            listener.shared.exchanges(
                token,
                Exchange(
                    group, shape, dtype, frame, name, tensor, caller, unit, nodes,
                    reduction(asked, name), _made_by(asked) if makes else (),
                ),
            )  # fmt: skip
            return {} if functional or makes or caller else asked

        def exchanged(token: Any, asked: dict[str, Any], result: Any) -> None:
            tensors = written(asked, name)
            if tensors and self._carried is not None:
                with unseen():
                    mark = self._carried.marks(tensors)
                listener.shared.marked(token, mark)
            self._handles.returned(token, result)

        @passed_over
        def call(*given: Any, **more: Any) -> Any:
            if torch.compiler.is_compiling():  # first: compilers cannot trace the next line
                return own(*given, **more)
            own_call = sys._getframe(1).f_globals.get("__name__") == own.__module__
            if HERE.ours or own_call or (makes and more.get(ONLY_MEMBERS)):
                return own(*given, **more)
            goes_on = functional or more.get("async_op") or name == "batch_isend_irecv"
            shown = "functional " * functional + name + ", asynchronous" * bool(goes_on)
            began, asked = "a collective began", None
            token = guarded(began, listener.span_begins, shown, "collective")
            if token is not None:
                asked = guarded(began, exchanges, token, given, more, sys._getframe(1))
            try:
                result = own(*given, **more)
            except BaseException as error:
                leave_no_frame(error)
                raise
            finally:
                guarded("a collective ended", listener.span_ends, token)
            if asked:
                guarded("a collective ended", exchanged, token, asked, result)
            return result

        return call
