"""Modules in parts: what is linked from the parts does what the whole module does."""

from __future__ import annotations

import ctypes

import pytest

from xjit.llvm import IRBuilder, Module, partition
from xjit.llvm.library import Library
from xjit.llvm.partition import PartKind, PartWriter, library_parts
from xjit.llvm.types import I64, VOID
from xjit.llvm.values import const_int, zero
from xjit.runtime.machine_code import jit, linker
from xjit.runtime.machine_code.elf import undefined_symbols
from xjit.runtime.machine_code.ir_check import defined_symbols
from xjit.runtime.machine_code.symbols import resolve_symbols


def chain_module(count: int) -> Module:
    """Function i calls function i - 1 and adds a number from a constant that all share, and one of its own."""
    module = Module("chain")
    shared = module.add_constant(I64, const_int(I64, 1000), 8, "shared")
    previous = None
    for i in range(count):
        function = module.add_function(f"f{i}.x" if i % 2 else f"odd name {i}", I64, [(I64, "x")], linkage="internal")
        builder = IRBuilder(function.append_block("entry"))
        own = module.add_constant(I64, const_int(I64, i), 8, "own")
        value = builder.call(previous, [function.args[0]]) if previous else function.args[0]
        value = builder.add(builder.add(value, builder.load(I64, shared, align=8)), builder.load(I64, own, align=8))
        builder.ret(value)
        previous = function
    assert previous is not None
    previous.linkage = ""
    return module


Part = tuple[str, PartKind]


def parts_of(module: Module) -> list[Part]:
    """All parts, with `advance` called as often as could be."""
    parts: list[Part] = []
    writer = PartWriter(module, lambda *part: parts.append(part), _no_library)
    functions = list(module.functions.items())
    module.functions.clear()
    for name, function in functions:  # the module grows again
        module.functions[name] = function
        writer.advance()
    writer.finish()
    return parts


def _no_library(library: Library) -> None:
    raise AssertionError(library.name)


def run(texts: list[str], name: str, argument: int) -> int:
    objects = jit.compile_modules_to_objects(texts)
    loaded = linker.load_object(objects, [name], resolve_symbols(undefined_symbols(objects)))
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(loaded.address(name))(argument)


@pytest.mark.parametrize("part_bytes", [150, 400, 100_000])
def test_parts_compute_what_the_whole_does(part_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition, "PART_BYTES", part_bytes)
    module = chain_module(9)
    texts = [text for text, _ in parts_of(module)]
    assert (len(texts) > 1) == (part_bytes < 1000)
    assert sum(text.count("\ndefine ") for text in texts) == 9
    assert run(texts, "odd name 8", 5) == run([module.to_text()], "odd name 8", 5) == 5 + 9 * 1000 + 36


@pytest.mark.parametrize("cold_bytes", [100, 100_000])
def test_cold_functions_come_last(cold_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition, "PART_BYTES", 300)
    monkeypatch.setattr(partition, "COLD_BYTES", cold_bytes)
    module = chain_module(9)
    module.functions["odd name 8"].is_cold = True
    parts = parts_of(module)
    kinds = [kind for _, kind in parts]
    assert kinds == [PartKind.HOT] * (len(parts) - 1) + [PartKind.COLD if cold_bytes == 100 else PartKind.HOT]
    assert 'define i64 @"odd name 8"' in parts[-1][0]
    assert run([text for text, _ in parts], "odd name 8", 5) == 5 + 9 * 1000 + 36


def test_a_short_module_is_one_part_that_is_not_optimized() -> None:
    module = chain_module(3)
    module.functions["odd name 2"].is_cold = True
    parts: list[Part] = []
    writer = PartWriter(module, lambda *part: parts.append(part), _no_library)
    writer.advance()
    writer.finish(is_short=True)
    assert parts == [(module.to_text(), PartKind.WHOLE_COLD)]


def test_a_short_module_that_was_cut_stays_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition, "PART_BYTES", 150)
    module = chain_module(3)
    parts: list[Part] = []
    writer = PartWriter(module, lambda *part: parts.append(part), _no_library)
    writer.advance()
    module.add_function("late", VOID)
    IRBuilder(module.functions["late"].append_block("entry")).ret_void()
    writer.finish(is_short=True)
    assert [kind for _, kind in parts] == [PartKind.HOT, PartKind.HOT]


def test_open_functions_wait_for_their_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition, "PART_BYTES", 1)
    module = chain_module(2)
    parts: list[Part] = []
    writer = PartWriter(module, lambda *part: parts.append(part), _no_library)
    late = module.add_function("late", VOID)
    block = late.append_block("entry")
    writer.advance()
    assert len(parts) == 1 and "@late" not in parts[0][0]
    IRBuilder(block).ret_void()
    writer.finish()
    assert [text.count("\ndefine ") for text, _ in parts] == [2, 1] and "@late" in parts[1][0]


def test_parts_agree_on_target_and_calling_convention(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition, "PART_BYTES", 100)
    module = Module("conventions")
    table = module.add_constant(I64, const_int(I64, 30), 8, "table")
    inner = module.add_function("inner", I64, [(I64, "x")], linkage="internal", calling_convention="fastcc")
    builder = IRBuilder(inner.append_block("entry"))
    builder.ret(builder.mul(inner.args[0], builder.load(I64, table, align=8)))
    outer = module.add_function("outer", I64, [(I64, "x")])
    builder = IRBuilder(outer.append_block("entry"))
    builder.ret(builder.add(builder.call(inner, outer.args), builder.load(I64, table, align=8)))
    texts = [text for text, _ in parts_of(module)]
    assert len(texts) == 2 and all(text.startswith(module.header) for text in texts)
    assert "declare fastcc i64 @inner(i64)" in texts[1] and texts[1].count(" = private") == 1
    assert run(texts, "outer", 4) == 150


def test_libraries_come_once_and_first() -> None:
    module = chain_module(2)
    module.libraries["f"] = library = Library.of_module("f", Module("f"))
    sunk: list[Library | str] = []
    writer = PartWriter(module, lambda text, _: sunk.append(text), sunk.append)
    writer.advance()
    writer.finish()
    assert sunk == [library, module.to_text()]


def test_a_module_with_variables_stays_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition, "PART_BYTES", 100)
    module = chain_module(4)
    module.add_global("state", I64, zero(I64), 8)
    assert parts_of(module) == [(module.to_text(), PartKind.WHOLE)]


def test_only_what_is_used_is_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition, "PART_BYTES", 100)
    module = chain_module(6)
    module.declare("expf", VOID, [])
    texts = [text for text, _ in parts_of(module)]
    assert not any("expf" in text for text in texts)
    assert set().union(*map(defined_symbols, texts)) == {f.name for f in module.functions.values()}


def test_names_of_c_functions_are_not_given_away() -> None:
    module = Module("m")
    names = []
    for hint in ("memcpy", "floor", "floor", "__truncsfbf2", "floor.3", "add_fusion", "floor.3"):
        names.append(module.unique_name(hint))
        module.add_function(names[-1], VOID)
    assert names == ["memcpy.1", "floor.1", "floor.2", "truncsfbf2.1", "floor.3", "add_fusion", "floor.3.1"]


def test_cold_functions_are_a_part_of_their_own_if_no_other_calls_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition, "COLD_BYTES", 1)
    module = chain_module(5)
    for number in (1, 4):  # function 2 calls 1
        list(module.functions.values())[number].is_cold = True
    (hot, kind), (cold, cold_kind) = parts_of(module)
    assert (kind, cold_kind) == (PartKind.WHOLE, PartKind.WHOLE_COLD)
    assert [text.count("\ndefine ") for text in (hot, cold)] == [4, 1] and hot.count("optnone") == 1
    assert run([hot, cold], "odd name 4", 5) == run([chain_module(5).to_text()], "odd name 4", 5)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_short_cold_functions_count_as_functions(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However short they are, each takes some time to optimize."""
    monkeypatch.setattr(partition, "COLD_BYTES", 3 * partition.COLD_FUNCTION_BYTES)
    module = Module("short")
    for number in range(1 + count):
        function = module.add_function(f"f{number}", VOID)
        function.is_cold = number > 0
        IRBuilder(function.append_block("entry")).ret_void()
    assert len(parts_of(module)) == (2 if count == 5 else 1)


def test_variables_keep_cold_functions_with_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition, "COLD_BYTES", 1)
    module = chain_module(2)
    module.add_global("state", I64, zero(I64), 8)
    list(module.functions.values())[1].is_cold = True
    assert parts_of(module) == [(module.to_text(), PartKind.WHOLE)]


@pytest.mark.parametrize("cold", [(), (0,), (0, 1)])
def test_a_module_of_cold_functions_is_cold(cold: tuple[int, ...]) -> None:
    module = chain_module(2)
    functions = list(module.functions.values())
    for number in cold:
        functions[number].is_cold = True
    ((text, kind),) = parts_of(module)
    assert kind is (PartKind.WHOLE_COLD if len(cold) == 2 else PartKind.WHOLE)
    assert text.count("optnone") == len(cold)
    assert run([text], functions[1].name, 5) == run([chain_module(2).to_text()], functions[1].name, 5)


def test_a_cold_function_that_parts_call_is_in_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition, "PART_BYTES", 100)
    module = chain_module(3)
    first, second, _ = module.functions.values()
    first.is_cold = second.is_cold = True
    late = module.add_function("late", I64, [(I64, "x")])
    builder = IRBuilder(late.append_block("entry"))
    builder.ret(builder.call(first, late.args))
    texts = [text for text, _ in parts_of(module)]
    assert [text.count("define ") for text in texts] == [3, 1]
    assert run(texts, "late", 5) == 1005


def library_of(name: str, addend: int, is_cold: bool = True) -> Library:
    """f(x) = helper(x), a function of the library's own that adds a number."""
    module = Module(name)
    helper = module.add_function("helper", I64, [(I64, "x")], linkage="internal")
    builder = IRBuilder(helper.append_block("entry"))
    builder.ret(builder.add(helper.args[0], const_int(I64, addend)))
    exported = module.add_function(name, I64, [(I64, "x")])
    exported.is_cold = is_cold
    builder = IRBuilder(exported.append_block("entry"))
    builder.ret(builder.call(helper, exported.args))
    return Library.of_module(name, module)


def test_parts_of_libraries_keep_their_names_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition, "COLD_LIBRARY_BYTES", 1)
    parts = [library_parts(library_of(name, addend)) for name, addend in (("f", 1), ("g", 20))]
    assert [[kind for _, kind in of_one] for of_one in parts] == [[PartKind.WHOLE, PartKind.WHOLE_COLD]] * 2
    texts = [text for of_one in parts for text, _ in of_one]
    assert set().union(*map(defined_symbols, texts)) == {"f", "f.helper", "g", "g.helper"}
    assert (run(texts, "f", 4), run(texts, "g", 4)) == (5, 24)


def test_what_stays_whole_keeps_its_names(monkeypatch: pytest.MonkeyPatch) -> None:
    cold = library_of("f", 1)
    assert library_parts(cold) == [(cold.make_text(), PartKind.WHOLE)]  # too small to be worth a part
    monkeypatch.setattr(partition, "COLD_LIBRARY_BYTES", 1)
    hot = library_of("f", 1, is_cold=False)
    assert library_parts(hot) == [(hot.make_text(), PartKind.WHOLE)]


def test_a_library_of_one_large_part_keeps_its_functions_to_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others may have internal functions of the same names."""
    monkeypatch.setattr(partition, "PART_BYTES", 1)
    (text, _), *more = library_parts(library_of("f", 1, is_cold=False))
    assert not more and defined_symbols(text) == {"f"}
