"""Samples of views: other sizes, other orders of dims, windows."""

from __future__ import annotations

from tests.runtime.core.ops.written import cases, faults

SHAPE = (2, 3, 4)
# What numbers there are decides nothing about a view.
FEW = ("float32", "bfloat16", "int64", "bool", "complex128")
COMPLEX = ("complex128", "complex64", "float32", "int64")

# -- other sizes -----------------------------------------------------------------------------------

cases(
    "view",
    [SHAPE],
    "x.view(6, 4)",
    "x.view((-1, 2))",
    "x.view(torch.Size([24]))",
    "x.view(-1)",
    dtypes=FEW,
    strided=False,
)
cases(
    "view",
    [SHAPE],
    "x.transpose(0, 1).view(3, 2, 2, 2)",
    "x[:, :1].view(2, 4)",
    dtypes=(),
    strided=False,
)
cases("view", [(3, 0)], "x.view(0, 5)", "x.view(3, -1, 1)", dtypes=())
cases("view", [(3,)], "x.detach().view(torch.int64)", dtypes=(), grad=False)
faults(
    "view",
    [SHAPE],
    "x.view(5, 5)",
    "x.view(-1, -1)",
    "x.view(-1, 5)",
    "x.view(-2, 12)",
    "x.transpose(0, 1).view(6, 4)",
    "x.view()",
)
faults("view", [(0,)], "x.view(-1, 0)")
cases("view_as", [SHAPE, (6, 4)], "x.view_as(y)", dtypes=FEW, strided=False)
cases(
    "reshape",
    [SHAPE],
    "x.reshape(6, 4)",
    "torch.reshape(x, (4, -1))",
    "x.transpose(0, 1).reshape(6, 4)",
    "x.transpose(1, 2).reshape(2, 2, 2, 3)",
    "x.permute(2, 0, 1).reshape(-1)",
    "x[:, ::2].reshape(-1)",
    "x.reshape(2, 3, 4)",
    "x.expand(5, 2, 3, 4).reshape(5, 24)",
    "x.expand(5, 2, 3, 4).reshape(10, 12)",
    dtypes=FEW,
    strided=False,
)
cases("reshape", [()], "x.reshape(-1)", "x.reshape(1, 1)", dtypes=FEW)
faults("reshape", [(2, 3)], "x.reshape(5, 5)", "x.t().reshape(7, -1)", "x.t().reshape(7)")
cases("reshape_as", [SHAPE, (4, 6)], "x.reshape_as(y)", dtypes=FEW, strided=False)
cases(
    "flatten",
    [SHAPE],
    "x.flatten()",
    "x.flatten(1)",
    "torch.flatten(x, 0, 1)",
    "x.flatten(-2, -1)",
    "x.flatten(1, 1)",
    dtypes=FEW,
    strided=False,
)
cases("flatten", [()], "x.flatten()", dtypes=FEW)
faults("flatten", [SHAPE], "x.flatten(2, 1)", "x.flatten(3)", "x.flatten(0, 5)")
cases("ravel", [SHAPE], "x.ravel()", "x.transpose(0, 2).ravel()", dtypes=FEW, strided=False)
cases("unflatten", [SHAPE], "x.unflatten(2, (2, 2))", "torch.unflatten(x, -1, (4, -1))", dtypes=FEW)
faults("unflatten", [SHAPE], "x.unflatten(2, (3, 2))", "x.unflatten(3, (2, 2))")
cases(
    "squeeze",
    [(2, 1, 3, 1)],
    "x.squeeze()",
    "x.squeeze(1)",
    "x.squeeze(0)",
    "x.squeeze(-2)",
    "x.squeeze((0, 1))",
    "torch.squeeze(x, dim=(1,))",
    dtypes=FEW,
)
cases("squeeze", [()], "x.squeeze()", "x.squeeze(0)", dtypes=())
faults("squeeze", [SHAPE], "x.squeeze(5)", "x.squeeze((0, 0))")
cases("squeeze.dim", [(2, 1, 3, 1)], "x.squeeze(1)", "x.squeeze(-1)", dtypes=FEW)
cases("squeeze.dims", [(2, 1, 3, 1)], "x.squeeze((1, 3))", "x.squeeze((-1, 0))", dtypes=FEW)
cases(
    "unsqueeze",
    [(2, 3)],
    "x.unsqueeze(0)",
    "x.unsqueeze(1)",
    "x.unsqueeze(-1)",
    "torch.unsqueeze(x, 2)",
    dtypes=FEW,
)
cases("unsqueeze", [()], "x.unsqueeze(0)", "x.unsqueeze(-1)", dtypes=())
faults("unsqueeze", [SHAPE], "x.unsqueeze(4)", "x.unsqueeze(-5)")
cases(
    "expand",
    [(3, 1)],
    "x.expand(4, 3, 5)",
    "x.expand(3, 5)",
    "x.expand(-1, 5)",
    "x.expand((2, 3, -1))",
    "x.expand(torch.Size([3, 2]))",
    "x.expand(3, 0)",
    dtypes=FEW,
)
cases("expand", [()], "x.expand(3)", "x.expand(2, 2)", "x.expand(())", dtypes=FEW)
faults("expand", [(4,)], "x.expand(3, 5)", "x.expand(3, -1, 4)", "x.expand(-1, 4)")
faults("expand", [SHAPE], "x.expand(3, 4)")
cases("expand_as", [(4,), (3, 4)], "x.expand_as(y)", dtypes=FEW)
cases(
    "broadcast_to", [(4,)], "torch.broadcast_to(x, (3, 4))", "x.broadcast_to((2, 1, 4))", dtypes=FEW
)
cases("broadcast_tensors", [(4,), (3, 1)], "torch.broadcast_tensors(x, y)", dtypes=FEW)
cases("broadcast_tensors", [(4,), (3, 4)], "torch.broadcast_tensors(x, y)", dtypes=FEW)
faults("broadcast_tensors", [(4,)], "torch.broadcast_tensors(x, x[:2])")
cases(
    "broadcast_shapes",
    [(1,)],
    "x.new_zeros(torch.broadcast_shapes((2, 1), (3,), 3))",
    dtypes=(),
    grad=False,
)
faults("broadcast_shapes", [(1,)], "torch.broadcast_shapes((2,), (3,))")
cases(
    "sum_to_size",
    [SHAPE],
    "x.sum_to_size(3, 1)",
    "x.sum_to_size((1, 3, 4))",
    "x.sum_to_size(2, 3, 4)",
    "x.sum_to_size(4)",
    dtypes=("float32", "int64"),
)
faults("sum_to_size", [SHAPE], "x.sum_to_size(2)", "x.sum_to_size(5, 2, 3, 4)")
for _name in ("atleast_1d", "atleast_2d", "atleast_3d"):
    for _shape in ((), (3,), (2, 3), SHAPE):
        cases(
            _name,
            [_shape],
            f"torch.{_name}(x)",
            f"torch.{_name}(x, x)",
            f"torch.{_name}((x,))",
            dtypes=(),
        )

# -- other orders of dims --------------------------------------------------------------------------

cases(
    "permute",
    [SHAPE],
    "x.permute(2, 0, 1)",
    "torch.permute(x, (-1, 0, 1))",
    "x.permute((0, 1, 2))",
    dtypes=FEW,
)
cases("permute", [()], "x.permute(())", dtypes=())
faults("permute", [SHAPE], "x.permute(0, 1)", "x.permute(0, 0, 1)", "x.permute(0, 1, 3)")
cases(
    "transpose",
    [SHAPE],
    "x.transpose(0, 1)",
    "torch.transpose(x, -1, 0)",
    "x.transpose(1, 1)",
    "x.transpose(dim0=1, dim1=2)",
    dtypes=FEW,
)
cases("transpose", [()], "x.transpose(0, 0)", "x.transpose(-1, 0)", dtypes=())
faults("transpose", [SHAPE], "x.transpose(0, 3)", "x.transpose(0, -4)")
faults("transpose", [()], "x.transpose(0, 1)")
cases("t", [(2, 3)], "x.t()", "torch.t(x)", dtypes=FEW)
cases("t", [(3,)], "x.t()", dtypes=())
cases("t", [()], "x.t()", dtypes=())
faults("t", [SHAPE], "x.t()")
cases("T", [(2, 3)], "x.T", dtypes=FEW)
cases("T", [(3,)], "x.T", dtypes=())
cases("mT", [SHAPE], "x.mT", dtypes=FEW)
faults("mT", [(3,)], "x.mT")
cases("H", [(2, 3)], "x.H", dtypes=("float32",))
faults("H", [SHAPE], "x.H")
faults("H", [(3,)], "x.H")
cases("mH", [SHAPE], "x.mH", dtypes=("float32",))
faults("mH", [(3,)], "x.mH")
cases("adjoint", [SHAPE], "x.adjoint()", "torch.adjoint(x)", dtypes=("float32",))
for _name in ("swapaxes", "swapdims"):
    cases(_name, [SHAPE], f"x.{_name}(0, 1)", f"torch.{_name}(x, -1, 0)", dtypes=FEW)
for _name in ("movedim", "moveaxis"):
    cases(
        _name,
        [SHAPE],
        f"x.{_name}(0, 1)",
        f"torch.{_name}(x, (0, 1), (-1, 0))",
        f"x.{_name}(-1, 0)",
        dtypes=FEW,
    )
faults(
    "movedim", [SHAPE], "x.movedim((0, 1), (2, 2))", "x.movedim((0, 0), (1, 2))", "x.movedim(3, 0)"
)

# -- the tensor itself -----------------------------------------------------------------------------

for _name, _text in {
    "transpose_": "x.mul(1).transpose_(0, 1)",
    "t_": "x[0].mul(1).t_()",
    "squeeze_": "x[:1].mul(1).squeeze_()",
    "unsqueeze_": "x.mul(1).unsqueeze_(1)",
    "swapaxes_": "x.mul(1).swapaxes_(0, 1)",
    "swapdims_": "x.mul(1).swapdims_(-1, 0)",
    "as_strided_": "x.mul(1).as_strided_((2, 3), (3, 2), 1)",
}.items():
    cases(_name, [SHAPE], _text, dtypes=())
cases(
    "squeeze_",
    [SHAPE],
    "x[:1].mul(1).squeeze_(0)",
    "x[:1].mul(1).squeeze_((0, 1))",
    "x.mul(1).squeeze_(-1)",
    dtypes=(),
)
faults("t_", [SHAPE], "x.mul(1).t_()")
cases("detach_", [SHAPE], "x.mul(1).detach_()", "torch.detach_(x.mul(1))", dtypes=(), grad=False)
cases("as_strided_", [SHAPE], "torch.as_strided_(x.mul(1), (4,), (1,))", dtypes=())
faults("as_strided_", [(3,)], "x.mul(1).as_strided_((2,), (1,), 5)")
cases(
    "resize_",
    [SHAPE],
    "x.detach().clone().resize_(4)",
    "x.detach().clone().resize_((2, 5))",
    "x.detach()[0].resize_(2, 2)",
    dtypes=(),
    grad=False,
)
faults("resize_", [SHAPE], "x.resize_(2)", "x.detach().resize_()")
cases("resize_as_", [SHAPE, (2, 2)], "x.detach().resize_as_(y)", dtypes=(), grad=False)
faults("resize_as_", [SHAPE, (2,)], "x.resize_as_(y)")

# -- views taken again of another base -------------------------------------------------------------

cases(
    "_view_func",
    [SHAPE],
    "x.transpose(0, 1)._view_func(x * 2)",
    "x[:, 1:]._view_func(x.exp())",
    dtypes=(),
    grad=False,
)
cases(
    "_view_func_unsafe",
    [SHAPE],
    "x.transpose(0, 1)._view_func_unsafe(x * 2)",
    "x[:, 1:]._view_func_unsafe(x.exp())",
    dtypes=(),
    grad=False,
)
