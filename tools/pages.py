"""What the makers of docs pages share: wrapped paragraphs, and the options --write and --check."""

from __future__ import annotations

import argparse
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def paragraph(text: str) -> str:
    """The text in lines of up to 110 characters."""
    lines = textwrap.wrap(" ".join(text.split()), 110, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines)


def names(found: list[str]) -> str:
    """A paragraph of names in code style; what follows a space in one of them stands outside of it."""
    parts = [name.partition(" ") for name in found]
    return paragraph(", ".join(f"`{name}`{space}{rest}" for name, space, rest in parts) or "none")


def options_of(title: str, name: object) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument("--write", action="store_true", help=f"write {name}")
    parser.add_argument("--check", action="store_true", help="status 1 when it is not up to date")
    return parser.parse_args()


def main(title: str, page: Path, text: str) -> int:
    """Prints the text, writes it to its page, or says whether the page holds it already."""
    name = page.relative_to(ROOT)
    options = options_of(title, name)
    if options.write:
        page.write_text(text, encoding="utf-8")
    elif options.check:
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            print(f"{name} is not up to date. Run: .venv/bin/python {sys.argv[0]} --write")
            return 1
    else:
        print(text, end="")
    return 0


def main_many(title: str, folder: Path, made: dict[Path, str]) -> int:
    """The same for a folder that holds these pages and no others."""
    name = folder.relative_to(ROOT)
    options = options_of(title, name)
    others = [path for path in sorted(folder.glob("*")) if path not in made]
    if options.write:
        folder.mkdir(exist_ok=True)
        for path, text in made.items():
            path.write_text(text, encoding="utf-8")
        for path in others:
            path.unlink()
    elif options.check:
        stale = [path for path, text in made.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
        if stale or others:
            names = ", ".join(str(path.relative_to(ROOT)) for path in [*stale, *others])
            print(f"{names}: not up to date. Run: .venv/bin/python {sys.argv[0]} --write")
            return 1
    else:
        print("\n".join(f"{path.relative_to(ROOT)}: {len(text.splitlines())} lines" for path, text in made.items()))
    return 0
