"""`gradscope warmup`: compile all kernels now."""

import sys

from gradscope.commands.options.arguments import Plain
from gradscope.commands.options.output import safe


def warmup(plain: Plain = False) -> None:
    """Compile the kernels of gradscope's own engine now."""
    from gradscope.render.terminal.waiting import waiting
    from gradscope.runtime.fast.compiling.warmup import warm_up

    with waiting(sys.stderr, "compiling kernels", plain=plain) as tell:
        warmed = warm_up(lambda kernel: tell(f"compiling {kernel}"))
    there = f", {warmed.there} were already compiled" if warmed.there else ""
    sys.stdout.write(f"compiled {warmed.compiled} kernels in {warmed.seconds:.1f} s{there}\n")
    if warmed.folder is None:
        sys.stdout.write(
            "not kept: no cache folder is writable; set NUMBA_CACHE_DIR to a writable folder\n"
        )
    else:
        sys.stdout.write(f"kept in {safe(str(warmed.folder))}\n")
