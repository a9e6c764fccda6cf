"""Arguments of control flow, arrays, sequences, learning rates and feeds."""

TEXT = """
is_empty
    cond: the Variable to write to; None: a new one.
    -> one bool, of shape [1].

increment
    x: a Variable of one element.
    value: what is added.
    in_place: write to x itself.
    -> x, or the new Variable.

create_array
    -> an array of tensors.

array_write
    x: the tensor to put in.
    i: the place, int64, of shape [1]; the array grows as needed.
    array: the array; None: a new one.
    -> the array.

array_read
    array: the array.
    i: the place, int64, of shape [1].
    -> the tensor.

array_length
    array: the array.
    -> int64, of shape [1].

lod_rank_table
    x: sequences.
    level: the level of the LoD to order by.
    -> the table.

max_sequence_len
    rank_table: what lod_rank_table gave.
    -> int64, of shape [1].

lod_tensor_to_array
    x: sequences.
    table: what lod_rank_table gave.
    -> an array of steps.

array_to_lod_tensor
    x: an array of steps.
    table: what lod_rank_table gave.
    -> sequences.

shrink_memory
    x: rows in the order of the table.
    i: the step, int64, of shape [1].
    table: what lod_rank_table gave.
    -> the first rows of x.

reorder_lod_tensor_by_rank
    x: sequences, or rows.
    rank_table: what lod_rank_table gave.
    -> of the shape of x.

split_lod_tensor
    mask: bools, of shape [rows, 1].
    level: the level of the LoD that the mask goes by.
    -> two tensors.

merge_lod_tensor
    in_true: the rows for True.
    in_false: the rows for False.
    x: the tensor that was split.
    mask: bools, of shape [rows, 1].
    level: the level of the LoD that the mask goes by.
    -> the rows in their order.

Print
    first_n: print so many times; -1: always.
    message: what stands before the values.
    summarize: print so many elements; -1: all.
    print_tensor_name: print the name.
    print_tensor_type: print the element type.
    print_tensor_shape: print the shape.
    print_tensor_lod: print the LoD.
    print_phase: 'forward', 'backward' (the gradient) or 'both'.
    -> the input.

StaticRNN DynamicRNN
    name: a part of the automatic names.

While
    cond: a bool, of shape [1]; the block must write it again.
    is_test: there is no gradient, so nothing is kept for it.

while_loop
    cond: a function of the loop's variables that gives a bool of shape [1].
    body: a function of the loop's variables that gives their next values, as a list.
    loop_vars: the variables before the first round; lists and dicts of them will do.
    is_test: there is no gradient, so nothing is kept for it.
    -> a list like loop_vars.

Switch
    name: a part of the automatic names.

cond
    pred: a bool, of shape [1].
    true_fn: a function without arguments; None: nothing is done.
    false_fn: a function without arguments that returns the same structure.
    -> a Variable, or a structure of them; None when the functions return nothing.

case
    pred_fn_pairs: pairs of a bool of shape [1] and a function without arguments.
    default: a function without arguments; None: the last of the pairs.
    -> what the functions return.

switch_case
    branch_index: int32 or int64, of shape [1].
    branch_fns: functions without arguments: a list, pairs (number, function) or a dict.
    default: a function without arguments; None: the one with the largest number.
    -> what the functions return.

IfElse
    cond: bools, of shape [rows, 1].

ConditionalBlock
    inputs: the conditions.
    is_scalar_condition: there is one condition, a bool of shape [1].

BlockGuard
    main_program: the Program that gets the block.

select_input
    inputs: Variables of one dtype.
    mask: int32, of shape [1].
    -> a copy of one input.

select_output
    outputs: the Variables to write to.
    mask: int32, of shape [1].
    -> the outputs.

get_places
    device_count: how many at most; None: all.
    device_type: has no effect: there are processors only.
    -> a list of places.

data
    name: of the variable, by which it is fed.
    shape: the sizes, without the batch size when append_batch_size is True.
    append_batch_size: put -1 in front of the shape.
    lod_level: how many levels of sequences the feed has; 0: a plain tensor.
    type: the kind of variable: VarType.LOD_TENSOR.
    stop_gradient: it gets no gradient.
    -> a Variable that must be fed.

load
    out: the Variable to read into.
    file_path: the file.
    load_as_fp16: turn the values into float16; None: leave them.

py_reader
    capacity: the number of batches to hold ready.
    shapes: one for each field, with -1 for the batch size.
    dtypes: one for each field.
    lod_levels: one for each field; None: plain tensors.
    name: the first part of the names of reader and queue; None: numbered ones.
    use_double_buffer: has no effect: batches are ready before they are asked for anyway.
    -> the reader, with start(), reset(), queue and the functions decorate_paddle_reader() (lists of samples) and
        decorate_tensor_provider() (whole batches).

create_py_reader_by_data
    capacity: the number of batches to hold ready.
    feed_list: Variables like which the fields are.
    name: the first part of the names of reader and queue; None: numbered ones.
    use_double_buffer: has no effect: batches are ready before they are asked for anyway.
    -> the reader, as of py_reader.

double_buffer
    reader: what py_reader or create_py_reader_by_data gave.
    place: has no effect: there are processors only.
    name: of the new reader; None: a numbered one.
    -> a reader that gives the same batches.

read_file
    reader: what py_reader or create_py_reader_by_data gave.
    -> a Variable for each field; not a list if there is one field.

sequence_conv
    input: sequences, of shape [steps of all, width].
    num_filters: the number of columns of the result.
    filter_size: the length of the window.
    filter_stride: only 1.
    padding: has no effect: the result has as many steps as the input.
    padding_start: where the window of a step begins: -1 is the step before; None: half the window before.
    -> sequences of num_filters columns.

sequence_softmax
    input: sequences of one column.
    -> of the shape of the input.

sequence_pool
    input: sequences.
    pool_type: 'average', 'sum', 'sqrt' (the sum divided by the root of the length), 'max', 'last' or 'first'.
    is_test: the places of the largest steps are not kept for the gradient.
    pad_value: what an empty sequence gives.
    -> a row for each sequence.

sequence_concat
    input: a list of Variables with as many sequences each.
    -> sequences.

sequence_first_step sequence_last_step
    input: sequences.
    -> a row for each sequence.

sequence_slice
    input: sequences.
    offset: where the part of each begins, int32 or int64, of shape [sequences, 1].
    length: how long it is, of the same shape.
    -> sequences.

sequence_expand sequence_expand_as
    x: rows, or sequences.
    y: sequences, whose lengths are taken.
    ref_level: the level of y's LoD; -1: the last.
    -> x with repeated rows.

sequence_pad
    x: sequences.
    pad_value: what fills them up: of one element, or of the shape of a step.
    maxlen: the length; None: that of the longest.
    -> of shape [sequences, length, ...], and the lengths, int64.

sequence_unpad
    x: of shape [sequences, length, ...].
    length: the length of each, int64.
    -> sequences.

sequence_reshape
    input: sequences, of shape [steps of all, width].
    new_dim: the new width; it must divide the elements of each sequence.
    -> sequences of new_dim columns.

sequence_scatter
    index: sequences of column numbers, int32 or int64; sequence i belongs to row i.
    updates: sequences of values, one for each number.
    -> of the shape of the input.

sequence_enumerate
    input: sequences of ids, int32 or int64.
    win_size: the length of the window.
    pad_value: the id past the end.
    -> sequences of win_size columns.

sequence_mask
    x: lengths, int64.
    maxlen: the width: a number or a Variable; None: the largest length.
    -> of the shape of x, then maxlen.

sequence_reverse
    x: sequences.
    -> of the shape of x.

exponential_decay natural_exp_decay inverse_time_decay
    learning_rate: the rate at first.
    decay_steps: after so many steps the decay has happened once.
    decay_rate: the number in the formula.
    staircase: step / decay_steps is rounded down, so that the rate falls in stairs.
    -> the rate, float32, of shape [1]; it counts the steps.

polynomial_decay
    learning_rate: the rate at first.
    decay_steps: after so many steps it is end_learning_rate.
    end_learning_rate: the rate at last.
    power: the number in the formula.
    cycle: begin again after decay_steps.
    -> the rate, float32, of shape [1]; it counts the steps.

piecewise_decay
    boundaries: the steps at which the rate changes, rising.
    values: the rates, one more than boundaries.
    -> the rate, float32, of shape [1]; it counts the steps.

noam_decay
    d_model: the width of the model.
    warmup_steps: so many steps the rate rises.
    learning_rate: what all is multiplied by.
    -> the rate, float32, of shape [1]; it counts the steps.

cosine_decay
    learning_rate: the rate at first.
    step_each_epoch: the number of steps in an epoch.
    epochs: the number of epochs.
    -> the rate, float32, of shape [1]; it counts the steps.

linear_lr_warmup
    learning_rate: the rate after the warm-up: a number or a schedule.
    warmup_steps: so many steps the warm-up takes.
    start_lr: the rate at first.
    end_lr: the rate at the end of the warm-up.
    -> the rate, float32, of shape [1]; it counts the steps.
"""
