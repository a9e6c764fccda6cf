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
    """simple-examples.tgz with 700 + 100 sentences in which a word mostly tells the next one."""
    rng = np.random.RandomState(50)
    vocabulary = "among a group of the in to and for said market company year share".split() + names.words(46)
    # Each word has three followers, the first of them in seven cases of ten.
    followers = np.array([rng.permutation(len(vocabulary))[:3] for _ in vocabulary])
    followers[:3, 0] = [1, 2, 3]

    def sentences(count: int) -> bytes:
        rows = []
        for _ in range(count):
            word, row = rng.randint(len(vocabulary)), []
            for draw, jump in zip(rng.random_sample(rng.randint(5, 10)), rng.random_sample(10)):
                row.append(vocabulary[word])
                word = followers[word][np.digitize(draw, [0.7, 0.9])]
                if jump < 0.1:
                    # Now and then any word, so that all stay in play.
                    word = rng.randint(len(vocabulary))
            rows.append(" " + " ".join(row) + " ")
        return pack.lines(rows)

    folder = "./simple-examples/data"
    members = [(f"{folder}/ptb.train.txt", sentences(700)), (f"{folder}/ptb.valid.txt", sentences(100))]
    return pack.gz(pack.tar(members))
