"""Layers are found under upstream's module paths, of all its releases; what is not there says so."""

import importlib

import pytest

import paddle.fluid as fluid
from paddle.fluid import layers

# What upstream has or had in its modules and stands in others here, or is not here yet.
ELSEWHERE = {
    "control_flow": """
        DynamicRNN StaticRNN BlockGuardWithCompletion ParallelDo StaticRNNMemoryLink WhileGuard
        """,
    "io": """
        BlockGuardServ ListenAndServ Preprocessor Recv Send batch multi_pass open_files open_recordio_file
        random_data_generator shuffle
        """,
    "learning_rate_scheduler": "append_LARS",
    "loss": "warpctc",
    "metric": "accuracy auc",
    "nn": """
        beam_search beam_search_decode bpr_loss center_loss chunk_eval crf_decoding cross_entropy ctc_greedy_decoder
        deformable_conv deformable_roi_pooling dice_loss dynamic_gru dynamic_lstm dynamic_lstmp edit_distance gru_unit
        hsigmoid huber_loss kldiv_loss linear_chain_crf log_loss lstm lstm_unit margin_rank_loss mean_iou mse_loss nce
        npair_loss prroi_pool psroi_pool py_func rank_loss roi_align roi_pool sampled_softmax_with_cross_entropy
        sequence_concat sequence_conv sequence_enumerate sequence_expand sequence_expand_as sequence_first_step
        sequence_last_step sequence_mask sequence_pad sequence_pool sequence_reshape sequence_reverse sequence_scatter
        sequence_slice sequence_softmax sequence_unpad sigmoid_cross_entropy_with_logits similarity_focus smooth_l1
        softmax_with_cross_entropy square_error_cost teacher_student_sigmoid_loss tree_conv warpctc
        """,
    "ops": """
        clip clip_by_norm elementwise_add elementwise_div elementwise_max elementwise_min elementwise_mul
        elementwise_pow elementwise_sub gaussian_random gaussian_random_batch_size_like iou_similarity logical_and
        logical_not logical_or logical_xor mean mul polygon_box_transform scale scatter shape
        sigmoid_cross_entropy_with_logits slice sum uniform_random uniform_random_batch_size_like
        """,
    "rnn": """
        BasicDecoder BeamSearchDecoder DecodeHelper Decoder GRUCell GreedyEmbeddingHelper LSTMCell RNNCell
        SampleEmbeddingHelper TrainingHelper beam_search beam_search_decode dynamic_decode dynamic_gru dynamic_lstm
        dynamic_lstmp gru_unit lstm lstm_unit
        """,
    "tensor": "kron load",
}
PATHS = [(module, name) for module, names in ELSEWHERE.items() for name in names.split()]


@pytest.mark.parametrize("module,name", PATHS)
def test_path(module, name):
    home = importlib.import_module(f"paddle.fluid.layers.{module}")
    if name in layers.__all__:
        assert getattr(home, name) is getattr(layers, name)
        space = {}
        exec(f"from paddle.fluid.layers.{module} import {name} as found", space)
        assert space["found"] is getattr(layers, name)
        return
    sentence = rf"paddle\.fluid\.layers\.{name} is not there yet\. It belongs to .* of Paddle \d"
    with pytest.raises(AttributeError, match=sentence):
        getattr(home, name)
    with pytest.raises(ImportError, match=sentence):
        exec(f"from paddle.fluid.layers.{module} import {name}")


def test_as_scripts_write_it():
    from paddle.fluid.layers.control_flow import StaticRNN, While  # noqa: F401
    from paddle.fluid.layers.learning_rate_scheduler import noam_decay  # noqa: F401
    from paddle.fluid.layers.loss import cross_entropy
    from paddle.fluid.layers.rnn import dynamic_lstm

    assert fluid.layers.control_flow.StaticRNN is layers.StaticRNN is StaticRNN
    assert layers.nn.cross_entropy is cross_entropy and layers.nn.dynamic_lstm is dynamic_lstm
    assert layers.nn.elementwise_add is layers.elementwise_add
    for path in ("detection.prior_box", "distributions.Normal", "collective._allreduce"):
        module, name = path.split(".")
        with pytest.raises(ImportError, match=f"paddle.fluid.layers.{module} is not there yet"):
            exec(f"from paddle.fluid.layers.{module} import {name}")
    with pytest.raises(AttributeError, match="module 'paddle.fluid.layers.nn' has no attribute 'no_such_layer'"):
        layers.nn.no_such_layer
    with pytest.raises(NotImplementedError, match="paddle.fluid.layers.rnn is not there yet. It belongs to the cells"):
        fluid.layers.rnn(None, None)
    assert not hasattr(layers.control_flow, "no_such_layer") and not hasattr(layers.rnn, "GRUCell")


def test_save_and_load_from_inside_a_program(tmp_path):
    import numpy as np

    path = str(tmp_path / "both")
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()):
        a, b = layers.fill_constant([2], "float32", 3), layers.fill_constant([1], "int64", 4)
        layers.tensor.save_combine([a, b], path)
        layers.tensor.save(a, path + ".a")
        fluid.Executor().run()
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()):
        c, d = layers.create_tensor("float32"), layers.create_tensor("int64")
        layers.tensor.load_combine([c, d], path)
        e = layers.create_tensor("float32")
        layers.load(e, path + ".a")
        values = fluid.Executor().run(fetch_list=[c, d, e])
    assert [np.asarray(value).tolist() for value in values] == [[3, 3], [4], [3, 3]]
