"""What upstream had and this package has not yet: one table, and the sentence that users read.

Each row of ABSENT says what is missing, in which releases of Paddle it was, what to do meanwhile and which names
belong to it, module by module; a name stands for everything below it, `*` for every name that its module lacks.
`import`, `from ... import` and plain attribute access all end here: `refuse` serves the modules' __getattr__, and a
finder at the end of sys.meta_path answers imports that nothing else answered. HEADS has the few imports that work all
the same.
"""

from __future__ import annotations

import functools
import sys
import types
from typing import Any, Container, NamedTuple, NoReturn


class Absent(NamedTuple):
    what: str
    since: str  # the first release of Paddle that had it
    until: str  # the last one; "" when 1.8 still has it
    instead: str  # what to do meanwhile; "" when nothing takes its place
    names: dict[str, str]  # module -> names, separated by blanks


BUILD = "Build a Program with fluid.layers and run it with fluid.Executor."
TRANSPILE = "fluid.DistributeTranspiler trains with parameter servers: docs/DISTRIBUTED.md is the guide."
FLEET = "fluid.incubate.fleet.parameter_server.distribute_transpiler trains with parameter servers: docs/FLEET.md is the guide."
STEPS = "Write the step with fluid.layers.DynamicRNN or While."
FEED = "Read the files in Python and feed batches: paddle.batch, fluid.DataFeeder, fluid.io.DataLoader."

ABSENT = (
    Absent("dygraph, the imperative mode,", "1.3", "", BUILD, {
        "paddle": "imperative",
        "paddle.fluid": """
            dygraph imperative enable_dygraph disable_dygraph enable_imperative disable_imperative save_dygraph
            load_dygraph VarBase Layer Linear Conv2D Conv2DTranspose Conv3D Conv3DTranspose BatchNorm Pool2D Dropout
            Embedding GRUUnit GroupNorm InstanceNorm LayerNorm NCE PRelu SpectralNorm TreeConv BilinearTensorProduct
            FC RowConv SequenceConv BCELoss L1Loss MSELoss NLLLoss dygraph_utils dygraph_grad_clip
            """,
        "paddle.fluid.framework": "ParamBase",
    }),
    Absent("the Fleet of Paddle 2", "1.8", "", FLEET, {"paddle": "fleet", "paddle.distributed.fleet": "*"}),
    Absent("the first Fleet", "1.4", "1.4", FLEET, {
        "paddle.fluid.incubate.fleet": "p2p",
        "paddle.fluid.incubate.fleet.parameter_server": "node optimizer_factory ps_pb2",
    }),
    Absent("pslib and what was before Fleet", "1.4", "", FLEET, {
        "paddle.fluid": "fleet distributed DistributedAdam",
        "paddle.fluid.incubate.fleet.parameter_server.pslib": "ps_pb2",
    }),
    Absent("the meeting point of Gloo", "1.8", "", FLEET, {"paddle.fluid.incubate.fleet.utils": "http_server"}),
    Absent("the inner parts of the launcher", "1.7", "", "python -m paddle.distributed.launch_ps, python -m "
           "paddle.distributed.launch and `paddle launch local` start jobs: docs/LAUNCH.md is the guide.", {
        "paddle.distributed": "cloud_utils utils",
    }),
    Absent("the API for workers without servers", "2.0", "", FLEET, {
        "paddle.distributed": """
            spawn init_parallel_env prepare_context ParallelEnv get_rank get_world_size broadcast all_reduce reduce all_gather
            scatter barrier split new_group ReduceOp QueueDataset InMemoryDataset CountFilterEntry ProbabilityEntry
            """,
    }),
    Absent("the data generator beside incubate", "1.2", "1.3", "fluid.incubate.data_generator has it.",
           {"paddle.fluid": "data_generator"}),
    Absent("the loading of data in worker processes", "1.8", "", FEED, {
        "paddle.fluid": "dataloader multiprocess_utils",
        "paddle.fluid.io": "default_collate_fn",
        "paddle.fluid.reader": "default_collate_fn",
    }),
    Absent("the recordio files", "0.12", "1.5", FEED, {
        "paddle.fluid": "recordio_writer",
        "paddle.fluid.layers": "open_recordio_file",
    }),
    Absent("the readers of files inside Programs", "0.12", "1.5", FEED, {
        "paddle.fluid.layers": "open_files shuffle batch multi_pass random_data_generator Preprocessor",
    }),
    Absent("upstream's graph passes", "1.2", "", "The engine fuses what it can by itself.", {
        "paddle.fluid": "ir IrGraph",
        "paddle.fluid.framework": "IrGraph IrNode IrOpNode IrVarNode",
    }),
    Absent("the drawings of Programs", "0.11", "", "fluid.debugger.draw_block_graphviz draws a block.",
           {"paddle.fluid": "net_drawer"}),
    Absent("the channels and goroutines", "0.12", "0.15", "Call Executor.run for each part, and pass values on in Python.", {
        "paddle.fluid": "concurrency Go Select channel_close channel_recv channel_send make_channel",
    }),
    Absent("the SimpleDistributeTranspiler", "0.12", "0.13", TRANSPILE, {
        "paddle.fluid": "SimpleDistributeTranspiler distribute_transpiler_simple",
        "paddle.fluid.transpiler": "SimpleDistributeTranspiler distribute_transpiler_simple",
        "paddle.fluid.distribute_transpiler": "same_or_split_var split_dense_variable",
    }),
    Absent("training by collective operations", "1.6", "", TRANSPILE, {
        "paddle.fluid.transpiler": "collective",
        "paddle.fluid.layers": "collective",
    }),
    Absent("the training in float16", "1.4", "", "Leave the decoration of the optimizer out: the script then trains in float32.", {
        "paddle.fluid.contrib": "mixed_precision",
    }),
    Absent("fluid.contrib", "0.15", "", "", {
        "paddle.fluid.contrib": "*", "paddle.fluid.contrib.layers": "*", "paddle.fluid.contrib.reader": "*",
        "paddle.fluid.contrib.utils": "*",
    }),
    Absent("the exchange of tensors by DLPack", "1.5", "", "numpy.array(tensor) and LoDTensor.set go by way of numpy.", {
        "paddle.fluid.core": "from_dlpack",
    }),
    # Layers.
    Absent("the layers for sequence labelling", "0.11", "", "", {
        "paddle.fluid.layers": "linear_chain_crf crf_decoding ctc_greedy_decoder warpctc",
    }),
    Absent("the ops written in Python", "1.3", "", "docs/ADD_AN_OP.md shows how to add one in C.", {
        "paddle.fluid.layers": "py_func",
    }),
    Absent("the detection layers", "0.12", "", "", {
        "paddle.fluid.layers": """
            detection roi_pool roi_align psroi_pool prroi_pool deformable_conv deformable_roi_pooling
            roi_perspective_transform prior_box density_prior_box multi_box_head bipartite_match target_assign
            detection_output ssd_loss rpn_target_assign retinanet_target_assign sigmoid_focal_loss anchor_generator
            generate_proposal_labels generate_proposals generate_mask_labels iou_similarity box_coder
            polygon_box_transform yolov3_loss yolo_box box_clip multiclass_nms locality_aware_nms
            retinanet_detection_output distribute_fpn_proposals box_decoder_and_assign collect_fpn_proposals
            matrix_nms detection_map
            """,
    }),
    Absent("the layers for distributions", "1.6", "", "Write their formulas with fluid.layers.gaussian_random, uniform_random, exp "
           "and log.", {
        "paddle.fluid.layers": "distributions Uniform Normal Categorical MultivariateNormalDiag",
    }),
    Absent("the cells and decoders of recurrent networks", "1.6", "", STEPS, {
        "paddle.fluid.layers": """
            RNNCell GRUCell LSTMCell Decoder BeamSearchDecoder dynamic_decode DecodeHelper TrainingHelper
            GreedyEmbeddingHelper SampleEmbeddingHelper BasicDecoder
            """,
    }),
    Absent("the layers", "1.2", "", "", {"paddle.fluid.layers": "similarity_focus tree_conv"}),
    Absent("the learning rates", "0.14", "1.4", "fluid.optimizer.LarsMomentum has the same rule.",
           {"paddle.fluid.layers": "append_LARS"}),
    Absent("the layers", "0.12", "1.2", "Build the network without it, and run it on several places with fluid.ParallelExecutor or "
           "fluid.CompiledProgram(...).with_data_parallel.", {"paddle.fluid.layers": "ParallelDo"}),
    Absent("the layers", "0.12", "", TRANSPILE, {"paddle.fluid.layers": "ListenAndServ BlockGuardServ Send Recv"}),
    Absent("the inner parts", "0.12", "", STEPS, {
        "paddle.fluid.layers": "BlockGuardWithCompletion StaticRNNMemoryLink WhileGuard",
    }),
    # Other generations.
    Absent("the layer API of v2", "0.10", "1.2", "paddle.v2 has batch, minibatch, reader, dataset, image, plot and fluid.",
           {"paddle.v2": "*"}),
    Absent("v1, the configurations for `paddle train`,", "0.9", "1.2", "Write the network with fluid.layers.", {
        "paddle": "trainer trainer_config_helpers proto",
    }),
    Absent("the tools", "0.9", "", "", {"paddle": "libs check_import_scipy", "paddle.utils": "*"}),
    Absent("the names that lead to Paddle 2,", "1.8", "", "Scripts for paddle.fluid run here.", {
        "paddle": "complex incubate device distribution regularizer common_ops_import",
    }),
    Absent("the API", "2.0", "", "Scripts for paddle.fluid, of Paddle 1.8 and older, run here.", {
        "paddle": "nn tensor hapi static metric optimizer framework vision text io amp jit Model to_tensor enable_static",
    }),
)

# What upstream's scripts for Programs import in their first lines, for functions that only their other half calls: module ->
# names. The import works, and a call says what the import would have said. `fluid` has no such attribute, as before.
HEADS = {
    "paddle.fluid.dygraph": "",
    "paddle.fluid.dygraph.base": "guard to_variable",
    "paddle.fluid.dygraph.parallel": "DataParallel ParallelEnv prepare_context",
}


class NotThereYet(ModuleNotFoundError):
    """An import of something that upstream has and this package has not yet."""


@functools.cache
def _table() -> dict[str, Absent]:
    return {f"{module}.{name}": row for row in ABSENT for module, names in row.names.items() for name in names.split()}


def find(path: str) -> Absent | None:
    """The row of a name such as 'paddle.fluid.dygraph.nn'; None when the table has nothing on it."""
    table = _table()
    parts = path.split(".")
    for end in range(len(parts), 1, -1):
        parent = ".".join(parts[: end - 1])
        here = f"{parent}.{parts[end - 1]}"
        row = table.get(here) or (None if here in sys.modules else table.get(f"{parent}.*"))
        if row is not None:
            return row
    return None


def sentence(path: str, row: Absent) -> str:
    """What is missing, which releases had it, what to do."""
    end = f" to {row.until}" if row.until else " and later"
    time = row.since + ("" if row.until == row.since else end)
    instead = row.instead or "Nothing takes its place so far; docs/MISSING.md lists what is missing."
    return f"{path} is not there yet. It belongs to {row.what} of Paddle {time}. {instead}"


def _asked_by_import(frame: Any) -> bool:
    """Whether the frame asks by `from module import name`."""
    import opcode

    return frame.f_code.co_code[frame.f_lasti] == opcode.opmap["IMPORT_FROM"]


def _on_the_way(frame: Any) -> bool:
    """Of a frame that asks by IMPORT_FROM: whether by `import package.module as name`, which drops each package behind it."""
    import opcode

    code, at = frame.f_code.co_code, frame.f_lasti - 2
    while code[at] == opcode.opmap["EXTENDED_ARG"]:
        at -= 2
    return code[at] == opcode.opmap["POP_TOP"]


def module_or_refuse(module: str, name: str, modules: Container[str]) -> Any:
    """For the __getattr__ of a package: one of its own modules, loaded now, or what the lack of this name deserves."""
    if name in modules:
        import importlib

        return importlib.import_module(f"{module}.{name}")
    refuse(module, name, 3)


def refuse(module: str, name: str, depth: int = 2) -> NoReturn:
    """For a module's __getattr__: raises what the lack of this name deserves. Who asked is `depth` frames above."""
    path = f"{module}.{name}"
    row = None if name.startswith("__") else find(path)
    if row is None:
        raise AttributeError(f"module {module!r} has no attribute {name!r}", name=name, obj=sys.modules.get(module))
    frame = sys._getframe(depth)
    # Behind an AttributeError an import goes on with what sys.modules has.
    if _asked_by_import(frame) and not (path in HEADS and _on_the_way(frame)):
        raise NotThereYet(sentence(path, row))
    # With this object Python, which would name the nearest name that is there, finds none.
    raise AttributeError(sentence(path, row), name=name, obj=None)


class _Finder:
    """Answers imports of what is in the table; it stands last, so everything that exists is found before."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> None:
        if fullname.startswith("paddle.") and not fullname.rpartition(".")[2].startswith("_"):
            row = find(fullname)
            # The error carries no `name`: with one, `from package import module` would swallow it.
            if row is not None:
                raise NotThereYet(sentence(fullname, row))


def _only_names(path: str, names: str) -> types.ModuleType:
    """A module of names that can be imported, and say what is missing when they are called."""
    module = types.ModuleType(path, "Not there yet; a call says what to use.")
    module.__path__ = []

    def function(name: str):
        def later(*unused: Any, **unused_too: Any) -> NoReturn:
            raise NotImplementedError(sentence(f"{path}.{name}", find(path)))

        later.__name__ = later.__qualname__ = name
        later.__module__, later.__doc__ = path, module.__doc__
        return later

    for name in names.split():
        setattr(module, name, function(name))
    module.__getattr__ = lambda name: refuse(path, name)
    return module


def answer_imports() -> None:
    """From now on imports of names in the table are refused with their sentence."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())
    for path, names in HEADS.items():  # what is in sys.modules already does not become an attribute of its package
        sys.modules.setdefault(path, _only_names(path, names))
