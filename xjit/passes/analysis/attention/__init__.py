"""What attention looks like: products with scores that are computed element by element from other products."""
