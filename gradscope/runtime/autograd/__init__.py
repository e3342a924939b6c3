"""The engine and everything around it, laid out part by part as PyTorch's."""
