"""Where a program that is being recorded can be stopped, and what is known of it by then."""
