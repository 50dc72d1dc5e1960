"""The reference evaluator: HLO on NumPy arrays - slow, obvious, and what tests compare with."""

from xjit.ops.evaluation.interpreter import Interpreter, evaluate, evaluate_devices
from xjit.ops.evaluation.table import EVALUATORS, UNSUPPORTED

__all__ = ["EVALUATORS", "UNSUPPORTED", "Interpreter", "evaluate", "evaluate_devices"]
