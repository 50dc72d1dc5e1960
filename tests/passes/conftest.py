"""`--update-golden` writes what passes do now into their cases; look at the difference before it is committed."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declares the option."""
    parser.addoption("--update-golden", action="store_true", help="write the present results of passes into cases/")
