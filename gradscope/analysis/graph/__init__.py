"""The backward graph, or the part of it that a person means, with what each node did."""
