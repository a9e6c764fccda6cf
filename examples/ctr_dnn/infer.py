"""Uses what train.py --save has written: predicts the clicks of files, and says how well.

    python train.py --save out
    python infer.py --model out/model --files 'data/test/part-*'
"""

import argparse
import glob

import metric
import paddle.fluid as fluid


def main(options):
    files = sorted(glob.glob(options.files))
    if not files:
        raise SystemExit("--files=%s: there are no such files" % options.files)
    exe = fluid.Executor(fluid.CPUPlace())
    program, fed, (prediction,) = fluid.io.load_inference_model(options.model, exe)
    with fluid.program_guard(program):
        label = fluid.data(name="label", shape=[None, 1], dtype="int64")
    block = program.global_block()
    auc = metric.Auc(program, prediction.name, label.name)
    dataset = fluid.DatasetFactory().create_dataset("QueueDataset")
    dataset.set_use_var([*(block.var(name) for name in fed), label])
    dataset.set_batch_size(options.batch_size)
    dataset.set_filelist(files)
    print("AUC %.4f over %d files" % (auc.over(exe, dataset), len(files)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="out/model", help="folder of the model")
    parser.add_argument("--files", default="data/test/part-*", help="pattern of files of slots")
    parser.add_argument("--batch_size", type=int, default=1000)
    main(parser.parse_args())
