"""Transpiled Programs as plain data, of cases that build alike on 1.8.5 and on this project's `paddle`.

`CASES` maps a name to (model, optimizer, endpoints, trainers, options). `describe(case)` builds the model,
transpiles it and returns the trainer's and the servers' Programs as lists and dicts. make_transpiled.py keeps
what 1.8.5 gives in data/transpiled.json; test_transpiler.py compares.
"""

from collections import OrderedDict

import paddle.fluid as fluid

from golden import models

ENDPOINTS = ['127.0.0.1:6174', '127.0.0.1:6175', '127.0.0.1:6176']
# Attributes that say how the parts of a job fit together.
ATTRS = [
    'epmap',
    'endpoints',
    'sections',
    'height_sections',
    'send_varnames',
    'recv_varnames',
    'table_names',
    'trainer_id',
    'padding_idx',
    'lookup_table_version',
    'half_async',
    'Fanin',
    'pserver_id',
    'distributed_mode',
    'lr_decay_block_id',
    'scale',
]
TALKING = [
    'send',
    'recv',
    'send_barrier',
    'fetch_barrier',
    'split_byref',
    'split_selected_rows',
    'concat',
    'distributed_lookup_table',
    'fake_init',
]


def rate(kind):
    if kind == 'decay':
        return fluid.layers.exponential_decay(0.1, decay_steps=3, decay_rate=0.5, staircase=True)
    if kind == 'piecewise':
        return fluid.layers.piecewise_decay([2, 4], [0.1, 0.05, 0.01])
    return 0.1


def optimizer(kind, schedule=None, l2=False):
    def make():
        decay = fluid.regularizer.L2Decay(0.01) if l2 else None
        if kind == 'momentum':
            return fluid.optimizer.Momentum(rate(schedule), momentum=0.9, regularization=decay)
        make_one = {
            'sgd': fluid.optimizer.SGD,
            'adam': fluid.optimizer.Adam,
            'adagrad': fluid.optimizer.Adagrad,
            'rmsprop': fluid.optimizer.RMSProp,
            'adamax': fluid.optimizer.Adamax,
        }[kind]
        return make_one(learning_rate=rate(schedule), regularization=decay)

    return make


def word2vec_sparse(optimizer):
    return models.word2vec(optimizer, is_sparse=True)


def mlp(optimizer):
    return models.mlp(optimizer, hidden=200)


CASES = OrderedDict()


def add(name, model, update, endpoints, trainers=2, **options):
    CASES[name] = (model, update, endpoints, trainers, options)


add('line_sgd_1x2', models.fit_a_line, optimizer('sgd'), 1)
add('line_sgd_2x2', models.fit_a_line, optimizer('sgd'), 2)
add('line_adam_3x2', models.fit_a_line, optimizer('adam'), 3)
add('line_decay_2x3', models.fit_a_line, optimizer('momentum', 'decay'), 2, 3)
add('line_piecewise_1x2', models.fit_a_line, optimizer('sgd', 'piecewise'), 1)
add('line_sgd_async', models.fit_a_line, optimizer('sgd'), 2, sync_mode=False)
add('mlp_sgd_2x2', mlp, optimizer('sgd'), 2)
add('mlp_momentum_l2_2x2', mlp, optimizer('momentum', None, True), 2)
add('mlp_adam_decay_3x2', mlp, optimizer('adam', 'decay'), 3)
add('mlp_adam_whole_2x2', mlp, optimizer('adam'), 2, slice_var_up=False)
add('mlp_adamax_2x2', mlp, optimizer('adamax'), 2)
add('mlp_rmsprop_2x2', mlp, optimizer('rmsprop'), 2)
add('mlp_sgd_async_2x2', mlp, optimizer('sgd'), 2, sync_mode=False)
add('mlp_sgd_runtime_split', mlp, optimizer('sgd'), 2, sync_mode=False, runtime_split_send_recv=True)
add('words_sgd_2x2', models.word2vec, optimizer('sgd'), 2)
add('words_adagrad_l2_3x2', models.word2vec, optimizer('adagrad', None, True), 3)
add('sparse_sgd_2x2', word2vec_sparse, optimizer('sgd'), 2)
add('sparse_adam_3x2', word2vec_sparse, optimizer('adam'), 3)
add('sparse_sgd_async', word2vec_sparse, optimizer('sgd'), 2, sync_mode=False)


def plain(name):
    """Names that only order ops carry a counter."""
    return '@order' if name.startswith(fluid.core.kControlDepVarName()) else name


def describe_op(op):
    attrs = {}
    for name in ATTRS:
        if op.has_attr(name):
            value = op.attr(name)
            attrs[name] = list(value) if isinstance(value, (list, tuple)) else value
    return {
        'type': op.type,
        'in': {slot: [plain(name) for name in op.input(slot)] for slot in op.input_names if op.input(slot)},
        'out': {
            slot: [plain(name) for name in op.output(slot)] for slot in op.output_names if op.output(slot)
        },
        'attrs': attrs,
    }


def kept(program):
    """Persistables of block 0 with their shapes."""
    found = {}
    for var in program.global_block().vars.values():
        if var.persistable:
            found[var.name] = list(var.shape)
    return found


def describe_server(transpiler, endpoint):
    program, startup = transpiler.get_pserver_programs(endpoint)
    serve = program.global_block().ops[-1]
    return {
        'serve': describe_op(serve),
        'optimize_blocks': [block.idx for block in serve.all_attrs()['optimize_blocks']],
        'grads': sorted(serve.attr('grad_to_block_id')),
        'sparse': sorted(serve.attr('sparse_grad_to_param')),
        'blocks': [[describe_op(op) for op in block.ops] for block in program.blocks[1:]],
        'kept': kept(program),
        'startup': sorted(
            [op.type, op.output('Out')[0], list(op.attr('shape'))] for op in startup.global_block().ops
        ),
    }


def describe(case, split_method=None):
    """The Programs of a case; `split_method` places parameters otherwise than by the default."""
    model, update, endpoints, trainers, options = case
    options = dict(options)
    config = fluid.DistributeTranspilerConfig()
    config.slice_var_up = options.pop('slice_var_up', True)
    config.split_method = split_method
    config.wait_port = False
    sync_mode = options.pop('sync_mode', True)
    config.sync_mode = sync_mode
    for name, value in options.items():
        setattr(config, name, value)
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 5
    with fluid.unique_name.guard(), fluid.program_guard(main, startup):
        model(update)
        transpiler = fluid.DistributeTranspiler(config=config)
        transpiler.transpile(
            0,
            program=main,
            pservers=','.join(ENDPOINTS[:endpoints]),
            trainers=trainers,
            sync_mode=sync_mode,
            startup_program=startup,
        )
        servers = [describe_server(transpiler, endpoint) for endpoint in ENDPOINTS[:endpoints]]
        trainer = transpiler.get_trainer_program(wait_port=False)
    return {
        'types': [op.type for op in trainer.global_block().ops],
        'talk': [describe_op(op) for op in trainer.global_block().ops if op.type in TALKING],
        'startup_types': [op.type for op in startup.global_block().ops],
        'startup_talk': [describe_op(op) for op in startup.global_block().ops if op.type in TALKING],
        'servers': servers,
    }
