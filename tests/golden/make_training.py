"""Write data/training.npz: training Programs as paddlepaddle 1.8.5 writes them, and their results. From anywhere:

    python3.7 tests/golden/make_training.py
"""

import maker

from golden import training

if __name__ == '__main__':
    maker.save_cases('training.npz', ((name, training.write(code)) for name, code in training.cases(training.KEPT).items()))
