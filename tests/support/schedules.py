"""The schedules of a module, as `exe.as_text("schedule")` prints them."""

from __future__ import annotations

import re

from xjit.emitters.schedule.parser import parse_schedule
from xjit.emitters.schedule.schedule import Schedule


def parse_schedules(text: str) -> list[Schedule]:
    """Returns the schedules of a text, one after the other; remarks between them are skipped."""
    return [parse_schedule(piece) for piece in re.split(r"(?m)^(?=schedule )", text)[1:]]
