"""What `gradscope law` answers: one file for each law."""
