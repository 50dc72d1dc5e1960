"""What a pass is, and how pipelines of them run."""
