"""The HLO graph: shapes, layouts, literals, instructions, computations, modules."""

from xjit.hlo.attributes.opcodes import OPCODES, Opcode, Trait
from xjit.hlo.compare.equality import structural_equal
from xjit.hlo.diagnostics import (
    CompileError,
    ExecutionError,
    FailedPrecondition,
    HloError,
    HloParseError,
    HloVerifyError,
    InvalidArgument,
    PassError,
    ResourceExhausted,
    Span,
    Unsupported,
    XjitError,
)
from xjit.hlo.edit.cloning import HloCloneContext
from xjit.hlo.graph_names import bind_graph_names
from xjit.hlo.io.printing import HloPrintOptions
from xjit.hlo.ir.computation import HloComputation
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.ir.module import HloModule
from xjit.hlo.ir.module_config import ComputationLayout, HloModuleConfig, ProgramShape
from xjit.hlo.ir.name_uniquer import NameUniquer
from xjit.hlo.ir.schedule import HloSchedule
from xjit.hlo.ir.visitors import DfsHloVisitor
from xjit.hlo.types.layout import Layout, Tile
from xjit.hlo.types.literal import Literal
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.hlo.types.shape import Shape

__all__ = [
    "OPCODES",
    "CompileError",
    "ComputationLayout",
    "DfsHloVisitor",
    "ExecutionError",
    "FailedPrecondition",
    "HloCloneContext",
    "HloComputation",
    "HloError",
    "HloInstruction",
    "HloModule",
    "HloModuleConfig",
    "HloParseError",
    "HloPrintOptions",
    "HloSchedule",
    "HloVerifyError",
    "InvalidArgument",
    "Layout",
    "Literal",
    "NameUniquer",
    "Opcode",
    "PassError",
    "PrimitiveType",
    "ProgramShape",
    "ResourceExhausted",
    "Shape",
    "Span",
    "Tile",
    "Trait",
    "Unsupported",
    "XjitError",
    "structural_equal",
]

bind_graph_names()
