"""AUC over files: of a Program for the test, in one process or over all workers."""

import numpy as np
import paddle.fluid as fluid


class Auc:
    """Counts how predictions and labels of a Program lie. The counters are the Program's own: training does not touch them."""

    def __init__(self, program, prediction, label):
        self.program, self.to_zero = program, fluid.Program()
        with fluid.program_guard(program, self.to_zero):
            block = program.global_block()
            _, _, counters = fluid.layers.auc(block.var(prediction), block.var(label))
        self.names = [counter.name for counter in counters[2:]]  # over all batches: clicks and others, by prediction

    def over(self, exe, dataset, join=None):
        """The AUC of the samples of a data set; None when there are none. `join` adds up the counters of all workers."""
        exe.run(self.to_zero)
        exe.infer_from_dataset(self.program, dataset)
        scope = fluid.global_scope()
        counts = np.array([np.array(scope.find_var(name).get_tensor()).reshape(-1) for name in self.names], "int64")
        return area(*(join(counts) if join else counts))


def area(clicks, others):
    """Under the curve, of numbers of samples by prediction, from the lowest to the highest."""
    right = np.concatenate([[0], np.cumsum(clicks[::-1])])
    wrong = np.concatenate([[0], np.cumsum(others[::-1])])
    if not right[-1] or not wrong[-1]:
        return None
    return float(np.sum(np.diff(wrong) * (right[1:] + right[:-1]) / 2.0) / right[-1] / wrong[-1])
