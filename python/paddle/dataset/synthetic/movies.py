"""Stand-in of MovieLens 1M: as many users, films, jobs and categories, but 12,000 ratings.

Users and films have a taste on one line from quiet to loud; a film near to a user's taste is rated well.
"""

from __future__ import annotations

import numpy as np

from paddle.dataset.synthetic import names, pack

_CATEGORIES = (
    "Action Adventure Animation Children's Comedy Crime Documentary Drama Fantasy Film-Noir Horror Musical "
    "Mystery Romance Sci-Fi Thriller War Western"
).split()
_AGES = [1, 18, 25, 35, 45, 50, 56]
_USERS, _LAST_FILM, _RATINGS = 6040, 3952, 12000
# The film that the recommender examples ask about.
_KNOWN = (783, "Hunchback of Notre Dame, The", ["Animation", "Children's", "Musical"])


def movielens() -> bytes:
    """The zip file with movies.dat, users.dat and ratings.dat."""
    rng = np.random.RandomState(1000)
    vocabulary = names.words(5000)

    films, loudness = [], {}
    for number in range(1, _LAST_FILM + 1):
        first = rng.randint(len(_CATEGORIES))
        kinds = [_CATEGORIES[first]]
        if rng.randint(2):
            kinds.append(_CATEGORIES[(first + 1) % len(_CATEGORIES)])
        title = f"{vocabulary[number % 5000]} {vocabulary[(number * 7 + 3952) % 5000]}".title()
        if number == _KNOWN[0]:
            _, title, kinds = _KNOWN
        loudness[number] = _CATEGORIES.index(kinds[0]) / (len(_CATEGORIES) - 1)
        films.append(f"{number}::{title} ({1930 + number % 70})::{'|'.join(kinds)}")

    gender, age, job = rng.randint(2, size=_USERS), rng.randint(7, size=_USERS), rng.randint(21, size=_USERS)
    taste = 0.6 * age / 6 + 0.3 * gender + 0.1 * job / 20
    users = [
        f"{number + 1}::{'FM'[gender[number]]}::{_AGES[age[number]]}::{job[number]}::{10000 + number}"
        for number in range(_USERS)
    ]

    ratings = []
    # Few users and films, so that each is seen often enough to learn from.
    for time in range(_RATINGS):
        user, film = rng.randint(200), rng.randint(1, 201) if time % 50 else _KNOWN[0]
        near = 1 - abs(taste[user] - loudness[film])
        ratings.append(f"{user + 1}::{film}::{int(np.clip(round(1 + 4 * near), 1, 5))}::{978300000 + time}")

    members = [("movies.dat", films), ("ratings.dat", ratings), ("users.dat", users)]
    return pack.zipped((f"ml-1m/{name}", pack.lines(rows)) for name, rows in members)
