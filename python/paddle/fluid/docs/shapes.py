"""Arguments of the layers that make tensors, change their shape or pick from them."""

TEXT = """
reshape
    shape: the new sizes: a list of numbers and Variables, or a Variable.
    actual_shape: the sizes as a Variable, which wins at run time; a Variable as `shape` is the newer form.
    inplace: the result may use the memory of x.
    -> x in the new shape.

squeeze
    axes: the dimensions of size 1 to drop; negative ones count from the end.
    -> the input with fewer dimensions.

unsqueeze
    axes: where dimensions are put in: a number, a list or a Variable; counted in the result.
    -> the input with more dimensions.

flatten
    axis: how many dimensions become the rows.
    -> a matrix.

transpose
    perm: for each dimension of the result the dimension of x that it is.
    -> x with its dimensions in the new order.

t
    input: of at most 2 dimensions.
    -> the input with its dimensions swapped.

split
    num_or_sections: a number of equal parts, or a list of sizes, one of which may be -1.
    dim: along which to cut: a number or a Variable.
    -> a list of parts.

stack
    x: a list of Variables of one shape, or an array of tensors.
    axis: where the new dimension is.
    -> a tensor with one more dimension.

unstack
    axis: the dimension that goes away.
    num: its size; None: as the shape says.
    -> a list of tensors with one dimension less.

expand
    expand_times: a number for each dimension: a list of numbers and Variables, or a Variable.
    -> a tensor whose sizes are the products.

expand_as
    target_tensor: the tensor whose shape is wanted.
    -> of the shape of target_tensor.

slice strided_slice
    axes: the dimensions to cut.
    starts: where the part begins along each of them: a list of numbers and Variables, or a Variable.
    ends: where it ends; that place itself is left out.
    strides: the distance of the elements that are taken.
    -> the part.

crop crop_tensor
    shape: of the part: a list, or a Variable (crop: one whose shape is taken); None: the shape of x.
    offsets: where the part begins in each dimension: a list or a Variable; None: zeros.
    -> the part.

pad
    paddings: how many elements to put before and after each dimension: [before 0, after 0, before 1, ...].
    pad_value: what is put there.
    -> a larger tensor.

pad2d
    input: images, of 4 dimensions.
    paddings: [top, bottom, left, right], as a list or a Variable.
    mode: 'constant', 'reflect' or 'edge'.
    pad_value: what 'constant' puts there.
    -> larger images.

pad_constant_like
    x: the tensor whose shape is wanted.
    y: the tensor to fill up.
    pad_value: what is put there.
    -> of the shape of x.

shape
    -> int32, of shape [number of dimensions].

rank
    -> int32, of shape [1].

size
    -> int64, of shape [1].

flip
    dims: the dimensions along which to turn around.
    -> of the shape of the input.

roll
    shifts: how far to move: a number, or one for each of dims.
    dims: along which; None: the tensor is moved as one long row.
    -> of the shape of the input.

meshgrid
    input: vectors.
    -> a list of tensors, one for each vector, all of the shape [size of vector 0, size of vector 1, ...].

diag_embed
    input: the diagonals, in the last dimension.
    offset: which diagonal: above 0 over the main one, below 0 under it.
    dim1: the dimension of the rows in the result.
    dim2: the dimension of the columns in the result.
    -> a tensor with one more dimension.

lod_reset
    y: a Variable with the sequences to take over, or with the offsets as its data.
    target_lod: the offsets, when y is None.
    -> x with the new sequences.

lod_append
    level: the offsets of the new level: a list, or a Variable.
    -> x with one more level.

create_tensor
    persistable: it lives from run to run.
    -> a Variable without a shape yet.

create_parameter
    shape: a list of numbers.
    attr: how the parameter is made: a ParamAttr, a name, an initializer; None: the default.
    is_bias: the default is 0 instead of Xavier.
    default_initializer: of a parameter whose attr has none.
    -> a Parameter.

create_global_var
    shape: a list of numbers.
    value: what the startup program fills it with.
    persistable: it lives from run to run.
    -> a Variable.

cast
    dtype: the new element type, e.g. 'float32'.
    -> of the shape of x.

tensor_array_to_tensor
    input: the array.
    axis: along which to join or to stack.
    use_stack: stack the tensors in a new dimension; else join them.
    -> the tensor, and int32 sizes, one for each entry.

concat
    input: a list of Variables, or an array of tensors.
    axis: along which to join: a number or a Variable.
    -> one tensor.

sums
    input: a list of Variables of one shape.
    -> their sum.

assign
    input: a Variable, or a numpy array.
    output: the Variable to write to; None: a new one.
    -> the copy.

fill_constant_batch_size_like
    input: the tensor that gives the size.
    shape: of the result, before the size is put in.
    value: what it is filled with.
    input_dim_idx: the dimension of the input whose size is taken.
    output_dim_idx: the dimension of the result that gets it.
    -> a tensor of this shape.

fill_constant full ones zeros
    shape: of the result: a list of numbers and Variables, or a Variable.
    value: what it is filled with: a number or a Variable of one element.
    fill_value: what it is filled with: a number or a Variable of one element.
    -> a tensor of this shape.

reverse
    axis: one dimension or a list of them.
    -> of the shape of x.

has_inf has_nan isfinite
    -> one bool, of shape [1].

range arange
    start: the first value.
    end: the limit, which cannot occur.
    step: the distance of the values.
    -> a vector.

linspace
    start: the first value.
    stop: the last value.
    num: how many values.
    -> a vector.

full_like zeros_like ones_like
    fill_value: what it is filled with.
    dtype: None: that of the input.
    -> of the shape of the input.

diag
    diagonal: the values: a vector, as a Variable or a numpy array.
    -> a square matrix.

eye
    num_rows: the number of rows.
    num_columns: the number of columns; None: as many as rows.
    batch_shape: sizes to put in front: [2, 3] gives 2 x 3 matrices.
    -> a matrix, or a batch of them.

tril triu
    input: a matrix, or a batch of them.
    diagonal: the last diagonal that stays: 0 is the main one, above 0 lies over it, below 0 under it.
    -> of the shape of the input.

trace
    offset: which diagonal: above 0 over the main one, below 0 under it.
    dim1: the dimension of the rows.
    dim2: the dimension of the columns.
    -> one number for each matrix.

gather
    index: row numbers, int32 or int64, of one dimension.
    overwrite: how rows named twice get their gradient: the last one's, or with False all added up.
    -> a row for each number.

gather_nd
    index: places, in the last dimension: as many numbers as dimensions of the input, or fewer for slices.
    -> a slice for each place.

scatter
    index: row numbers, int32 or int64, of one dimension.
    updates: a row for each number.
    overwrite: replace the rows; else updates for a row are added up and take its place.
    -> of the shape of the input.

scatter_nd scatter_nd_add
    ref: the tensor to add to.
    index: places, in the last dimension.
    updates: a slice for each place.
    shape: of the result.
    -> of the shape of ref, or `shape`.

index_select
    index: numbers of entries, int32 or int64, of one dimension.
    dim: along which to pick.
    -> the input with len(index) entries in that dimension.

index_sample
    x: a matrix.
    index: column numbers, int32 or int64, in a matrix of as many rows.
    -> of the shape of index.

multiplex
    inputs: a list of matrices of one shape.
    index: for each row the number of a matrix, int32, of shape [rows, 1].
    -> of the shape of one input.

where
    condition: a tensor of bools.
    -> int64, of shape [number of places, number of dimensions].

nonzero
    as_tuple: one tensor for each dimension.
    -> int64, of shape [number of places, number of dimensions], or a tuple of columns.

unique
    x: a vector.
    dtype: of the places: 'int32' or 'int64'.
    -> the values, and a place for each element of x.

unique_with_counts
    x: a vector.
    dtype: of the places and counts: 'int32' or 'int64'.
    -> the values, a place for each element of x, and a count for each value.

shard_index
    input: ids, int64, of shape [..., 1].
    index_num: the number of ids over all shards.
    nshards: the number of shards.
    shard_id: the number of this shard, from 0 on.
    ignore_value: what stands for the ids of other shards.
    -> of the shape of the input.

gather_tree
    ids: the chosen ids, of shape [steps, batch, beams].
    parents: the beam that each one continues, of the same shape.
    -> of the shape of ids.

hash
    input: rows of ids, int64.
    hash_size: the hash values are below it.
    num_hash: how many values each row gets.
    -> int64, of shape [rows, num_hash, 1].
"""
