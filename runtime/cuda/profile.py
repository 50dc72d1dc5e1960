"""How long each step of a call takes on the device, by events around it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from xjit.runtime.cuda.executable import CudaExecutable
from xjit.thunks import Thunk


def profile_kernels(executable: CudaExecutable, *arguments: Any) -> list[tuple[Thunk, float]]:
    """Calls an executable and returns the steps in the order in which they ran, with the seconds of each.

    Steps go onto the stream one by one, so a step may wait for the host: times of a few microseconds are too long.
    """
    driver, stream = executable.driver, executable.stream
    driver.make_current()
    on_device = executable.to_device(*arguments)
    events, steps = [driver.record_time(stream)], list[Thunk]()

    def on_step(step: Thunk) -> None:
        steps.append(step)
        events.append(driver.record_time(stream))

    try:
        executable(*on_device, on_step=on_step)
        driver.synchronize(stream)
        return [(step, driver.seconds_between(*pair)) for step, pair in zip(steps, pairwise(events), strict=True)]
    finally:
        for event in events:
            driver.destroy_event(event)
