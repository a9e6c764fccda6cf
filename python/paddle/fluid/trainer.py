"""fluid.trainer of v0.13 and v0.14; it is in fluid.contrib since v1.0."""

from paddle.fluid.contrib.trainer import *  # noqa: F401,F403
from paddle.fluid.contrib.trainer import __all__, build_feed_var_list, check_and_get_place  # noqa: F401
