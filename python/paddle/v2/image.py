"""paddle.v2.image is paddle.dataset.image."""

from paddle.v2.alias import alias_package

alias_package(__name__, "paddle.dataset.image")
