"""Values without a graph: element types, shapes, layouts, literals."""
