"""Stand-ins made of English-looking text: imikolov, imdb and movie_reviews."""

from __future__ import annotations

import numpy as np

from paddle.dataset.synthetic import names, pack

_GOOD = "great good wonderful excellent brilliant lovely funny charming moving superb best enjoyed".split()
_BAD = "bad awful boring terrible poor dull stupid horrible weak worst wasted annoying".split()
_PLAIN = (
    "the a this that is was movie film book story read forget very and of it with but for one some there "
    "his her they all who we from by on at actors plot scene music end first time people man woman life way "
    "year"
).split()


def _reviews(seed: int, count: int, good: bool) -> list[str]:
    """Reviews of 15 to 40 words; about every fifth tells what the writer thinks."""
    rng = np.random.RandomState(seed)
    ours, theirs = (_GOOD, _BAD) if good else (_BAD, _GOOD)
    plain = _PLAIN + names.words(30)
    reviews = []
    for _ in range(count):
        drawn = rng.random_sample(rng.randint(15, 41))
        pick = rng.randint(1 << 16, size=len(drawn))
        lists = [ours if draw < 0.18 else theirs if draw < 0.22 else plain for draw in drawn]
        words = [choice[number % len(choice)] for choice, number in zip(lists, pick.tolist())]
        reviews.append(" ".join(words).capitalize() + ".")
    return reviews


def imdb() -> bytes:
    """aclImdb_v1.tar.gz with 1,000 training and 400 test reviews, half of them good."""
    members = []
    for seed, (part, count) in enumerate([("train", 500), ("test", 200)]):
        for good, folder in enumerate(("neg", "pos")):
            for number, text in enumerate(_reviews(10 + 2 * seed + good, count, bool(good))):
                stars = 9 if good else 2
                members.append((f"aclImdb/{part}/{folder}/{number}_{stars}.txt", text.encode()))
    return pack.gz(pack.tar(members))


def movie_reviews() -> bytes:
    """movie_reviews.zip with 1,000 bad and 1,000 good reviews, as many as the real one."""
    members = []
    for good, folder in enumerate(("neg", "pos")):
        for number, text in enumerate(_reviews(20 + good, 1000, bool(good))):
            members.append((f"movie_reviews/{folder}/cv{number:03d}_{number:05d}.txt", text.lower().encode()))
    return pack.zipped(members)


def imikolov() -> bytes:
    """simple-examples.tgz with 7,000 + 700 sentences: a few common words, and others of which one mostly tells the next.

    Every word occurs more than 50 times, which is what build_dict() asks for, and there are enough of them for the ids
    that old scripts write out (up to 211).
    """
    rng = np.random.RandomState(50)
    common = "the of to a in and for said year market company share group among".split()
    vocabulary = common + names.words(286)
    weights = 1 / np.arange(1, len(common) + 1)
    # Each word has three followers, the first of them in seven cases of ten; each word follows three others.
    followers = np.array([rng.permutation(len(vocabulary)) for _ in range(3)]).T
    phrase = [common.index(word) for word in ("among", "a", "group", "of")]
    for word, after in zip(phrase, phrase[1:]):
        taker = int(np.flatnonzero(followers[:, 0] == after)[0])
        followers[taker, 0], followers[word, 0] = followers[word, 0], after

    def sentences(count: int) -> bytes:
        rows = []
        for _ in range(count):
            word, row = rng.randint(len(vocabulary)), []
            length = rng.randint(5, 10)
            draws, jumps = rng.random_sample(length), rng.random_sample(length)
            fillers = rng.choice(len(common), length, p=weights / weights.sum())
            for draw, jump, filler in zip(draws, jumps, fillers):
                row.append(vocabulary[word])
                word = followers[word][np.digitize(draw, [0.7, 0.9])]
                if jump < 0.18:
                    word = filler
                elif jump < 0.25:
                    # Now and then any word, so that all stay in play.
                    word = rng.randint(len(vocabulary))
            rows.append(" " + " ".join(row) + " ")
        return pack.lines(rows)

    folder = "./simple-examples/data"
    members = [(f"{folder}/ptb.train.txt", sentences(7000)), (f"{folder}/ptb.valid.txt", sentences(700))]
    return pack.gz(pack.tar(members))
