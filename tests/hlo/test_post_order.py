"""Post order of graphs given by what each node needs."""

from __future__ import annotations

import pytest

from xjit.hlo.ir.post_order import extend_post_order, post_order

DIAMOND: dict[str, list[str]] = {"top": ["left", "right"], "left": ["bottom"], "right": ["bottom"], "bottom": []}
RING: dict[str, list[str]] = {"a": ["b"], "b": ["c"], "c": ["a", "d"], "d": []}


def test_needs_come_first_and_in_their_order() -> None:
    assert post_order(["top"], DIAMOND.__getitem__) == ["bottom", "left", "right", "top"]
    assert post_order(["right", "top", "right"], DIAMOND.__getitem__) == ["bottom", "right", "left", "top"]


def test_what_is_done_is_left_out() -> None:
    order, done = ["x"], {"left"}
    extend_post_order(order, done, "top", DIAMOND.__getitem__)
    assert order == ["x", "bottom", "right", "top"] and done == set(DIAMOND)
    extend_post_order(order, done, "left", DIAMOND.__getitem__)
    assert order == ["x", "bottom", "right", "top"]


def test_a_way_back_is_passed_over_or_reported() -> None:
    assert post_order(["a"], RING.__getitem__) == ["d", "c", "b", "a"]

    def refuse(node: str) -> None:
        raise ValueError(node)

    with pytest.raises(ValueError, match=r"^a$"):
        post_order(["a"], RING.__getitem__, refuse)
    with pytest.raises(ValueError, match=r"^c$"):
        post_order(["c"], RING.__getitem__, refuse)
    assert post_order(["top"], DIAMOND.__getitem__, refuse)[-1] == "top"


def test_depth_is_no_limit() -> None:
    length = 100_000
    assert post_order([0], lambda n: [n + 1] if n + 1 < length else []) == list(reversed(range(length)))
