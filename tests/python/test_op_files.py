"""Every op of src/ops is in a file that its name leads to; src/ops/list.h has the rule."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

OPS = Path(__file__).resolve().parents[2] / "src" / "ops"

# Ops of one body whose names have no part in common. The same table stands in src/ops/list.h.
FAMILIES = {
    "compare": "less_than less_equal greater_than greater_equal equal not_equal",
    "isfinite": "isinf isnan",
    "math": "exp log log1p sqrt rsqrt square abs reciprocal cos sin acos asin atan erf ceil floor round",
    "random": "randint",
}
FAMILY_OF = {op: family for family, ops in FAMILIES.items() for op in ops.split()}

DEFINED = re.compile(r"\bconst struct pd_op pd_op_([\w#]+) = \{")
DEFINE = re.compile(r"#\s*define (\w+)\(([^)]*)\)(.*)")
STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
Macros = dict[str, tuple[list[str], str]]


def split(text: str) -> tuple[Macros, str]:
    """The macros with arguments of a C file, and its text without preprocessor lines, comments and strings."""
    text = re.sub(r"/\*.*?\*/", " ", STRING.sub('""', text.replace("\\\n", " ")), flags=re.DOTALL)
    macros, rest = {}, []
    for line in text.splitlines():
        if made := DEFINE.match(line):
            macros[made[1]] = ([name.strip() for name in made[2].split(",")], made[3])
        elif not line.lstrip().startswith("#"):
            rest.append(line)
    return macros, "\n".join(rest)


def arguments(text: str, begin: int) -> list[str]:
    """What stands between the parenthesis that ends at `begin` and the one that closes it, cut at its commas."""
    found, depth = [""], 0
    for char in text[begin:]:
        if depth == 0 and char == ")":
            break
        if depth == 0 and char == ",":
            found.append("")
        else:
            depth += (char in "([{") - (char in ")]}")
            found[-1] += char
    return [argument.strip() for argument in found]


def defined_by(text: str, macros: Macros, given: dict[str, str]) -> Iterator[str]:
    """Names of the ops that this text defines, also by macros; `given`: arguments of the macro that it is of."""
    def fill(name: str) -> str:
        return "".join(given.get(part.strip(), part.strip()) for part in name.split("##"))

    yield from map(fill, DEFINED.findall(text))
    for call in re.finditer(r"\b([A-Z]\w*)\(", text):
        if call[1] in macros:
            names, body = macros[call[1]]
            yield from defined_by(body, macros, dict(zip(names, map(fill, arguments(text, call.end())))))


def files_of_ops(folder: Path) -> dict[str, list[str]]:
    """For each op the files (without .c) that define it."""
    shared: Macros = {}
    for header in folder.glob("*.h"):
        shared |= split(header.read_text(encoding="utf-8"))[0]
    found: dict[str, list[str]] = {}
    for path in sorted(folder.glob("*.c")):
        own, text = split(path.read_text(encoding="utf-8"))
        for op in defined_by(text, shared | own, {}):
            found.setdefault(op, []).append(path.stem)
    return found


def forward_of(op: str) -> str:
    return re.sub(r"_grad2?$", "", op)


def name_of(op: str) -> str:
    return re.sub(r"(_v2|2)$", "", forward_of(op))


def expected(op: str, files: set[str]) -> str:
    """The file (without .c) that the name of an op leads to; `files`: all of the folder."""
    if name_of(op) in FAMILY_OF:
        return FAMILY_OF[name_of(op)]
    name = forward_of(op)
    plain = re.sub(r"[23]d(?=_|$)", "", name)
    parts = [file for file in files if file in name or file in plain]
    # Of equally long ones that which comes first in the name.
    return max(parts, key=lambda file: (len(file), -(name if file in name else plain).index(file)), default=name)


def misplaced(folder: Path) -> list[str]:
    files = {path.stem for path in folder.glob("*.c")}
    wrong = []
    for op, found in files_of_ops(folder).items():
        wanted = expected(op, files)
        allowed = {wanted, f"{wanted}_grad"} if op != forward_of(op) else {wanted}
        wrong += [f"{op}: found in {file}.c, expected in {wanted}.c" for file in found if file not in allowed]
    return wrong


def listed() -> list[str]:
    return [op for path in sorted(OPS.glob("list_*.h"))
            for op in re.findall(r"\bX\((\w+)\)", path.read_text(encoding="utf-8"))]


def test_ops_are_where_their_names_lead():
    wrong = misplaced(OPS)
    assert not wrong, "\n".join(wrong)


def test_what_is_listed_is_defined_once():
    assert sorted(listed()) == sorted(op for op, files in files_of_ops(OPS).items() for _ in files)


def test_a_family_has_members():
    """A file that is not named for one of its ops holds several."""
    names: dict[str, set[str]] = {}
    for op, files in files_of_ops(OPS).items():
        for file in files:
            names.setdefault(file.removesuffix("_grad"), set()).add(name_of(op))
    alone = [f"{file}.c has only {only}" for file, found in sorted(names.items())
             if file not in found and len(found) == 1 for only in found]
    assert not alone, "\n".join(alone)


def test_the_table_for_people_is_this_one():
    text = (OPS / "list.h").read_text(encoding="utf-8")
    assert dict(re.findall(r"^ \*     (\w+)\.c: (.*)$", text, re.MULTILINE)) == FAMILIES


def test_the_table_has_nothing_needless():
    where = files_of_ops(OPS)
    files = {file for found in where.values() for file in found}
    for op, family in FAMILY_OF.items():
        assert where[op] == [family]
        assert not (op in files or family in op), f"{op} needs no row in the table"


@pytest.mark.parametrize("op, file", [
    ("lamb", "lamb"), ("where_grad", "where"), ("one_hot_v2", "one_hot"), ("reshape2_grad", "reshape"),
    ("cross_entropy_grad2", "cross_entropy"), ("leaky_relu", "relu"), ("depthwise_conv2d_transpose", "conv_transpose"),
    ("proximal_adagrad", "proximal"), ("fill_constant_batch_size_like", "fill"), ("isnan", "isfinite"), ("selu_grad", "elu"),
    ("fill_zeros_like2", "fill"), ("pad2d_grad", "pad2d"), ("max_pool2d_with_index", "pool_with_index"), ("top_k", "top_k"),
])
def test_names_lead_to_files(op, file):
    assert expected(op, {"adagrad", "conv", "conv_transpose", "cross_entropy", "elu", "fill", "isfinite", "lamb", "one_hot", "pad",
                         "pad2d", "pool", "pool_with_index", "proximal", "relu", "reshape", "size", "top_k", "where"}) == file


def test_check_finds_what_is_elsewhere(tmp_path):
    (tmp_path / "both.h").write_text("#define BOTH(name, ...) \\\n"
                                     "    const struct pd_op pd_op_##name = {0}; \\\n"
                                     "    const struct pd_op pd_op_##name##_grad = {0}\n")
    (tmp_path / "cumsum.c").write_text("#define TWICE(name) BOTH(x_##name, (1, 2))\n"
                                       "/* const struct pd_op pd_op_old = {0}; */\n"
                                       "const struct pd_op pd_op_minus = {0};\nTWICE(cumsum);\nTWICE(other);\n")
    (tmp_path / "cumsum_grad.c").write_text("const struct pd_op pd_op_cumsum_grad = {0};\n")
    assert misplaced(tmp_path) == ["minus: found in cumsum.c, expected in minus.c",
                                   "x_other: found in cumsum.c, expected in x_other.c",
                                   "x_other_grad: found in cumsum.c, expected in x_other.c"]
