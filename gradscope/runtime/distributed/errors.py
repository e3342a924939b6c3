"""Errors of `torch.distributed`: PyTorch's classes and texts, and what this runtime lacks."""

from __future__ import annotations


class DistError(RuntimeError):
    """An error of the distributed package."""

    __module__ = "torch.distributed"


class DistBackendError(DistError):
    """An error while ranks exchanged tensors."""

    __module__ = "torch.distributed"


class DistNetworkError(DistError):
    """An error of the network."""

    __module__ = "torch.distributed"


class DistStoreError(DistError):
    """An error of a store."""

    __module__ = "torch.distributed"


INSTALL = "pip install 'gradscope-trace[mpi]'"
START = (
    "mpiexec -n {size} gradscope trace train.py, or gradscope trace --ranks-here {size} train.py"
)


def not_initialized() -> ValueError:
    return ValueError(
        "Default process group has not been initialized, please make sure to call "
        "init_process_group."
    )


def no_mpi4py(size: int) -> RuntimeError:
    """Several processes were started, and nothing connects them."""
    return RuntimeError(
        f"gradscope's runtime connects {size} processes by MPI, and mpi4py is not installed: "
        f"{INSTALL}, and start them with {START.format(size=size)}"
    )


def not_by_mpiexec(size: int) -> RuntimeError:
    """The environment names several ranks, but MPI does not know them."""
    return RuntimeError(
        f"WORLD_SIZE is {size}, but these processes were not started by mpiexec, which is what "
        "connects the processes of gradscope's runtime: start them with "
        f"{START.format(size=size)}; torchrun is for PyTorch (gradscope trace --on torch)"
    )


def no_backend(name: str) -> RuntimeError:
    """A backend that needs GPUs, or another library."""
    return RuntimeError(
        f"gradscope's runtime has no backend '{name}', which needs devices that it does not have: "
        "use 'gloo' or 'mpi', which both use MPI here"
    )


def unknown_backend(name: str) -> AssertionError:
    return AssertionError(f"Unknown backend type {name}")


def not_available(what: str, instead: str) -> RuntimeError:
    """A part of the package that this runtime does not have."""
    return RuntimeError(
        f"gradscope's runtime has no {what}: {instead}, or record the program on PyTorch "
        "(gradscope trace --on torch)"
    )
