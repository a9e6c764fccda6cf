"""What paddlepaddle 1.8.5 installed beside itself and this package brings only with the extra `scripts`.

A script that ends because one of these modules is not there is told how to get all of them. Only the message of an
error that nobody caught changes: scripts may try such an import, and go on without.
"""

from __future__ import annotations

import sys

# The names by which the requirements of the extra are imported.
MODULES = frozenset("""
    PIL astor cv2 decorator gast google graphviz matplotlib nltk objgraph prettytable rarfile requests scipy yaml
    """.split())


def explain() -> None:
    """Adds the next step to such an error on its way to the user."""
    before = sys.excepthook

    def hook(kind, error, trace):
        if isinstance(error, ModuleNotFoundError) and error.name and error.name.partition(".")[0] in MODULES:
            error.add_note("paddlepaddle 1.8.5 brought this module along. Here pip install 'cpaddle[scripts]' installs "
                           "all that it brought; in a checkout: make scripts.")
        before(kind, error, trace)

    sys.excepthook = hook
