"""Arguments of losses and metrics."""

TEXT = """
center_loss
    input: the features, of shape [batch, width].
    label: the classes, int64, of shape [batch, 1].
    num_classes: the number of classes, each with a center.
    alpha: how far a center moves to its samples at a step: a number or a Variable.
    param_attr: how the centers are made.
    update_center: move the centers.
    -> a loss for each sample, of shape [batch, 1].

bpr_loss
    input: the scores of all items, of shape [batch, items].
    label: the item that was chosen, int64, of shape [batch, 1].
    -> a loss for each sample, of shape [batch, 1].

cross_entropy
    input: probabilities, of shape [..., classes], as softmax gives them.
    label: the class, int64, of shape [..., 1]; with soft_label probabilities in the shape of the input.
    soft_label: the label holds a probability for each class.
    ignore_index: samples with this label have no loss.
    -> a loss for each sample, of shape [..., 1].

square_error_cost
    input: the prediction.
    label: what is right, in the shape of the input.
    -> of the shape of the input.

edit_distance
    input: the tokens found: int64 sequences, or a padded tensor with input_length.
    label: the right tokens, likewise.
    normalized: divide by the length of the label.
    ignored_tokens: tokens that are left out first.
    input_length: the lengths of the padded input, int64.
    label_length: the lengths of the padded labels, int64.
    -> a distance for each pair, of shape [pairs, 1], and the number of pairs.

nce
    input: the features, of shape [batch, width].
    label: the right classes, int64, of shape [batch, number of right ones].
    num_total_classes: the number of classes.
    sample_weight: a weight for each sample, of shape [batch, 1]; None: 1.
    num_neg_samples: how many wrong classes are drawn; None: 10.
    sampler: how they are drawn: 'uniform', 'log_uniform' or 'custom_dist'.
    custom_dist: the probability of each class, for 'custom_dist'.
    is_sparse: the gradients hold only the rows of the classes that were used.
    -> a loss for each sample, of shape [batch, 1].

hsigmoid
    input: the features, of shape [batch, width].
    label: the class, int64, of shape [batch, 1].
    num_classes: the number of classes; with is_custom, of the tree's inner nodes.
    path_table: the nodes on the way to each label, padded with -1, for a tree of your own.
    path_code: 0 or 1 for each of these nodes: which way it goes.
    is_custom: the tree is given by path_table and path_code.
    is_sparse: the gradients hold only the rows of the nodes that were passed.
    -> a loss for each sample, of shape [batch, 1].

sampled_softmax_with_cross_entropy
    logits: the scores of all classes, of shape [batch, classes].
    label: the right classes, int64, of shape [batch, num_true].
    num_samples: how many classes are drawn.
    num_true: how many right classes a sample has.
    remove_accidental_hits: a right class that is drawn too does not count.
    use_customized_samples: use the classes and probabilities that are given.
    customized_samples: right and drawn classes, of shape [batch, num_true + num_samples].
    customized_probabilities: the probability of each, in the same shape.
    -> a loss for each sample, of shape [batch, 1].

softmax_with_cross_entropy
    logits: the scores, before softmax.
    label: the class, int64, with size 1 at the axis; with soft_label probabilities in the shape of the logits.
    soft_label: the label holds a probability for each class.
    ignore_index: samples with this label have no loss.
    numeric_stable_mode: has no effect: the stable way is the only one.
    return_softmax: also give the probabilities.
    axis: where the classes are.
    -> a loss for each sample, with size 1 at the axis; with return_softmax, the loss and the probabilities.

rank_loss margin_rank_loss
    label: of shape [batch, 1]: for rank_loss 1 when left should win, 0 when right, 0.5 for a draw; for margin_rank_loss 1 or -1.
    left: the scores of the left ones, of shape [batch, 1].
    right: the scores of the right ones, of shape [batch, 1].
    margin: how far the winner should be ahead.
    -> a loss for each pair, of shape [batch, 1].

sigmoid_cross_entropy_with_logits
    x: the scores, before sigmoid.
    label: from 0 to 1, in the shape of x.
    ignore_index: elements with this label have no loss.
    normalize: divide by the number of elements that count.
    -> a loss for each element.

teacher_student_sigmoid_loss
    input: the student's scores, of shape [batch, 1].
    label: the click and the teacher's score in one number, of shape [batch, 1].
    soft_max_up_bound: larger scores are cut to it.
    soft_max_lower_bound: smaller scores are cut to it.
    -> a loss for each sample, of shape [batch, 1].

huber_loss
    input: the prediction, of shape [batch, 1].
    label: what is right, of shape [batch, 1].
    delta: the distance at which the loss becomes linear.
    -> a loss for each sample, of shape [batch, 1].

kldiv_loss
    x: logarithms of probabilities.
    target: probabilities, in the shape of x.
    reduction: 'mean', 'sum', 'batchmean' or 'none'.
    -> one number, of shape [1]; for 'none' the shape of x.

npair_loss
    anchor: embeddings, of shape [batch, width].
    positive: an embedding of the same class for each, of the same shape.
    labels: the classes, of shape [batch].
    l2_reg: the weight of the embeddings' own size.
    -> one number, of shape [1].

mse_loss
    input: the prediction.
    label: what is right, in the shape of the input.
    -> one number, of shape [1].

log_loss
    input: probabilities, of shape [batch, 1].
    label: 0 or 1, of shape [batch, 1].
    -> a loss for each sample, of shape [batch, 1].

smooth_l1
    x: the prediction, of shape [batch, ...].
    y: what is right, in the shape of x.
    inside_weight: multiplies the differences, in the shape of x; None: 1.
    outside_weight: multiplies the losses, in the shape of x; None: 1.
    sigma: 1 / sigma^2 is the distance at which the loss becomes linear; None: 1.
    -> a loss for each sample, of shape [batch, 1].

dice_loss
    input: probabilities, of shape [batch, ..., classes].
    label: the classes, int64, of shape [batch, ..., 1].
    -> one number, of shape [1].

accuracy
    input: probabilities or scores, of shape [batch, classes].
    label: the class, int64, of shape [batch, 1].
    k: the label may be among the first k.
    correct: gets the number of right samples, int32; None: a new variable.
    total: gets the number of samples, int32; None: a new variable.
    -> one number, of shape [1].

auc
    input: probabilities, of shape [batch, 2].
    label: 0 or 1, int64, of shape [batch, 1].
    curve: 'ROC' or 'PR'.
    num_thresholds: into how many buckets the probabilities fall.
    topk: has no effect.
    slide_steps: how many of the last batches the second area is over; 0: all.
    -> the area over all batches, the area over the last ones, and the counters
        [batch positive, batch negative, positive, negative].

mean_iou
    input: the predicted classes, int32 or int64.
    label: the right classes, in the shape of the input.
    num_classes: the number of classes.
    -> the mean, of shape [1], and for each class the number of wrong and of correct elements.

chunk_eval
    input: the predicted tags, int64 sequences or a padded tensor with seq_length.
    label: the right tags, likewise.
    chunk_scheme: how tags make chunks: 'IOB', 'IOE', 'IOBES' or 'plain'.
    num_chunk_types: the number of kinds of chunks.
    excluded_chunk_types: kinds that do not count.
    seq_length: the lengths of the padded sequences; None: sequences by LoD.
    -> precision, recall, F1, and the numbers of predicted, right and correctly predicted chunks.
"""
