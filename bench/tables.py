"""Measures rows by 64-bit id, which sparse tables are made of, without a network.

    python bench/tables.py [--rows N] [--seconds S] [--rounds N] [--json FILE]

Builds and runs bench/rows.c; the best round counts. Beside it stands what a table of a fixed height does, whose ids are places:
that is what memory allows.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "bench"
# What is measured, and what it is to be on a machine that is free (per second and core, 10 M rows of 10 floats).
SHOWN = {"plain_updates": ("updates of rows of a fixed height", None), "store_inserts": ("inserts into the store", None),
         "store_lookups": ("lookups in the store", None), "store_updates": ("updates in the store", None),
         "table_inserts": ("inserts into a table, SGD", None), "table_lookups": ("lookups in a table", 20e6),
         "table_updates": ("updates of a table, SGD", 10e6)}


def build() -> Path:
    settings = ["-DWITH_TESTING=ON", "-DWITH_PYTHON=OFF", f"-DPython_EXECUTABLE={sys.executable}", "--log-level=WARNING"]
    subprocess.run(["cmake", "-S", ROOT, "-B", FOLDER, "-G", "Ninja", *settings], check=True)
    subprocess.run(["cmake", "--build", FOLDER, "--target", "bench_rows"], check=True, stdout=subprocess.DEVNULL)
    return FOLDER / "bench" / "bench_rows"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json")
    args = parser.parse_args()
    program = build()
    rounds = [json.loads(subprocess.check_output([program, str(args.rows), str(args.seconds)])) for _ in range(args.rounds)]
    print(f"## {args.rows:,} rows of {rounds[0]['width']} floats, batches of 10,000 even ids, one core\n")
    print("| work | million/s | wanted |\n|---|---|---|")
    for key, (what, wanted) in SHOWN.items():
        best = max(each[key] for each in rounds)
        print(f"| {what} | {best / 1e6:.1f} | {f'{wanted / 1e6:.0f}' if wanted else ''} |")
    print(f"\nBytes a row: {rounds[0]['store_bytes_a_row']}, promised {rounds[0]['promised_bytes_a_row']}. "
          f"Load of the machine: {os.getloadavg()[0]:.1f}.")
    if args.json:
        Path(args.json).write_text(json.dumps(rounds, indent=1))


if __name__ == "__main__":
    main()
