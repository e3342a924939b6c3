"""Runs that `gradscope law` compares: child processes, and what is held equal in them."""
