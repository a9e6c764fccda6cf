"""Pages made from tables are up to date, and links in the documents lead somewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("tool", ["missing.py", "flags_page.py", "api_pages.py", "layer_stubs.py"])
def test_made_pages_are_up_to_date(tool):
    done = subprocess.run([sys.executable, str(ROOT / "tools" / tool), "--check"],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("page", sorted(str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")))
def test_links_lead_somewhere(page):
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#:]+)\)", text)
    lost = [link for link in links if not (ROOT / "docs" / page).parent.joinpath(link).exists()]
    assert not lost, f"docs/{page} links to files that are not there: {lost}"


@pytest.mark.parametrize("page", ["TOUR.md", "ADD_AN_OP.md"])
def test_files_that_are_named_exist(page):
    text = re.sub(r"```.*?```", "", (ROOT / "docs" / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    named = re.findall(r"`((?:[\w.]+/)+[\w.]+\.(?:h|c|py|md))`", text)
    places = [ROOT, ROOT / "src", ROOT / "python" / "paddle" / "fluid"]
    lost = [name for name in named
            if name != "src/ops/axpy.c" and not any((place / name).exists() for place in places)]
    assert not lost, f"docs/{page} names files that are not there: {lost}"
