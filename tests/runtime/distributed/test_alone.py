"""A world of one process, which needs no MPI; and what no world has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.runtime.both import raises, runtime


@pytest.fixture
def dist(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """`torch.distributed` of the runtime, with a default group of one rank."""
    for name in ("RANK", "WORLD_SIZE", "PMI_RANK", "PMI_SIZE", "OMPI_COMM_WORLD_RANK"):
        monkeypatch.delenv(name, raising=False)
    found = runtime().distributed
    found.init_process_group("gloo")
    yield found
    if found.is_initialized():
        found.destroy_process_group()


def test_each_collective_gives_a_rank_what_it_has_passed(dist: Any) -> None:
    torch = runtime()
    x, out = torch.arange(3.0), torch.zeros(3)

    dist.all_reduce(x)
    dist.broadcast(x, 0)
    dist.all_gather([out], x)
    assert out.tolist() == x.tolist() == [0.0, 1.0, 2.0]
    dist.all_to_all_single(out, x + 1)
    assert out.tolist() == [1.0, 2.0, 3.0]
    objects = [None]
    dist.all_gather_object(objects, {"a": 1})
    assert objects == [{"a": 1}]
    assert dist.all_reduce(x, async_op=True).wait() is True


def test_nothing_is_known_of_a_group_that_was_destroyed(dist: Any) -> None:
    dist.destroy_process_group()

    assert not dist.is_initialized()
    assert "has not been initialized" in raises(ValueError, dist.get_rank)
    assert "Process group cannot be None" in raises(AssertionError, dist.destroy_process_group)
    dist.init_process_group()
    assert (dist.get_rank(), dist.get_world_size(), dist.get_backend()) == (0, 1, "gloo")


def test_a_rank_that_is_not_in_a_group_is_told_so(dist: Any) -> None:
    outside = dist.GroupMember.NON_GROUP_MEMBER

    assert (dist.get_rank(outside), dist.get_world_size(outside)) == (-1, -1)
    with pytest.warns(UserWarning, match="Running barrier on global rank 0 which does not belong"):
        dist.barrier(outside)


REFUSED = {
    "init_process_group('nccl')": (RuntimeError, "no backend 'nccl'"),
    "init_process_group('cuda:nccl')": (RuntimeError, "no backend"),
    "init_process_group('foo')": (AssertionError, "Unknown backend type foo"),
    "init_process_group('gloo', world_size=2, rank=0)": (RuntimeError, "mpiexec -n 2"),
    "init_process_group('gloo', timeout=3)": (TypeError, "datetime.timedelta"),
    "split_group()": (RuntimeError, "no torch.distributed.split_group"),
    "new_thing": (AttributeError, "'torch.distributed' has no attribute 'new_thing'"),
    "fsdp": (AttributeError, "models divided among ranks; DistributedDataParallel is there"),
}


@pytest.mark.parametrize("call", REFUSED)
def test_what_cannot_be_is_refused_in_words(dist: Any, call: str) -> None:
    dist.destroy_process_group()
    kind, words = REFUSED[call]

    assert words in raises(kind, lambda: eval(f"dist.{call}", {"dist": dist}))


def test_processes_of_torchrun_are_told_who_connects_them(
    dist: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    dist.destroy_process_group()
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")

    assert "mpiexec" in raises(RuntimeError, dist.init_process_group)


def test_a_sampler_divides_among_the_ranks_of_the_group(dist: Any) -> None:
    sampler = runtime().utils.data.distributed.DistributedSampler(range(5), shuffle=False)

    assert (sampler.num_replicas, sampler.rank, list(sampler)) == (1, 0, [0, 1, 2, 3, 4])


def test_an_option_of_data_parallel_that_is_missing_is_refused(dist: Any) -> None:
    nn = runtime().nn
    model = nn.Linear(1, 1)

    for options in ({"mixed_precision": object()}, {"skip_all_reduce_unused_params": True}):
        (name,) = options
        refused = raises(
            RuntimeError, lambda given=options: nn.parallel.DistributedDataParallel(model, **given)
        )
        assert f"no DistributedDataParallel({name}=…)" in refused
    assert "parameter that requires a gradient" in raises(
        RuntimeError, lambda: nn.parallel.DistributedDataParallel(nn.ReLU())
    )
    assert "no DistributedDataParallel.join" in raises(
        RuntimeError, nn.parallel.DistributedDataParallel(model).join
    )


def test_a_script_that_leaves_its_group_behind_leaves_none_to_the_next(dist: Any) -> None:
    from gradscope.record.from_runtime.script.fresh_runtime import fresh_state

    with fresh_state():
        assert not dist.is_initialized()
        dist.init_process_group("gloo")
    assert dist.is_initialized()


def test_a_parameter_that_is_ready_twice_is_named(dist: Any) -> None:
    torch = runtime()
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
    loss = model(torch.ones(1, 2)).sum()
    model.module.weight.sum().backward()

    with pytest.raises(RuntimeError, match=r"index 0 with name \.weight has been marked as ready"):
        loss.backward()


def test_a_static_graph_that_changes_is_refused(dist: Any) -> None:
    torch = runtime()

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)

        def forward(self, x: Any, more: bool) -> Any:
            return self.b(self.a(x)) if more else self.a(x)

    model = torch.nn.parallel.DistributedDataParallel(Model(), static_graph=True)
    model(torch.ones(1, 2), False).sum().backward()
    with pytest.raises(RuntimeError, match="unused in first iteration, but then got used"):
        model(torch.ones(1, 2), True).sum().backward()


def test_a_captured_step_keeps_its_collectives(dist: Any) -> None:
    torch = runtime()
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
    seen = []

    def step(x: Any) -> Any:
        model.zero_grad()
        loss = model(x).sum()
        loss.backward()
        seen.append(dist.group.WORLD.count())
        return loss

    compiled = torch.compile(step)
    for _ in range(5):
        compiled(torch.ones(1, 2))

    assert len(seen) == 5
    assert min(b - a for a, b in zip(seen, seen[1:], strict=False)) > 1, "each reduces its bucket"
