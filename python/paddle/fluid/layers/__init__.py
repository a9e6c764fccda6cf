"""fluid.layers: each function here appends ops to the current program and returns their outputs.

The families live in modules of their own: `nn` (and behind it `conv`, `norm`, `elementwise`, `reduce`,
`shape_ops`, `index_ops`, `random_ops`, `image` and `ops`), `tensor`, `loss`, `metric_op`, `sequence_lod`,
`recurrent`, `control_flow` (with `arrays` and `block_rnn`), `learning_rate_scheduler`, `io` and `device`.
All layers are built with the few functions of `build`.
"""

from __future__ import annotations

from paddle.fluid.layers import (  # noqa: F401  (all of them are reached as fluid.layers.<module>)
    block_rnn,
    control_flow,
    device,
    io,
    layer_function_generator,
    learning_rate_scheduler,
    loss,
    math_op_patch,
    metric_op,
    nn,
    ops,
    recurrent,
    sequence_lod,
    tensor,
    utils,
)
from paddle.fluid.layers.block_rnn import *  # noqa: F401,F403
from paddle.fluid.layers.control_flow import *  # noqa: F401,F403
from paddle.fluid.layers.device import *  # noqa: F401,F403
from paddle.fluid.layers.io import *  # noqa: F401,F403
from paddle.fluid.layers.learning_rate_scheduler import *  # noqa: F401,F403
from paddle.fluid.layers.loss import *  # noqa: F401,F403
from paddle.fluid.layers.math_op_patch import monkey_patch_variable
from paddle.fluid.layers.metric_op import *  # noqa: F401,F403
from paddle.fluid.layers.nn import *  # noqa: F401,F403
from paddle.fluid.layers.recurrent import *  # noqa: F401,F403
from paddle.fluid.layers.sequence_lod import *  # noqa: F401,F403
from paddle.fluid.layers.tensor import *  # noqa: F401,F403

MODULES = (
    nn,
    io,
    tensor,
    control_flow,
    block_rnn,
    device,
    metric_op,
    learning_rate_scheduler,
    sequence_lod,
    loss,
    recurrent,
)

__all__ = list(dict.fromkeys(name for module in MODULES for name in module.__all__))

# Layers that upstream has and this package has not yet, by the release that names them.
NOT_YET = {
    "1.7": """
        linear_chain_crf crf_decoding ctc_greedy_decoder warpctc py_func similarity_focus
        roi_pool roi_align psroi_pool prroi_pool deformable_conv deformable_roi_pooling
        roi_perspective_transform prior_box density_prior_box multi_box_head bipartite_match target_assign
        detection_output ssd_loss
        rpn_target_assign retinanet_target_assign sigmoid_focal_loss anchor_generator generate_proposal_labels
        generate_proposals generate_mask_labels iou_similarity box_coder polygon_box_transform yolov3_loss
        yolo_box box_clip multiclass_nms locality_aware_nms retinanet_detection_output
        distribute_fpn_proposals box_decoder_and_assign collect_fpn_proposals
        Uniform Normal Categorical MultivariateNormalDiag
        RNNCell GRUCell LSTMCell Decoder BeamSearchDecoder rnn dynamic_decode DecodeHelper TrainingHelper
        GreedyEmbeddingHelper SampleEmbeddingHelper BasicDecoder
        detection distributions collective
    """.split(),
    "1.8": ["matrix_nms"],
    "1.3": ["tree_conv", "append_LARS", "multi_pass", "detection_map"],
    "0.13": """
        ListenAndServ BlockGuardServ Send Recv open_recordio_file open_files shuffle batch
        random_data_generator Preprocessor BlockGuardWithCompletion StaticRNNMemoryLink WhileGuard ParallelDo
    """.split(),
}

monkey_patch_variable()


def __getattr__(name: str):
    for release, names in NOT_YET.items():
        if name in names:
            raise AttributeError(f"fluid.layers.{name} of Paddle {release} is not in cpaddle yet")
    raise AttributeError(f"module 'paddle.fluid.layers' has no attribute '{name}'")
