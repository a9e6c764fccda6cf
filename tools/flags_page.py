"""Writes docs/FLAGS.md from the flag table in src/base/flags.h.

    python tools/flags_page.py [--write | --check]
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "src" / "base" / "flags.h"
PAGE = ROOT / "docs" / "FLAGS.md"
KINDS = {"BOOL": "0 or 1", "INT": "whole number", "LONG": "whole number", "DOUBLE": "number", "TEXT": "text"}
ROW = re.compile(r'X\((\w+),\s*(\w+),\s*"([^"]*)",\s*((?:"(?:[^"\\]|\\.)*"\s*\\?\s*)+)\)')


def rows() -> list[tuple[str, str, str, str]]:
    """Name, kind, default and help of each flag."""
    text = TABLE.read_text(encoding="utf-8")
    found = []
    for name, kind, value, texts in ROW.findall(text[text.index("#define PD_FLAG_MAP") : text.index("enum pd_flag")]):
        found.append((name, kind, value, "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', texts))))
    return found


def page() -> str:
    lines = ["# Flags", "",
             "Made by `tools/flags_page.py --write` from the table in `src/base/flags.h`; do not edit it by hand.", "",
             "A flag is set in the environment before the process starts (`FLAGS_check_nan_inf=1 python train.py`), "
             "in a script (`fluid.set_flags({'FLAGS_check_nan_inf': 1})`) or in C (`pd_flag_set(\"check_nan_inf\", "
             "\"1\")`). A value that does not fit is refused; in the environment it is reported and the default is "
             "used. Flags that old scripts set and that mean nothing here are accepted.", ""]
    works = [row for row in rows() if not row[3].startswith("accepted")]
    accepted = [row for row in rows() if row[3].startswith("accepted")]
    for title, part in (("Flags with an effect", works), ("Accepted for old scripts", accepted)):
        lines += [f"## {title}", "", "| flag | values | default | what it does |", "|---|---|---|---|"]
        lines += [f"| `{name}` | {KINDS[kind]} | {value} | {text} |" for name, kind, value, text in part] + [""]
    return "\n".join(lines).rstrip("\n") + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    parser.add_argument("--check", action="store_true", help="status 1 when the file is not up to date")
    options = parser.parse_args()
    text = page()
    if options.write:
        PAGE.write_text(text, encoding="utf-8")
    elif options.check:
        if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
            print(f"{PAGE.relative_to(ROOT)} is not up to date. Run: .venv/bin/python tools/flags_page.py --write")
            return 1
    else:
        print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
