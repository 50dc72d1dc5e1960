"""Draws the figure of docs/linalg_ext.md: run `python docs/figures/draw_row_tiles.py`; the SVG file lands beside it."""

from __future__ import annotations

from pathlib import Path

ROWS, TILES = 2, 4
WIDTH, HEIGHT, GAP, LEFT = 150, 34, 48, 70
COLOURS = ("#dbe9f6", "#fde5cd", "#dff0d8", "#f3dbe8")


def _text(x: int, y: int, text: str, anchor: str = "middle") -> str:
    style = f'font-family="sans-serif" font-size="13" text-anchor="{anchor}"'
    return f'<text x="{x}" y="{y}" {style}>{text}</text>'


def draw() -> str:
    """Returns an SVG: rows cut into tiles, below each tile what it gives, at the right what the row has of these."""
    right = LEFT + TILES * WIDTH
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{right + 200}" height="{ROWS * (HEIGHT + GAP)}">']
    for row in range(ROWS):
        y = row * (HEIGHT + GAP) + 1
        parts.append(_text(LEFT - 10, y + 22, f"row {row}", "end"))
        for tile in range(TILES):
            x = LEFT + tile * WIDTH
            box = f'x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}"'
            parts.append(f'<rect {box} fill="{COLOURS[tile]}" stroke="#555"/>')
            parts.append(_text(x + WIDTH // 2, y + 22, f"8192 elements: task {row * TILES + tile}"))
            parts.append(_text(x + WIDTH // 2, y + HEIGHT + 20, f"m{tile}, sum{tile} of exp(x - m{tile})"))
        parts.append(_text(right + 12, y + 22, "m = max of m0, m1, ...", "start"))
        parts.append(_text(right + 12, y + HEIGHT + 20, "sum of exp(mi - m) sumi", "start"))
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    (Path(__file__).parent / "row_tiles.svg").write_text(draw(), encoding="utf-8")
