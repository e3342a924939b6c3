"""Samples of random numbers: the same seed gives the same ones."""

from __future__ import annotations

from tests.runtime.core.ops.written import cases, faults
from tests.runtime.oracle import Fixed

SEED = "torch.manual_seed(3)\n"
ONE = [(2, 3)]


def drawn(name: str, *texts: str, dtypes: tuple[str, ...] = ("float32",)) -> None:
    cases(name, ONE, *(SEED + text for text in texts), dtypes=dtypes, grad=False, strided=False)


drawn(
    "rand",
    "torch.rand(3)",
    "torch.rand(2, 3)",
    "torch.rand((2, 3), dtype=torch.float64)",
    "torch.rand(size=(2,))",
    "torch.rand(())",
)
drawn(
    "randn",
    "torch.randn(3)",
    "torch.randn(5, 7)",
    "torch.randn((2, 3), dtype=torch.float64)",
    "torch.randn(2, dtype=torch.complex64)",
)
drawn(
    "randint",
    "torch.randint(10, (5,))",
    "torch.randint(-3, 4, (2, 3))",
    "torch.randint(low=0, high=5, size=(4,))",
    "torch.randint(10, (3,), dtype=torch.float32)",
)
drawn("randperm", "torch.randperm(7)", "torch.randperm(3, dtype=torch.int32)")
drawn("rand_like", "torch.rand_like(x)", "torch.rand_like(x, dtype=torch.float16)")
drawn("randn_like", "torch.randn_like(x)")
drawn("randint_like", "torch.randint_like(x, 9)", "torch.randint_like(x, 2, 9)")
drawn(
    "normal",
    "torch.normal(1.0, 2.0, (3, 4))",
    "torch.normal(x, 0.5)",
    "torch.normal(x, x.abs())",
    "torch.normal(0.0, x.abs())",
)
drawn("bernoulli", "torch.bernoulli(x.abs() / 4)", "torch.bernoulli(x, 0.3)", "x.bernoulli(0.3)")
drawn(
    "multinomial",
    "torch.multinomial(x.abs(), 2)",
    "x.abs().multinomial(5, True)",
    "torch.multinomial(x.abs()[0], 1)",
)
drawn("uniform_", "x.uniform_()", "x.uniform_(-1, 2)", "x.t().uniform_()")
drawn("normal_", "x.normal_()", "x.normal_(1, 2)", "x.t().normal_()", "torch.empty(20).normal_()")
drawn("bernoulli_", "x.bernoulli_()", "x.bernoulli_(0.2)", dtypes=("float32", "int64"))
drawn("exponential_", "x.exponential_()", "x.exponential_(2.0)")
drawn(
    "random_",
    "x.random_(5)",
    "x.random_(-2, 7)",
    "x.random_()",
    dtypes=("float32", "int64", "uint8"),
)
cases("bernoulli", [(2, 3)], SEED + "torch.bernoulli(torch.sigmoid(x))", dtypes=())
cases("uniform_", [(2, 3)], SEED + "x.mul(1).uniform_()", dtypes=())
cases("normal_", [(2, 3)], SEED + "x.mul(1).normal_()", dtypes=())
faults("rand", ONE, "torch.rand(-1)")
faults("normal_", ONE, "x.normal_()", "x.detach().normal_(0, -1)")
faults("uniform_", ONE, "x.detach().uniform_(2, 1)")
faults("multinomial", ONE, "torch.multinomial(x.abs(), 9)", "torch.multinomial(-x.abs(), 1)")
faults("randint", ONE, "torch.randint(5, 5, (2,))")
cases("multinomial", [Fixed([0.0, 1.0, 0.0])], "torch.multinomial(x, 1)", dtypes=(), grad=False)
