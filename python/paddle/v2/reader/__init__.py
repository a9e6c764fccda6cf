"""paddle.v2.reader is paddle.reader."""

from paddle.v2.alias import alias_package

alias_package(__name__, "paddle.reader")
