"""paddle.v2.fluid is paddle.fluid."""

from paddle.v2.alias import alias_package

alias_package(__name__, "paddle.fluid")
