"""paddle.v2.dataset is paddle.dataset."""

from paddle.v2.alias import alias_package

alias_package(__name__, "paddle.dataset")
