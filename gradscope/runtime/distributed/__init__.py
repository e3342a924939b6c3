"""`torch.distributed`: processes that train together, over MPI; or one process alone.

mpiexec starts the processes, and `mpi4py` connects them (`pip install 'gradscope-trace[mpi]'`).
A script that is started alone is a world of one rank, and needs neither.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from gradscope.runtime.core.errors import missing
from gradscope.runtime.distributed.buckets import GradBucket
from gradscope.runtime.distributed.calls.collectives import (
    all_gather,
    all_reduce,
    barrier,
    broadcast,
    gather,
    monitored_barrier,
    reduce,
    scatter,
)
from gradscope.runtime.distributed.calls.messages import (
    P2POp,
    batch_isend_irecv,
    irecv,
    isend,
    recv,
    recv_object_list,
    send,
    send_object_list,
)
from gradscope.runtime.distributed.calls.objects import (
    all_gather_object,
    broadcast_object_list,
    gather_object,
    scatter_object_list,
)
from gradscope.runtime.distributed.calls.parts import (
    all_gather_into_tensor,
    all_gather_single,
    all_reduce_coalesced,
    all_to_all,
    all_to_all_single,
    reduce_scatter,
    reduce_scatter_single,
    reduce_scatter_tensor,
)
from gradscope.runtime.distributed.errors import (
    DistBackendError,
    DistError,
    DistNetworkError,
    DistStoreError,
)
from gradscope.runtime.distributed.exchange.work import Work
from gradscope.runtime.distributed.groups import (
    Backend,
    GroupMember,
    ProcessGroup,
    default_pg_timeout,
    get_backend,
    get_global_rank,
    get_group_rank,
    get_pg_count,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    group,
    is_initialized,
)
from gradscope.runtime.distributed.reduce_op import OF_ORDER, ReduceOp
from gradscope.runtime.distributed.start import (
    SERVED,
    destroy_process_group,
    get_node_local_rank,
    init_process_group,
    is_mpi_available,
    join_ranks,
    new_group,
    new_subgroups,
    new_subgroups_by_enumeration,
    refused,
)

__all__ = [
    "OF_ORDER",
    "Backend",
    "DistBackendError",
    "DistError",
    "DistNetworkError",
    "DistStoreError",
    "GradBucket",
    "GroupMember",
    "P2POp",
    "ProcessGroup",
    "ReduceOp",
    "Work",
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_gather_single",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "batch_isend_irecv",
    "broadcast",
    "broadcast_object_list",
    "default_pg_timeout",
    "destroy_process_group",
    "gather",
    "gather_object",
    "get_backend",
    "get_default_backend_for_device",
    "get_global_rank",
    "get_group_rank",
    "get_node_local_rank",
    "get_pg_count",
    "get_process_group_ranks",
    "get_rank",
    "get_world_size",
    "group",
    "init_device_mesh",
    "init_process_group",
    "irecv",
    "is_available",
    "is_backend_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "is_ucc_available",
    "is_xccl_available",
    "isend",
    "monitored_barrier",
    "new_group",
    "new_subgroups",
    "new_subgroups_by_enumeration",
    "recv",
    "recv_object_list",
    "reduce",
    "reduce_op",
    "reduce_scatter",
    "reduce_scatter_single",
    "reduce_scatter_tensor",
    "scatter",
    "scatter_object_list",
    "send",
    "send_object_list",
    "supports_complex",
]

reduce_op = ReduceOp

init_device_mesh = refused("init_device_mesh")
split_group = refused("split_group")
shrink_group = refused("shrink_group")
TCPStore = refused("TCPStore")
FileStore = refused("FileStore")


def is_available() -> bool:
    """Whether there is a distributed package: there is, if only for one process."""
    return True


def is_gloo_available() -> bool:
    """Whether the backend "gloo" is accepted: it is, and MPI carries it out."""
    return True


def is_nccl_available() -> bool:
    return False


is_ucc_available = is_xccl_available = is_nccl_available


def is_backend_available(backend: str) -> bool:
    """Whether `init_process_group` accepts this backend."""
    return backend.lower() in SERVED


def is_torchelastic_launched() -> bool:
    """Whether torchrun started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def supports_complex(reduceOp: Any) -> bool:
    """Whether complex numbers have this reduction."""
    return reduceOp not in OF_ORDER


def get_default_backend_for_device(device: Any) -> str:
    """The backend for tensors on this device."""
    return Backend.GLOO


def __getattr__(name: str) -> Any:
    if name == "algorithms":
        return import_module(f"{__name__}.{name}")
    raise missing.no_module_attribute("torch.distributed", name, list(globals()))


join_ranks()
