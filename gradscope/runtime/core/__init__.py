"""What PyTorch's names are made of: tensors, operations, the engine. Scripts never see it."""
