"""LLVM's code generation, as used by xjit: IR text in, object code or assembly out.

No IR pass pipeline runs by default: emitters write the vectors they want.
Invariants: every module is checked (intrinsics, externals, LLVM's verifier) before LLVM sees it in code generation,
because LLVM aborts the process on what it cannot select. CPU and features are properties of the target machine, never
of functions.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import os
from collections.abc import Callable, Collection, Generator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

import llvmlite.binding as llvm

from xjit.hlo.diagnostics import CompileError
from xjit.llvm.host_cpu import enabled_features, host_features
from xjit.llvm.library import Library
from xjit.llvm.partition import UNOPTIMIZED_PARTS, library_parts
from xjit.runtime.machine_code.codegen_switches import FOR_CPUS, generating_code
from xjit.runtime.machine_code.ir_check import check_ir_text, defined_symbols
from xjit.runtime.machine_code.library_cache import keep_library, kept_library, library_key
from xjit.runtime.machine_code.llvm_lock import UnlockedThreads, completed
from xjit.runtime.machine_code.object_cache import cached_code
from xjit.runtime.machine_code.toolchain import toolchain_versions


@dataclass(frozen=True, slots=True)
class CodegenOptions:
    """How to generate code.

    `opt_level` is that of the code generator (0 for code that runs once). `cpu` and `features` default to the host.
    """

    opt_level: int = 2
    cpu: str = ""
    features: str = ""
    cache_dir: str | None = None


@functools.cache
def initialize_llvm() -> None:
    """Initialises the native target. Idempotent."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()


@functools.cache
def _cpu_count() -> int:
    """The CPUs of this host: the system takes a tenth of a millisecond to count them."""
    return os.cpu_count() or 1


@functools.cache
def host_cpu() -> str:
    """LLVM's name of the host CPU."""
    return llvm.get_host_cpu_name()


def missing_features(features: str) -> list[str]:
    """The names of features among `features` (LLVM's spelling) that this host lacks, whose code must not run here."""
    return sorted(enabled_features(features) - enabled_features(host_features()))


@contextlib.contextmanager
def target_machine(options: CodegenOptions = CodegenOptions()) -> Generator[llvm.TargetMachine]:
    """A target machine for `options` that nobody else uses meanwhile. It is kept for the next one: it takes a
    millisecond to make, with what it finds out about the CPU at its first function.
    """
    machines = _idle_machines.setdefault(dataclasses.replace(options, cache_dir=None), [])
    try:
        machine = machines.pop()
    except IndexError:
        machine = create_target_machine(options)
    try:
        yield machine
    finally:
        machines.append(machine)


def compile_ir_to_object(ir_text: str, options: CodegenOptions = CodegenOptions(), *, trusted: bool = False) -> bytes:
    """Compiles one module to an ELF object. Raises CompileError with LLVM's message, never aborts on bad IR.

    `trusted` skips the checks of `ir_check`: for the runtime's own code, which calls what generated code may not.
    """
    if not trusted:
        check_ir_text(ir_text, options.features or host_features())
    with generating_code():
        return _emit_object(ir_text, options)


def compile_library(library: Library, options: CodegenOptions = CodegenOptions()) -> bytes:
    """Returns the object of a library of the runtime: from the cache of libraries, or compiled unchecked."""
    with generating_code():
        return _compile_library(library, options)


class ProgramCompiler(contextlib.AbstractContextManager["ProgramCompiler"]):
    """Compiles the modules of one program on other threads, as they come. The result does not depend on the threads.

    Between `with` and its end, no other thread generates code (`generating_code`).
    """

    def __init__(self, options: CodegenOptions = CodegenOptions(), num_threads: int | None = None) -> None:
        self._options = options
        self._features = options.features or host_features()
        self._threads = UnlockedThreads(num_threads or _cpu_count())
        self._objects: list[Future[tuple[bytes, ...]]] = []
        self._uses_threads = False
        self._defined: set[str] = set()
        self._ending = contextlib.ExitStack()

    def __enter__(self) -> ProgramCompiler:
        self._ending.enter_context(generating_code())
        self._ending.push(self._threads)
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.close()

    def add_library(self, library: Library) -> None:
        """Compiles a library, which may call the runtime, unless its object was kept. Errors come from `objects`."""
        self._defined.add(library.name)
        key = _library_key(library, self._options)
        kept = kept_library(key, self._options.cache_dir)
        if kept is None:
            self._submit(functools.partial(self._generate_library, library, key))
        else:
            self._objects.append(completed(lambda: kept))

    def prepare_library(self, library: Library) -> None:
        """Compiles a library of the runtime beside the program, for `compile_library`, which tells of errors."""
        options = CodegenOptions()
        if kept_library(_library_key(library, options), None) is None:
            self._threads.submit(functools.partial(_compile_library, library, options))

    def add(self, ir_text: str, *, opt_level: int | None = None, is_last: bool = False) -> None:
        """Compiles a module, which may call the runtime and what modules before it define.

        `opt_level` replaces that of the options. A last module that nothing is compiled beside needs no
        thread. Raises CompileError if the module must not be compiled (`ir_check`); LLVM's errors come from `objects`.
        """
        check_ir_text(ir_text, self._features, self._defined)
        self._defined |= defined_symbols(ir_text)
        options = self._options if opt_level is None else dataclasses.replace(self._options, opt_level=opt_level)
        job = functools.partial(_emit_objects, ir_text, options)
        if is_last and not self._uses_threads:
            self._objects.append(completed(job))
        else:
            self._submit(job)

    def objects(self) -> tuple[bytes, ...]:
        """Waits for the objects, in the order of the modules. Raises CompileError if LLVM rejects one."""
        return tuple(itertools.chain.from_iterable(future.result() for future in self._objects))

    def _submit(self, job: Callable[[], tuple[bytes, ...]]) -> None:
        self._uses_threads = True
        self._objects.append(self._threads.submit(job))

    def _generate_library(self, library: Library, key: str) -> tuple[bytes, ...]:
        parts = library_parts(library)
        defined = set[str]().union(*(defined_symbols(text) for text, _ in parts))
        for text, _ in parts:
            check_ir_text(text, self._features, defined)
        unoptimized = dataclasses.replace(self._options, opt_level=0)
        objects = tuple(
            _generate_object(text, unoptimized if kind in UNOPTIMIZED_PARTS else self._options) for text, kind in parts
        )
        keep_library(key, self._options.cache_dir, library, objects)
        return objects


def compile_modules_to_objects(
    ir_texts: Sequence[str], options: CodegenOptions = CodegenOptions(), num_threads: int = 1
) -> list[bytes]:
    """Compiles modules, in parallel where llvmlite allows it; later ones may call what earlier ones define."""
    with ProgramCompiler(options, num_threads) as compiler:
        for text in ir_texts:
            compiler.add(text)
        return list(compiler.objects())


def emit_assembly(
    ir_text: str, options: CodegenOptions = CodegenOptions(), linked_symbols: Collection[str] = ()
) -> str:
    """The assembly of what `compile_ir_to_object` would produce."""
    check_ir_text(ir_text, options.features or host_features(), linked_symbols)
    with generating_code(), target_machine(options) as machine:
        return machine.emit_assembly(parse_and_verify(ir_text))


def optimize_ir(
    ir_text: str,
    options: CodegenOptions = CodegenOptions(),
    linked_symbols: Collection[str] = (),
    *,
    trusted: bool = False,
) -> str:
    """The module after LLVM's default pipeline (-O2): what the emitters are compared with.

    `trusted`: see `compile_ir_to_object`.
    """
    if not trusted:
        check_ir_text(ir_text, options.features or host_features(), linked_symbols)
    with generating_code(), target_machine(options) as machine:
        module = parse_and_verify(ir_text)
        tuning = llvm.create_pipeline_tuning_options(speed_level=2)
        pass_builder = llvm.create_pass_builder(machine, tuning)
        pass_builder.getModulePassManager().run(module, pass_builder)
        return str(module)


def compile_optimized(ir_text: str, options: CodegenOptions = CodegenOptions(), *, trusted: bool = False) -> bytes:
    """As `compile_ir_to_object` of what `optimize_ir` makes: the cache has it under the text before."""

    def make() -> bytes:
        without_cache = dataclasses.replace(options, cache_dir="")
        return compile_ir_to_object(optimize_ir(ir_text, options, trusted=trusted), without_cache, trusted=trusted)

    return cached_code(options.cache_dir, lambda: _key_parts("optimized", ir_text, options), make, _label(ir_text))


def parse_and_verify(ir_text: str, context: llvm.ContextRef | None = None) -> llvm.ModuleRef:
    """Parses and verifies IR text in `context` (default: llvmlite's global one). Raises CompileError."""
    initialize_llvm()
    module = None
    try:
        module = llvm.parse_assembly(ir_text, context)
        module.verify()
    except RuntimeError as error:
        if module is not None:
            module.close()  # now: the traceback would keep it longer than its context
        raise CompileError(
            f"LLVM rejected the generated code: {_with_source_line(str(error).strip(), ir_text)}"
        ) from error
    return module


_idle_machines: dict[CodegenOptions, list[llvm.TargetMachine]] = {}
_RELOCATION, _CODE_MODEL = "pic", "small"


def create_target_machine(options: CodegenOptions) -> llvm.TargetMachine:
    """A target machine for `options` that nobody else has."""
    initialize_llvm()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(
        cpu=options.cpu or host_cpu(),
        features=options.features or host_features(),
        opt=options.opt_level,
        reloc=_RELOCATION,
        codemodel=_CODE_MODEL,
    )


def _emit_objects(ir_text: str, options: CodegenOptions) -> tuple[bytes]:
    return (_emit_object(ir_text, options),)


def _emit_object(ir_text: str, options: CodegenOptions) -> bytes:
    """As `_generate_object`, if the code is not in the cache."""
    return cached_code(
        options.cache_dir,
        lambda: _key_parts("object", ir_text, options),
        lambda: _generate_object(ir_text, options),
        _label(ir_text),
    )


def _key_parts(kind: str, ir_text: str, options: CodegenOptions) -> tuple[str, ...]:
    """All that decides the code: the text, and what else does."""
    return kind, *_decisive(options), ir_text


def _library_key(library: Library, options: CodegenOptions) -> str:
    return library_key(library, *_decisive(options))


def _decisive(options: CodegenOptions) -> tuple[str, ...]:
    """What decides the code of a text: LLVM, its switches, the CPU; and the version of xjit."""
    cpu, features = options.cpu or host_cpu(), options.features or host_features()
    level = str(options.opt_level)
    return *toolchain_versions(), llvm.get_default_triple(), cpu, features, level, *FOR_CPUS, _RELOCATION, _CODE_MODEL


def _compile_library(library: Library, options: CodegenOptions) -> bytes:
    """As `compile_library`, for who holds its lock."""
    key = _library_key(library, options)
    kept = kept_library(key, options.cache_dir)
    if kept is not None:
        return kept[0]
    code = _generate_object(library.make_text(), options)
    keep_library(key, options.cache_dir, library, (code,))
    return code


def _label(ir_text: str) -> str:
    """What a text calls itself: "; ModuleID = 'name'"."""
    first = ir_text[: ir_text.find("\n")]
    return first.partition("'")[2].rpartition("'")[0][:200]


def _generate_object(ir_text: str, options: CodegenOptions) -> bytes:
    with target_machine(options) as machine, llvm.create_context() as context:
        module = parse_and_verify(ir_text, context)
        try:
            return machine.emit_object(module)
        finally:
            module.close()


def _with_source_line(message: str, ir_text: str) -> str:
    """Adds the offending IR line, which llvmlite's message only gives a number of."""
    parts = message.split(":")
    number = next((int(part) for part in parts if part.strip().isdigit()), 0)
    lines = ir_text.splitlines()
    if not 0 < number <= len(lines) or lines[number - 1].strip() in message:
        return message
    return f"{message}\n    {number} | {lines[number - 1]}"
