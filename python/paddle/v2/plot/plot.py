"""paddle.v2.plot.plot is paddle.utils.plot."""

from paddle.v2.alias import alias_package

alias_package(__name__, "paddle.utils.plot")
