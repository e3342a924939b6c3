"""Gradients that ranks scale or sum in a wrong way, and programs that only look as if they did."""

from __future__ import annotations

import ast
import sys

import pytest

from gradscope.analysis.ranks.training.gradients.added import scaled_attributes
from gradscope.analysis.ranks.training.gradients.clipped import noise_on_gradients
from gradscope.analysis.ranks.training.gradients.divided import divisions_by_ranks
from tests.analysis.ranks.test_rank_rules import START, found_in
from tests.record.running import House

pytestmark = pytest.mark.torch

PATIENCE = 400.0
"""Seconds after which the two processes that run all programs are ended."""

BEGIN = """
import torch.distributed.nn.functional as dfn
F = nn.functional
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
def mine(*sizes):  # a parameter that is another part on each rank
    whole = torch.randn(world, *sizes) / 3
    return nn.Parameter(whole[rank].clone())
def total(part):  # forward: the sum over ranks; backward: the identity
    whole = part.detach().clone()
    dist.all_reduce(whole)
    return part + (whole - part.detach())
class Summed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)
    @staticmethod
    def backward(ctx, grad):
        grad = grad.contiguous()
        dist.all_reduce(grad)
        return grad
class Mean(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        whole = x.clone()
        dist.all_reduce(whole)
        return whole / world
    @staticmethod
    def backward(ctx, grad):
        return grad / world
class Divided(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)
    @staticmethod
    def backward(ctx, grad):
        return grad / world
def average(parameters, by=1):
    for each in parameters:
        dist.all_reduce(each.grad)
        each.grad /= world * by
same = torch.Generator().manual_seed(7)  # draws the same on all ranks
"""
STEPS = """
def train(optimizer, step, many=4):
    for number in range(many):
        optimizer.zero_grad()
        step(number)
        optimizer.step()
"""
END = "\ndist.destroy_process_group()\n"

OWN = "torch.manual_seed(rank)\n"
WRAPPED = OWN + "model = DistributedDataParallel(net)\n"
CLIPPING = (
    OWN
    + """
def step(_):
    net(torch.randn(8, 4) * 10 ** rank).square().mean().backward()
    {clips}
train(torch.optim.SGD(net.parameters(), lr=0.1), step)
"""
)
CLIPPED = "nn.utils.clip_grad_norm_(net.parameters(), 0.5)"
LOSS = (
    WRAPPED
    + """
def step(number):
    out = model(torch.randn(8, 4))
    {loss}
    loss.backward()
train(torch.optim.SGD(net.parameters(), lr=0.1), step)
"""
)
COUNTED = (
    WRAPPED
    + """
def step(_):
    kept = torch.rand(40) < {kept}
    kept[:2] = True
    loss = model(torch.randn(40, 4)).square().sum(1)[kept].sum() / kept.sum()
    loss.backward()
train(torch.optim.SGD(net.parameters(), lr=0.1), step, 6)
"""
)
TOGETHER = """
embed = nn.Embedding(20, 8)
nn.init.normal_(embed.weight)
up, down, bias = mine(8, 6), mine(6, 8), nn.Parameter(torch.zeros(6))
scale = nn.Parameter(torch.ones(8))
def step(number):
    x = embed(torch.randint(0, 20, (12,), generator=same))
    {loss}
    {after}
train(torch.optim.SGD([*embed.parameters(), up, down, bias, scale], lr=0.05), step)
"""
COLUMNS = "(total(F.gelu({x} @ up + bias) @ down) - 1).square().mean().backward()"
SEQUENCE = """
norm, up, down = nn.{norm}, mine(8, 6), mine(6, 8)
class Gathered(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        parts = [torch.empty_like(x) for _ in range(world)]
        dist.all_gather(parts, x.contiguous())
        return torch.cat(parts)
    @staticmethod
    def backward(ctx, grad):
        grad = grad.contiguous()
        dist.all_reduce(grad)
        return grad.chunk(world)[rank]
def step(_):
    part = torch.randn({data}, generator=same).chunk(world{dim})[rank]
    out = Gathered.apply(norm(part))
    {loss}
    loss.backward()
    {after}
train(torch.optim.SGD([*norm.parameters(), up, down], lr=0.01), step)
"""
SHARED = {"norm": "LayerNorm(8)", "data": "10, 8", "dim": "", "after": ""} | {
    "loss": "loss = total((Summed.apply(out) @ up).relu() @ down).chunk(world)[rank].square().sum()"
}
PARTS = (
    OWN
    + """
class Part(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        parts = [torch.empty_like(x) for _ in range(world)]
        dist.all_gather(parts, x.contiguous())
        return torch.cat(parts)
    @staticmethod
    def backward(ctx, grad):
        return grad.chunk(world)[rank]
def step(_):
    own = torch.randn(5, 2)
    every = Part.apply(net(torch.randn(5, 4)))
    {loss}.backward()
    average(net.parameters())
train(torch.optim.SGD(net.parameters(), lr=0.01), step)
"""
)
ROWS = """
weight, bias = mine(3, 4), nn.Parameter(torch.full((3,), 0.5))
def step(_):
    x = torch.randn(6, 4 * world, generator=same).chunk(world, 1)[rank]
    out = {out}
    (out - 1).square().mean().backward()
train(torch.optim.SGD([weight, bias], lr=0.01), step)
"""
EXPERTS = """
router = nn.Linear(8, world)
torch.manual_seed(10 + rank)
expert = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))
{prepare}
def step(_):
    x = torch.randn(6, 8)
    gates = router(x).softmax(1)
    answers = {answers}.chunk(world)
    own = dfn.all_to_all([torch.empty_like(x) for _ in range(world)], list(answers))
    out = sum(gates[:, i : i + 1] * each for i, each in enumerate(own))
    {loss}.backward()
    average(router.parameters(){by})
train({optimizer}, step)
"""
SOUND = {"prepare": "", "by": "", "answers": "expert(torch.cat(dfn.all_gather(x)))"} | {
    "loss": "F.mse_loss(out, x.flip(1))",
    "optimizer": "torch.optim.SGD([*router.parameters(), *expert.parameters()], lr=0.05)",
}

BUGS = {
    "clipped": ("GS017", CLIPPED, CLIPPING.format(clips=f"{CLIPPED}; average(net.parameters())")),
    "divided": ("GS018", "loss = out", LOSS.format(loss="loss = out.mean() / (3 * world)")),
    "divided in place": ("GS018", "n_ranks", LOSS.format(
        loss="n_ranks = dist.get_world_size()\n    loss = out.mean()\n    loss /= n_ranks")),
    "counted": ("GS008", "kept.sum()", COUNTED.format(kept="(0.9 if rank else 0.1)")),
    "column": ("GS019", "up + bias", TOGETHER.format(loss=COLUMNS.format(x="x"), after="")),
    "sequence": ("GS019", "loss.backward()", SEQUENCE.format(**SHARED)),
    "row": ("GS020", "F.linear", ROWS.format(out="total(F.linear(x, weight, bias))")),
    "row and bias": ("GS020", "+ bias", ROWS.format(out="total(x @ weight.T + bias)")),
    "row and no bias at first": ("GS020", "F.linear", ROWS.format(
        out="total(F.linear(x, weight, bias))").replace("0.5", "0.0")),
    "row with a step less": ("GS020", "F.linear", ROWS.format(
        out="total(F.linear(x, weight, bias))").replace("    (out", "    if rank and _ == 3: "
        "optimizer.step = lambda: None\n    (out").replace("train(", "optimizer = ").replace(
        ", step)", "\ntrain(optimizer, step)")),
    "experts": ("GS012", "optimizer.step()", EXPERTS.format(**SOUND)),
    "own part": ("GS029", "Part.apply", PARTS.format(loss="(own @ every.T).logsumexp(1).sum()")),
}  # fmt: skip
"""By kind: the rule, a text of the line that it names, and the script."""

HEALTHY = {
    "clipped after": CLIPPING.format(clips=f"average(net.parameters()); {CLIPPED}"),
    "measured only": CLIPPING.format(
        clips="nn.utils.clip_grad_norm_(net.parameters(), float('inf')); average(net.parameters())"
    ),
    "clipped before and after": CLIPPING.format(
        clips=f"{CLIPPED}; average(net.parameters()); {CLIPPED}"
    ),
    "clipped for privacy": CLIPPING.format(
        clips=f"{CLIPPED}; average(net.parameters())\n"
        "    for each in net.parameters():\n"
        "        each.grad += 0.01 * torch.randn(each.shape, generator=same)"
    ),
    "mean of two losses": LOSS.format(loss="loss = (out.mean() + out.square().mean()) / 2"),
    "share of all": LOSS.format(
        loss="many = torch.tensor(8.0)\n"
        "    dist.all_reduce(many)\n"
        "    loss = out.square().sum() * world / many.item()"
    ),
    "mean count": LOSS.format(
        loss="many = torch.tensor(8.0)\n"
        "    dist.all_reduce(many)\n"
        "    count = many.item() / world\n"
        "    loss = out.square().sum() / count"
    ),
    "loss summed with a backward": LOSS.format(
        loss="loss = dfn.all_reduce(out.square().mean()) / world"
    ),
    "divided for a sum": LOSS.format(loss="loss = out.square().mean() / world").replace(
        "def step",
        "def hook(state, bucket):\n"
        "    done = dist.all_reduce(bucket.buffer(), async_op=True).get_future()\n"
        "    return done.then(lambda each: each.value()[0])\n"
        "model.register_comm_hook(None, hook)\n"
        "def step",
    ),
    "counts that vary": COUNTED.format(kept="0.5"),
    "column summed": TOGETHER.format(loss=COLUMNS.format(x="Summed.apply(x)"), after=""),
    "column summed after": TOGETHER.format(
        loss=COLUMNS.format(x="x"), after="dist.all_reduce(embed.weight.grad)"
    ),
    "models of their own": "def step(_):\n    net(torch.randn(8, 4)).square().mean().backward()\n"
    "torch.manual_seed(rank)\n"
    "train(torch.optim.SGD(net.parameters(), lr=0.1), step)",
    "experts with a norm each": TOGETHER.format(
        loss="x = F.layer_norm(Summed.apply(x), (8,)) * scale\n"
        f"    {COLUMNS.format(x='x')}",
        after="",
    ),
    "experts that begin alike": TOGETHER.format(
        loss="x = Summed.apply(x)\n"
        "    out = torch.tanh(x @ F.layer_norm(alike, (8,)))\n"
        "    (total(out * x.softmax(1)[:, rank : rank + 1] + x @ up @ down) - 1).square().mean()"
        ".backward()",
        after="",
    ).replace("def step", "alike = nn.Parameter(torch.randn(8, 8, generator=same))\ndef step")
    .replace("bias, scale]", "bias, scale, alike]"),
    "norms summed": SEQUENCE.format(
        **SHARED | {"after": "for each in norm.parameters(): dist.all_reduce(each.grad)"}
    ),
    "norms of features": SEQUENCE.format(
        **SHARED
        | {"norm": "LayerNorm(4)", "dim": ", 1"}
        | {"loss": "loss = total((Summed.apply(out) @ up[:4]).relu() @ down).square().sum()"}
    ),
    "towers": SEQUENCE.format(
        **SHARED | {"loss": "loss = (out @ out.T).logsumexp(1).sum() + (up @ down).sum()"}
    ),
    "row and then bias": ROWS.format(out="total(F.linear(x, weight)) + bias"),
    "ensemble": ROWS.format(out="total(F.linear(x, weight, bias)) / world"),
    "ensemble in a function": ROWS.format(out="Mean.apply(F.linear(x, weight, bias))"),
    "part of the bias": ROWS.format(out="total(F.linear(x, weight, bias / world))"),
    "kept as a part": ROWS.format(out="total(F.linear(x, weight, bias))").replace(
        "def step", "bias.data = bias.data / world\ndef step"
    ),
    "own part of one loss": PARTS.format(loss="every.logsumexp(1).sum()"),
    "own part, and no other": PARTS.format(loss="(own - every.chunk(world)[rank]).norm()"),
    "experts divided": EXPERTS.format(**SOUND | {"by": ")\n    [each.grad.div_(world) for each in "
        "expert.parameters()]\n    (0"}),
    "experts divided on the way": EXPERTS.format(
        **SOUND | {"answers": "Divided.apply(expert(torch.cat(dfn.all_gather(x))))"}
    ),
    "experts divided by hooks": EXPERTS.format(
        **SOUND
        | {"prepare": "for each in expert.parameters(): each.register_hook(lambda g: g / world)"}
    ),
    "experts with a rate": EXPERTS.format(
        **SOUND
        | {"optimizer": "torch.optim.SGD([{'params': router.parameters()}, "
            "{'params': expert.parameters(), 'lr': 0.025}], lr=0.05)"}
    ),
    "experts of Adam": EXPERTS.format(
        **SOUND
        | {"optimizer": "torch.optim.Adam([*router.parameters(), *expert.parameters()])"}
    ),
    "all are sums": EXPERTS.format(
        **SOUND | {"by": ", 1 / world", "loss": "(F.mse_loss(out, x.flip(1)) / world)"}
    ),
}  # fmt: skip

ALL = f"""
import gradscope, runpy
kept = []  # PyTorch can hang if a model is freed right after its last collective
for kind in {[*BUGS, *HEALTHY]}:
    with gradscope.record(f"{{kind}}.rank{{os.environ['RANK']}}.json", on="torch", level="values"):
        kept.append(runpy.run_path(f"{{kind}}.py", globals()))
    os.environ["STORE"] = kind
os._exit(0)
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> House:
    """Two processes that have run each program, one after the other."""
    house = House(tmp_path_factory.mktemp("gradients"))
    scripts = {kind: script for kind, (_, _, script) in BUGS.items()} | HEALTHY
    for kind, script in scripts.items():
        house.write(BEGIN + STEPS + script + END, f"{kind}.py")
    house.write(START + ALL)
    for ran in house.run_as_ranks(2, sys.executable, "script.py", patience=PATIENCE):
        assert ran.code == 0, ran.err
    return house


@pytest.mark.parametrize("kind", BUGS)
def test_the_line_is_named(trained: House, kind: str) -> None:
    [finding] = found_in(trained, kind)

    assert (finding.rule, finding.slug) == (BUGS[kind][0], finding.slug)
    assert BUGS[kind][1] in finding.site.text


@pytest.mark.parametrize("kind", HEALTHY)
def test_nothing_is_said_against_what_only_looks_like_it(trained: House, kind: str) -> None:
    assert found_in(trained, kind) == ()


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("loss = loss / dist.get_world_size()", [1]),
        ("loss /= (\n    steps * args.world_size\n)", [1]),
        ("n = dist.get_world_size()\nloss = loss / n", [2]),
        ("loss = loss / world_size_of(mesh)", []),
        ("loss = loss / (total / world)", []),
        ("loss = loss / count + other / world", []),
        ("loss = loss * world / count", []),
        ("loss = loss * world / (count * world)", []),
    ],
)
def test_divisions_by_the_number_of_ranks_are_found_in_the_source(
    text: str, lines: list[int]
) -> None:
    assert [each.line for each in divisions_by_ranks(ast.parse(text))] == lines


def test_noise_that_is_added_to_gradients_is_found_in_the_source() -> None:
    text = "x = torch.randn(3)\np.grad += 0.1 * torch.randn_like(p.grad)\np.grad.zero_()"

    assert [each.line for each in noise_on_gradients(ast.parse(text))] == [2]


def test_what_is_divided_or_multiplied_is_found_in_the_source() -> None:
    found = scaled_attributes(ast.parse("y = x @ w + b\nself.bias.data /= world\nz = 2 * w"))

    assert {each.name for each in found} == {"bias", "data", "self", "world", "w"}
