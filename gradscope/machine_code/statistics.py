"""Computes statistics of elements in memory, in machine code.

# Note [Written for LLVM]
The language of language.py has one type, and does not suit loops over many dtypes. They are written
here as LLVM IR with explicit vectors, so that no optimization passes are needed, which would take
longer than everything else. The common part of all dtypes is a template.

The results are eight words, which are updated: the numbers of NaN, +Inf, -Inf and zeros; minimum
and maximum of the finite elements, their sum, and the sum of their squares.
"""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace

from gradscope.machine_code.kept_code import engine
from gradscope.machine_code.language import External

LANES = 8
"""Number of elements that are processed together, for dtypes with vectors."""

CHUNK = 1 << 12
"""Largest number of elements at once; the counts of a lane hold no more."""

DOWN = "0x1A70000000000000"  # 2.0**-600
UP = 2.0**600
"""Unit for values whose squares are not finite."""

_SIGNS = 0x7FFFFFFFFFFFFFFF
_INFINITY = 0x7FF0000000000000
_SIGNED = "%bits = load i{bits}, ptr %at, align 1\n  %x = sitofp i{bits} %bits to double"
_UNSIGNED = "%bits = load i{bits}, ptr %at, align 1\n  %x = uitofp i{bits} %bits to double"
_REAL = "%given = load {type}, ptr %at, align 1\n  %x = fpext {type} %given to double"
_HALF = """%short = load i16, ptr %at, align 1
  %whole = zext i16 %short to i32
  {half}
  %given = bitcast i32 %bits to float
  %x = fpext float %given to double"""
_COMPLEX = """%imaginary = getelementptr i8, ptr %at, i64 {half}
  %re = load {type}, ptr %at, align 1
  %im = load {type}, ptr %imaginary, align 1
  %a = {extend} {type} %re to double
  %b = {extend} {type} %im to double
  %x = call double @hypot(double %a, double %b)"""


def _half(of: str) -> str:
    """The bits of half-precision numbers, converted to single precision."""

    def all_of(number: int) -> str:
        kind = of.partition(" x ")[2].rstrip(">") or of
        return _splat(kind, number) if "x" in of else str(number)

    floats = of.replace("i32", "float")
    least = "0x3E70000000000000"  # 2.0**-24
    small = _splat("float", least) if "x" in of else least
    return f"""%sign0 = and {of} %whole, {all_of(0x8000)}
  %sign = shl {of} %sign0, {all_of(16)}
  %size = and {of} %whole, {all_of(0x7FFF)}
  %moved = shl {of} %size, {all_of(13)}
  %normal = add {of} %moved, {all_of(112 << 23)}
  %beyond = add {of} %moved, {all_of(224 << 23)}
  %counted = uitofp {of} %size to {floats}
  %few = fmul {floats} %counted, {small}
  %fewbits = bitcast {floats} %few to {of}
  %isfew = icmp ult {of} %size, {all_of(0x400)}
  %isbeyond = icmp uge {of} %size, {all_of(0x7C00)}
  %usual = select {_bits(of)} %isfew, {of} %fewbits, {of} %normal
  %unsigned = select {_bits(of)} %isbeyond, {of} %beyond, {of} %usual
  %bits = or {of} %unsigned, %sign"""


def _splat(kind: str, value: object) -> str:
    return f"<{', '.join([f'{kind} {value}'] * LANES)}>"


def _bits(of: str) -> str:
    return f"<{LANES} x i1>" if "x" in of else "i1"


SIZES = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "complex64": 8, "complex128": 16,
    "int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint8": 1, "bool": 1,
}  # fmt: skip
"""Dtypes in the order of their numbers, and the size of an element in bytes."""

KINDS = list(SIZES)
_ONE = {
    "float64": "%x = load double, ptr %at, align 1",
    "float32": _REAL.format(type="float"),
    "float16": _HALF.format(half=_half("i32")),
    "bfloat16": _HALF.format(half="%bits = shl i32 %whole, 16"),
    "complex64": _COMPLEX.format(half=4, type="float", extend="fpext"),
    "complex128": _COMPLEX.format(half=8, type="double", extend="bitcast"),
    **{f"int{n}": _SIGNED.format(bits=n) for n in (64, 32, 16, 8)},
    "uint8": _UNSIGNED.format(bits=8),
    "bool": _UNSIGNED.format(bits=8),
}
"""Converts one element to a double; a complex one to its magnitude."""

_SHORTS = f"""%shorts = load <{LANES} x i16>, ptr %at, align 1
  %whole = zext <{LANES} x i16> %shorts to <{LANES} x i32>
  """
_MANY = {
    "float64": f"%bits = load <{LANES} x i64>, ptr %at, align 1",
    "float32": f"%bits = load <{LANES} x i32>, ptr %at, align 1",
    "float16": _SHORTS + _half(f"<{LANES} x i32>"),
    "bfloat16": f"{_SHORTS}%bits = shl <{LANES} x i32> %whole, {_splat('i32', 16)}",
}
"""Converts several elements to the bits of as many floats or doubles."""

_HYPOT = """
define internal double @hypot(double %a0, double %b0) alwaysinline {
  %a = call double @llvm.fabs.f64(double %a0)
  %b = call double @llvm.fabs.f64(double %b0)
  %inf1 = fcmp oeq double %a, 0x7FF0000000000000
  %inf2 = fcmp oeq double %b, 0x7FF0000000000000
  %inf = or i1 %inf1, %inf2
  %more = fcmp ogt double %a, %b
  %high = select i1 %more, double %a, double %b
  %low = select i1 %more, double %b, double %a
  %ratio = fdiv double %low, %high
  %square = fmul double %ratio, %ratio
  %both = fadd double %square, 1.0
  %root = call double @llvm.sqrt.f64(double %both)
  %long = fmul double %high, %root
  %sum = fadd double %a, %b
  %none = fcmp oeq double %sum, 0.0
  %finite = select i1 %none, double 0.0, double %long
  %made = select i1 %inf, double 0x7FF0000000000000, double %finite
  ret double %made
}
declare double @llvm.fabs.f64(double)
declare double @llvm.sqrt.f64(double)
"""

_EACH = """
define internal i64 @each_{kind}(ptr %data, i64 %many, i64 %stride, i64 %small, ptr %out) {{
entry:
  %issmall = icmp ne i64 %small, 0
  %by = select i1 %issmall, double {down}, double 1.0
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%i1, %loop]
  %nan = phi i64 [0, %entry], [%nan1, %loop]
  %above = phi i64 [0, %entry], [%above1, %loop]
  %below = phi i64 [0, %entry], [%below1, %loop]
  %zero = phi i64 [0, %entry], [%zero1, %loop]
  %low = phi double [0x7FF0000000000000, %entry], [%low1, %loop]
  %high = phi double [0xFFF0000000000000, %entry], [%high1, %loop]
  %sum = phi double [0.0, %entry], [%sum1, %loop]
  %squares = phi double [0.0, %entry], [%squares1, %loop]
  %offset = mul i64 %i, %stride
  %at = getelementptr i8, ptr %data, i64 %offset
  {one}
  %xbits = bitcast double %x to i64
  %magnitude = and i64 %xbits, {signs}
  %isbad = icmp uge i64 %magnitude, {infinity}
  %isnan = icmp ugt i64 %magnitude, {infinity}
  %isinf = icmp eq i64 %magnitude, {infinity}
  %isnegative = icmp slt i64 %xbits, 0
  %iszero = icmp eq i64 %magnitude, 0
  %isbelow = and i1 %isinf, %isnegative
  %isabove = xor i1 %isinf, %isbelow
  %onenan = zext i1 %isnan to i64
  %oneabove = zext i1 %isabove to i64
  %onebelow = zext i1 %isbelow to i64
  %onezero = zext i1 %iszero to i64
  %nan1 = add i64 %nan, %onenan
  %above1 = add i64 %above, %oneabove
  %below1 = add i64 %below, %onebelow
  %zero1 = add i64 %zero, %onezero
  %isless = fcmp olt double %x, %low
  %ismore = fcmp ogt double %x, %high
  %less = select i1 %isless, double %x, double %low
  %more = select i1 %ismore, double %x, double %high
  %low1 = select i1 %isbad, double %low, double %less
  %high1 = select i1 %isbad, double %high, double %more
  %value0 = fmul double %x, %by
  %value = select i1 %isbad, double 0.0, double %value0
  %square = fmul double %value, %value
  %sum1 = fadd double %sum, %value
  %squares1 = fadd double %squares, %square
  %i1 = add i64 %i, 1
  %goeson = icmp slt i64 %i1, %many
  br i1 %goeson, label %loop, label %end
end:
  call void @add_counts(ptr %out, i64 %nan1, i64 %above1, i64 %below1, i64 %zero1)
  call void @add_sizes(ptr %out, double %low1, double %high1, double %sum1, double %squares1)
  ret i64 0
}}
"""

_ALL = """
define internal i64 @all_{kind}(ptr %data, i64 %many, ptr %out) {{
entry:
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%i1, %loop]
  %peak = phi {ints} [zeroinitializer, %entry], [%peak1, %loop]
  %zero = phi {ints} [zeroinitializer, %entry], [%zero1, %loop]
  %low = phi {floats} [{inf}, %entry], [%low1, %loop]
  %high = phi {floats} [{minus}, %entry], [%high1, %loop]
  %sum = phi {doubles} [zeroinitializer, %entry], [%sum1, %loop]
  %squares = phi {doubles} [zeroinitializer, %entry], [%squares1, %loop]
  %offset = mul i64 %i, {size}
  %at = getelementptr i8, ptr %data, i64 %offset
  {many}
  %x = bitcast {ints} %bits to {floats}
  %magnitude = and {ints} %bits, {signs}
  %ishigher = icmp ugt {ints} %magnitude, %peak
  %peak1 = select {flags} %ishigher, {ints} %magnitude, {ints} %peak
  %iszero = icmp eq {ints} %magnitude, zeroinitializer
  %onezero = zext {flags} %iszero to {ints}
  %zero1 = add {ints} %zero, %onezero
  %isless = fcmp olt {floats} %x, %low
  %ismore = fcmp ogt {floats} %x, %high
  %low1 = select {flags} %isless, {floats} %x, {floats} %low
  %high1 = select {flags} %ismore, {floats} %x, {floats} %high
  %value = {extend} {floats} %x to {doubles}
  %sum1 = fadd {doubles} %sum, %value
  %squares1 = call {doubles} @llvm.fmuladd.v{lanes}f64({doubles} %value, {doubles} %value, {doubles} %squares)
  %i1 = add i64 %i, {lanes}
  %goeson = icmp slt i64 %i1, %many
  br i1 %goeson, label %loop, label %end
end:
  %highest = call {int} @llvm.vector.reduce.umax.v{lanes}{int}({ints} %peak1)
  %isbad = icmp uge {int} %highest, {infinity}
  br i1 %isbad, label %bad, label %good
bad:
  ret i64 1
good:
  %zeros = call {int} @llvm.vector.reduce.add.v{lanes}{int}({ints} %zero1)
  %zeros64 = {widen} {int} %zeros to i64
  %least = call nnan {float} @llvm.vector.reduce.fmin.v{lanes}f{width}({floats} %low1)
  %most = call nnan {float} @llvm.vector.reduce.fmax.v{lanes}f{width}({floats} %high1)
  %least64 = {extend} {float} %least to double
  %most64 = {extend} {float} %most to double
  %summed = call reassoc double @llvm.vector.reduce.fadd.v{lanes}f64(double 0.0, {doubles} %sum1)
  %squared = call reassoc double @llvm.vector.reduce.fadd.v{lanes}f64(double 0.0, {doubles} %squares1)
  call void @add_counts(ptr %out, i64 0, i64 0, i64 0, i64 %zeros64)
  call void @add_sizes(ptr %out, double %least64, double %most64, double %summed, double %squared)
  ret i64 0
}}
"""  # noqa: E501 -- a line of LLVM's is one instruction

_COMMON = """
declare <{lanes} x double> @llvm.fmuladd.v{lanes}f64(<{lanes} x double>, <{lanes} x double>, <{lanes} x double>)
declare double @llvm.vector.reduce.fadd.v{lanes}f64(double, <{lanes} x double>)
declare i32 @llvm.vector.reduce.umax.v{lanes}i32(<{lanes} x i32>)
declare i64 @llvm.vector.reduce.umax.v{lanes}i64(<{lanes} x i64>)
declare i32 @llvm.vector.reduce.add.v{lanes}i32(<{lanes} x i32>)
declare i64 @llvm.vector.reduce.add.v{lanes}i64(<{lanes} x i64>)
declare float @llvm.vector.reduce.fmin.v{lanes}f32(<{lanes} x float>)
declare float @llvm.vector.reduce.fmax.v{lanes}f32(<{lanes} x float>)
declare double @llvm.vector.reduce.fmin.v{lanes}f64(<{lanes} x double>)
declare double @llvm.vector.reduce.fmax.v{lanes}f64(<{lanes} x double>)

define internal void @add_counts(ptr %out, i64 %nan, i64 %above, i64 %below, i64 %zero) {{
  {counts}
  ret void
}}
define internal void @add_sizes(ptr %out, double %low, double %high, double %sum, double %squares) {{
  %at4 = getelementptr double, ptr %out, i64 4
  %at5 = getelementptr double, ptr %out, i64 5
  %at6 = getelementptr double, ptr %out, i64 6
  %at7 = getelementptr double, ptr %out, i64 7
  %old4 = load double, ptr %at4
  %old5 = load double, ptr %at5
  %old6 = load double, ptr %at6
  %old7 = load double, ptr %at7
  %isless = fcmp olt double %low, %old4
  %ismore = fcmp ogt double %high, %old5
  %new4 = select i1 %isless, double %low, double %old4
  %new5 = select i1 %ismore, double %high, double %old5
  %new6 = fadd double %old6, %sum
  %new7 = fadd double %old7, %squares
  store double %new4, ptr %at4
  store double %new5, ptr %at5
  store double %new6, ptr %at6
  store double %new7, ptr %at7
  ret void
}}
define i64 @repeat(ptr %out, i64 %times) {{
  %many = sitofp i64 %times to double
  {times}
  ret i64 0
}}
"""  # noqa: E501

_CHOICE = """
define i64 @{name}(i64 %kind, {parameters}) {{
  switch i64 %kind, label %other [{cases}]
other:
  ret i64 1
{blocks}
}}
"""


def _vectors(kind: str) -> str:
    double = kind == "float64"
    int_, float_ = ("i64", "double") if double else ("i32", "float")
    width = 64 if double else 32
    return _ALL.format(
        kind=kind, lanes=LANES, size=SIZES[kind], many=_MANY[kind], width=width,
        int=int_, float=float_, ints=f"<{LANES} x {int_}>", floats=f"<{LANES} x {float_}>",
        doubles=f"<{LANES} x double>", flags=f"<{LANES} x i1>",
        inf=_splat(float_, "0x7FF0000000000000"), minus=_splat(float_, "0xFFF0000000000000"),
        signs=_splat(int_, _SIGNS if double else _SIGNS >> 32),
        infinity=_INFINITY if double else _INFINITY_OF_FLOATS,
        extend="bitcast" if double else "fpext", widen="bitcast" if double else "zext",
    )  # fmt: skip


_INFINITY_OF_FLOATS = 0x7F800000


def _choice(name: str, kinds: list[str], parameters: str) -> str:
    """A function that calls the function of the dtype with this number; 1: there is none."""
    cases = [f"i64 {KINDS.index(kind)}, label %{kind}" for kind in kinds]
    blocks = [
        f"{kind}:\n  %of_{kind} = call i64 @{name}_{kind}({parameters})\n  ret i64 %of_{kind}"
        for kind in kinds
    ]
    return _CHOICE.format(
        name=name, parameters=parameters, cases=" ".join(cases), blocks="\n".join(blocks)
    )


def _text() -> str:
    words = ("nan", "above", "below", "zero")
    counts = [
        f"%p{i} = getelementptr i64, ptr %out, i64 {i}\n  %o{i} = load i64, ptr %p{i}\n"
        f"  %n{i} = add i64 %o{i}, %{name}\n  store i64 %n{i}, ptr %p{i}"
        for i, name in enumerate(words)
    ]
    times = [
        f"%p{i} = getelementptr i64, ptr %out, i64 {i}\n  %o{i} = load i64, ptr %p{i}\n"
        f"  %n{i} = mul i64 %o{i}, %times\n  store i64 %n{i}, ptr %p{i}"
        for i in range(4)
    ] + [
        f"%p{i} = getelementptr double, ptr %out, i64 {i}\n  %o{i} = load double, ptr %p{i}\n"
        f"  %n{i} = fmul double %o{i}, %many\n  store double %n{i}, ptr %p{i}"
        for i in (6, 7)
    ]
    common = _COMMON.format(lanes=LANES, counts="\n  ".join(counts), times="\n  ".join(times))
    each = [
        _EACH.format(kind=kind, one=one, signs=_SIGNS, infinity=_INFINITY, down=DOWN)
        for kind, one in _ONE.items()
    ]
    parts = [_HYPOT, common, *each, *map(_vectors, _MANY)]
    parts += [
        _choice("each", KINDS, "ptr %data, i64 %many, i64 %stride, i64 %small, ptr %out"),
        _choice("all", list(_MANY), "ptr %data, i64 %many, ptr %out"),
    ]
    return "\n".join(parts)


class Elements:
    """The machine code. `each` and `all` return 0 if they have updated the words.

    `each`: number of the dtype, address of the first element, count (not 0), distance in bytes,
    whether to measure in units of UP, and address of the words. `all`: dtype, first, count (in
    whole LANES, up to CHUNK), words; it changes nothing if an element is not finite, or the dtype
    has no vectors. `repeat`: counts all added elements this many times.
    """

    def __init__(self) -> None:
        self._engine = engine(_text(), _text, {}, opt=2)
        self.each = self._external("each", 6)
        self.all = self._external("all", 4)
        self.repeat = self._external("repeat", 2)

    def _external(self, name: str, arguments: int) -> External:
        address = self._engine.get_function_address(name)
        name = f"gradscope_{name}_elements"  # unique in the process
        return External(SimpleNamespace(**{name: address}), name, arguments)


@cache
def elements() -> Elements:
    """Compiled once in a process."""
    return Elements()
