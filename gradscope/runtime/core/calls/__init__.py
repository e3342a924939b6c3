"""How a call of an operation runs, from the row that declares it to the tensor it returns."""
