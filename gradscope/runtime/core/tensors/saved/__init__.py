"""What nodes keep of tensors for their backward."""
