"""nn.utils against PyTorch's: parametrizations, norms of weights, states, first values."""

from __future__ import annotations

from typing import Any

import pytest

from tests.runtime.answers.kept import as_pytorch_answered
from tests.runtime.engines import graph

pytestmark = pytest.mark.filterwarnings("ignore")

SETUP = """
U, P, Z = nn.utils, nn.utils.parametrizations, nn.utils.parametrize
x = torch.arange(6.0).view(2, 3) / 5
class Symmetric(nn.Module):
    def forward(self, X): return X.triu() + X.triu(1).transpose(-1, -2)
    def right_inverse(self, A): return A.triu()
class Doubled(nn.Module):
    def forward(self, X): return X * 2
class Cut(nn.Module):
    def forward(self, X): return X[:1]
def assigned(module, value):
    module.weight = value
    return module.weight, dict(module.named_parameters())
def stepped(module):
    module(x); module(x).sum().backward()
    return module.state_dict(), [p.grad for p in module.parameters()]
def loaded(module, other):
    module.load_state_dict(other.state_dict())
    return module.weight
def once(module):
    with Z.cached():
        return module.weight is module.weight, Z.is_parametrized(module, 'weight')
sym = Z.register_parametrization(nn.Linear(3, 3), 'weight', Symmetric())
two = Z.register_parametrization(nn.Linear(3, 3), 'weight', Symmetric())
Z.register_parametrization(two, 'weight', Doubled())
__import__(torch.__name__ + '.nn.utils.prune')
R = nn.utils.prune
def pruned(prune, *args, times=1, **options):
    module = nn.Conv1d(4, 3, 2)
    for _ in range(times):
        prune(module, 'weight', *args, **options)
    module(torch.ones(1, 4, 5)).sum().backward()
    hooks = [type(hook).__name__ for hook in module._forward_pre_hooks.values()]
    names = [name for name, _ in module.named_parameters()], hooks
    return module.state_dict(), module.weight_orig.grad, names, R.is_pruned(module)
def unpruned(module):
    R.l1_unstructured(module, 'weight', 0.5)
    R.remove(module, 'weight')
    return module.state_dict(), [*module._forward_pre_hooks], R.is_pruned(module)
def together(method, **options):
    net = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    R.l1_unstructured(net[1], 'bias', 1)
    at = [(net[0], 'weight'), (net[1], 'weight'), (net[1], 'bias')]
    R.global_unstructured(at, pruning_method=method, **options)
    return net.state_dict()
class EveryOther(R.BasePruningMethod):
    PRUNING_TYPE = 'unstructured'
    def compute_mask(self, t, default_mask):
        mask = default_mask.clone(); mask.view(-1)[::2] = 0
        return mask
class Fails(EveryOther):
    def compute_mask(self, t, default_mask): raise ValueError(t.shape)
def failed(module):
    try: Fails.apply(module, 'weight')
    except ValueError as error:
        return str(error), list(module.state_dict()), [*module._forward_pre_hooks]
mask = torch.tensor([[1.0, 0, 1], [0, 1, 1]])
p = nn.Parameter(torch.ones(3)); p.grad = torch.full((3,), 10.0)
"""

QUESTIONS = """U.weight_norm(nn.Linear(3, 4))(x)
U.weight_norm(nn.Linear(3, 4), dim=1)(x)
U.weight_norm(nn.Linear(3, 4), dim=None)(x)
stepped(U.weight_norm(nn.Linear(3, 4)))
stepped(P.weight_norm(nn.Linear(3, 4), dim=1))
stepped(P.spectral_norm(nn.Linear(3, 4)))
stepped(P.spectral_norm(nn.Linear(3, 4)).eval())
stepped(U.spectral_norm(nn.Linear(3, 4), n_power_iterations=2))
P.spectral_norm(nn.Linear(3, 4))(x)
P.weight_norm(nn.Linear(3, 4))(x)
loaded(P.weight_norm(nn.Linear(3, 4)), U.weight_norm(nn.Linear(3, 4)))
U.remove_weight_norm(U.weight_norm(nn.Linear(3, 4))).state_dict()
U.remove_spectral_norm(U.spectral_norm(nn.Linear(3, 4))).state_dict()
U.remove_weight_norm(nn.Linear(3, 4))
U.spectral_norm(nn.Linear(3, 4), n_power_iterations=0)
repr(sym), repr(two)
sym.weight, sym.state_dict()
assigned(sym, torch.arange(9.0).view(3, 3))
assigned(two, torch.ones(3, 3))
once(sym)
sym.weight is sym.weight
Z.remove_parametrizations(two, 'weight').state_dict()
Z.remove_parametrizations(sym, 'weight', False).weight
repr(Z.remove_parametrizations(sym, 'weight'))
Z.register_parametrization(nn.Linear(3, 3), 'weight', Cut())
Z.register_parametrization(nn.Linear(3, 3), 'w', Cut())
Z.remove_parametrizations(nn.Linear(3, 3), 'weight')
__import__('copy').deepcopy(two).weight
__import__('pickle').dumps(sym)
Z.type_before_parametrizations(sym).__name__, type(sym).__name__
pruned(R.identity)
pruned(R.random_unstructured, 0.4)
pruned(R.l1_unstructured, 5)
pruned(R.l1_unstructured, amount=0.4, times=3)
pruned(R.l1_unstructured, 0, times=2)
pruned(R.random_structured, 0.5, dim=1)
pruned(R.ln_structured, amount=1, n=2, dim=0, times=2)
pruned(R.ln_structured, amount=0.5, n=float('-inf'), dim=-1)
pruned(R.l1_unstructured, 2, importance_scores=torch.arange(24.0).view(3, 4, 2))
pruned(R.l1_unstructured, 2, importance_scores=torch.ones(2))
pruned(EveryOther.apply, times=2)
pruned(R.l1_unstructured, 25)
pruned(R.l1_unstructured, 1.5)
pruned(R.l1_unstructured, -1)
pruned(R.random_structured, 0.5, dim=3)
R.random_structured(nn.Linear(3, 2), 'bias', 0.5, dim=0)
R.custom_from_mask(nn.Linear(3, 2), 'weight', mask).weight
R.custom_from_mask(nn.Linear(2, 2), 'weight', mask)
R.L1Unstructured(2).prune(mask + 0.5, default_mask=mask)
unpruned(nn.Linear(3, 2))
R.remove(nn.Linear(3, 2), 'weight')
failed(nn.Linear(3, 2))
together(R.L1Unstructured, amount=0.4)
together(R.RandomUnstructured, amount=5)
together(R.RandomStructured, amount=0.5)
__import__('copy').deepcopy(R.l1_unstructured(nn.Linear(3, 2), 'weight', 2)).state_dict()
U.skip_init(nn.Linear, 3, 4).weight.shape
U.parameters_to_vector(nn.Linear(2, 2).parameters())
U.clip_grad_norm_([p], 1.0), p.grad
U.clip_grad_norm_([p], 1.0, norm_type=float('inf')), p.grad
U.get_total_norm([p.grad, p.grad], 1)
nn.init.orthogonal_(torch.empty(3, 5))
nn.init.orthogonal_(torch.empty(4, 3, 2), gain=2)
nn.init.dirac_(torch.empty(4, 2, 3, 3), 2)
nn.init.dirac_(torch.empty(3, 2, 3), 2)
nn.init.sparse_(torch.empty(5, 3), 0.3)
nn.init.eye_(torch.empty(2, 3))
nn.init.xavier_uniform(torch.empty(2, 3))
U.fuse_conv_bn_eval(nn.Conv2d(1, 2, 3).eval(), nn.BatchNorm2d(2).eval()).weight"""


def answer(engine: Any, code: str) -> Any:
    engine.manual_seed(7)
    scope = {"torch": engine, "nn": engine.nn}
    exec(SETUP, scope)
    try:
        value = eval(code, scope)
    except (
        RuntimeError,
        ValueError,
        TypeError,
        LookupError,
        AttributeError,
        AssertionError,
    ) as error:
        first = str(error).split("\n")[0]
        return type(error).__name__, first.replace("gradscope.runtime", "torch")
    nodes = graph([value]) if getattr(value, "grad_fn", None) is not None else []
    return nodes, plain(value)


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    return value.detach().tolist() if hasattr(value, "detach") else value


@as_pytorch_answered({"nn/utils": QUESTIONS.split("\n")}, tolerance=300)
def test_they_answer_as_pytorchs(torch: Any, code: str) -> Any:
    return answer(torch, code)
