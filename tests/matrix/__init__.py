"""The same programs on many versions of PyTorch and Python: `make matrix`.

A cell is a PyTorch, a Python, and machine code on or off. `programs` are what every cell records,
`child` records them inside of a cell, `sites` gets a PyTorch, `cells` lists the cells, and
`compared` compares the traces of a cell with those of the pinned one. The results go to
tests/matrix/results.json, from which `tools/docs/versions.py` makes docs/versions.md.
"""
