"""fluid.inference_transpiler of v0.11.1 and v0.12; it is in fluid.transpiler since v0.13."""

from paddle.fluid.transpiler.inference_transpiler import InferenceTranspiler  # noqa: F401
