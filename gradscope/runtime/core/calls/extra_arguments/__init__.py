"""What functions take besides their row's arguments: `out=`, `axis=`."""
