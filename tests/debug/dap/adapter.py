"""`gradscope dap`, for a client that starts a file."""

import runpy
import sys

sys.argv = ["gradscope", "dap"]
runpy.run_module("gradscope", run_name="__main__")
