"""A process of two jobs that count, as counted.py does: a trainer trains two models, "first" with the servers of --endpoints and
"second" with those of --others; a server is of one of them (--model)."""

import time

import small
from counted import ROWS, ids_of

import paddle.fluid as fluid


def build(name: str) -> None:
    """In the default Programs. Trainers alone hold a counter."""
    ids = fluid.layers.data("ids", [1], dtype="int64")
    table = fluid.ParamAttr(name="table", initializer=fluid.initializer.Constant(0.0))
    rows = fluid.layers.embedding(ids, [ROWS, 1], is_sparse=True, is_distributed=True, param_attr=table)
    fluid.layers.increment(fluid.layers.create_global_var([1], 0.0, "float32", persistable=True, name=f"own_of_{name}"))
    fluid.optimizer.SGD(1.0).minimize(fluid.layers.reduce_sum(rows))


def main() -> None:
    parser = small.parse(__doc__)
    parser.add_argument("--others", help="the servers of the second model")
    parser.add_argument("--model", choices=["first", "second"])
    parser.add_argument("--steps", type=int, nargs=2, help="of each model")
    parser.add_argument("--new-from", type=int, default=-1,
                        help="do so many steps whatever servers have, with the batches from this one on")
    parser.add_argument("--async", dest="is_async", action="store_true")
    parser.add_argument("--stay", action="store_true", help="after the last step, until it is killed")
    args = parser.parse_args()
    servers = {args.model: args.endpoints} if args.role == "server" else {"first": args.endpoints, "second": args.others}
    models, done = {}, {}
    for name, args.endpoints in servers.items():
        scope = fluid.Scope()
        with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard(), fluid.scope_guard(scope):
            build(name)
            models[name] = (*small.start(args, sync_mode=not args.is_async), scope)
    for name, (_, _, job, _) in models.items():
        done[name] = job.steps_done()
        print("steps done of the", name, done[name], flush=True)
    if args.new_from >= 0:
        done = dict.fromkeys(done, 0)
    wanted = dict(zip(done, args.steps))
    while done != wanted:
        name = min(done, key=lambda name: done[name] / wanted[name])  # all trainers have this order
        exe, program, job, scope = models[name]
        exe.run(program, feed={"ids": ids_of(args.id, done[name] + max(args.new_from, 0))}, scope=scope)
        done[name] += 1
        assert args.new_from >= 0 or job.steps_done() == done[name], (job.steps_done(), done)
        print("did", name, done[name], flush=True)
    print("did all", flush=True)
    while args.stay:
        time.sleep(0.1)


if __name__ == "__main__":
    main()
