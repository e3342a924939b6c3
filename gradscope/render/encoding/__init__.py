"""Writers of other programs' binary formats, without dependencies: little of each is needed."""
