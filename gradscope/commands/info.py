"""`gradscope info`: the contents of a trace file."""

from gradscope.commands.options.arguments import Plain, TracePath, Width
from gradscope.commands.options.output import load, terminal


def info(trace: TracePath, plain: Plain = False, width: Width = None) -> None:
    """Show what a trace file holds, and what it does not."""
    from gradscope.render.terminal.cells import line
    from gradscope.render.views.tables import facts_lines, table_lines
    from gradscope.scene.table_scenes import info_facts, info_tables

    out = terminal(plain=plain, width=width)
    loaded = load(trace)
    facts = info_facts(loaded, str(trace), trace.stat().st_size)
    out.show(facts_lines(facts, out.width, out.charset))
    for table in info_tables(loaded):
        out.show([line("")])
        out.show(table_lines(table, out.width, out.charset))
