"""What ranks that train a model together do differently in their steps."""
