"""XLA's options of a compilation (`compiler_options=`): what they mean here.

`xla_backend_optimization_level`, `xla_disable_hlo_passes`, `xla_dump_to` (a directory) and `xla_dump_hlo_pass_re` have
their meaning. The others say how XLA's own compilers or GPUs work, what they write beside, or what they may do and
need not: a right value of one changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from xjit.compile_options import CompileOptions
from xjit.hlo.diagnostics import HloError
from xjit.jax_backend.debug_options import Value, check_option
from xjit.passes import PASSES, find_pass
from xjit.passes.framework.driver import refuse_if_required

_OPT_LEVEL: Final = "xla_backend_optimization_level"
_DISABLED: Final = "xla_disable_hlo_passes"
_DUMP_TO: Final = "xla_dump_to"
_DUMPED_PASSES: Final = "xla_dump_hlo_pass_re"
_STANDARD_OUTPUT: Final = "-"
"""As a place for dumps: not done here."""

_DEFAULT_LEVEL: Final = CompileOptions().opt_level

UNOPTIMIZED_US: Final = 1.0
"""Programs that are estimated to take less are not optimized, unless a level is asked for: a call of JAX takes 5."""


class DumpFlags(NamedTuple):
    """What the process's XLA_FLAGS say of dumps: a directory, and the passes to dump after."""

    dump_to: str = ""
    dumped_passes: str = ""


_NO_DUMPS: Final = DumpFlags()


def dump_flags(debug_options: Any) -> DumpFlags:
    """The dump flags of jaxlib's DebugOptions, which hold XLA_FLAGS."""
    return DumpFlags(getattr(debug_options, _DUMP_TO, ""), getattr(debug_options, _DUMPED_PASSES, ""))


def compile_options_of(overrides: Iterable[tuple[str, Value]], flags: DumpFlags = _NO_DUMPS) -> CompileOptions:
    """What options of XLA mean; `overrides` go before `flags`.

    Errors: InvalidArgument for unknown names and values of another type.
    """
    values: dict[str, Value] = {_DUMP_TO: flags.dump_to, _DUMPED_PASSES: flags.dumped_passes}
    values |= {name: check_option(name, value) for name, value in overrides}
    level = min(int(values.get(_OPT_LEVEL, _DEFAULT_LEVEL)), 3)
    disabled = tuple(name for name in str(values.get(_DISABLED, "")).split(",") if name and _can_be_disabled(name))
    unoptimized_us = 0.0 if _OPT_LEVEL in values else UNOPTIMIZED_US
    dump_to = str(values[_DUMP_TO])
    return CompileOptions(
        opt_level=max(level, 0),
        disabled_passes=disabled,
        unoptimized_us=unoptimized_us,
        dump_to="" if dump_to == _STANDARD_OUTPUT else dump_to,
        dump_hlo_pass_re=str(values[_DUMPED_PASSES]),
    )


def _can_be_disabled(name: str) -> bool:
    """Whether xjit has a pass of that name which it can do without; XLA ignores other names, too."""
    try:
        refuse_if_required(find_pass(PASSES, name))
    except HloError:
        return False
    return True
