"""How exchanges of ranks are carried out: launchers, MPI, progress, and the end of ranks."""
