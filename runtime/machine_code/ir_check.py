"""Checks of IR text that must pass before LLVM generates code from it.

Role: LLVM aborts the process when it cannot select an intrinsic, so intrinsics must be known and the target must have
what they need; and code may call only what the runtime offers (`xjit.runtime.machine_code.symbol_table`).
"""

from __future__ import annotations

import re
from collections.abc import Collection

from xjit.hlo.diagnostics import CompileError
from xjit.llvm.host_cpu import enabled_features
from xjit.runtime.machine_code.symbol_table import is_known_symbol

# Patterns start with a literal newline: that is many times faster to search for than `^` in megabytes of text.
_DECLARATION = re.compile(r"\n[ \t]*declare\b[^@\n]*@(?:\"([^\"]+)\"|([\w.$-]+))")
_VISIBLE_DEFINITION = re.compile(r"\ndefine (?!internal|private)[^@\n]*@(?:\"([^\"]+)\"|([\w.$-]+))")
_EXTERNAL_GLOBAL = re.compile(r"\n[ \t]*@(?:\"([^\"]+)\"|([\w.$-]+))\s*=\s*(?:external|extern_weak)\b")
_INTRINSIC_USE = re.compile(r"@(llvm\.[\w.]+)")  # the parser accepts intrinsics that are not declared
_INLINE_ASSEMBLY = re.compile(r"\basm\s+(?:sideeffect|alignstack|inteldialect|unwind|\")[^\n]*")

_INTRINSIC = re.compile(
    r"llvm\.(?:"
    r"(?:sqrt|fma|fmuladd|fabs|copysign|floor|ceil|trunc|rint|nearbyint|round|roundeven|lrint|llrint|is\.fpclass|ldexp|"
    r"minnum|maxnum|minimum|maximum|minimumnum|maximumnum|powi|exp|exp2|exp10|log|log2|log10|sin|cos|tan|asin|acos|atan|atan2|sinh|cosh|tanh|pow|"
    r"ctpop|ctlz|cttz|bswap|bitreverse|fshl|fshr|abs|smax|smin|umax|umin|"
    r"[su](?:add|sub|shl)\.sat|[su](?:add|sub|mul)\.with\.overflow|fpto[su]i\.sat|"
    r"convert\.from\.fp16|convert\.to\.fp16|"
    r"masked\.(?:load|store|gather|scatter|expandload|compressstore)|get\.active\.lane\.mask|"
    r"vector\.(?:reduce\.\w+|insert|extract|reverse|splice|interleave\d|deinterleave\d)|stepvector|"
    r"memcpy|memcpy\.inline|memmove|memset|memset\.inline|lifetime\.(?:start|end)|invariant\.(?:start|end)|prefetch|expect|"
    r"stacksave|stackrestore)(?:\.[\w.]+)?|"
    r"assume|readcyclecounter|arithmetic\.fence\.\w+|experimental\.noalias\.scope\.decl|sideeffect|"
    r"x86\.[\w.]+|aarch64\.[\w.]+)"
)

_X86_REQUIREMENTS = (
    (re.compile(r"llvm\.x86\.avx512\.(?:\w+\.)?(?:vp|mask\.vp)?dpbusd"), ("avx512vnni", "avxvnni")),
    (re.compile(r"llvm\.x86\.avx512bf16"), ("avx512bf16",)),
    (re.compile(r"llvm\.x86\.tdpbf16ps$"), ("amx-bf16",)),
    (re.compile(r"llvm\.x86\.tdpb[su]{2}d$"), ("amx-int8",)),
    (re.compile(r"llvm\.x86\.(?:ldtilecfg|tilerelease|tilezero|tileloadd64|tilestored64)$"), ("amx-tile",)),
    (re.compile(r"llvm\.x86\.avx512fp16"), ("avx512fp16",)),
    (re.compile(r"llvm\.x86\.avx512.*\.(?:128|256)$"), ("avx512vl",)),
    (re.compile(r"llvm\.x86\.avx512.*\.(?:pd|ps|q)\.512|llvm\.x86\.avx512"), ("avx512f",)),
    (re.compile(r"llvm\.x86\.avx2"), ("avx2",)),
    (re.compile(r"llvm\.x86\.avx\."), ("avx",)),
    (re.compile(r"llvm\.x86\.fma"), ("fma", "fma4", "avx512f")),
    (re.compile(r"llvm\.x86\.vcvtp[hs]2p"), ("f16c",)),
    (re.compile(r"llvm\.x86\.sse4"), ("sse4.1", "sse4.2")),
    (re.compile(r"llvm\.x86\.ssse3"), ("ssse3",)),
    (re.compile(r"llvm\.x86\.sse3"), ("sse3",)),
    (re.compile(r"llvm\.x86\.sse"), ()),
    (re.compile(r"llvm\.x86\.bmi"), ("bmi", "bmi2")),
    (re.compile(r"llvm\.x86\.pclmulqdq"), ("pclmul",)),
    (re.compile(r"llvm\.x86\.aesni"), ("aes",)),
)
"""First match wins; one of the features must be there. Intrinsics that match nothing are refused."""


def external_symbols(ir_text: str) -> list[str]:
    """The functions and globals that the module declares but does not define, intrinsics excluded, sorted."""
    text = "\n" + ir_text
    found = {first or second for pattern in (_DECLARATION, _EXTERNAL_GLOBAL) for first, second in pattern.findall(text)}
    return sorted(name for name in found if not name.startswith("llvm."))


def defined_symbols(ir_text: str) -> set[str]:
    """The functions that the module defines and other modules can call."""
    return {first or second for first, second in _VISIBLE_DEFINITION.findall("\n" + ir_text)}


def check_ir_text(ir_text: str, features: str, others: Collection[str] = ()) -> None:
    """Raises CompileError for intrinsics or externals that are not known, and for inline assembly.

    `others` are the symbols of modules that this one is linked with.
    """
    if "asm" in ir_text and (forbidden := _INLINE_ASSEMBLY.search(ir_text)):
        raise CompileError(f"inline assembly is not allowed in generated code: {forbidden.group(0).strip()}")
    enabled = enabled_features(features)
    for name in sorted(set(_INTRINSIC_USE.findall(ir_text))):
        _check_intrinsic(name, enabled)
    unknown = [name for name in external_symbols(ir_text) if name not in others and not is_known_symbol(name)]
    if unknown:
        raise CompileError(f"generated code uses symbols that the runtime does not offer: {', '.join(unknown)}")


def _check_intrinsic(name: str, enabled: frozenset[str]) -> None:
    if not _INTRINSIC.fullmatch(name):
        raise CompileError(f"generated code uses the unknown LLVM intrinsic {name}")
    if not name.startswith("llvm.x86."):
        return
    for pattern, features in _X86_REQUIREMENTS:
        if pattern.match(name):
            if features and not enabled.intersection(features):
                raise CompileError(
                    f"the LLVM intrinsic {name} needs one of {', '.join(features)}, which the target lacks"
                )
            return
    raise CompileError(f"generated code uses the unknown LLVM intrinsic {name}")
