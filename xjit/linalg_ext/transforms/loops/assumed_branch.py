"""take_assumed_branch: a `scf.if` of which one side is known to run."""

from __future__ import annotations

from xjit.linalg_ext.ir import Builder, LinalgError, Operation

__all__ = ["take_assumed_branch"]


def take_assumed_branch(branch: Operation, take_else: bool = False) -> None:
    """Replaces a `scf.if` by the body of its first side, or of its second one.

    LinalgError, with the operation's place, for other operations, and where there is no such side.
    """
    if branch.name != "scf.if":
        raise LinalgError(f"'{branch.name}' op is no scf.if", branch.location)
    region = branch.regions[1 if take_else else 0] if len(branch.regions) > int(take_else) else None
    if region is None or not region.blocks:
        raise LinalgError("'scf.if' op has no other side to take", branch.location)
    builder = Builder.before(branch)
    *body, end = region.block.operations
    results = list(end.operands)
    for op in body:
        op.remove()
        builder.insert(op)
    branch.replace_all_uses_with(results)
    branch.erase()
