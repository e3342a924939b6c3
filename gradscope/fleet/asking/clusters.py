"""Where parts are asked: in this process, or on a cluster of Dask or Ray.

Each is `map(function, parts)`: the results in the order of the parts. Dask and Ray try a part
again whose worker has died.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Protocol, TypeVar
from urllib.parse import urlsplit

from gradscope.errors import ClusterError, UsageError
from gradscope.fleet.packages import needs

Given = TypeVar("Given")
Result = TypeVar("Result")

WAITS = 15
"""Seconds until a scheduler or a worker must have answered."""
TRIES = 3
"""How often a part is tried again whose worker has died."""
HOW_TO_ENTER = "; if it asks for a token, set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN"
PER_CORE = 2
"""Number of parts for each core, so that no core waits long for the last one."""


class Cluster(Protocol):
    """What runs a function over parts."""

    @property
    def cores(self) -> int:
        """Number of parts that run at once; 0: this process, whose engine divides the work."""

    def map(self, function: Callable[[Given], Result], items: Sequence[Given]) -> list[Result]: ...


@dataclass(frozen=True)
class ThisProcess:
    """Runs the parts here, one after the other."""

    cores: int = 0

    def map(self, function: Callable[[Given], Result], items: Sequence[Given]) -> list[Result]:
        return [function(each) for each in items]


def many_parts(cluster: Cluster) -> int:
    return cluster.cores * PER_CORE or 1


@contextmanager
def cluster_at(address: str) -> Iterator[Cluster]:
    """The cluster at `dask://host:port` or `ray://host:port`; "" is this process."""
    if not address:
        yield ThisProcess()
        return
    kind = urlsplit(address).scheme
    if kind not in KINDS or not urlsplit(address).netloc:
        raise UsageError(f"--on takes dask://HOST:PORT or ray://HOST:PORT, not {address!r}")
    with KINDS[kind](address) as cluster:
        yield cluster


@dataclass(frozen=True)
class OnDask:
    """Runs the parts as tasks of a Dask cluster."""

    client: object
    cores: int

    def map(self, function: Callable[[Given], Result], items: Sequence[Given]) -> list[Result]:
        from distributed import KilledWorker

        client, address = self.client, "Dask"
        futures = client.map(function, items, retries=TRIES, pure=False)  # type: ignore[attr-defined]
        try:
            return client.gather(futures)  # type: ignore[attr-defined,no-any-return]
        except KilledWorker as error:
            raise ClusterError(
                f"{address}: workers died several times at the same part: {error}; "
                "look at their logs, or give them more memory"
            ) from None


@contextmanager
def _dask(address: str) -> Iterator[Cluster]:
    needs(("distributed",), "dask", "--on dask://")
    from distributed import Client

    place = urlsplit(address).netloc
    try:
        client = Client(f"tcp://{place}", timeout=WAITS, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise ClusterError(f"no Dask scheduler answers at {place}: {error}") from None
    try:
        with suppress(TimeoutError):
            client.wait_for_workers(1, timeout=WAITS)
        cores = sum(client.nthreads().values())
        if not cores:
            raise ClusterError(f"the Dask scheduler at {place} has no worker; start one")
        yield OnDask(client, cores)
    finally:
        client.close()


@dataclass(frozen=True)
class OnRay:
    """Runs the parts as tasks of a Ray cluster."""

    cores: int

    def map(self, function: Callable[[Given], Result], items: Sequence[Given]) -> list[Result]:
        import ray

        task = ray.remote(num_cpus=1, max_retries=TRIES)(function)
        try:
            return ray.get([task.remote(each) for each in items])  # type: ignore[no-any-return]
        except ray.exceptions.RayTaskError as error:  # what our function raised on a worker
            if error.cause is not None:
                raise error.cause from None
            raise
        except ray.exceptions.RayError as error:
            raise ClusterError(f"Ray: a part failed {TRIES} times: {error}") from None


@contextmanager
def _ray(address: str) -> Iterator[Cluster]:
    needs(("ray",), "ray", "--on ray://")
    import ray

    try:
        with warnings.catch_warnings(action="ignore"):  # the error says it
            ray.init(address, log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, RuntimeError, ValueError) as error:
        more = "" if os.environ.get("RAY_AUTH_MODE") == "token" else HOW_TO_ENTER
        raise ClusterError(f"no Ray cluster answers at {address}: {error}{more}") from None
    try:
        yield OnRay(int(ray.cluster_resources().get("CPU", 0)) or 1)
    finally:
        ray.shutdown()


KINDS = {"dask": _dask, "ray": _ray}
