"""What is noted for every call and every node, as cheaply as can be."""
