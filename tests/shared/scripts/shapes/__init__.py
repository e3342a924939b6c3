"""A small training program: learns to tell drawn shapes apart. As people write them."""
