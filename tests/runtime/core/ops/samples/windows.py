"""Samples of windows on a tensor, of copies, and of tensors joined."""

from __future__ import annotations

from tests.runtime.core.ops.written import cases, faults
from tests.runtime.oracle import Fixed

SHAPE = (2, 3, 4)
FEW = ("float32", "bfloat16", "int64", "bool", "complex128")
NUMBERS = ("float32", "float16", "int64", "uint8", "complex128")

# -- windows ---------------------------------------------------------------------------------------

cases("select", [SHAPE], "x.select(1, 0)", "torch.select(x, -1, -1)", "x.select(0, 1)", dtypes=FEW)
faults("select", [SHAPE], "x.select(3, 0)", "x.select(0, 2)", "x.select(1, -4)")
faults("select", [()], "x.select(0, 0)")
cases(
    "narrow",
    [SHAPE],
    "x.narrow(1, 0, 2)",
    "torch.narrow(x, -1, 1, 3)",
    "x.narrow(1, -1, 1)",
    "x.narrow(0, 2, 0)",
    dtypes=FEW,
)
faults(
    "narrow",
    [SHAPE],
    "x.narrow(1, 0, 4)",
    "x.narrow(1, 4, 1)",
    "x.narrow(1, 0, -1)",
    "x.narrow(3, 0, 1)",
)
faults("narrow", [()], "x.narrow(0, 0, 0)")
cases(
    "diagonal",
    [SHAPE],
    "x.diagonal()",
    "torch.diagonal(x, 1, -1, 0)",
    "x.diagonal(-1)",
    "x.diagonal(9)",
    "x.diagonal(offset=1, dim1=1, dim2=2)",
    dtypes=FEW,
)
faults("diagonal", [SHAPE], "x.diagonal(0, 1, 1)", "x.diagonal(0, 0, 3)")
cases(
    "unfold",
    [SHAPE],
    "x.unfold(2, 2, 1)",
    "x.unfold(-1, 3, 2)",
    "x.unfold(1, 1, 2)",
    "x.unfold(0, 2, 3)",
    "x.unfold(1, 0, 1)",
    dtypes=FEW,
)
cases("unfold", [()], "x.unfold(0, 1, 1)", dtypes=())
faults(
    "unfold",
    [SHAPE],
    "x.unfold(2, 5, 1)",
    "x.unfold(2, -1, 1)",
    "x.unfold(2, 1, 0)",
    "x.unfold(3, 1, 1)",
)
cases(
    "as_strided",
    [SHAPE],
    "x.as_strided((2, 2), (1, 2))",
    "torch.as_strided(x, (2, 2), (1, 2), 1)",
    "x.as_strided((3, 3), (1, 1))",
    "x[1].as_strided((2,), (3,))",
    "x.as_strided((), ())",
    dtypes=FEW,
    strided=False,
)
faults(
    "as_strided",
    [SHAPE],
    "x.as_strided((100,), (1,))",
    "x.as_strided((2, 2), (1,))",
    "x.as_strided((2,), (-1,))",
)
cases(
    "split",
    [SHAPE],
    "x.split(2, 2)",
    "x.split(3, -1)",
    "x.split(1)",
    "x.split([1, 3], 2)",
    "torch.split(x, (1, 2), dim=1)",
    "x.split(9)",
    dtypes=FEW,
)
cases("split", [(0, 2)], "x.split(2)", "x.split(0)", dtypes=())
faults("split", [SHAPE], "x.split(-1)", "x.split([1, 1], 2)", "x.split(0)", "x.split(1, 3)")
faults("split", [()], "x.split(1)")
cases(
    "split_with_sizes",
    [SHAPE],
    "x.split_with_sizes((1, 3), 2)",
    "torch.split_with_sizes(x, (2, 0, 1), -2)",
    dtypes=FEW,
)
cases(
    "chunk",
    [SHAPE],
    "x.chunk(2, 2)",
    "torch.chunk(x, 3, -1)",
    "x.chunk(5)",
    "x.chunk(2, 1)",
    dtypes=FEW,
)
cases("chunk", [(0, 2)], "x.chunk(3)", dtypes=())
faults("chunk", [SHAPE], "x.chunk(0)", "x.chunk(2, 3)")
cases("unbind", [SHAPE], "x.unbind()", "torch.unbind(x, -1)", "x.unbind(1)[::2]", dtypes=FEW)
faults("unbind", [()], "x.unbind()")
faults("unbind", [SHAPE], "x.unbind(3)")
cases(
    "tensor_split",
    [SHAPE],
    "x.tensor_split(3, 1)",
    "x.tensor_split(3, 2)",
    "torch.tensor_split(x, (1, 3), -1)",
    "x.tensor_split([1], 1)",
    "x.tensor_split(torch.tensor([1, 2]), 2)",
    dtypes=FEW,
)
faults("tensor_split", [SHAPE], "x.tensor_split(0)", "x.tensor_split(2, 3)")
faults("tensor_split", [()], "x.tensor_split(2)")
for _name, _sections in {"hsplit": "3", "vsplit": "2", "dsplit": "2"}.items():
    cases(_name, [SHAPE], f"x.{_name}({_sections})", f"torch.{_name}(x, [1])", dtypes=())
cases("hsplit", [(4,)], "x.hsplit(2)", dtypes=())
faults("hsplit", [SHAPE], "x.hsplit(2)")
for _name in ("unsafe_split", "unsafe_chunk"):
    cases(_name, [SHAPE], f"x.{_name}(2)", f"torch.{_name}(x, 2, -1)", dtypes=())
cases("unsafe_split_with_sizes", [SHAPE], "x.unsafe_split_with_sizes((1, 3), 2)", dtypes=())

# -- the same bytes --------------------------------------------------------------------------------

cases("detach", [SHAPE], "x.detach()", "torch.detach(x)", dtypes=FEW, grad=False)
cases("real", [SHAPE], "x.real", "torch.real(x)", dtypes=("float32", "int64", "complex128"))
cases("view_as_complex", [(3, 2)], "torch.view_as_complex(x)", dtypes=("float32",), strided=False)
cases(
    "view_as_real",
    [(3, 2)],
    "torch.view_as_real(torch.view_as_complex(x))",
    dtypes=("float32",),
    strided=False,
)
cases(
    "imag",
    [(3, 2)],
    "torch.view_as_complex(x).imag",
    "torch.view_as_complex(x).real + torch.imag(torch.view_as_complex(x))",
    dtypes=("float32",),
    strided=False,
)
faults("imag", [(3,)], "x.imag")
cases("conj_physical", [(3,)], "x.conj_physical()", dtypes=("float32", "int64"), grad=False)
for _name in ("is_conj", "is_neg", "is_pinned", "get_device"):
    cases(_name, [(3,)], f"x.{_name}()", dtypes=(), grad=False)
cases(
    "set_",
    [(3,), (2, 2)],
    "x.set_(y)",
    "x.set_()",
    "x.set_(y, 1, (2,), (2,))",
    "x.set_(y.untyped_storage(), 1, (3,), (1,))",
    "x.set_(y.untyped_storage())",
    dtypes=(),
    grad=False,
)
faults("set_", [(3,)], "x.detach().set_(3)", "x.detach().set_(x.detach().int())", "x.set_(x)")
cases("new", [(3,)], "x.new([1, 2])", "x.new(2, 3).zero_()", dtypes=("float32",), grad=False)
faults("view_as_complex", [(3,)], "torch.view_as_complex(x)")
faults("view_as_real", [(3,)], "torch.view_as_real(x)")
cases("_conj", [SHAPE], "torch.complex(x, 2 * x)._conj()", dtypes=())
for _name in ("conj", "_conj_physical", "_neg_view", "resolve_conj", "resolve_neg"):
    cases(_name, [SHAPE], f"x.{_name}()", f"torch.{_name}(x)", dtypes=("float32", "int64"))

# -- copies ----------------------------------------------------------------------------------------

cases(
    "clone",
    [(3, 4)],
    "x.clone()",
    "torch.clone(x)",
    "x.t().clone()",
    "x.clone(memory_format=torch.contiguous_format)",
    "x.expand(2, 3, 4).clone()",
    dtypes=FEW,
)
cases(
    "contiguous",
    [SHAPE],
    "x.contiguous()",
    "x.transpose(0, 1).contiguous()",
    "x[:, 1].contiguous()",
    dtypes=FEW,
    strided=False,
)
cases("contiguous", [(2, 3, 4, 5)], "x.contiguous(memory_format=torch.channels_last)", dtypes=())
cases(
    "repeat",
    [SHAPE],
    "x.repeat(2, 1, 3)",
    "x.repeat((1, 1, 1))",
    "x.repeat(2, 1, 2, 2)",
    "x.repeat(0, 1, 1)",
    dtypes=FEW,
)
cases("repeat", [()], "x.repeat(3)", "x.repeat(2, 2)", "x.repeat(())", dtypes=FEW)
faults("repeat", [SHAPE], "x.repeat(2)", "x.repeat(1, 1, -1)")
cases("tile", [SHAPE], "x.tile(2)", "x.tile((2, 2))", "torch.tile(x, (2, 1, 1, 2))", dtypes=FEW)
cases(
    "roll",
    [SHAPE],
    "x.roll(1, 0)",
    "x.roll(1)",
    "x.roll((1, -1), (0, 2))",
    "torch.roll(x, shifts=-3, dims=1)",
    dtypes=FEW,
)
cases("roll", [()], "x.roll(1)", dtypes=())
faults("roll", [SHAPE], "x.roll((1, 1), 0)", "x.roll(1, 3)", "x.roll((), 0)")
cases(
    "flip", [SHAPE], "x.flip(0)", "x.flip(0, -1)", "torch.flip(x, (1,))", "x.flip(())", dtypes=FEW
)
faults("flip", [SHAPE], "x.flip(3)", "x.flip(0, 0)")
cases("fliplr", [SHAPE], "x.fliplr()", dtypes=())
cases("flipud", [SHAPE], "torch.flipud(x)", dtypes=())
faults("fliplr", [(3,)], "x.fliplr()")
faults("flipud", [()], "x.flipud()")
cases(
    "repeat_interleave",
    [SHAPE],
    "x.repeat_interleave(2)",
    "x.repeat_interleave(2, 1)",
    "torch.repeat_interleave(x, 3, dim=-1)",
    "x.repeat_interleave(torch.tensor([1, 2, 0]), 1)",
    "x.repeat_interleave(torch.tensor([2]), 0)",
    "x.repeat_interleave(torch.tensor(2), 0)",
    dtypes=FEW,
)
cases(
    "repeat_interleave", [Fixed([1, 2, 0, 3])], "torch.repeat_interleave(x)", dtypes=(), grad=False
)
faults(
    "repeat_interleave",
    [SHAPE],
    "x.repeat_interleave(torch.tensor([2, 1]), 1)",
    "x.repeat_interleave(-1, 1)",
    "x.repeat_interleave(torch.tensor([2., 1, 1]), 1)",
)
cases(
    "tril", [SHAPE], "x.tril()", "torch.tril(x, 1)", "x.tril(-2)", "x.tril(diagonal=9)", dtypes=FEW
)
cases(
    "triu", [SHAPE], "x.triu()", "torch.triu(x, 1)", "x.triu(-2)", "x.triu(diagonal=9)", dtypes=FEW
)
cases("tril_", [SHAPE], "x.clone().tril_(1)", dtypes=("float32",))
cases("triu_", [SHAPE], "x.clone().triu_(-1)", dtypes=("float32",))
for _name in ("tril", "triu"):
    faults(_name, [(3,)], f"x.{_name}()")
cases("diag", [(3, 4)], "x.diag()", "torch.diag(x, 1)", "x.diag(-2)", dtypes=FEW)
cases("diag", [(3,)], "x.diag()", "x.diag(1)", "x.diag(-2)", dtypes=FEW)
faults("diag", [SHAPE], "x.diag()")
faults("diag", [()], "x.diag()")
cases(
    "diag_embed",
    [(2, 3)],
    "torch.diag_embed(x)",
    "x.diag_embed(1)",
    "x.diag_embed(-1, 0, 1)",
    "x.diag_embed(0, -1, 0)",
    dtypes=FEW,
)
faults("diag_embed", [(2, 3)], "x.diag_embed(0, 1, 1)")
cases("diagflat", [(2, 3)], "torch.diagflat(x)", "x.diagflat(1)", dtypes=FEW)
for _name in ("tril_indices", "triu_indices"):
    cases(
        _name,
        [(1,)],
        f"torch.{_name}(3, 4)",
        f"torch.{_name}(4, 3, 1)",
        f"torch.{_name}(3, 3, -1, dtype=torch.int32)",
        dtypes=(),
        grad=False,
    )
cases("fill_diagonal_", [(4, 3)], "x.clone().fill_diagonal_(5)", dtypes=("int64",), grad=False)
cases("fill_diagonal_", [(7, 2)], "x.clone().fill_diagonal_(5, wrap=True)", dtypes=(), grad=False)
cases("fill_diagonal_", [(3, 3, 3)], "x.clone().fill_diagonal_(5.)", dtypes=(), grad=False)
faults("fill_diagonal_", [SHAPE], "x.clone().fill_diagonal_(1.)")

# -- joined ----------------------------------------------------------------------------------------

for _name in ("cat", "concat", "concatenate"):
    cases(
        _name,
        [(2, 3), (4, 3)],
        f"torch.{_name}([x, y])",
        f"torch.{_name}((x, y), dim=0)",
        dtypes=FEW,
    )
cases(
    "cat",
    [(2, 3), (2, 1)],
    "torch.cat([x, y, x], -1)",
    "torch.cat([x, y], axis=1)",
    "torch.cat([x])",
    dtypes=FEW,
)
cases(
    "cat",
    [(1,), (2, 3)],
    "torch.cat([x.new_zeros(0), y], 1)",
    "torch.cat([y, x.new_zeros(0), y])",
    dtypes=(),
)
cases(
    "cat",
    [(2,), (3,)],
    "torch.cat([x.float(), y.double()])",
    "torch.cat([x.long(), y])",
    "torch.cat([x, torch.tensor([True])])",
    dtypes=(),
)
faults(
    "cat",
    [SHAPE],
    "torch.cat([x, x[0]])",
    "torch.cat([x, x[:, :1]], 0)",
    "torch.cat([])",
    "torch.cat([x], 5)",
    "torch.cat(x)",
    "torch.cat([x, 3])",
    "torch.cat([x[0, 0, 0]])",
)
cases(
    "stack",
    [(2, 3), (2, 3)],
    "torch.stack([x, y])",
    "torch.stack((x, y, x), 1)",
    "torch.stack([x, y], dim=-1)",
    "torch.stack([x])",
    dtypes=FEW,
)
cases("stack", [(), ()], "torch.stack([x.float(), y])", "torch.stack([x, y])", dtypes=FEW)
faults(
    "stack",
    [SHAPE],
    "torch.stack([x, x[0]])",
    "torch.stack([])",
    "torch.stack([x], 5)",
    "torch.stack(x)",
)
for _name in ("hstack", "vstack", "row_stack", "dstack"):
    for _shape in ((), (3,), (2, 3), SHAPE):
        cases(_name, [_shape, _shape], f"torch.{_name}([x, y])", f"torch.{_name}((x,))", dtypes=())
for _shape in ((), (3,), (3, 2)):
    cases("column_stack", [_shape, _shape], "torch.column_stack([x, y])", dtypes=())
cases(
    "block_diag",
    [(3,), (2, 4)],
    "torch.block_diag(x, y)",
    "torch.block_diag(y)",
    "torch.block_diag(y[0, 0], x)",
    dtypes=("float32",),
)
faults("block_diag", [SHAPE], "torch.block_diag(x)")
cases(
    "meshgrid",
    [(3,), (2,)],
    "torch.meshgrid(x, y, indexing='ij')",
    "torch.meshgrid([x, y], indexing='xy')",
    "torch.meshgrid(x, y, x)",
    "torch.meshgrid(x, indexing='xy')",
    dtypes=(),
)
faults("meshgrid", [(3,)], "torch.meshgrid(x, x, indexing='yx')")
cases(
    "cartesian_prod",
    [(3,), (2,)],
    "torch.cartesian_prod(x, y)",
    "torch.cartesian_prod(x)",
    dtypes=(),
)
cases(
    "combinations",
    [(4,)],
    "torch.combinations(x)",
    "torch.combinations(x, 3)",
    "torch.combinations(x, 2, True)",
    dtypes=(),
    order=1,
)
