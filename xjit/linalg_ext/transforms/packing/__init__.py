"""Layouts in tiles: structured ops on packed operands, and packing as pads, reshapes and transposes."""
