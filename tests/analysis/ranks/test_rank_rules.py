"""Rules about ranks, on programs that train on two processes with gloo."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gradscope.analysis.findings import Finding
from gradscope.analysis.ranks.merging.merge import merged
from gradscope.analysis.report import inspect
from gradscope.analysis.rules import all_rules
from gradscope.analysis.rules.registry import Rule
from tests.record.running import LONG, House
from tests.shared.forked_starts import GRADSCOPE

pytestmark = pytest.mark.torch

START = """
import os, sys
from datetime import timedelta
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
begin = dist.init_process_group
def init_process_group(backend):
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = "file://" + os.path.abspath("store" + os.environ.get("STORE", ""))
    limit = timedelta(seconds=float(os.environ.get("LIMIT", 300)))
    begin(backend, init_method=store, rank=rank, world_size=size, timeout=limit)
dist.init_process_group = init_process_group
"""
KEEP = """
import ctypes
for kept in list(globals().values()):  # PyTorch can hang when a model is freed
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
"""
TRAINING = """
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
model = DistributedDataParallel(net)
{prepare}
optimizer = {optimizer}
for step in range(6):
    x = torch.randn(8, 4)
    optimizer.zero_grad()
    loss = {call}.square().mean()
    loss.backward()
    {before}
    optimizer.step()
    {after}
dist.destroy_process_group()
"""
SOUND = {
    "prepare": "",
    "optimizer": "torch.optim.SGD(model.parameters(), lr=0.1)",
    "call": "model(x)",
    "before": "",
    "after": "",
}
DRIFTS = {
    "initialized on one rank": ({"prepare": "if rank: nn.init.ones_(net[0].weight)"}, "nn.init"),
    "another rate": (
        {"optimizer": "torch.optim.SGD(model.parameters(), lr=0.1 * (1 + rank))"},
        "optimizer.step()",
    ),
    "called without DDP": ({"call": "(net if step == 2 else model)(x)"}, "loss.backward()"),
    "clipped to another norm": (
        {"before": "nn.utils.clip_grad_norm_(net.parameters(), 0.01 * (1 + rank))"},
        "nn.utils.clip_grad_norm_",
    ),
    "written later": (
        {"after": "if rank and step == 3: net[2].bias.data.zero_()"},
        "net[2].bias.data.zero_()",
    ),
    "skipped on one rank": (
        {"before": "if rank and step == 3: continue"},
        "optimizer.step()",
    ),
    "never summed": ({"call": "net(x)"}, "loss.backward()"),
}
NAN = {
    "prepare": "spoiled = lambda x, zero: model(x) / (x * 0 if zero else x).sum()",
    "call": "spoiled(x, rank and step == 2)",
}
HEALTHY = {
    "as it is": {},
    "clipped alike": {"before": "nn.utils.clip_grad_norm_(net.parameters(), 0.01)"},
    "accumulated without sync": {
        "call": "model(x)",
        "before": "with model.no_sync(): model(x).mean().backward()\n"
        "    model(x).mean().backward()",
    },
    "another loss on each rank": {"call": "(model(x) * (1 + rank))"},
    "reset on all ranks": {"after": "if step == 3: net[2].bias.data.zero_()"},
    "two models in one optimizer": {
        "prepare": "other = DistributedDataParallel(nn.Linear(4, 2))",
        "call": "(model(x) + other(x))",
        "before": "optimizer.param_groups[0]['params'] = [*net.parameters(), *other.parameters()]",
    },
    "optimizer divided among ranks": {
        "prepare": "from torch.distributed.optim import ZeroRedundancyOptimizer as ZeRO",
        "optimizer": "ZeRO(model.parameters(), torch.optim.SGD, lr=0.1)",
    },
    "averaged within a group": {
        "prepare": "import torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook as "
        "local\n"
        "groups = [dist.new_group([0]), dist.new_group([1])]\n"
        "state = local.PostLocalSGDState(None, groups[rank], 1)\n"
        "model.register_comm_hook(state, local.post_localSGD_hook)",
    },
    "averaged every third step": {
        "call": "net(x)",
        "after": "if step % 3 == 2:\n"
        "        for each in net.parameters():\n"
        "            dist.all_reduce(each.data)\n"
        "            each.data /= 2",
    },
    "printed on one rank": {"after": "if rank == 0: print(float(loss))"},
}


SHORT = """
dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Linear(4, 2))
x = torch.ones(2, 4)
for step in range(3 - dist.get_rank()):
    model(x).sum().backward()
dist.barrier()
"""


ALL = f"""
import gradscope, runpy
kept = []  # PyTorch can hang if a model is freed right after its last collective
for kind in {["nan", *DRIFTS, *HEALTHY]}:
    with gradscope.record(f"{{kind}}.rank{{os.environ['RANK']}}.json", on="torch", level="values"):
        kept.append(runpy.run_path(f"{{kind}}.py", globals()))
    os.environ["STORE"] = kind
os._exit(0)
"""


def ranks(house: House, *command: str, fails: bool = False) -> None:
    """Run a command as two ranks."""
    limit = {"LIMIT": "10"} if fails else {}
    for ran in house.run_as_ranks(2, *command, patience=30 if fails else LONG, **limit):
        assert fails or ran.code == 0, ran.err


def found_in(house: House, name: str, noted: str = "") -> tuple[Finding, ...]:
    """What is found about two ranks, without notes of other rules than this one."""
    whole = merged([house.recorded(f"{name}.rank{rank}.json") for rank in range(2)])
    every = inspect(whole).findings
    return tuple(each for each in every if each.severity or each.rule == noted)


def findings(
    house: House, script: str, noted: str = "", *, fails: bool = False
) -> tuple[Finding, ...]:
    """The same about two ranks that run this script."""
    house.write(f"{START}{script}\n{KEEP}")
    command = (GRADSCOPE, "trace", "-q", "--on", "torch", "--level", "values", "script.py")
    ranks(house, *command, fails=fails)
    return found_in(house, "trace", noted)


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> House:
    """Two processes that have run each kind of training, one after the other."""
    house = House(tmp_path_factory.mktemp("ranks"))
    changes = {kind: changed for kind, (changed, _) in DRIFTS.items()}
    for kind, changed in {"nan": NAN, **changes, **HEALTHY}.items():
        house.write(TRAINING.format(**SOUND | changed), f"{kind}.py")
    house.write(START + ALL)
    ranks(house, sys.executable, "script.py")
    return house


@pytest.mark.parametrize("kind", DRIFTS)
def test_the_first_step_and_line_of_a_drift_are_named(trained: House, kind: str) -> None:
    [finding] = found_in(trained, kind)

    assert finding.rule == "GS003"
    assert DRIFTS[kind][1] in finding.site.text


def test_a_nan_of_one_rank_is_found_there_and_only_received_by_others(trained: House) -> None:
    [finding] = found_in(trained, "nan")

    assert (finding.rule, finding.ranks) == ("GS201", (1,))
    assert "spoiled" in finding.site.text
    assert "rank 0 received it" in finding.why
    alone = inspect(trained.recorded("nan.rank0.json")).findings
    assert any("another rank may have produced it" in each.why for each in alone)


def test_a_backward_in_which_a_rank_waits_for_one_at_a_barrier_is_named(house: House) -> None:
    first, *_ = findings(house, SHORT, fails=True)

    assert first.rule == "GS006"
    assert "rank 0 waited for gradients in backward 3" in first.message
    assert "for step in range" in first.site.text
    assert "rank 1 called barrier" in first.why


@pytest.mark.parametrize("kind", HEALTHY)
def test_nothing_is_said_against_replicas_that_stay_equal(trained: House, kind: str) -> None:
    assert found_in(trained, kind) == ()


ACROSS = pytest.mark.parametrize(
    "rule", [rule for rule in all_rules() if rule.across], ids=lambda rule: rule.slug
)


@ACROSS
def test_a_rule_finds_its_bad_snippet(house: House, rule: Rule) -> None:
    found = findings(house, rule.explained.bad, rule.id, fails=True)

    assert [each.rule for each in found if each.rule != "GS301"] == [rule.id]


@ACROSS
def test_a_rule_finds_nothing_in_its_good_snippet(house: House, rule: Rule) -> None:
    assert findings(house, rule.explained.good, rule.id) == ()


def test_the_exception_that_parted_ranks_is_named(house: House) -> None:
    script = """
dist.init_process_group("gloo")
for step in range(3):
    if dist.get_rank() == 1 and step == 2:
        raise ValueError("bad batch")
    dist.all_reduce(torch.ones(1))
"""
    first, *others = findings(house, script, fails=True)

    assert (first.rule, first.site.text) == ("GS002", "dist.all_reduce(torch.ones(1))")
    assert "rank 1 ended with: ValueError: bad batch" in first.why
    assert {each.rule for each in others} == {"GS301"}
