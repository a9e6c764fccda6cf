"""`paddle table`: what the command does once its words are read (src/cli/table.c reads them, and has the help)."""

from __future__ import annotations

import difflib
import json
import os
import sys
from collections.abc import Sequence

from paddle.fluid import core
from paddle.tables import formats, inspect, model, parts, portable, snapshot
from paddle.tables.order import Ordered, scratch_folder
from paddle.tables.rows import NO_HEIGHT, Table, TableError

PARTS = "parts"
_ENDS = {".safetensors": "safetensors", ".npz": "npz", ".txt": "text", ".tsv": "text", ".npy": "numpy"}


def tables_at(path: str, name: str = "") -> list[Table]:
    """The tables that are there, whatever wrote them. `name`: the one that is wanted."""
    if not os.path.exists(path):
        raise TableError(f"{path!r} does not exist.")
    found = portable.table_in(path)
    if found:
        tables = [found]
    elif not os.path.isdir(path):
        tables = [model.table_of_file(path, name)]
    elif snapshot.is_snapshots(path):
        tables = snapshot.tables_in(path)
    else:
        tables = model.tables_in(path)
        whole = os.path.join(path, name)
        if name and name not in [each.name for each in tables] and os.path.isfile(whole):
            tables.append(model.table_of_file(whole, name))
    if not tables:
        raise TableError(f"there is no table in {path!r}. A folder of save_persistables has parts of it in {model.TABLES}/, one of "
                         "FLAGS_ps_dir snapshots; a table that one process saved is a file, to be named with --table.")
    if not name:
        return tables
    chosen = [each for each in tables if each.name == name]
    if not chosen and len(tables) == 1 and found:
        return [found._replace(name=name)]
    if not chosen:
        names = [each.name for each in tables]
        near = difflib.get_close_matches(name, names, 1)
        guess = f" Did you mean {near[0]!r}?" if near else ""
        raise TableError(f"there is no table {name!r} in {path!r}.{guess} It has: {', '.join(names)}.")
    return chosen


def _one(path: str, settings: dict[str, str]) -> Table:
    tables = tables_at(path, settings["table"])
    if len(tables) > 1:
        raise TableError(f"{path!r} has several tables: {', '.join(each.name for each in tables)}. Choose one with --table.")
    return tables[0] if settings["states"] == "1" else tables[0].without_states()


def _inspect(paths: Sequence[str], settings: dict[str, str]) -> int:
    told, is_json = [], settings["json"] == "1"
    for path in paths:
        for table in tables_at(path, settings["table"]):
            if settings["states"] != "1":
                table = table.without_states()
            if settings["id"]:
                about, rows = {"table": table.name}, inspect.of_id(table, _id(settings["id"]))
            else:
                about, rows = inspect.described(table), inspect.first(table, int(settings["rows"]))
            if is_json:
                about["shown"] = [{"id": id, **{name: each.tolist() for name, each in zip(table.columns, values)}}
                                  for id, values in rows]
                told.append(about)
                continue
            print(f"table {table.name}" if settings["id"] else inspect.shown(about))
            for id, values in rows:
                print(inspect.row_text(table, id, values, bool(settings["id"])))
    if is_json:
        print(json.dumps(told))
    return 0


def _id(text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        raise TableError(f"--id takes the number of a row, found {text!r}.") from None


def _export(paths: Sequence[str], settings: dict[str, str]) -> int:
    if len(paths) > 1:
        raise TableError(f"export takes one PATH, found {len(paths)}. 'paddle table merge' brings several into one.")
    return _write([_one(paths[0], settings)], settings)


def _merge(paths: Sequence[str], settings: dict[str, str]) -> int:
    if len(paths) < 2:
        raise TableError("merge takes two PATHs or more. 'paddle table export' writes one table.")
    tables = [_one(path, settings) for path in paths]
    first = tables[0]
    for path, table in zip(paths, tables):
        if (table.width, table.dtype) != (first.width, first.dtype):
            raise TableError(f"{path!r} has rows of {table.width} numbers ({table.dtype}), {paths[0]!r} of {first.width} "
                             f"({first.dtype}): they do not go into one table.")
        if table.columns != first.columns:
            raise TableError(f"{path!r} has {_states(table)}, {paths[0]!r} has {_states(first)}. Leave them out with --nostates.")
    return _write(tables, settings)


def _states(table: Table) -> str:
    return "the states " + ", ".join(table.columns[1:]) if table.columns[1:] else "no states"


def _write(tables: list[Table], settings: dict[str, str]) -> int:
    output, format = settings["output"], _format(settings)
    overwrite = settings["overwrite"] == "1"
    height = int(settings["height"]) or max(table.height for table in tables)
    table = tables[0]._replace(name=settings["name"] or tables[0].name, height=height)
    if format == PARTS:
        parts.check_free(output, [table.state_name(column) for column in table.columns], overwrite)
    else:
        formats.check_free(output, overwrite)
    for note in dict.fromkeys(note for each in tables for note in each.notes):
        print(f"paddle: table: {note}", file=sys.stderr)
    with Ordered(tables, int(settings["memory"]), settings["on_duplicate"] or None, scratch_folder(output)) as rows:
        if height != NO_HEIGHT:
            for ids, _ in rows.blocks(()):
                if len(ids) and int(ids[-1]) >= height:
                    raise TableError(f"there is a row {int(ids[-1])}, and ids are below {height}: give another --height, 0 for "
                                     "that of the table.")
        if format == PARTS:
            parts.write(rows, table, output, int(settings["parts"]), overwrite)
        else:
            formats.write(rows, table, output, format, overwrite)
        joined = f", {rows.doubles:,} that stood twice joined" if rows.doubles else ""
        print(f"{output}: {rows.rows:,} rows of {table.width} numbers of the table {table.name}"
              f"{''.join(', ' + each for each in table.columns[1:])}{joined}")
    return 0


def _format(settings: dict[str, str]) -> str:
    if not settings["output"]:
        raise TableError("say where to write with --output.")
    return settings["format"] or _ENDS.get(os.path.splitext(settings["output"])[1], "safetensors")


WORK = {"inspect": _inspect, "export": _export, "merge": _merge}


def main(words: Sequence[str]) -> int:
    """name=value for every setting, then "--", the work and its paths. The status: 1 where it failed."""
    words = list(words)
    at = words.index("--")
    settings = dict(word.split("=", 1) for word in words[:at])
    try:
        return WORK[words[at + 1]](words[at + 2 :], settings)
    except (TableError, core.FileError, OSError) as why:
        print(f"paddle: table: {why}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    status = main(sys.argv[1:])
    sys.stdout.flush()
    sys.exit(status)
