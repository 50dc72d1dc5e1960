"""The passes, by ByteIR's and MLIR's flag names."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from xjit.hlo.diagnostics import InvalidArgument, did_you_mean
from xjit.linalg_ext.ir.attributes import StringAttr, SymbolRefAttr
from xjit.linalg_ext.ir.operation import Operation
from xjit.linalg_ext.rewrite.cse import eliminate_common_subexpressions
from xjit.linalg_ext.rewrite.driver import apply_rules, erase_dead, share_constants
from xjit.linalg_ext.rewrite.rules import CANONICALIZE, CANONICALIZE_EXT
from xjit.linalg_ext.structured import PARALLEL, REDUCTION
from xjit.linalg_ext.transform_scripts.interpreter import interpret
from xjit.linalg_ext.transforms.elementwise_fusion.driver import fuse_elementwise
from xjit.linalg_ext.transforms.loops.prefetch import prefetch
from xjit.linalg_ext.transforms.loops.scf_loops import move_invariants_out
from xjit.linalg_ext.transforms.lowering.to_loops import convert_linalg_ext_to_loops, convert_linalg_to_loops
from xjit.linalg_ext.transforms.single_ops.bufferize import bufferize
from xjit.linalg_ext.transforms.single_ops.collapse_dims import collapse_loops
from xjit.linalg_ext.transforms.single_ops.detensorize import detensorize_all
from xjit.linalg_ext.transforms.single_ops.diag_products import rewrite_diag_products
from xjit.linalg_ext.transforms.single_ops.generalize import generalize_all
from xjit.linalg_ext.transforms.single_ops.matmul_blocks import canonicalize_matmul_epilogues, promote_matmuls
from xjit.linalg_ext.transforms.single_ops.memref_copies import copies_to_linalg
from xjit.linalg_ext.transforms.single_ops.promote import data_place
from xjit.linalg_ext.transforms.single_ops.specialize import specialize_all
from xjit.linalg_ext.transforms.tiling.tile_marked import tile_marked
from xjit.linalg_ext.verify import verify

__all__ = ["PASSES", "Option", "Pass", "parse_options", "parse_pipeline", "run_passes"]

Option: TypeAlias = bool | int | str | Sequence[int]
"""The value of a pass's option."""


@dataclass(frozen=True)
class Pass:
    """`run(module, **options)` changes the module; `options`: their names, and how their text is read."""

    summary: str
    run: Callable[..., object]
    options: Mapping[str, Callable[[str], Option]] = field(default_factory=dict[str, Callable[[str], "Option"]])


def _flag(text: str) -> bool:
    if text not in ("", "true", "false", "1", "0"):
        raise ValueError("true or false")
    return text not in ("false", "0")


def _number(text: str) -> int:
    if not text.removeprefix("-").isdecimal():
        raise ValueError("a number")
    return int(text)


def _numbers(text: str) -> list[int]:
    return [_number(part) for part in text.split(",")] if text else []


def _loop_type(text: str) -> str:
    if text not in ("scf", "for", "parallel"):
        raise ValueError("scf, for or parallel")
    return text


def _iterator_type(text: str) -> str:
    if text not in (PARALLEL, REDUCTION):
        raise ValueError(f"{PARALLEL} or {REDUCTION}")
    return text


def canonicalize(module: Operation) -> None:
    apply_rules(module, CANONICALIZE)


def canonicalize_ext(module: Operation) -> None:
    apply_rules(module, CANONICALIZE_EXT)


def symbol_dce(module: Operation) -> None:
    """Erases private functions that nothing refers to."""
    changed = True
    while changed:
        changed = False
        used = {a.name for op in module.walk() for a in op.attributes.values() if isinstance(a, SymbolRefAttr)}
        for op in module.body.operations:
            private = op.attributes.get("sym_visibility") == StringAttr("private")
            name = op.attributes.get("sym_name")
            if private and isinstance(name, StringAttr) and name.value not in used:
                op.erase()
                changed = True


def fuse_elementwise_ext(module: Operation, shared_input: bool = False, diff_shapes: bool = False) -> None:
    fuse_elementwise(module, shared_input, diff_shapes)
    apply_rules(module, CANONICALIZE)


def collapse_linalg_loops(module: Operation, iterator_type: str = PARALLEL) -> None:
    collapse_loops(module, iterator_type)


def _sharing_constants(rewrite: Callable[[Operation], object]) -> Callable[[Operation], None]:
    """A pass whose result has each constant once, at the start of its function, as MLIR's greedy driver leaves them."""

    def run(module: Operation) -> None:
        rewrite(module)
        share_constants(module)

    return run


PASSES: dict[str, Pass] = {
    "transform-dialect-interpreter": Pass("execute the module's transform scripts", interpret, {"entry-point": str}),
    "transform-interpreter": Pass("the same, by MLIR's name", interpret, {"entry-point": str}),
    "canonicalize": Pass("fold, simplify, erase what is dead", canonicalize),
    "canonicalize-ext": Pass("canonicalize, and linalg ops that add to zero", canonicalize_ext),
    "cse": Pass("share common subexpressions", eliminate_common_subexpressions),
    "symbol-dce": Pass("erase private functions that are not used", symbol_dce),
    "trivial-dce": Pass("erase operations that nobody needs", erase_dead),
    "linalg-fuse-elementwise-ext": Pass(
        "fuse elementwise generic and map ops", fuse_elementwise_ext, {"shared-input": _flag, "diff-shapes": _flag}
    ),
    "linalg-op-tile": Pass(
        "tile marked structured ops", tile_marked, {"tile-sizes": _numbers, "loop-type": _loop_type}
    ),
    "linalg-data-place": Pass("give operands buffers of their own", data_place, {"mem-spaces": _numbers}),
    "linalg-prefetch": Pass(
        "make marked copies in loops some iterations earlier", prefetch, {"count": _number, "unroll": _flag}
    ),
    "linalg-collapse-loops": Pass(
        "make one loop of loops that are neighbours everywhere",
        collapse_linalg_loops,
        {"iterator-type": _iterator_type},
    ),
    "linalg-generalization-ext": Pass("make named ops generic", _sharing_constants(generalize_all)),
    "linalg-generalize-named-ops": Pass("the same, by MLIR's name", _sharing_constants(generalize_all)),
    "linalg-specialize-generic-ops": Pass("make generic ops named ones", specialize_all),
    "linalg-detensorize": Pass("make ops on tensors without dimensions scalar code", detensorize_all),
    "loop-invariant-code-motion": Pass("move what loops do not change in front of them", move_invariants_out),
    "memref-copy-to-linalg": Pass("make copies of buffers generic ops", copies_to_linalg),
    "linalg-memref-copy-to-linalg": Pass("the same, by ByteIR's name", copies_to_linalg),
    "linalg-ext-bufferize": Pass("give structured ops on tensors buffers of their own", bufferize),
    "linalg-bufferize": Pass("the same, by MLIR's name", bufferize),
    "canonicalize-matmul-epilogue": Pass(
        "compute what follows a block's product in place", canonicalize_matmul_epilogues
    ),
    "linalg-promotion": Pass("keep tiles of blocks' products in their threads' memory", promote_matmuls),
    "rewrite-diag-products": Pass("make products with linalg_ext.diag elementwise", rewrite_diag_products),
    "convert-linalg-to-loops": Pass(
        "lower linalg ops on memrefs to loops", _sharing_constants(convert_linalg_to_loops)
    ),
    "convert-linalg-ext-to-loops": Pass(
        "lower linalg_ext ops on memrefs to loops", _sharing_constants(convert_linalg_ext_to_loops)
    ),
}


def parse_options(name: str, text: str) -> dict[str, Option]:
    """Returns the options of `tile-sizes=2,3` or `shared-input,diff-shapes`. Unknown ones are InvalidArgument."""
    known, found = PASSES[name].options, dict[str, Option]()
    words = [part for word in text.split() for part in ([word] if "=" in word else word.split(","))]
    for each in words:
        key, _, value = each.partition("=")
        if key not in known:
            names = ", ".join(known) or "none"
            raise InvalidArgument(f"pass '{name}' has no option '{key}': its options are {names}")
        try:
            found[key.replace("-", "_")] = known[key](value)
        except ValueError as error:
            raise InvalidArgument(f"option '{key}' of pass '{name}' is {error}, found '{value}'") from error
    return found


_WORD = re.compile(r"\s*([\w.-]+)\s*(?:\{([^{}]*)\})?\s*")


def parse_pipeline(text: str) -> list[str]:
    """Returns the passes of `builtin.module(cse,func.func(linalg-op-tile{tile-sizes=2,3}))`, in order, as `run_passes`
    takes them. What they run on is not looked at: passes find their operations. InvalidArgument for other texts.
    """
    passes: list[str] = []
    at, depth, expects_word = 0, 0, True
    while at < len(text):
        word = _WORD.match(text, at) if expects_word else None
        if word is not None:
            name, options = word.groups()
            at = word.end()
            expects_word = text.startswith("(", at)
            if expects_word:
                at, depth = at + 1, depth + 1
            else:
                passes.append(f"{name}={options}" if options else name)
        elif text[at] == ")" and depth:
            at, depth, expects_word = at + 1, depth - 1, False
        elif text[at] == "," and not expects_word:
            at, expects_word = at + 1, True
        elif text[at].isspace():
            at += 1
        else:
            raise InvalidArgument(f"unexpected '{text[at:]}' in the pass pipeline '{text}'")
    if depth or (expects_word and passes):
        raise InvalidArgument(f"the pass pipeline '{text}' ends too early")
    return passes


def run_passes(
    module: Operation,
    names: Sequence[str],
    options: Mapping[str, Mapping[str, Option]] | None = None,
    verify_each: bool = True,
) -> Operation:
    """Runs passes on a module, in order, and verifies it before, after, and in between, or only after; returns it.

    A name is one of `PASSES`, with options behind an equals sign (`linalg-fuse-elementwise-ext=shared-input`) or in
    `options`. InvalidArgument for unknown names; LinalgError, with a place, where a transformation cannot be done.
    """
    steps: list[tuple[Pass, dict[str, Option]]] = []
    for spelled in names:
        name, _, text = spelled.partition("=")
        if name not in PASSES:
            raise InvalidArgument(f"unknown pass '{name}'{did_you_mean(name, PASSES)}")
        given = {key.replace("-", "_"): value for key, value in dict((options or {}).get(name, {})).items()}
        steps.append((PASSES[name], {**given, **parse_options(name, text)}))
    if verify_each:
        verify(module)
    for number, (step, arguments) in enumerate(steps, 1):
        step.run(module, **arguments)
        if verify_each or number == len(steps):
            verify(module)
    return module
