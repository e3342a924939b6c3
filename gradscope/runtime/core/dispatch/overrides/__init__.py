"""`__torch_function__`: calls offered to classes and modes before they run."""
