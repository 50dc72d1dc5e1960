"""Products with scores that are never in memory: attention and its gradients, by blocks."""
