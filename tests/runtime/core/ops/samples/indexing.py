"""Samples of indexing, gathering, scattering, sorting and writing."""

from __future__ import annotations

from tests.runtime.core.ops.written import cases, faults
from tests.runtime.oracle import Fixed

SHAPE = (2, 3, 4)
FEW = ("float32", "bfloat16", "int64", "bool", "complex128")
NUMBERS = ("float32", "float16", "bfloat16", "int64", "uint8")
INDEX = Fixed([0, 1])
AGAIN = Fixed([1, 0, 1, 1])
MASK = Fixed([True, False])
WIDE = Fixed([[True, False, True], [False, True, True]])

# -- x[...] ----------------------------------------------------------------------------------------

cases(
    "__getitem__",
    [SHAPE],
    "x[0]",
    "x[-1]",
    "x[0, 1]",
    "x[0, 1, 2]",
    "x[:]",
    "x[...]",
    "x[:, :]",
    "x[0:1]",
    "x[1:]",
    "x[-1:]",
    "x[:-1]",
    "x[::2]",
    "x[:, -2:, 0:4:3]",
    "x[None]",
    "x[:, None, ..., None]",
    "x[..., 0]",
    "x[0, ..., 1:]",
    "x[5:]",
    "x[()]",
    "x[torch.tensor(1)]",
    "x[torch.tensor(1), 1:]",
    "x[True]",
    "x[False]",
    "x[None, True]",
    "x[torch.tensor(True)]",
    "x[[0, 1]]",
    "x[[[0, 1]]]",
    "x[[0, slice(0, 1)]]",
    "x[[]]",
    "x[range(2)]",
    "x[[True, False]]",
    "x[(0, 1), (1, 2)]",
    "x[0, [2, 0]]",
    "x[:, [2, 0], 1:3]",
    dtypes=FEW,
)
cases(
    "__getitem__",
    [SHAPE, INDEX, MASK, WIDE],
    "x[y]",
    "x[:, y]",
    "x[y, y]",
    "x[y, :, y]",
    "x[0, y]",
    "x[y, 0]",
    "x[y, None]",
    "x[None, y]",
    "x[..., y]",
    "x[y[:, None], y]",
    "x[-y - 1]",
    "x[y.int()]",
    "x[y.to(torch.uint8)]",
    "x[z]",
    "x[z, 1:]",
    "x[u]",
    "x[u, 0]",
    "x[u, 1:]",
    "x[y, True]",
    dtypes=FEW,
)
cases("__getitem__", [(5, 2), AGAIN], "x[y]", "x[y, 0]", "x[y, y]", "x.t()[:, y]", dtypes=FEW)
cases("__getitem__", [()], "x[None]", "x[...]", "x[()]", "x[True]", dtypes=())
faults(
    "__getitem__",
    [SHAPE],
    "x[2]",
    "x[-3]",
    "x[0, 3]",
    "x[0, 0, 0, 0]",
    "x[::-1]",
    "x[::0]",
    "x['a']",
    "x[1.5]",
    "x[torch.tensor([0.5])]",
    "x[torch.tensor([0, 1]), torch.tensor([0, 1, 2])]",
    "x[torch.tensor([2])]",
    "x[:, torch.tensor([-4])]",
    "x[torch.tensor([True, False, True])]",
    "x[:, torch.tensor([True, False])]",
    "x[{}]",
    "x['a':]",
)
faults("__getitem__", [()], "x[0]", "x[:]", "x[0, 0]")

WRITES = """y[0] = 1
y[0] = z
y[0, 1] = z
y[0] = z.sum()
y[...] = z.sum()
y[:] = z
y[:] = 2.5
y[None] = z
y[:, 1:] = z
y[[0, 1]] = z
y[torch.tensor([0, 1])] = 2
y[torch.tensor([0, 1]), 1] = z
y[0, torch.tensor([2, 0])] = z
y[torch.tensor([True, False])] = 3
y[torch.ones(2, 3) > 0] = z
y[:, torch.ones(3) > 0] = z.sum()
y[0] = z[None, None]
y[True] = z
y[()] = z.sum()
y[0] += z
y[0, 1:] *= 2
y[torch.tensor([1, 0])] += 1
y[1:] = y[:1]
y[0] = y[1]
y[y > 0] = 0
y[5:] = 3"""
cases(
    "__setitem__",
    [SHAPE, (4,)],
    *(f"z = y\ny = x * 1\n{line}\ny" for line in WRITES.split("\n")),
    dtypes=("float32", "int64"),
)
faults(
    "__setitem__",
    [SHAPE],
    *(
        f"x.mul(1).__setitem__({given})"
        for given in (
            "0, torch.ones(5).double()",
            "0, x",
            "0, [1, 2]",
            "0, 'a'",
            "2, 1",
            "0, 1j",
            "torch.tensor([0, 1]), torch.ones(5).double()",
            "torch.tensor([0, 1]), 2 * torch.ones(4, dtype=torch.long)",
            "(0, 0, 0, 0), 1",
        )
    ),
)
faults("__setitem__", [SHAPE], "x.__setitem__(0, 1)")
faults("__delitem__", [SHAPE], "x.__delitem__(0)")

# -- by an index -----------------------------------------------------------------------------------

cases(
    "index_put",
    [SHAPE, (4,), INDEX],
    "x.index_put((z,), y)",
    "x.index_put((z, z), y)",
    "x.index_put([z], y, accumulate=True)",
    dtypes=("float32", "int64"),
)
cases(
    "index_put",
    [(3, 2), (4, 2), AGAIN],
    "x.index_put((z,), y, True)",
    dtypes=("float32", "float16"),
)
cases("index_put_", [SHAPE, (4,), INDEX], "x.mul(1).index_put_((z,), y)", dtypes=("float32",))
cases(
    "index_put_.fill",
    [SHAPE, (), WIDE],
    "x.mul(1)[:].index_put_((z,), y)",
    dtypes=("float32", "int64"),
)
faults(
    "index_put",
    [SHAPE],
    "x.index_put((torch.ones(2),), x)",
    "x.index_put((torch.tensor([5]),), x[0])",
)
cases(
    "index_select",
    [SHAPE, INDEX],
    "x.index_select(1, y)",
    "torch.index_select(x, -1, y)",
    "x.index_select(0, y.int())",
    dtypes=FEW,
)
cases(
    "index_select",
    [(3, 2), AGAIN],
    "x.index_select(0, y)",
    "x.index_select(0, y[0])",
    dtypes=NUMBERS,
)
faults(
    "index_select",
    [SHAPE],
    "x.index_select(1, torch.tensor([5]))",
    "x.index_select(1, torch.tensor([0.]))",
    "x.index_select(1, torch.tensor([[0]]))",
    "x.index_select(3, torch.tensor([0]))",
)
PLACES = Fixed([[0, 1], [2, 0], [3, 3]])
cases(
    "gather",
    [(3, 4), PLACES],
    "x.gather(1, y)",
    "torch.gather(x, -1, y)",
    "x.t().gather(0, y.t())",
    dtypes=FEW,
)
cases("gather", [(), Fixed(0)], "x.gather(0, y)", "x.gather(0, y[None])", dtypes=())
cases("gather", [(3,), Fixed(2)], "x.gather(0, y)", dtypes=())
faults(
    "gather",
    [(3, 4)],
    "x.gather(1, torch.zeros(3, dtype=torch.long))",
    "x.gather(1, torch.full((3, 2), 4))",
    "x.gather(1, torch.zeros(3, 2))",
    "x.gather(0, torch.zeros(3, 5, dtype=torch.long))",
)
cases(
    "take_along_dim",
    [(3, 4), PLACES],
    "x.take_along_dim(y, 1)",
    "torch.take_along_dim(x, y[:, :1], 1)",
    "torch.take_along_dim(x, y)",
    dtypes=("float32",),
)
cases(
    "take", [(3, 4), Fixed([0, 5, -1, 5])], "x.take(y)", "torch.take(x, y.view(2, 2))", dtypes=FEW
)
faults("take", [(2, 3)], "x.take(torch.tensor([7]))")
cases(
    "scatter",
    [(3, 4), (3, 2), PLACES],
    "x.scatter(1, z, y)",
    "torch.scatter(x, 1, z, 2.5)",
    "x.scatter(1, z, value=1)",
    "x.scatter(0, z.clamp(max=2), y)",
    dtypes=("float32", "int64"),
)
cases("scatter.src", [(3, 4), (3, 2), PLACES], "x.scatter(1, z, y)", dtypes=())
cases("scatter.value", [(3, 4), PLACES], "x.scatter(1, y, 3)", dtypes=())
cases(
    "scatter.reduce",
    [(3, 4), (3, 2), PLACES],
    "x.detach().scatter(1, z, y.detach(), reduce='add')",
    "x.detach().scatter(1, z, y.detach(), reduce='multiply')",
    dtypes=("float32",),
    grad=False,
)
cases(
    "scatter_",
    [(3, 4), (3, 2), PLACES],
    "x.mul(1).scatter_(1, z, y)",
    "x.mul(1).scatter_(1, z, 2)",
    dtypes=("float32",),
)
cases("scatter_.src", [(3, 4), (3, 2), PLACES], "x.mul(1).scatter_(1, z, y)", dtypes=())
cases("scatter_.value", [(3, 4), PLACES], "x.mul(1).scatter_(1, y, 2)", dtypes=())
faults(
    "scatter",
    [(2, 3)],
    "x.scatter(0, torch.zeros(1, 5, dtype=torch.long), 1.)",
    "x.scatter(0, torch.zeros(3, 3, dtype=torch.long), x[:1, :1])",
    "x.scatter(0, torch.zeros(1, 1, dtype=torch.long), x[:1, :1].float())",
    "x.scatter(0, torch.zeros(1, dtype=torch.long), 1.)",
    "x.scatter(1, torch.full((2, 1), 3), 1.)",
)
cases(
    "scatter_add",
    [(3, 4), (3, 2), PLACES],
    "x.scatter_add(1, z, y)",
    "torch.scatter_add(x, 0, z.clamp(max=2), y)",
    dtypes=("float32", "float16", "int64"),
)
cases("scatter_add_", [(3, 4), (3, 2), PLACES], "x.mul(1).scatter_add_(1, z, y)", dtypes=())
faults("scatter_add", [(3, 4)], "x.scatter_add(1, torch.full((3, 2), 9), x[:, :2])")
cases(
    "index_add",
    [(3, 4), (2, 4), INDEX],
    "x.index_add(0, z, y)",
    "torch.index_add(x, 0, z, y, alpha=2)",
    dtypes=("float32", "int64"),
)
cases("index_add", [(3, 4), (3, 4), AGAIN], "x.index_add(1, z, y)", dtypes=("float32", "float16"))
cases(
    "index_add_",
    [(3, 4), (2, 4), INDEX],
    "x.mul(1).index_add_(0, z, y)",
    "x.mul(1).index_add_(0, z, y, alpha=-1)",
    dtypes=(),
)
faults(
    "index_add",
    [(2, 3)],
    "x.index_add(0, torch.tensor([0, 1]), torch.ones(3, 3).double())",
    "x.index_add(0, torch.tensor([0, 5]), x)",
    "x.index_add(0, torch.tensor([0, 1]), x.float())",
    "x.index_add(0, torch.tensor([0, 1]), torch.ones(2, 4).double())",
)
cases(
    "index_copy",
    [(3, 4), (2, 4), INDEX],
    "x.index_copy(0, z, y)",
    "torch.index_copy(x, -2, z, y)",
    dtypes=("float32", "int64"),
)
cases("index_copy_", [(3, 4), (2, 4), INDEX], "x.mul(1).index_copy_(0, z, y)", dtypes=())
cases(
    "index_fill",
    [(3, 4), (), INDEX],
    "x.index_fill(1, z, 2.5)",
    "torch.index_fill(x, 1, z, y)",
    dtypes=("float32",),
)
cases("index_fill.int_Scalar", [(3, 4), INDEX], "x.index_fill(1, y, 2.5)", dtypes=())
cases("index_fill.int_Tensor", [(3, 4), (), INDEX], "x.index_fill(1, z, y)", dtypes=())
cases(
    "index_fill_",
    [(3, 4), (), INDEX],
    "x.mul(1).index_fill_(1, z, 2.5)",
    "x.mul(1).index_fill_(1, z, y)",
    dtypes=(),
)
cases("index_fill_.int_Scalar", [(3, 4), INDEX], "x.mul(1).index_fill_(1, y, 2.5)", dtypes=())
cases("index_fill_.int_Tensor", [(3, 4), (), INDEX], "x.mul(1).index_fill_(1, z, y)", dtypes=())
cases(
    "masked_select",
    [(2, 3), WIDE],
    "x.masked_select(y)",
    "torch.masked_select(x, y[:1])",
    "x[0].masked_select(y)",
    dtypes=FEW,
)
faults("masked_select", [(2, 3)], "x.masked_select(x)", "x.masked_select(torch.ones(2, 2) > 0)")
cases(
    "masked_scatter",
    [(2, 3), (6,), WIDE],
    "x.masked_scatter(z, y)",
    "torch.masked_scatter(x, z[:1], y)",
    dtypes=("float32", "int64"),
)
cases("masked_scatter_", [(2, 3), (6,), WIDE], "x.mul(1).masked_scatter_(z, y)", dtypes=())
faults("masked_scatter", [(2, 3)], "x.masked_scatter(x > -9, x[0])", "x.masked_scatter(x, x)")

# -- in order --------------------------------------------------------------------------------------

TIES = Fixed([[3.0, 1.0, 3.0, 2.0], [float("nan"), 0.0, -1.0, float("inf")]])
cases(
    "sort",
    [(3, 4)],
    "x.sort()",
    "torch.sort(x, 0, True)",
    "x.sort(dim=1, descending=True)",
    "x.sort(stable=True, dim=0)",
    dtypes=NUMBERS,
)
cases("sort", [()], "x.sort()", dtypes=())
cases("sort", [TIES], "x.sort()", "x.sort(descending=True)", dtypes=(), grad=False)
cases("sort.stable", [(3, 4)], "x.sort(stable=True)", dtypes=())
faults("sort", [(3, 4)], "x.sort(2)")
cases(
    "argsort",
    [(3, 4)],
    "x.argsort()",
    "torch.argsort(x, 0, True)",
    "x.argsort(dim=0, stable=True)",
    dtypes=NUMBERS,
    grad=False,
)
cases("msort", [(3, 4)], "x.msort()", "torch.msort(x)", dtypes=())
cases(
    "topk",
    [(3, 4)],
    "x.topk(2)",
    "torch.topk(x, 2, 0, False, True)",
    "x.topk(4)",
    "x.topk(0)",
    dtypes=("float32",),
)
cases("topk", [()], "x.topk(1)", dtypes=())
faults("topk", [(3, 4)], "x.topk(7)", "x.topk(2, 5)")
cases("kthvalue", [(3, 4)], "x.kthvalue(2)", "torch.kthvalue(x, 1, 0, True)", dtypes=("float32",))
faults("kthvalue", [(3, 4)], "x.kthvalue(5)")
cases("nonzero", [WIDE], "x.nonzero()", "torch.nonzero(x, as_tuple=True)", dtypes=(), grad=False)
cases("nonzero", [Fixed(3)], "x.nonzero()", "x.nonzero(as_tuple=True)", dtypes=(), grad=False)
cases("argwhere", [WIDE], "x.argwhere()", "torch.argwhere(x)", dtypes=(), grad=False)

# -- writing ---------------------------------------------------------------------------------------

cases(
    "copy_",
    [SHAPE, (4,)],
    "x.mul(1).copy_(y)",
    "x.mul(1).copy_(2)",
    "y = x.mul(1)\ny[0].copy_(x[1])\ny",
    dtypes=("float32", "int64", "bool"),
)
# PyTorch rounds the gradient to float32 before it is summed, we after.
cases("copy_", [SHAPE, (4,)], "x.mul(1).copy_(y.float())", dtypes=(), tolerance=1e3)
faults("copy_", [SHAPE], "x.mul(1).copy_(torch.ones(5))", "x[0].mul(1).copy_(x)", "x.copy_(x)")
cases("fill", [SHAPE, ()], "torch.fill(x, 2)", "torch.fill(x, y)", dtypes=("float32", "int64"))
cases("fill.Scalar", [SHAPE], "torch.fill(x, 2)", dtypes=())
cases("fill.Tensor", [SHAPE, ()], "torch.fill(x, y)", dtypes=())
cases(
    "fill_",
    [SHAPE, ()],
    "x.mul(1).fill_(2)",
    "x.mul(1).fill_(y)",
    "y = x.mul(1)\ny[0].fill_(3)\ny",
    dtypes=("float32", "int64", "bool"),
)
cases("fill_.Scalar", [SHAPE], "x.mul(1).fill_(2)", dtypes=())
cases("fill_.Tensor", [SHAPE, ()], "x.mul(1).fill_(y)", dtypes=())
faults("fill_", [SHAPE], "x.mul(1).fill_(x[0])", "x.to(torch.uint8).fill_(300)", "x.fill_(1)")
cases(
    "zero_",
    [SHAPE],
    "x.mul(1).zero_()",
    "y = x.mul(1)\ny[0].zero_()\ny",
    dtypes=("float32", "int64"),
)
faults("zero_", [SHAPE], "x.zero_()", "x[0].zero_()")

# -- other dtypes ----------------------------------------------------------------------------------

cases(
    "to",
    [SHAPE],
    "x.to(torch.float32)",
    "x.to(torch.float64)",
    "x.to(torch.float64, copy=True)",
    "x.to('cpu')",
    "x.to(torch.device('cpu'), torch.float16)",
    "x.to(torch.ones(1))",
    "x.to(torch.long)",
    "x.to(dtype=torch.bool)",
    dtypes=("float32", "int64", "bool"),
)
faults("to", [SHAPE], "x.to('cuda')", "x.to(3)")
cases("type_as", [SHAPE], "x.type_as(torch.ones(1))", dtypes=())
cases("float", [SHAPE], "x.float()", "x.float() * x", dtypes=("float32", "int64"))
for _name in (
    "double",
    "half",
    "bfloat16",
    "long",
    "int",
    "short",
    "char",
    "byte",
    "bool",
    "cfloat",
    "cdouble",
):
    cases(_name, [SHAPE], f"x.abs().{_name}()", dtypes=("float32", "int64"), order=1)
cases("cpu", [SHAPE], "x.cpu()", dtypes=())
faults("cuda", [SHAPE], "x.cuda()")
for _name in ("new_zeros", "new_ones"):
    cases(
        _name,
        [SHAPE],
        f"x.{_name}(2)",
        f"x.{_name}((2, 3))",
        f"x.{_name}(2, dtype=torch.long)",
        dtypes=("int64",),
        grad=False,
    )
cases("new_full", [SHAPE], "x.new_full((2,), 1.5)", dtypes=("float32",), grad=False)
cases(
    "new_tensor",
    [SHAPE],
    "x.new_tensor([1, 2])",
    "x.new_tensor([[1.5]], dtype=torch.float16)",
    dtypes=("int64",),
    grad=False,
)
cases(
    "new_empty_strided",
    [SHAPE],
    "x.new_empty_strided((2, 3), (1, 2)).zero_()",
    dtypes=(),
    grad=False,
)
cases("new_empty", [SHAPE], "x.new_empty(2, 3).zero_()", "x.new_empty((0,))", dtypes=(), grad=False)

# -- so many elements that none are copied first, however they lie --------------------------------

cases(
    "__getitem__",
    [(50, 60)],
    "x.t()[[3, -1]]",
    "x.t()[:, [3, -1, 3]]",
    "x[:, ::2][:, torch.tensor([[2, 0], [1, 1]])]",
    "x[None].expand(3, 50, 60)[:, :, [2, -2]]",
    dtypes=("float32", "bool"),
)
cases(
    "index_select",
    [(50, 60)],
    "x.t().index_select(0, torch.tensor([3, 0, 3]))",
    "x[:, ::2].index_select(-1, torch.tensor([3, 0]))",
    dtypes=("float32", "bool"),
)
faults(
    "__getitem__",
    [(50, 60)],
    "x.t()[[60]]",
    "x.t()[:, torch.tensor([0, -51])]",
    "x.t()[:, :, [0]]",
)
