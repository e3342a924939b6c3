"""What a script does that is no operation is told alike on both engines, with its lines."""

from __future__ import annotations

import json
import re

import pytest

import gradscope
from gradscope.trace.schema import NONE, Act, Frame, Module, Stack, Tensor
from gradscope.trace.trace import Trace
from tests.record.running import House
from tests.shared.acts import acts, said

SCRIPT = """\
import copy
import warnings
import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_

torch.manual_seed(0)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = []
        for _ in range(2):
            self.layers.append(nn.Linear(4, 4, bias=False))
        self.head = nn.Linear(4, 1)
        self.scale = torch.ones(4, requires_grad=True)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(x.detach())

def freeze(module):
    for parameter in module.parameters():
        parameter.requires_grad = False

net = Net()
freeze(net.head)
net.eval()
net.requires_grad_(True)
spare = copy.deepcopy(net)
net.load_state_dict(spare.state_dict())
optimizer = torch.optim.Adam(net.parameters(), lr=0.1, weight_decay=0.5)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
net.head.register_forward_hook(print_nothing := lambda module, given, made: None)
for step in range(2):
    optimizer.zero_grad()
    loss = net(torch.ones(8, 4)).pow(2).mean()
    loss.backward()
    clip_grad_norm_(net.parameters(), 1e6)
    optimizer.step()
    schedule.step()
    total = loss.item()
    net.head.weight.grad.zero_()
    net.head.bias.grad = None
again = torch.tensor(net.head.weight)
net.head = nn.Linear(4, 1)
warnings.warn("on purpose")
with torch.no_grad():
    net(torch.ones(8, 4))
net.requires_grad = False
out = net.head.weight * 2
chosen, above = out.argmax(1), out > 0
net.head.weight.data.mul_(net.head.weight.data.norm())
last = nn.Tanh()
optimizer.zero_grad
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
state = net.state_dict()
state["head.bias"].add_(net.state_dict()["head.bias"], alpha=0.5)
net.load_state_dict(state)
net.head.soft = nn.Parameter(torch.ones(2)) * 0.5
target = net
target.load_state_dict(net.state_dict())
nn.init.zeros_(net.head.bias)
"""

EXPECTED = """\
seed {"seed":"0"} [7]
assigned of (4,) {"name":"scale","what":"tensor","within":"Net","leaf":true} [16, 27]
requires_grad of head.weight {"to":false} [25, 28]
requires_grad of head.bias {"to":false} [25, 28]
train to Net {"to":false} [29]
requires_grad of head.weight, head.bias to Net {"to":true} [30]
copied {"what":"Net"} [31]
state_taken [32]
loaded to Net {"strict":true,"many":2} [32]
optimizer of head.weight, head.bias {"type":"Adam","lr":[0.1],"weight_decay":[0.5],"momentum":[Na\
N],"many":[2]} [33]
schedule with Adam {"type":"StepLR"} [34]
hook to Linear {"by":"register_forward_hook","hook":"<lambda>","many":0} [35]
zero_grad with Adam {"set_to_none":true} [37]
assigned of weight, weight to Net {"name":"layers","what":"list of Linear","within":"Net"} [12, 2\
7]
ran to Net {"grad":true,"training":false} [38]
ran to Linear inside {"grad":true,"training":true} [20, 38]
ran to Linear inside {"grad":true,"training":true} [20, 38]
cut of weight, weight inside {"by":"detach"} [21, 38]
ran to Linear inside {"grad":true,"training":false} [21, 38]
clip of head.weight, head.bias to Net {"by":"clip_grad_norm_","max":1e6,"norm":N} [40]
step with Adam {"lr":[0.1],"none":0,"many":2} [41]
schedule_step with Adam {"lr":[0.05],"type":"StepLR"} [42]
cut of head.weight, head.bias {"by":"item"} [43]
grad_zeroed of head.weight {"by":"zero_"} [44]
grad_set of head.bias {"to":"None"} [45]
zero_grad with Adam {"set_to_none":true} [37]
cut of weight, weight inside {"by":"detach"} [21, 38]
clip of head.weight, head.bias to Net {"by":"clip_grad_norm_","max":1e6,"norm":N} [40]
step with Adam {"lr":[0.05],"none":0,"many":2} [41]
schedule_step with Adam {"lr":[0.025],"type":"StepLR"} [42]
cut of head.weight, head.bias {"by":"item"} [43]
grad_zeroed of head.weight {"by":"zero_"} [44]
grad_set of head.bias {"to":"None"} [45]
warning {"category":"UserWarning","text":"To copy construct from a tensor, it is recommended to u\
se sourceTensor.detach().clone() or sourceTensor.detach().clone().requires_grad_(True), rather th\
an torch.tensor(sourceTensor)."} [46]
assigned of weight, bias {"name":"head","what":"module","within":"Net","replaced":true} [47]
warning {"category":"UserWarning","text":"on purpose"} [48]
grad_off {"by":"no_grad"} [49]
ran to Net {"grad":false,"training":false} [50]
ran to Linear inside {"grad":false,"training":true} [20, 50]
ran to Linear inside {"grad":false,"training":true} [20, 50]
ran to Linear inside {"grad":false,"training":true} [21, 50]
assigned to Net {"name":"requires_grad","what":"flag","within":"Net","to":0.0} [51]
cut of weight {"by":"argmax"} [53]
cut of weight {"by":">"} [53]
data_written of weight [54]
built {"type":"Tanh"} [55]
assigned of (4,) {"name":"scale","what":"tensor","within":"Net","leaf":true} [16, 57]
optimizer of (1,), (1, 4) {"type":"SGD","lr":[0.1],"weight_decay":[0.0],"momentum":[0.0],"many":[\
2]} [58]
state_taken [59]
state_taken [60]
statement {"what":"stored","name":"state"} [59]
added_to_itself of (1,) with  {"by":"add_","alpha":0.5} [60]
loaded {"strict":true,"many":2} [61]
loaded_itself of (1,), (1, 4) with  {"many":2} [61]
assigned of (2,) {"name":"soft","what":"tensor","within":"Linear"} [62]
state_taken [64]
loaded {"strict":true,"many":2} [64]
loaded_itself of (1,), (1, 4) with  {"many":2} [64]
statement with  {"what":"equated","name":"target"} [63]
filled of (1,) {"by":"zeros_"} [65]
read {"by":"item","first":N,"times":2} [43]
assigned of (4, 4), (4, 4) {"name":"layers","what":"list of Linear","within":"Net"} [12, 57]
"""


def told(trace: Trace) -> str:
    """Each act in a line: its kind, what it was done to, its facts, its lines."""
    tensors = {row.id: row.name or f"{row.shape}" for row in trace.rows(Tensor)}
    modules = {row.id: row.type for row in trace.rows(Module)}
    optimizers = {row.id: said(trace, row)["type"] for row in acts(trace, "optimizer")}
    found = []
    for act in sorted(trace.rows(Act), key=lambda act: act.t):
        parts = [act.kind]
        if act.tensors:
            parts += ["of", ", ".join(sorted(tensors[each] for each in act.tensors)[::-1])]
        parts += ["to", modules.get(act.module, "")] * (act.module != NONE)
        parts += ["inside"] * (act.inside != NONE)
        parts += ["with", optimizers.get(act.of, "")] * (act.of != NONE)
        facts = json.dumps(said(trace, act), separators=(",", ":")).replace("1000000.0", "1e6")
        facts = re.sub(r'"norm":[0-9.]+', '"norm":N', facts)
        facts = re.sub(r'"first":.*,"times"', '"first":N,"times"', facts)
        facts = re.sub(r',"moved":.*\]', "", facts)  # test_not_finite.py has those
        found.append(" ".join([*parts, *([facts] * (facts != "{}")), str(lines(trace, act.stack))]))
    return "".join(f"{line}\n" for line in found)


def lines(trace: Trace, stack: int) -> list[int]:
    """The program's lines, from the innermost on."""
    stacks = {row.id: row for row in trace.rows(Stack)}
    frames = {row.id: row for row in trace.rows(Frame)}
    found = []
    while stack != NONE:
        found.append(frames[stacks[stack].frame].line)
        stack = stacks[stack].parent
    return found


@pytest.mark.parametrize("engine", ["gradscope", pytest.param("torch", marks=pytest.mark.torch)])
def test_what_a_script_does_is_told_and_what_it_says_is_as_unwatched(
    house: House, engine: str
) -> None:
    house.write(SCRIPT)

    ran = house.trace("--on", engine, "script.py")

    assert house.violations() == []
    done = told(house.recorded()).splitlines(keepends=True)
    assert "".join(line for line in done if not line.startswith("came_in")) == EXPECTED
    assert "unseen" not in house.recorded().meta or engine == "torch"
    shown = [line for line in ran.err.splitlines() if not line.startswith(" ")]
    assert [line.split(": ")[0].rpartition("/")[2] for line in shown] == [
        "script.py:46", "script.py:48",
    ]  # fmt: skip
    if engine == "torch":
        unwatched = house.python("script.py")
        assert (ran.out, ran.err, ran.code) == (unwatched.out, unwatched.err, unwatched.code)


CAME_IN = """\
import numpy as np
import torch
from torch import nn

def loaded(numbers):
    return torch.from_numpy(np.array(numbers, np.float32))

x = loaded([1.0, 2.0, 3.0])
shown = x.view(3, 1)
same = torch.as_tensor([1.0, 2.0])
net = nn.Linear(3, 1)
scale = nn.Parameter(torch.zeros(1))
noise = torch.randn(1)
for step in range(2):
    y = torch.tensor(
        [float(step)]
    )
    (net(shown.t()) * scale * noise * y * same).sum().backward()
    print(shown[0].item(), torch.rand(1).item())
"""

BROUGHT = {
    ("from_numpy", 6), ("as_tensor", 10), ("Linear", 11), ("randn", 13), ("tensor", 15),
}  # fmt: skip


@pytest.mark.parametrize("engine", ["gradscope", pytest.param("torch", marks=pytest.mark.torch)])
def test_tensors_without_history_have_the_lines_that_made_them(house: House, engine: str) -> None:
    """Also behind views of them, whatever else looked at their memory; and memory is used again."""
    house.write(CAME_IN)

    house.trace("--on", engine, "script.py")

    trace = house.recorded()
    came = [(said(trace, row)["by"], row) for row in acts(trace, "came_in")]
    places = {(by, lines(trace, row.stack)[0]) for by, row in came}
    assert places - {("zeros", 12), ("Parameter", 12)} == BROUGHT
    assert ("Parameter", 12) in places
    assert sum(by == "tensor" for by, _ in came) == 2
    assert {row.step for by, row in came if by == "Linear"} == {0}


COPIES = """import copy
import torch
net = torch.nn.BatchNorm1d(2)
other = copy.deepcopy(net)
net.running_mean = torch.ones(2)
(net(torch.ones(3, 2)) + other(torch.ones(3, 2))).sum().backward()
"""


@pytest.mark.parametrize("engine", ["gradscope", pytest.param("torch", marks=pytest.mark.torch)])
def test_what_is_copied_came_in_where_the_program_copies_it_and_buffers_are_assigned(
    house: House, engine: str
) -> None:
    house.write(COPIES)

    house.trace("--on", engine, "script.py")

    trace = house.recorded()
    found = {
        (row.kind, said(trace, row).get("by"), said(trace, row).get("what"), *line[:1])
        for row in trace.rows(Act)
        if (line := lines(trace, row.stack)) and row.kind in {"came_in", "assigned"}
    }
    assert {("came_in", "deepcopy", None, 4), ("assigned", None, "buffer", 5)} <= found


LIKE_BEFORE = """import copy, warnings
import torch
import torch._dynamo  # making an optimizer imports it, and that replaces torch.manual_seed
before = {
    (home, name): vars(home).get(name)
    for home in (torch, torch.Tensor, torch.nn.Module, torch.optim.Optimizer, torch.nn.utils,
                 torch.amp.GradScaler, torch.optim.lr_scheduler.LRScheduler, torch.no_grad,
                 torch.utils.checkpoint, torch.Generator, warnings, copy)
    for name in vars(home)
}
import gradscope
with gradscope.record(level="values"):
    w = torch.ones(3, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.1)
    (w * 2).sum().backward()
    during = sum(vars(home).get(name) is not there for (home, name), there in before.items())
    optimizer.step()
print(during > 30, [name for (home, name), there in before.items()
                    if vars(home).get(name) is not there])
"""


@pytest.mark.torch
def test_afterwards_everything_is_as_it_was(house: House) -> None:
    house.write(LIKE_BEFORE)

    assert house.python("script.py").out == "True []\n"


def test_what_waits_for_its_module_waits_for_that_one() -> None:
    """Notes were handed on before the model ran: a hook on its second layer was on its first."""
    import gradscope.runtime as torch

    with gradscope.record() as recording:
        model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
        model.train()
        model[1].register_forward_hook(lambda *_: None)
        assert recording.session is not None
        recording.session.flush()
        model(torch.ones(1, 2))

    trace = recording.trace()
    types = {row.id: row.type for row in trace.rows(Module)}
    assert [types[act.module] for act in acts(trace, "train")] == ["Sequential"]
    assert [types[act.module] for act in acts(trace, "hook")] == ["ReLU"]


OVERRIDING = """\
import torch, gradscope

class Mine(torch.Tensor):
    pass

def said():
    w = Mine(torch.ones(2)).requires_grad_()
    (w * 2).sum().backward()
    listed = torch.overrides.get_overridable_functions()[torch.Tensor]
    return [type(w.grad).__name__, type(w.detach()).__name__, torch.Tensor.detach in listed,
            torch.overrides.resolve_name(torch.Tensor.detach)]

FIRST
with gradscope.record(level="values"):
    print(said())
print(said())
"""


@pytest.mark.torch
@pytest.mark.parametrize("first", ["", "print(said())"])
def test_classes_of_tensors_get_what_they_get_unwatched(house: House, first: str) -> None:
    """PyTorch remembers which functions there are: those there were, or those that stood in."""
    house.write(OVERRIDING.replace("FIRST", first))

    told = house.python("script.py").out.splitlines()
    assert set(told) == {"['Tensor', 'Mine', True, 'torch.Tensor.detach']"}
    assert len(told) == 2 + bool(first)
