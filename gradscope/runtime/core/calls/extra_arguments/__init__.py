"""Arguments that functions accept besides those of their row: `out=`, `axis=`."""
