"""Samples of products: of vectors, matrices, batches, and by their letters."""

from __future__ import annotations

from tests.runtime.core.ops.written import cases, faults
from tests.runtime.oracle import Fixed

SOME = ("float32", "bfloat16", "int64", "complex128")
V, M, N, B, C = (3,), (2, 3), (3, 4), (5, 2, 3), (5, 3, 4)

cases(
    "mm",
    [M, N],
    "x.mm(y)",
    "torch.mm(x, y)",
    "x.mm(y * 2)",
    "x.t().contiguous().t().mm(y)",
    dtypes=SOME,
)
cases("mm", [M, (4, 3)], "x.mm(y.t())", "x.mm(y.t().contiguous())", dtypes=("float32",))
cases("spmm", [M, N], "torch.spmm(x, y)", "torch.spmm(x, y * 2)", dtypes=("float32",))
cases("mm", [(0, 3), N], "x.mm(y)", dtypes=())
cases("mm", [(2, 0), (0, 3)], "x.mm(y)", dtypes=())
faults(
    "mm", [M], "x.mm(x)", "x.mm(x[0])", "x[0].mm(x)", "x.mm(x.t().float())", "(x > 0).mm(x.t() > 0)"
)
cases(
    "bmm",
    [B, C],
    "x.bmm(y)",
    "torch.bmm(x, y)",
    "x.bmm(y.transpose(1, 2).contiguous().transpose(1, 2))",
    dtypes=SOME,
)
faults("bmm", [B], "x.bmm(x)", "x.bmm(x[0])", "x[0].bmm(x)")
cases("mv", [M, V], "x.mv(y)", "torch.mv(x, y)", dtypes=SOME)
faults("mv", [M], "x.mv(x[:, 0])", "x.mv(x)")
cases("dot", [V, V], "x.dot(y)", "torch.dot(x, y)", dtypes=SOME)
faults("dot", [V], "x.dot(x[:2])", "x.dot(x[None])", "x.dot(x.float())")
cases("vdot", [V, V], "x.vdot(y)", dtypes=("float32", "complex128"))
for _name in ("outer", "ger"):
    cases(_name, [V, (4,)], f"x.{_name}(y)", f"torch.{_name}(x, y)", dtypes=SOME)
    faults(_name, [M], f"x.{_name}(x[0])", f"x[0].{_name}(x)")
cases(
    "addmm",
    [(4,), M, N],
    "torch.addmm(x, y, z)",
    "torch.addmm(x, y, z, beta=2, alpha=3)",
    "torch.addmm(x, y, z, beta=0)",
    dtypes=("float32", "int64"),
)
cases("addmm", [(2, 4), M, N], "x.addmm(y, z)", dtypes=("float32",))
cases("addmm", [(), M, N], "torch.addmm(x, y, z)", dtypes=())
faults("addmm", [M], "torch.addmm(x, x, x.t())", "torch.addmm(x[0], x, x)")
cases("addmm_", [(2, 4), M, N], "x.mul(1).addmm_(y, z)", dtypes=())
cases(
    "addmv",
    [(2,), M, V],
    "torch.addmv(x, y, z)",
    "x.addmv(y, z, beta=2, alpha=3)",
    dtypes=("float32",),
)
cases("addmv_", [(2,), M, V], "x.mul(1).addmv_(y, z)", dtypes=())
cases(
    "baddbmm",
    [(5, 2, 4), B, C],
    "torch.baddbmm(x, y, z)",
    "x.baddbmm(y, z, beta=2, alpha=3)",
    dtypes=("float32",),
)
cases("baddbmm", [(4,), B, C], "torch.baddbmm(x, y, z)", dtypes=())
cases("baddbmm_", [(5, 2, 4), B, C], "x.mul(1).baddbmm_(y, z)", dtypes=())
cases(
    "addr",
    [M, (2,), V],
    "torch.addr(x, y, z)",
    "x.addr(y, z, beta=2, alpha=3)",
    dtypes=("float32",),
)
cases(
    "addr_",
    [M, (2,), V],
    "x.mul(1).addr_(y, z)",
    dtypes=(),
)
cases("trace", [(3, 3)], "x.trace()", "torch.trace(x)", dtypes=("float32", "int64"))
cases("trace", [M], "x.trace()", dtypes=())
faults("trace", [V], "x.trace()")

for _left, _right in (
    (V, V),
    (M, V),
    (V, N),
    (M, N),
    (B, N),
    (B, V),
    (V, C),
    (M, C),
    (B, C),
    (B, (1, 3, 4)),
    ((1, 2, 3), C),
    ((6, 5, 2, 3), N),
    ((6, 5, 2, 3), C),
    ((6, 5, 2, 3), (6, 5, 3, 4)),
    ((6, 1, 2, 3), C),
    ((6, 5, 2, 3), V),
    (V, (6, 5, 3, 4)),
    ((5, 0, 3), N),
):
    cases(
        "matmul",
        [_left, _right],
        "x @ y",
        "torch.matmul(x.detach(), y)",
        dtypes=("float32",),
        strided=False,
    )
cases(
    "matmul",
    [(5, 3, 2), (4, 3)],
    "x.transpose(1, 2) @ y.t()",
    "x.detach().transpose(1, 2) @ y.t()",
    dtypes=(),
    strided=False,
)
cases("__matmul__", [M, N], "x @ y", "x.matmul(y)", dtypes=SOME)
cases("__rmatmul__", [M, N], "y.__rmatmul__(x)", dtypes=())
faults(
    "matmul",
    [M],
    "x @ x",
    "x @ x[:, 0]",
    "x[0] @ x[:, 0]",
    "x[0] @ x",
    "x[0, 0] @ x",
    "x[None] @ x[None]",
    "x.expand(2, 2, 3) @ x.t().expand(3, 3, 2)",
)
cases(
    "linear",
    [M, (4, 3), (4,)],
    "F.linear(x, y, z)",
    "F.linear(x, y)",
    "F.linear(x.detach(), y, z)",
    dtypes=("float32",),
)
for _input in (V, B, (6, 5, 2, 3)):
    cases(
        "linear",
        [_input, (4, 3), (4,)],
        "F.linear(x, y, z)",
        "F.linear(x, y)",
        "F.linear(x.detach(), y, z)",
        dtypes=(),
        strided=False,
    )
cases(
    "linear",
    [(2, 5, 3), (4, 3), (4,)],
    "F.linear(x.transpose(0, 1), y, z)",
    dtypes=(),
    strided=False,
)
cases("linear", [M, V], "F.linear(x, y)", dtypes=())
faults("linear", [M], "F.linear(x, x.t(), x[0])", "F.linear(x, x.t())", "F.linear(x, x, x[0])")
cases("inner", [M, (4, 3)], "torch.inner(x, y)", dtypes=("float32",), strided=False)
cases("inner", [V, V], "x.inner(y)", dtypes=())
cases("inner", [(), V], "torch.inner(x, y)", dtypes=())
cases(
    "tensordot",
    [(2, 3, 4), (4, 3, 5)],
    "torch.tensordot(x, y, ([1, 2], [1, 0]))",
    "torch.tensordot(x, y, 1)",
    dtypes=("float32",),
    strided=False,
)
cases(
    "tensordot",
    [M, M],
    "torch.tensordot(x, y, 2)",
    "torch.tensordot(x, y, 0)",
    dtypes=(),
    strided=False,
)
cases("tensordot", [(3, 1), (2, 4)], "torch.tensordot(x, y, ([1], [0]))", dtypes=(), strided=False)
faults("tensordot", [M], "torch.tensordot(x, x, 1)")
cases("chain_matmul", [M, N, (4, 5)], "torch.chain_matmul(x, y, z)", dtypes=(), strided=False)

for _equation, *_shapes in (
    ("ij->ji", M),
    ("ij->", M),
    ("ij->i", M),
    ("ij", M),
    ("ii->i", (3, 3)),
    ("ii", (3, 3)),
    ("iij->j", (2, 2, 3)),
    ("...i->...", (2, 2, 3)),
    ("...ij->...ji", (2, 3, 4)),
    ("ij,jk->ik", M, N),
    ("ij,jk", M, N),
    ("ij,jk->ki", M, N),
    ("i,i->", V, V),
    ("i,j->ij", V, (4,)),
    ("i,j->ji", V, (4,)),
    ("ij,ij->i", M, M),
    ("ij,ij->ij", M, M),
    ("ij,kj->ik", M, (4, 3)),
    ("bij,bjk->bik", B, C),
    ("bhqd,bhkd->bhqk", (2, 2, 3, 4), (2, 2, 5, 4)),
    ("...ij,...jk->...ik", B, N),
    ("ij,jkl->kil", M, (3, 4, 5)),
    ("ij,kl->ik", M, (4, 5)),
    ("i...,i...->...", M, (2, 4, 3)),
    ("i,ij,j->", (2,), M, V),
    ("bn,anm,bm->ba", (2, 5), (3, 5, 4), (2, 4)),
    ("ij,jk->ik", (2, 1), N),
    ("b i, b i -> b", M, M),
):
    _call = f"torch.einsum({_equation!r}, {', '.join('xyz'[: len(_shapes)])})"
    cases("einsum", list(_shapes), _call, dtypes=("float32",), strided=False)
faults(
    "einsum",
    [M],
    *(
        f"torch.einsum({text}, x)"
        for text in ("'ijk'", "'i'", "'ij->iz'", "'ij->ii'", "'i1'", "'i..'", "'ij,jk'")
    ),
    "torch.einsum('ij,jk', x, x)",
    "torch.einsum('ii', x)",
)
cases(
    "embedding",
    [(5, 3), Fixed([[1, 2, 1], [4, 0, 1]])],
    "F.embedding(y, x)",
    "F.embedding(y, x, padding_idx=1)",
    "F.embedding(y.int(), x, padding_idx=-1)",
    "F.embedding(y, x, scale_grad_by_freq=True)",
    "torch.embedding(x, y)",
    dtypes=("float32", "float16"),
)
cases("embedding", [(5, 3), Fixed(2)], "F.embedding(y, x)", dtypes=())
faults(
    "embedding",
    [(5, 3)],
    "F.embedding(torch.tensor([1, 9]), x)",
    "F.embedding(torch.tensor([1.]), x)",
    "F.embedding(torch.tensor([1]), x, padding_idx=5)",
)
cases(
    "one_hot", [Fixed([[1, 2], [0, 1]])], "F.one_hot(x)", "F.one_hot(x, 5)", dtypes=(), grad=False
)
faults(
    "one_hot",
    [V],
    "F.one_hot(torch.tensor([1, 2]), 2)",
    "F.one_hot(x)",
    "F.one_hot(torch.tensor([-1]))",
)
