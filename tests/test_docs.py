"""The documentation is true: every python block of README.md and docs/*.md runs, and prints the text block after it."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

from tests.support import coverage_page, passes_page
from xjit.passes import PASSES
from xjit.passes.pipelines import NEEDED_FOR

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_blocks_run_and_print_what_the_page_says(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    text = page.read_text(encoding="utf-8")
    names: dict[str, object] = {"__name__": page.stem}
    for block in BLOCK.finditer(text):
        code, expected = block.groups()
        line = text[: block.start()].count("\n") + 1
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("\n" * line + code, str(page), "exec"), names)
        assert printed.getvalue().rstrip() == (expected or "").rstrip(), f"{page.name}:{line}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_there_are_pages_with_code() -> None:
    assert sum(len(BLOCK.findall(page.read_text(encoding="utf-8"))) for page in PAGES) > 5


def test_the_page_of_passes_is_up_to_date() -> None:
    assert passes_page.PAGE.read_text(encoding="utf-8") == passes_page.page(), "run python -m tests.support.passes_page"


def test_passes_that_bring_nothing_say_what_they_are_for() -> None:
    in_pipeline = [row for row in passes_page.measured()["rows"] if "changes" in row]
    optional = [row for row in in_pipeline if not PASSES[row["name"]].is_required]
    assert {row["name"] for row in optional if passes_page.brings_nothing(row)} == NEEDED_FOR.keys()


def test_the_page_of_coverage_is_up_to_date() -> None:
    page = coverage_page.PAGE.read_text(encoding="utf-8")
    assert page == coverage_page.page(), "run python -m tests.support.coverage_page"
