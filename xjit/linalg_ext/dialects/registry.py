"""All rows of all dialects, by name."""

from __future__ import annotations

from functools import lru_cache

from xjit.linalg_ext.dialects.affine import AFFINE_ROWS
from xjit.linalg_ext.dialects.affine_loops import AFFINE_LOOP_ROWS
from xjit.linalg_ext.dialects.affine_parallel import AFFINE_PARALLEL_ROWS
from xjit.linalg_ext.dialects.arith import ARITH_ROWS
from xjit.linalg_ext.dialects.cf import CF_ROWS
from xjit.linalg_ext.dialects.definition import OpDefinition, group_values
from xjit.linalg_ext.dialects.func import FUNC_ROWS
from xjit.linalg_ext.dialects.gpu import GPU_ROWS
from xjit.linalg_ext.dialects.index import INDEX_ROWS
from xjit.linalg_ext.dialects.linalg import LINALG_ROWS
from xjit.linalg_ext.dialects.linalg_ext import LINALG_EXT_ROWS
from xjit.linalg_ext.dialects.memref import MEMREF_ROWS
from xjit.linalg_ext.dialects.memref_access import MEMREF_ACCESS_ROWS
from xjit.linalg_ext.dialects.packing import PACKING_ROWS
from xjit.linalg_ext.dialects.scf import SCF_ROWS
from xjit.linalg_ext.dialects.scf_parallel import SCF_PARALLEL_ROWS
from xjit.linalg_ext.dialects.tensor import TENSOR_ROWS
from xjit.linalg_ext.dialects.transform import TRANSFORM_ROWS
from xjit.linalg_ext.ir.operation import Operation, Value

__all__ = ["definition_of", "has_trait", "known_names", "operand_group"]

_ROWS: dict[str, OpDefinition] = {
    **FUNC_ROWS,
    **ARITH_ROWS,
    **INDEX_ROWS,
    **TENSOR_ROWS,
    **PACKING_ROWS,
    **GPU_ROWS,
    **MEMREF_ROWS,
    **MEMREF_ACCESS_ROWS,
    **SCF_ROWS,
    **SCF_PARALLEL_ROWS,
    **CF_ROWS,
    **AFFINE_ROWS,
    **AFFINE_LOOP_ROWS,
    **AFFINE_PARALLEL_ROWS,
    **LINALG_ROWS,
    **LINALG_EXT_ROWS,
    **TRANSFORM_ROWS,
}


def definition_of(name: str) -> OpDefinition | None:
    """Returns the row of an operation, None if there is none."""
    return _ROWS.get(name)


@lru_cache(maxsize=1)
def known_names() -> tuple[str, ...]:
    """Returns the names of all operations that have a row."""
    return tuple(_ROWS)


def has_trait(op: Operation, trait: str) -> bool:
    """Whether the row of an operation has a trait; see `OpDefinition`."""
    definition = _ROWS.get(op.name)
    return definition is not None and trait in definition.traits


def operand_group(op: Operation, name: str) -> tuple[Value, ...]:
    """Returns the operands (or results) of a group, by the name in the operation's row."""
    return group_values(_ROWS[op.name], op, name)
