"""Arguments of optimizers and initializers."""

OPTIMIZERS = """
Optimizer SGDOptimizer

MomentumOptimizer
    momentum: the share of the old velocity.
    use_nesterov: look ahead along the velocity.

AdagradOptimizer
    epsilon: keeps the division from 0.
    initial_accumulator_value: what the moments start with.

AdamOptimizer
    beta1: the share of the old first moment: a number or a Variable.
    beta2: the share of the old second moment: a number or a Variable.
    epsilon: keeps the division from 0.
    lazy_mode: a sparse gradient updates only its own rows.

AdamaxOptimizer
    beta1: the share of the old first moment.
    beta2: the share of the old largest gradient.
    epsilon: keeps the division from 0.

DpsgdOptimizer
    clip: the largest norm of a gradient.
    batch_size: the number of samples in a batch.
    sigma: how strong the noise is.

DecayedAdagradOptimizer
    decay: the share of the old moment.
    epsilon: keeps the division from 0.

FtrlOptimizer
    l1: the weight of the absolute values.
    l2: the weight of the squares.
    lr_power: how the rate falls with the squared gradients.

RMSPropOptimizer
    rho: the share of the old mean of squares.
    epsilon: keeps the division from 0.
    momentum: the share of the old step.
    centered: take the squared mean of the gradient off first.

AdadeltaOptimizer
    epsilon: keeps the division from 0.
    rho: the share of the old means.

LarsMomentumOptimizer
    momentum: the share of the old velocity.
    lars_coeff: how far a parameter moves for its size.
    lars_weight_decay: the decay.

LambOptimizer
    lamb_weight_decay: the decay.
    beta1: the share of the old first moment.
    beta2: the share of the old second moment.
    epsilon: keeps the division from 0.
    exclude_from_weight_decay_fn: a function of a Parameter that says whether it has no decay.

RecomputeOptimizer
    optimizer: the optimizer that trains.
"""

INITIALIZERS = """
ConstantInitializer
    value: a number.

UniformInitializer
    low: the lower limit.
    high: the upper limit.
    diag_num: how many elements of the diagonal are set; 0: none.
    diag_step: the number of columns.
    diag_val: what they are set to.

NormalInitializer TruncatedNormalInitializer
    loc: the middle of the distribution.
    scale: its standard deviation.

XavierInitializer MSRAInitializer
    uniform: draw from a uniform distribution; else from a normal one.
    fan_in: the number of inputs; None: as the shape says.
    fan_out: the number of outputs; None: as the shape says.

NumpyArrayInitializer
    value: a numpy array of the parameter's shape.
"""
