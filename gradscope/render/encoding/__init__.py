"""How other programs' binary files are written: no dependency, since little of each is needed."""
