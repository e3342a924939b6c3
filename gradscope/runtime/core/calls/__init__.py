"""Calls of operations: from the row that declares it to the returned tensor."""
