"""What findings name and advise in programs in which an innocent line looks like the culprit."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gradscope.analysis.answers.meant import tensor_meant, with_finding
from gradscope.analysis.findings import Finding
from gradscope.analysis.graph.selection import Selection, select
from gradscope.analysis.program.acts import Acts
from gradscope.analysis.report import inspect
from gradscope.errors import UnknownNameError
from gradscope.trace.schema import Node, ParamGroupAct, Tensor
from tests.analysis.rules.test_snippets import recorded

GAN = """
g, d = torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)
opt_g = torch.optim.SGD(g.parameters(), lr=0.1)
opt_d = torch.optim.SGD(d.parameters(), lr=0.1)
for _ in range(3):
    opt_d.zero_grad()
    with torch.no_grad():
        fake = g(torch.ones(3, 2))
    d(fake).mean().backward()
    opt_d.step()
    opt_g.zero_grad()
    with torch.no_grad():
        score = d(g(torch.ones(3, 2)))
    loss = score.mean()
    loss.requires_grad_()
    loss.backward()
    opt_g.step()
"""


def told(program: str, folder: Path) -> dict[str, Finding]:
    """What is found in a program, by rule."""
    return {found.rule: found for found in inspect(recorded(program.lstrip(), folder)).findings}


def test_of_two_blocks_without_gradients_the_one_before_the_loss_is_named(tmp_path: Path) -> None:
    found = told(GAN, tmp_path)

    assert [*found] == ["GS401", "GS409", "GS406"]
    culprit = "snippet_0.py:11"
    assert culprit in found["GS401"].fix
    assert culprit in found["GS409"].why
    assert "GS401" in found["GS406"].fix


def test_what_another_optimizers_round_left_is_not_cleared_too_early(tmp_path: Path) -> None:
    advised = GAN.replace("with torch.no_grad():", "if True:", 1)

    assert [*told(advised, tmp_path)] == ["GS409"]


IN_A_HOOK = """
net = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
x = torch.ones(3, 4)

def again(grad, given):
    with torch.enable_grad():
        (net(x) * given).sum().mul(grad).backward()

for _ in range(3):
    optimizer.zero_grad()
    with torch.no_grad():
        out = net(x)
    out.requires_grad_()
    loss = out.square().mean()
    loss.backward()
    loss = loss.detach().requires_grad_()
    loss.register_hook(lambda grad, given=out.grad: again(grad, given))
    loss.backward()
    optimizer.step()
"""


def test_a_leaf_whose_hook_runs_the_backward_of_the_model_is_a_loss(tmp_path: Path) -> None:
    """As in losses that embed a large batch in parts: their gradients are kept, and passed on."""
    assert "GS409" not in told(IN_A_HOOK, tmp_path)
    without = IN_A_HOOK.replace(
        "    loss.register_hook", "    torch.is_tensor(loss) or loss.register_hook"
    )
    assert "GS409" in told(without, tmp_path)


THROUGH_NUMPY = """
stem, head = torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD([*stem.parameters(), *head.parameters()], lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    hidden = torch.tensor(stem(torch.ones(3, 2)).detach().tolist())
    head(hidden).sum().backward()
    optimizer.step()
"""


def test_a_line_that_cuts_twice_is_not_written_with_one_cut_left(tmp_path: Path) -> None:
    fix = told(THROUGH_NUMPY, tmp_path)["GS401"].fix

    assert fix.startswith("if they should learn, keep using tensors")
    assert "write" not in fix


LOOKED_AT = """
stem, head = torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD([*stem.parameters(), *head.parameters()], lr=0.1)
x = torch.ones(3, 2, requires_grad=True)
for step in range(2):
    optimizer.zero_grad()
    head(stem(x).data).mean().backward()
    optimizer.step()
    moved = (stem.bias.detach() - 1).abs()
print("moved by", moved, stem.weight.detach() - 1, (stem.weight + stem.bias).detach())
"""


def test_a_weight_that_is_only_looked_at_is_cut_off_where_its_module_is(tmp_path: Path) -> None:
    found = inspect(recorded(LOOKED_AT.lstrip(), tmp_path)).findings

    (cut,) = (each for each in found if each.rule == "GS401")
    assert cut.site.place.endswith("snippet_0.py:6")


def gate(scale: str) -> str:
    """A module whose parameters are in a plain dict."""
    return f"""
class Gate(torch.nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.scale = {scale}
        self.bias = torch.nn.Parameter(torch.zeros(2))

    def forward(self, x):
        return sum(x * self.scale[c] for c in self.scale) + self.bias

gate = Gate(2)
optimizer = torch.optim.SGD(gate.parameters(), lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    gate(torch.ones(3, 2)).sum().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("scale", "better"),
    [
        (
            "{c: torch.nn.Parameter(torch.ones(2)) for c in range(classes)}",
            "torch.nn.ParameterList([torch.nn.Parameter(torch.ones(2)) for c in range(classes)])",
        ),
        (
            "{c: torch.nn.Parameter(torch.ones(2)) for c in (3, 5)}",
            "torch.nn.ParameterDict({str(c): torch.nn.Parameter(torch.ones(2)) for c in (3, 5)})",
        ),
        (
            "{7: torch.nn.Parameter(torch.ones(2))}",
            "torch.nn.ParameterDict({'7': torch.nn.Parameter(torch.ones(2))})",
        ),
        (
            "{'a': torch.nn.Parameter(torch.ones(2))}",
            "torch.nn.ParameterDict({'a': torch.nn.Parameter(torch.ones(2))})",
        ),
    ],
)
def test_what_takes_only_strings_as_keys_is_given_such(
    scale: str, better: str, tmp_path: Path
) -> None:
    found = told(gate(scale), tmp_path)["GS403"]

    assert found.fix.startswith(f"write `self.scale = {better}`")
    assert ("index it by" in found.fix) == ("'a'" not in better)


def test_of_two_models_with_the_same_names_each_is_told_by_its_call(tmp_path: Path) -> None:
    program = """
student, teacher = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(teacher.parameters(), lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    with torch.no_grad():
        wanted = teacher(torch.ones(3, 2))
    (student(torch.ones(3, 2)) - wanted).pow(2).mean().backward()
    optimizer.step()
"""
    trace = recorded(program.lstrip(), tmp_path)
    (found,) = (each for each in inspect(trace).findings if each.rule == "GS406")

    said = re.sub(r"[^ ]*/(?=snippet)", "", found.why)
    assert "they belong to the Linear first called at snippet_0.py:7" in said
    assert said.endswith("it holds to the Linear first called at snippet_0.py:6")
    with pytest.raises(UnknownNameError, match=r"choose one: \d+ \(of the Linear first called at "):
        tensor_meant(trace, "weight")


def test_zeros_that_a_log_cannot_take_are_told_by_what_made_them(tmp_path: Path) -> None:
    program = """
x = torch.tensor([[1.0, 2.0], [3.0, -1.0]], requires_grad=True)
spread = torch.nn.functional.relu(x)
variance = spread.pow(2)
loss = variance.log().sum()
loss.backward()
"""
    found = told(program.lstrip(), tmp_path)["GS201"]

    assert "1 of 4 elements is −Inf, first at index (1, 1)" in found.message
    said = re.sub(r"[^ ]*/(?=snippet)", "", found.why)
    assert "relu at snippet_0.py:2 set its argument to 0; what followed" in said
    assert "elements that relu set to 0 get no gradient there" in found.fix


def test_zeros_of_the_data_are_not_said_to_be_made(tmp_path: Path) -> None:
    program = """
x = torch.tensor([1.0, 0.0], requires_grad=True)
x.pow(2).log().sum().backward()
"""

    assert "set what" not in told(program.lstrip(), tmp_path)["GS201"].why


def test_what_stands_around_a_finding_is_its_node_or_what_keeps_its_tensor(tmp_path: Path) -> None:
    program = """
w = torch.ones(3, requires_grad=True)
offset = torch.tensor([1.0, 2.0, float("nan")])
(w * offset).log().sum().backward()
"""
    trace = recorded(program.lstrip(), tmp_path)
    (found,) = inspect(trace).findings
    chosen = with_finding(trace, Selection(around=f"#{found.id[:6]}", hops=0))

    assert found.site.place.endswith("snippet_0.py:2")
    assert found.message.startswith(
        "NaN first produced outside the graph: tensor brought it into offset"
    )
    (node,) = select(trace, chosen).nodes
    assert next(row.name for row in trace.rows(Node) if row.id == node) == "MulBackward0"


def test_a_finding_that_no_node_has_to_do_with_says_so(tmp_path: Path) -> None:
    program = """
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.lr = 0.1 / (step + 1)
    optimizer.zero_grad()
    model(torch.ones(3, 2)).pow(2).mean().backward()
    optimizer.step()
"""
    trace = recorded(program.lstrip(), tmp_path)
    (found,) = inspect(trace).findings

    assert "SGD reads no attribute `lr`, and its groups still use 0.1" in found.message
    assert "for group in optimizer.param_groups: group['lr'] = 0.1 / (step + 1)" in found.fix
    assert "this happened 2 times" in found.why  # the first is what the groups have
    with pytest.raises(UnknownNameError, match="refers to no node, and its line"):
        with_finding(trace, Selection(around=f"#{found.id[:6]}"))


def test_of_tensors_with_one_name_that_which_asks_for_a_gradient_is_meant(tmp_path: Path) -> None:
    program = """
def times(x):
    return (x * w).sum()
w, x = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
(times(torch.zeros(3)) + times(x)).backward()
"""
    trace = recorded(program.lstrip(), tmp_path)

    named = [row for row in trace.rows(Tensor) if row.name == "x"]
    meant = trace.table(Tensor).row(tensor_meant(trace, "x"))
    assert len(named) == 2
    assert meant.requires_grad


def test_of_two_models_the_replaced_parameters_are_those_of_the_optimizer_that_held_them(
    tmp_path: Path,
) -> None:
    program = """
def train(net, optimizer):
    for _ in range(2):
        optimizer.zero_grad()
        net(torch.ones(3, 2)).mean().backward()
        optimizer.step()
first = torch.nn.Sequential(torch.nn.Linear(2, 1))
train(first, torch.optim.SGD(first.parameters(), lr=0.1))
second = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
optimizer = torch.optim.Adam(second.parameters(), lr=0.1)
second[1] = torch.nn.Linear(2, 1)
train(second, optimizer)
"""
    found = told(program, tmp_path)["GS405"]

    assert "after Adam was built at " in found.message
    assert "snippet_0.py:9, which still steps the old one" in found.message


def test_a_mode_that_came_back_too_late_is_told_with_the_line(tmp_path: Path) -> None:
    program = """
net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout(0.5))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
def steps():
    for _ in range(2):
        optimizer.zero_grad()
        net(torch.ones(3, 2)).mean().backward()
        optimizer.step()
steps()
net.eval()
steps()
net.train()
steps()
"""
    found = told(program, tmp_path)["GS511"]

    assert "train() is called again only at " in found.message
    assert found.message.endswith("snippet_0.py:11")


def test_what_is_put_into_the_list_of_an_optimizer_is_held(tmp_path: Path) -> None:
    program = """
net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(4):
    if step == 2:
        net[1] = torch.nn.Linear(2, 1)
        optimizer.param_groups[0]["params"][2:] = net[1].parameters()
    optimizer.zero_grad()
    net(torch.ones(3, 2)).mean().backward()
    optimizer.step()
"""
    trace = recorded(program.lstrip(), tmp_path)

    assert inspect(trace).findings == ()
    (exchanged,) = trace.once(Acts).of(ParamGroupAct)
    assert (exchanged.step, len(exchanged.tensors), exchanged.facts.instead) == (2, 2, True)


def test_an_exchange_is_seen_whatever_the_addresses_are(tmp_path: Path) -> None:
    """Two parameters took the places of two others whose addresses had the same sum."""
    program = """
from itertools import combinations
several = [torch.nn.Parameter(torch.ones(1)) for _ in range(64)]
sums = {}
for one, two in combinations(several, 2):
    before = sums.setdefault(id(one) + id(two), (one, two))
    if not {id(each) for each in before} & {id(one), id(two)}:
        break
optimizer = torch.optim.SGD(before, lr=0.1)
for held in (before, (one, two)):
    optimizer.param_groups[0]["params"][:] = held
    sum(held).backward()
    optimizer.step()
"""
    trace = recorded(program.lstrip(), tmp_path)

    (exchanged,) = trace.once(Acts).of(ParamGroupAct)
    assert (len(exchanged.tensors), exchanged.facts.instead) == (2, True)
