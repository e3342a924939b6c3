"""Views, and writes in place through them."""
