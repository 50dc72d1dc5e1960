"""`cached_property` as Python has it from 3.12 on: before, its lock takes as long as what most of them find out."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property as cached_property
else:
    T = TypeVar("T")

    class cached_property(functools.cached_property[T]):
        """A property that is found out once for each instance; by two threads at once perhaps twice."""

        def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:
            """Returns the value, which is an attribute of the instance from then on."""
            if instance is None:
                return self
            value = instance.__dict__[self.attrname] = self.func(instance)
            return value
