"""The book's pictures: a small residual network or VGG on cifar-10, one pass, then one picture."""

import sys

import numpy as np
import paddle
import paddle.fluid as fluid
from paddle.fluid import layers

FOLDER, NET = sys.argv[1:3]


def conv_bn(input, channels, size, stride, padding, act="relu"):
    conv = layers.conv2d(input=input, filter_size=size, num_filters=channels, stride=stride, padding=padding, act=None,
                         bias_attr=False)
    return layers.batch_norm(input=conv, act=act)


def resnet(input):
    net = conv_bn(input, 16, 3, 1, 1)
    for channels, stride in ((16, 1), (32, 2), (64, 2)):
        inner = conv_bn(conv_bn(net, channels, 3, stride, 1), channels, 3, 1, 1, act=None)
        short = net if stride == 1 else conv_bn(net, channels, 1, stride, 0, act=None)
        net = layers.elementwise_add(x=inner, y=short, act="relu")
    return layers.fc(input=layers.pool2d(input=net, pool_size=8, pool_type="avg", pool_stride=1), size=10, act="softmax")


def vgg(input):
    net = input
    for channels, count in ((16, 2), (32, 2)):
        net = fluid.nets.img_conv_group(input=net, pool_size=2, pool_stride=2, conv_num_filter=[channels] * count,
                                        conv_filter_size=3, conv_act="relu", conv_with_batchnorm=True,
                                        conv_batchnorm_drop_rate=[0.3, 0.0], pool_type="max")
    net = layers.batch_norm(input=layers.fc(input=layers.dropout(x=net, dropout_prob=0.5), size=64, act=None), act="relu")
    return layers.fc(input=net, size=10, act="softmax")


images = layers.data(name="pixel", shape=[3, 32, 32], dtype="float32")
label = layers.data(name="label", shape=[1], dtype="int64")
predict = {"resnet": resnet, "vgg": vgg}[NET](images)
avg_cost = layers.mean(layers.cross_entropy(input=predict, label=label))
accuracy = layers.accuracy(input=predict, label=label)
test_program = fluid.default_main_program().clone(for_test=True)
fluid.optimizer.Adam(learning_rate=0.001).minimize(avg_cost)
exe = fluid.Executor(fluid.CPUPlace())
feeder = fluid.DataFeeder(place=fluid.CPUPlace(), feed_list=[images, label])
exe.run(fluid.default_startup_program())

for _ in range(4):
    for batch in paddle.batch(paddle.reader.shuffle(paddle.dataset.cifar.train10(), buf_size=2500), batch_size=64)():
        exe.run(feed=feeder.feed(batch), fetch_list=[avg_cost])
    found = [exe.run(test_program, feed=feeder.feed(batch), fetch_list=[accuracy])[0]
             for batch in paddle.batch(paddle.dataset.cifar.test10(), batch_size=128)()]
    print("accuracy", np.mean(found))
    if np.mean(found) > 0.5:
        break
else:
    sys.exit("the accuracy is not above 0.5")
fluid.io.save_inference_model(FOLDER, ["pixel"], [predict], exe)

with fluid.scope_guard(fluid.Scope()):
    program, feeds, fetches = fluid.io.load_inference_model(FOLDER, exe)
    picture = np.random.rand(1, 3, 32, 32).astype("float32")
    print("class", int(exe.run(program, feed={feeds[0]: picture}, fetch_list=fetches)[0].argmax()))
