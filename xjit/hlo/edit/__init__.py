"""Changes of the graph that are more than one edge: clones, fusions, outlining."""
