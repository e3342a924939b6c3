"""The same answers on clusters of Dask and Ray; what goes wrong there is said in words."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Generator
from pathlib import Path
from types import SimpleNamespace

import pytest

from gradscope.errors import ClusterError, MissingProgramError, UsageError
from gradscope.fleet.asking import clusters
from gradscope.fleet.asking.answer import Asking, FleetAnswer
from gradscope.fleet.asking.clusters import Cluster, ThisProcess, cluster_at
from gradscope.fleet.asking.folder import Asked, fleet_at
from gradscope.fleet.asking.question import question_called
from tests.fleet.planted import Planted, write

pytestmark = pytest.mark.filterwarnings("ignore")  # of the clusters' own
ASKED = ("first-nan", "drift", "stragglers", "collectives", "memory")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("fleet")
    write(root, Planted(ranks=5, steps=24, steps_per_file=8, nan=(1, 20, 1), slow=(2, 4.0),
                        drift=(3, 12, 1), odd=(4, 22)))  # fmt: skip
    return root


@pytest.fixture(scope="module")
def dask() -> Generator[str]:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, host="127.0.0.1"
    ) as cluster:
        yield cluster.scheduler_address.replace("tcp://", "dask://")


def ask(root: Path, name: str, cluster: Cluster) -> FleetAnswer:
    question = question_called(name)
    return Asking(fleet_at(root, Asked()), question, dict(question.parameters), cluster).answer()


@pytest.mark.slow
def test_dask_gives_the_same_answers(root: Path, dask: str) -> None:
    with cluster_at(dask) as cluster:
        assert cluster.cores == 2
        for name in ASKED:
            rows = ask(root, name, cluster).rows
            assert rows
            assert rows == ask(root, name, ThisProcess()).rows


@pytest.mark.slow
def test_ray_gives_the_same_answers(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    try:
        for name in ASKED:
            rows = ask(root, name, clusters.OnRay(2)).rows
            assert rows
            assert rows == ask(root, name, ThisProcess()).rows
    finally:
        ray.shutdown()


@pytest.mark.slow
def test_a_damaged_file_is_left_out_on_a_cluster_too(tmp_path: Path, dask: str) -> None:
    write(tmp_path, Planted(ranks=3, steps=8, nan=(1, 5, 1)))
    path = tmp_path / "value" / "run=base" / "rank=0" / "part-00000000.parquet"
    path.write_bytes(path.read_bytes()[:100])

    with cluster_at(dask) as cluster:
        answer = ask(tmp_path, "first-nan", cluster)

    assert [row["ranks"] for row in answer.rows] == [[1], [0, 2]]  # gradients of rank 0 are left
    assert answer.damaged == (str(path),)


def dies_once(path: str) -> int:
    """End the process at the first call, as a worker that is killed."""
    if not Path(path).exists():
        Path(path).touch()
        os._exit(1)
    return 7


def dies(_: int) -> int:
    os._exit(1)


@pytest.mark.slow
def test_a_part_whose_worker_dies_is_asked_again_until_that_makes_no_sense(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, host="127.0.0.1"
        ) as local,
        cluster_at(local.scheduler_address.replace("tcp://", "dask://")) as cluster,
    ):
        assert cluster.map(dies_once, [str(tmp_path / "died")]) == [7]
        with pytest.raises(ClusterError, match="workers died several times"):
            cluster.map(dies, [1])


def test_a_scheduler_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(clusters, "WAITS", 1)

    with (
        pytest.raises(ClusterError, match=r"no Dask scheduler answers at 127\.0\.0\.1:9"),
        cluster_at("dask://127.0.0.1:9"),
    ):
        pass


def test_a_ray_cluster_that_does_not_answer_is_named_and_its_token_explained(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def init(*_: object, **__: object) -> None:
        warnings.warn("Ray Client connection timed out", stacklevel=1)
        raise ConnectionError("ray client connection timeout")

    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(__version__="2.60.0", init=init))
    for mode, words in (("disabled", "; if it asks for a token, set RAY_AUTH_MODE"), ("token", "")):
        monkeypatch.setenv("RAY_AUTH_MODE", mode)
        with (
            warnings.catch_warnings(action="error"),
            pytest.raises(ClusterError, match=r"^no Ray cluster answers at ray://h:1: ") as raised,
            cluster_at("ray://h:1"),
        ):
            pass
        assert words in str(raised.value)
        assert ("token" in str(raised.value)) == bool(words)


@pytest.mark.parametrize("address", ["dask:", "spark://host:1", "localhost:8786", "ray"])
def test_an_address_of_another_kind_is_explained(address: str) -> None:
    with pytest.raises(UsageError, match="--on takes dask://HOST:PORT"), cluster_at(address):
        pass


@pytest.mark.parametrize(("kind", "package"), [("dask", "distributed"), ("ray", "ray")])
def test_a_missing_package_is_named(
    monkeypatch: pytest.MonkeyPatch, kind: str, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)

    with (
        pytest.raises(MissingProgramError, match=rf"{package}: pip install .*\[{kind}\]"),
        cluster_at(f"{kind}://127.0.0.1:1"),
    ):
        pass
