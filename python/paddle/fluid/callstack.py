"""Where in the user's script an op is made: the attribute op_callstack of ops, shown when an op fails."""

from __future__ import annotations

import sys
from os.path import dirname, join

_PACKAGE = join(dirname(dirname(__file__)), "")  # the `paddle` folder: its own frames tell a user nothing
_MOST = 4  # frames that are kept; the innermost ones
_texts: dict[tuple, str] = {}  # many ops come from one line


def user_frames() -> list[str]:
    """The frames outside this package that lead here, innermost first, in the words of a traceback."""
    found = []
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith(_PACKAGE):
            key = (code.co_filename, frame.f_lineno, code.co_name)
            text = _texts.get(key)
            if text is None:
                text = _texts[key] = f'  File "{key[0]}", line {key[1]}, in {key[2]}\n'
            found.append(text)
            if len(found) == _MOST:
                break
        frame = frame.f_back
    return found
