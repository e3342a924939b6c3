"""Running a backward: from its roots, node by node, to the leaves."""
