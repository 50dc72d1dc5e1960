"""scatter on GPUs: by threads in any order, or by segments of equal indices."""
