"""Write data/seeded.npz: what paddlepaddle 1.8.5 draws where a seed is given. From anywhere:

    python3.7 tests/golden/make_seeded.py

A second run writes the same numbers (losses: but for the last bits on another machine).
"""

import maker

from golden import seeded

if __name__ == '__main__':
    maker.save_cases('seeded.npz', ((name, case()) for name, case in seeded.CASES.items()))
