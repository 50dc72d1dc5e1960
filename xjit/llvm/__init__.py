"""LLVM IR as text: types, values, builder, modules, targets, and inline vector math.

The usual imports are here.
"""

from xjit.llvm.builder import IRBuilder
from xjit.llvm.function import Block, Function, Param, Phi
from xjit.llvm.module import Declaration, Module
from xjit.llvm.target import Target
from xjit.llvm.types import LLVMType
from xjit.llvm.values import Value

__all__ = ["Block", "Declaration", "Function", "IRBuilder", "LLVMType", "Module", "Param", "Phi", "Target", "Value"]
