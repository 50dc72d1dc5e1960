"""Donated arguments of calls on a GPU: results lie where their arrays did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xjit.hlo.diagnostics import InvalidArgument
from xjit.runtime.arrays.donation import Donations
from xjit.runtime.cuda.device_array import DeviceArray, is_on_device
from xjit.runtime.program import ProgramInterface


def check_donations(
    module: ProgramInterface, donated: Mapping[int, int], leaves: Sequence[Any], inputs: Sequence[DeviceArray]
) -> None:
    """Checks that every donated array can be overwritten, and that no other argument lies in its memory.

    `donated` says which parameter each result takes, by the numbers of their leaves. Errors: InvalidArgument.
    """
    on_host = {result: leaf for result, leaf in donated.items() if not is_on_device(leaves[leaf])}
    Donations(on_host).check(module, leaves)
    for parameter in donated.values():
        own = inputs[parameter]
        for other, array in enumerate(inputs):
            if (
                other != parameter
                and own.address < array.address + array.nbytes
                and array.address < own.address + own.nbytes
            ):
                name, with_ = (module.parameters[n].name for n in (parameter, other))
                raise InvalidArgument(f"donated parameter {name!r} shares its memory with {with_!r}")


def copied_to(array: np.ndarray[Any, Any], values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Writes values to a donated NumPy array, and returns that."""
    np.copyto(array, values)
    return array
