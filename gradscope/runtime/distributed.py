"""`torch.distributed`: not available, as `is_available()` says; training is in one process."""

from __future__ import annotations

from typing import Any, NoReturn

from gradscope.runtime.core.errors import missing


def is_available() -> bool:
    return False


def is_initialized() -> bool:
    return False


is_nccl_available = is_gloo_available = is_mpi_available = is_torchelastic_launched = is_available


def _alone(*args: Any, **kwargs: Any) -> NoReturn:
    raise RuntimeError(
        "gradscope's runtime has no torch.distributed (torch.distributed.is_available() is False): "
        "train in one process"
    )


init_process_group = destroy_process_group = new_group = _alone
get_rank = get_world_size = get_backend = _alone
barrier = broadcast = all_reduce = all_gather = reduce = gather = scatter = send = recv = _alone


def __getattr__(name: str) -> Any:
    raise missing.no_module_attribute("torch.distributed", name, list(globals()))
