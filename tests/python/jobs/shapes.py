"""A job whose Program the command line shapes, for tests of processes that do not fit together: `shapes.py server|trainer --rows 8
...`."""

import sys

import numpy as np
import small

import paddle.fluid as fluid

parser = small.parse(__doc__)
parser.add_argument("--rows", type=int, default=8)
parser.add_argument("--cols", type=int, default=16)
parser.add_argument("--params", type=int, default=2)
parser.add_argument("--name", default="w", help="of parameters, before their number")
parser.add_argument("--dtype", default="float32")
parser.add_argument("--optimizer", default="SGD(0.1)")
parser.add_argument("--decay", type=float, default=0)
parser.add_argument("--attr", nargs=2, default=("", ""), metavar=("NAME", "MORE"),
                    help="arguments of the ParamAttr of one parameter")
parser.add_argument("--async", dest="is_async", action="store_true")
parser.add_argument("--no-startup", action="store_true", help="a trainer that starts from values of its own")
args = parser.parse_args()

fluid.default_main_program().random_seed = fluid.default_startup_program().random_seed = 1
total = None
for i in range(args.params):
    attr = fluid.ParamAttr(name=f"{args.name}{i}", **eval(f"dict({args.attr[1] if args.attr[0] == f'w{i}' else ''})"))
    w = fluid.layers.create_parameter([args.rows, args.cols], args.dtype, attr=attr)
    term = fluid.layers.reduce_mean(fluid.layers.square(w))
    total = term if total is None else fluid.layers.elementwise_add(total, term)
decay = fluid.regularizer.L2Decay(args.decay) if args.decay else None
optimizer = eval(f"fluid.optimizer.{args.optimizer}")
optimizer.regularization = decay
optimizer.minimize(total)
startup = fluid.default_startup_program().clone()
t = fluid.DistributeTranspiler()
t.transpile(args.id, pservers=args.endpoints, trainers=args.trainers, sync_mode=not args.is_async)
exe = fluid.Executor(fluid.CPUPlace())
if args.role == "server":
    main, startup = t.get_pserver_programs(args.endpoint)
    exe.run(startup)
    exe.run(main)
    sys.exit(0)
exe.run(startup if args.no_startup else fluid.default_startup_program())
for _ in range(3):
    (loss,) = exe.run(t.get_trainer_program(), fetch_list=[total])
print(f"loss {float(np.asarray(loss).reshape(-1)[0]):.6f}", flush=True)
exe.close()
