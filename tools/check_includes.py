"""Checks that each folder includes only what the layout allows.

The table ALLOWED is the layout. A file of a folder may include its own folder's headers, the headers
of the folders its row names, the C library, the compiler's own headers, the public headers in SHARED, and the
libraries that LIBRARIES gives to that folder. Python files may import the standard library, numpy and paddle.

    python tools/check_includes.py [root]

prints one line per breach and ends with status 1 if there are any.
"""

import ast
import re
import sys
from pathlib import Path

PUBLIC = "include/paddle"
SHARED = ("paddle/status.h", "paddle/attr.h", "paddle/log.h")  # plain codes and types that the whole engine speaks in

# folder -> the folders it may include
ALLOWED: dict[str, tuple[str, ...]] = {
    "include/paddle": (),
    "src/base": (),
    "src/backend": ("base",),
    "src/kernels": ("backend", "base"),
    "src/tensor": ("backend", "base"),
    "src/program": ("tensor", "base"),
    "src/passes": ("program", "tensor", "base"),
    "src/ops": ("program", "tensor", "kernels", "backend", "base"),
    "src/exec": ("program", "passes", "tensor", "backend", "base"),
    "src/data": ("tensor", "kernels", "base"),
    "src/net": ("base",),
    "src/pserver": ("net", "exec", "program", "tensor", "kernels", "base"),
    "src/api": (PUBLIC, "base", "backend", "kernels", "tensor", "program", "passes", "ops", "exec", "data",
                "net", "pserver"),
    "src/cli": (PUBLIC,),
    "python/ext": (PUBLIC,),
    "examples": (PUBLIC,),
}

# a folder inside one of these -> the others inside it that it may include, beside what lies at its top
INSIDE: dict[str, tuple[str, ...]] = {
    "src/pserver/client": (),
    "src/pserver/server": ("shard", "store"),
    "src/pserver/shard": (),
    "src/pserver/store": ("server",),
}

# the first part of a library's header -> the folders that may include it
LIBRARIES: dict[str, tuple[str, ...]] = {
    "dnnl": ("src/kernels",),
    "oneapi": ("src/kernels",),
    "cblas": ("src/kernels",),
    "omp": ("src/base", "src/kernels"),
    "protobuf-c": ("src/program",),
    "uv": ("src/net",),
    "openssl": ("src/net",),
    "microhttpd": ("src/net",),
    "zstd": ("src/base",),
    "Python": ("python/ext",),
    "structmember": ("python/ext",),
}

# the C library (with POSIX and Linux) and the compiler
SYSTEM_FOLDERS = {"sys", "linux", "netinet", "arpa", "net", "asm"}
SYSTEM_HEADERS = set(
    "assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg "
    "stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string strings tgmath threads time uchar wchar "
    "wctype aio dirent dlfcn endian byteswap execinfo fcntl fnmatch ftw getopt glob grp ifaddrs libgen link "
    "malloc memory netdb poll pthread pwd regex sched semaphore spawn syslog termios ucontext unistd utime "
    "cpuid emmintrin immintrin nmmintrin pmmintrin smmintrin tmmintrin x86intrin xmmintrin arm_neon".split()
)

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def folder_of(path: Path) -> str | None:
    """The row of the table that a file belongs to, from its path below the root."""
    name = path.as_posix()
    return next((folder for folder in ALLOWED if name.startswith(folder + "/")), None)


def check_include(folder: str, quote: str, header: str) -> str | None:
    """Says why a file of `folder` may not include `header`, or None when it may."""
    first, _, rest = header.partition("/")
    if ".." in Path(header).parts:
        return "paths that climb up are not allowed; name the folder, as in \"base/map.h\""
    if first == "paddle" and rest:
        if header in SHARED or folder == PUBLIC or PUBLIC in ALLOWED[folder]:
            return None
        return f"of the public headers, {folder} may include only {' and '.join(SHARED)}"
    if quote == '"':
        own = folder.removeprefix("src/")
        if not rest or first == own or first in ALLOWED[folder]:
            return None
        allowed = ", ".join(ALLOWED[folder]) or "no other folder"
        return f"{folder} may include {allowed}"
    if first in SYSTEM_FOLDERS and rest or header.removesuffix(".h") in SYSTEM_HEADERS:
        return None
    library = next((name for name in LIBRARIES if re.match(rf"{name}([._/]|$)", header)), None)
    if library is None:
        return "this header is neither of the C library nor of a library the layout names"
    if folder in LIBRARIES[library]:
        return None
    return f"only {' and '.join(LIBRARIES[library])} may include it"


def check_inside(relative: Path, header: str) -> str | None:
    """The same for a file in a folder of INSIDE and a header of its own folder."""
    inner = relative.parent.as_posix()
    parts = Path(header).parts
    if inner not in INSIDE or len(parts) != 3 or parts[0] != Path(inner).parts[1]:
        return None
    if parts[1] == Path(inner).name or parts[1] in INSIDE[inner]:
        return None
    return f"{inner} may include {', '.join(INSIDE[inner]) or 'no other folder'} of {Path(inner).parent}"


def check_c(root: Path) -> list[str]:
    """All breaches in the C files below the root, one line each."""
    found = []
    for top in ("include", "src", "python/ext", "examples"):
        for path in sorted((root / top).rglob("*")):
            if path.suffix not in (".c", ".h", ".cu", ".cuh"):
                continue
            relative = path.relative_to(root)
            folder = folder_of(relative)
            if folder is None:
                found.append(f"{relative}: the folder is not in the layout")
                continue
            text = path.read_text(encoding="utf-8")
            for match in INCLUDE.finditer(text):
                why = check_include(folder, match[1], match[2]) or check_inside(relative, match[2])
                if why:
                    line = text.count("\n", 0, match.start(2)) + 1
                    found.append(f"{relative}:{line}: includes {match[2]}: {why}")
    return found


def top_imports(tree: ast.Module) -> list[tuple[int, str]]:
    """Line and package of each import that runs when the module is imported (not those inside functions)."""
    found, todo = [], list(tree.body)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name.partition(".")[0]) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found.append((node.lineno, "." if node.level else (node.module or "").partition(".")[0]))
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            children = ast.iter_child_nodes(node)
            todo += [child for child in children if isinstance(child, (ast.stmt, ast.ExceptHandler))]
    return sorted(found)


def check_python(root: Path) -> list[str]:
    """All breaches in the Python package below the root, one line each."""
    found = []
    for path in sorted((root / "python" / "paddle").rglob("*.py")):
        relative = path.relative_to(root)
        for line, package in top_imports(ast.parse(path.read_text(encoding="utf-8"), str(relative))):
            if package == ".":
                found.append(f"{relative}:{line}: imports relatively; write the whole name, from paddle on")
            elif package not in ("paddle", "numpy", "__future__") and package not in sys.stdlib_module_names:
                found.append(f"{relative}:{line}: imports {package}: only numpy and paddle are at hand")
    return found


def main() -> int:
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1]).resolve()
    found = check_c(root) + check_python(root)
    print(*found, sep="\n", end="\n" if found else "")
    print(f"includes: {len(found)} breaches of the layout" if found else "includes: the layout is kept")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
