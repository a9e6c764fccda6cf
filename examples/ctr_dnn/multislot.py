"""Text of samples for fluid.DatasetFactory, written as fast as numpy can: no loop over samples or numbers.

A line is a sample. Of each variable it has a count and so many numbers:

    lines = multislot.Lines()
    lines.floats(dense)                # (samples, 13): "13 0.5000 1.2500 ..."
    lines.ids(slots[:, :1])            # (samples, 1): "1 17"
    lines.ids(words, lengths)          # of each sample the first so many
    file.write(lines.text())
"""

import numpy as np

SPACE, POINT, ZERO, NEWLINE = b" .0\n"


def digits(values, width):
    """The digits of whole numbers from 0 on, and which of them are written: all but zeros in front."""
    rest = np.asarray(values, "uint64" if width > 9 else "uint32")
    found = np.empty((*rest.shape, width), "uint8")
    for place in range(width - 1, -1, -1):
        rest, found[..., place] = np.divmod(rest, rest.dtype.type(10))
    is_written = np.maximum.accumulate(found != 0, axis=-1)
    is_written[..., -1] = True
    return found + ZERO, is_written


class Lines:
    """Lines of as many samples as the first variable has."""

    def __init__(self):
        self.parts = []  # of (letters, which of them are written), each (samples, letters at most)

    def _add(self, letters, is_written):
        self.parts.append((letters.reshape(len(letters), -1), is_written.reshape(len(letters), -1)))

    def _add_counts(self, counts):
        letters, is_written = digits(counts, 4)
        space = np.full((len(counts), 1), SPACE, "uint8")
        self._add(np.concatenate([letters, space], axis=1), np.concatenate([is_written, space == SPACE], axis=1))

    def ids(self, values, lengths=None):
        """Whole numbers from 0 on, (samples, most of one sample); of each sample the first `lengths`, else all."""
        values = np.asarray(values)
        count, most = values.shape
        self._add_counts(np.full(count, most) if lengths is None else lengths)
        letters, is_written = digits(values, len(str(values.max(initial=1))))
        letters = np.concatenate([letters, np.full((count, most, 1), SPACE, "uint8")], axis=2)
        is_written = np.concatenate([is_written, np.ones((count, most, 1), bool)], axis=2)
        if lengths is not None:
            is_written &= (np.arange(most) < np.asarray(lengths)[:, None])[..., None]
        self._add(letters, is_written)

    def floats(self, values, decimals=4):
        """Numbers from 0 on, (samples, numbers), with so many decimals."""
        values = np.asarray(values)
        count, most = values.shape
        self._add_counts(np.full(count, most))
        whole = np.rint(values.astype("float64") * 10**decimals).astype("uint64")
        before, is_written = digits(whole // 10**decimals, max(len(str(int(whole.max(initial=1)))) - decimals, 1))
        behind, _ = digits(whole % 10**decimals, decimals)
        point, space = (np.full((count, most, 1), letter, "uint8") for letter in (POINT, SPACE))
        self._add(np.concatenate([before, point, behind, space], axis=2),
                  np.concatenate([is_written, np.ones((count, most, decimals + 2), bool)], axis=2))

    def text(self):
        """All lines, as bytes."""
        letters, is_written = (np.concatenate(each, axis=1) for each in zip(*self.parts))
        letters[:, -1] = NEWLINE  # in the place of the last space
        return letters[is_written].tobytes()
