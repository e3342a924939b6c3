"""Views, and in-place writes through them."""
