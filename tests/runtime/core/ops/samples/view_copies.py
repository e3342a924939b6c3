"""Samples of what copies what a view shows."""

from __future__ import annotations

from tests.runtime.core.ops.written import cases, faults

FEW = ("float32", "int64", "bool", "complex128")
COPIES = {
    "alias_copy": "torch.alias_copy(x)",
    "detach_copy": "torch.detach_copy(x.detach())",
    "diagonal_copy": "torch.diagonal_copy(x, 0, 1, 2)",
    "expand_copy": "torch.expand_copy(x, (2, -1, 3, 4))",
    "narrow_copy": "torch.narrow_copy(x, 1, -3, 2)",
    "permute_copy": "torch.permute_copy(x, (2, 0, 1))",
    "split_copy": "torch.split_copy(x, 2, 1)",
    "split_with_sizes_copy": "torch.split_with_sizes_copy(x, [1, 3], -1)",
    "squeeze_copy": "torch.squeeze_copy(x[:1])",
    "squeeze_copy.dim": "torch.squeeze_copy(x[:, :1], 1)",
    "squeeze_copy.dims": "torch.squeeze_copy(x[:, :1, :1], (1, 2))",
    "t_copy": "torch.t_copy(x[0])",
    "transpose_copy": "torch.transpose_copy(x, 0, -1)",
    "unbind_copy": "torch.unbind_copy(x, 1)",
    "unfold_copy": "torch.unfold_copy(x, 2, 2, 1)",
    "unsqueeze_copy": "torch.unsqueeze_copy(x, -1)",
    "view_copy": "torch.view_copy(x, (6, -1))",
}
for name, text in COPIES.items():
    cases(name, [(2, 3, 4)], text, dtypes=FEW, order=2)
cases(
    "as_strided_copy",
    [(2, 3, 4)],
    "torch.as_strided_copy(x, (2, 2), (1, 2), 1)",
    dtypes=FEW,
    strided=False,
)
cases(
    "_reshape_alias_copy",
    [(2, 3, 4)],
    "torch._reshape_alias_copy(x, (6, 4), (4, 1))",
    dtypes=FEW,
    strided=False,
    order=2,
)
REAL = {
    "select_copy": "torch.select_copy(x, 1, -1)",
    "slice_copy": "torch.slice_copy(x, 2, 1, None, 2)",
    "_neg_view_copy": "torch._neg_view_copy(x)",
}
for name, text in REAL.items():
    cases(name, [(2, 3, 4)], text, dtypes=("float32",), order=2)
cases("narrow_copy", [(4,)], "x.narrow_copy(0, torch.tensor(1), 2)", dtypes=())
cases(
    "view_copy",
    [(4,)],
    "torch.view_copy(x.detach(), torch.int64)",
    grad=False,
    dtypes=(),
)
cases(
    "view_as_real_copy", [(2, 3), (2, 3)], "torch.view_as_real_copy(torch.complex(x, y))", dtypes=()
)
cases("view_as_complex_copy", [(3, 2)], "torch.view_as_complex_copy(x)", grad=False, dtypes=())
cases("_conj_copy", [(3,)], "torch._conj_copy(torch.complex(x, x))", grad=False, dtypes=())

faults(
    "narrow_copy",
    [(5,)],
    "x.narrow_copy(0, 6, 0)",
    "torch.narrow_copy(x, 0, 0, -1)",
    "torch.narrow_copy(x, 0, 2, 5)",
    "torch.narrow_copy(x[0], 0, 0, 0)",
)
faults("_reshape_alias_copy", [(4,)], "torch._reshape_alias_copy(x, (2, 2), (2,))")
faults("detach_copy", [(2,)], "torch.detach_copy(x.requires_grad_()).sum().backward()")
faults(
    "view_as_complex_copy",
    [(2, 2)],
    "torch.view_as_complex_copy(x[0, 0])",
    "torch.view_as_complex_copy(x.requires_grad_())",
)
faults("select_copy", [(2, 2)], "torch.select_copy((x + 1j).requires_grad_(), 0, 1)")
faults("split_copy", [(4,)], "torch.split_copy(x, 0)")
faults(
    "view_copy",
    [(4,)],
    "torch.view_copy(x, (3,))",
    "torch.view_copy(x.detach(), (2, 2), out=torch.empty(4, dtype=torch.int64))",
)
faults(
    "unbind_copy",
    [(4,)],
    "torch.unbind_copy(x.detach(), out=[torch.zeros(())])",
    "torch.unbind_copy(x.detach(), out=torch.zeros(4))",
)
