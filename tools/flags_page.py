"""Writes docs/FLAGS.md from the flag table in src/base/flags.h.

    python tools/flags_page.py [--write | --check]
"""

from __future__ import annotations

import re
import sys

import pages

TABLE = pages.ROOT / "src" / "base" / "flags.h"
KNOWN = TABLE.with_name("flags_typo.c")
PAGE = pages.ROOT / "docs" / "FLAGS.md"
KINDS = {"BOOL": "0 or 1", "INT": "whole number", "LONG": "whole number", "DOUBLE": "number", "TEXT": "text"}
ROW = re.compile(r'X\((\w+),\s*(\w+),\s*"([^"]*)",[\s\\]*((?:"(?:[^"\\]|\\.)*"[\s\\]*)+)\)')

ABOUT = """
A flag is set in the environment before the process starts (`FLAGS_check_nan_inf=1 python train.py`),
in a script (`fluid.set_flags({'FLAGS_check_nan_inf': 1})`) or in C (`pd_flag_set("check_nan_inf", "1")`). A
value that does not fit is refused; in the environment it is reported and the default is used. Flags that
old scripts set and that mean nothing here are accepted. A name in the environment that looks like a flag
with a slip in it (`FLAGS_rpc_deadlin`) gives a warning with the flag that is meant.
"""


def rows() -> list[tuple[str, str, str, str]]:
    """Name, kind, default and help of each flag."""
    text = TABLE.read_text(encoding="utf-8")
    text = text[text.index("#define PD_FLAG_MAP") : text.index("enum pd_flag")]
    return [(name, kind, value, "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', texts)))
            for name, kind, value, texts in ROW.findall(text)]


def page() -> str:
    lines = ["# Flags", "", "Made by `tools/flags_page.py --write` from the table in `src/base/flags.h`.", "",
             pages.paragraph(ABOUT), ""]
    accepted = [row for row in rows() if row[3].startswith("accepted")]
    works = [row for row in rows() if row not in accepted]
    for title, part in (("Flags with an effect", works), ("Accepted for old scripts", accepted)):
        lines += [f"## {title}", "", "| flag | values | default | what it does |", "|---|---|---|---|"]
        lines += [f"| `{name}` | {KINDS[kind]} | {value} | {text} |" for name, kind, value, text in part]
        lines.append("")
    text = KNOWN.read_text(encoding="utf-8")
    text = text[text.index("passed_over[] = {") :]
    names = ", ".join(f"`{name}`" for name in re.findall(r'"(\w+)"', text[: text.index("};")]))
    lines += ["## Passed over in the environment", "", pages.paragraph(f"Known, without effect and without a value to ask for: {names}.")]
    return "\n".join(lines).rstrip("\n") + "\n"


if __name__ == "__main__":
    sys.exit(pages.main(__doc__.splitlines()[0], PAGE, page()))
