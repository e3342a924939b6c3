"""Small stand-ins for other people's packages, for scripts on machines that lack them."""
