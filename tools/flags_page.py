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
KINDS = {"BOOL": "0 or 1", "NATURAL": "0 to 18446744073709551615", "DOUBLE": "number", "TEXT": "text"}
LIMITS = {"INT32_MIN": -(2**31), "INT32_MAX": 2**31 - 1}
ROW = re.compile(r'X\((\w+),\s*(\w+(?:\([^)]*\))?),\s*"([^"]*)",[\s\\]*((?:"(?:[^"\\]|\\.)*"[\s\\]*)+)\)')

ABOUT = """
A flag is set in the environment before the process starts (`FLAGS_check_nan_inf=1 python train.py`),
in a script (`fluid.set_flags({'FLAGS_check_nan_inf': 1})`) or in C (`pd_flag_set("check_nan_inf", "1")`). A
value that does not fit is refused, with the flag, the value and what fits: in the environment when
`paddle` is imported (in C when an executor is made), before anything runs. Values are written as in
1.8.5: on and off also as true, yes, t, y and false, no, f, n; whole numbers also as 0x10. Flags that old
scripts set and that mean nothing here are accepted, with the values that 1.8.5 takes. A name in the
environment that looks like a flag with a slip in it (`FLAGS_rpc_deadlin`) gives a warning with the flag that
is meant.
"""


def rows() -> list[tuple[str, str, str, str]]:
    """Name, kind, default and help of each flag."""
    text = TABLE.read_text(encoding="utf-8")
    text = text[text.index("#define PD_FLAG_MAP") : text.index("enum pd_flag")]
    return [(name, kind, value, "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', texts)))
            for name, kind, value, texts in ROW.findall(text)]


def limits(kind: str) -> tuple[int, int] | None:
    """The least and the largest value of an INT flag."""
    if not kind.startswith("INT("):
        return None
    least, most = (LIMITS[text] if text in LIMITS else int(text) for text in kind[4:-1].split(", "))
    return least, most


def values(kind: str) -> str:
    return "{} to {}".format(*limits(kind)) if limits(kind) else KINDS[kind]


def page() -> str:
    lines = ["# Flags", "", "Made by `tools/flags_page.py --write` from the table in `src/base/flags.h`.", "",
             pages.paragraph(ABOUT), ""]
    accepted = [row for row in rows() if row[3].startswith("accepted")]
    works = [row for row in rows() if row not in accepted]
    for title, part in (("Flags with an effect", works), ("Accepted for old scripts", accepted)):
        lines += [f"## {title}", "", "| flag | values | default | what it does |", "|---|---|---|---|"]
        lines += [f"| `{name}` | {values(kind)} | {value} | {text} |" for name, kind, value, text in part]
        lines.append("")
    text = KNOWN.read_text(encoding="utf-8")
    text = text[text.index("passed_over[] = {") :]
    names = ", ".join(f"`{name}`" for name in re.findall(r'"(\w+)"', text[: text.index("};")]))
    lines += ["## Passed over in the environment", "",
              pages.paragraph(f"Known, without effect and without a value to ask for: {names}.")]
    return "\n".join(lines).rstrip("\n") + "\n"


if __name__ == "__main__":
    sys.exit(pages.main(__doc__.splitlines()[0], PAGE, page()))
