"""Samples of Fourier transforms, and of complex numbers made and taken apart."""

from __future__ import annotations

from tests.runtime.core.ops.written import cases, faults

M = (3, 4)
FEW = ("float32", "int64", "complex128")
REAL = ("float32", "int64")

for _name in ("fft", "ifft", "irfft", "hfft"):
    _call = f"torch.fft.{_name}"
    cases(f"fft.{_name}", [M], f"{_call}(x)", dtypes=FEW)
    cases(f"fft.{_name}", [M], f"{_call}(x, 5, 0)", f"{_call}(x, 2, norm='ortho')", dtypes=())
    faults(
        f"fft.{_name}",
        [M],
        f"{_call}(x, 0)",
        f"{_call}(x, norm='foo')",
        f"{_call}(x, dim=2)",
        f"{_call}(x[0, 0])",
        f"{_call}(x.half())",
    )
for _name in ("rfft", "ihfft"):
    _call = f"torch.fft.{_name}"
    cases(f"fft.{_name}", [M], f"{_call}(x)", dtypes=REAL)
    cases(f"fft.{_name}", [M], f"{_call}(x, 5, 0)", f"{_call}(x, 3, norm='forward')", dtypes=())
    faults(f"fft.{_name}", [M], f"{_call}(x, 0)", f"{_call}(x + 0j)")
for _name in ("fft2", "ifft2", "irfft2", "hfft2", "fftn", "ifftn", "irfftn", "hfftn"):
    _call = f"torch.fft.{_name}"
    cases(f"fft.{_name}", [M], f"{_call}(x)", dtypes=("complex128",))
    cases(f"fft.{_name}", [(2, 3, 4)], f"{_call}(x, (5, 2), (0, 2), 'ortho')", dtypes=())
    faults(
        f"fft.{_name}",
        [M],
        f"{_call}(x, dim=(0, 0))",
        f"{_call}(x, s=(2,), dim=(0, 1))",
        f"{_call}(x, s=(0, 2))",
    )
for _name in ("rfft2", "ihfft2", "rfftn", "ihfftn"):
    _call = f"torch.fft.{_name}"
    cases(f"fft.{_name}", [M], f"{_call}(x)", dtypes=("float32",))
    cases(f"fft.{_name}", [(2, 3, 4)], f"{_call}(x, (5, 2), (0, 2), 'ortho')", dtypes=())
    faults(f"fft.{_name}", [M], f"{_call}(x + 0j)", f"{_call}(x, dim=())")
for _name in ("fftshift", "ifftshift"):
    _call = f"torch.fft.{_name}"
    cases(f"fft.{_name}", [(3, 4)], f"{_call}(x)", f"{_call}(x, 0)", dtypes=())
    faults(f"fft.{_name}", [(3,)], f"{_call}(x, 2)")
for _name in ("fftfreq", "rfftfreq"):
    _call = f"torch.fft.{_name}"
    cases(
        f"fft.{_name}",
        [],
        f"{_call}(5)",
        f"{_call}(4, 0.5, dtype=torch.float64)",
        f"{_call}(0)",
        dtypes=(),
        grad=False,
    )
    faults(f"fft.{_name}", [], f"{_call}(4, dtype=torch.int64)")
cases("complex", [M, (4,)], "torch.complex(x, y)", "torch.complex(x, y.detach())", dtypes=())
faults("complex", [M], "torch.complex(x, x.float())", "torch.complex(x.long(), x.long())")
cases("polar", [M, (4,)], "torch.polar(x, y)", "torch.polar(x.detach(), y)", dtypes=())
faults("polar", [M], "torch.polar(x, x.float())")
cases("angle", [M], "torch.angle(x)", "x.angle()", dtypes=("float32", "int64", "complex128"))
cases("conj_physical", [M], "x.conj_physical()", dtypes=("complex128",))
cases("conj_physical_", [M], "torch.complex(x, x).conj_physical_()", dtypes=())
for _name in ("hann", "hamming", "blackman", "bartlett", "kaiser"):
    _call = f"torch.{_name}_window"
    cases(
        f"{_name}_window",
        [],
        f"{_call}(7)",
        f"{_call}(6, False, dtype=torch.float64)",
        f"{_call}(1)",
        f"{_call}(0)",
        dtypes=(),
        grad=False,
    )
    faults(f"{_name}_window", [], f"{_call}(-1)")
