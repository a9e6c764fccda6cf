"""Stand-in of CoNLL-2005: sentences of fixed patterns with the roles of their parts, and dictionaries."""

from __future__ import annotations

import struct

import numpy as np

from paddle.dataset.synthetic import names, pack

_TAGS = (
    "A0 A1 A2 A3 A4 A5 AM-ADV AM-CAU AM-DIR AM-DIS AM-EXT AM-LOC AM-MNR AM-MOD AM-NEG AM-PNC AM-PRD AM-TMP "
    "C-A0 C-A1 C-V R-A0 R-A1 R-A2 R-AM-LOC R-AM-MNR R-AM-TMP R-AM-CAU V"
).split()
_PLACES = ["in", "near", "behind"]
_TIMES = ["yesterday", "today", "again"]
_SMALL = ["the", "a", "will", "not", "that", "."]
_NOUNS = names.words(300)
_VERBS = names.words(80, "ng")
_DIMENSION = 32


def _words() -> list[str]:
    return ["unk", "bos", "eos", *_SMALL, *_PLACES, *_TIMES, *_NOUNS, *_VERBS]


def word_dict() -> bytes:
    """wordDict.txt; line 0 is the unknown word."""
    return pack.lines(_words())


def verb_dict() -> bytes:
    """verbDict.txt: the verbs without their ending; line 0 is the unknown verb."""
    return pack.lines(["unk", *(verb.removesuffix("ng") for verb in _VERBS)])


def label_dict() -> bytes:
    """targetDict.txt: 29 tags, B- and I- each, and O."""
    return pack.lines([f"{part}-{tag}" for tag in _TAGS for part in "BI"] + ["O"])


def embedding() -> bytes:
    """emb: a header (version 0, 4 bytes a value, count), then small random word vectors."""
    values = np.random.RandomState(32).uniform(-0.1, 0.1, (len(_words()), _DIMENSION)).astype("<f4")
    return struct.pack("<iIQ", 0, 4, values.size) + values.tobytes()


def corpus() -> bytes:
    """conll05st-tests.tar.gz with 1,000 sentences of one or two verbs."""
    rng = np.random.RandomState(2005)

    def one_of(choices: list[str]) -> str:
        return choices[rng.randint(len(choices))]

    def thing() -> list[str]:
        return [one_of(["the", "a"]), one_of(_NOUNS)]

    word_rows: list[str] = []
    prop_rows: list[str] = []
    for _ in range(1000):
        parts: list[list[tuple[str, list[str]]]] = []
        for clause in range(rng.randint(1, 3)):
            spans = [("A0", thing())] if clause == 0 else [("", ["that"])]
            if rng.randint(3) == 0:
                spans.append(("AM-MOD", ["will"]))
            if rng.randint(4) == 0:
                spans.append(("AM-NEG", ["not"]))
            spans += [("V", [one_of(_VERBS)]), ("A1", thing())]
            if rng.randint(2):
                spans.append(("AM-LOC", [one_of(_PLACES), *thing()]))
            if rng.randint(2):
                spans.append(("AM-TMP", [one_of(_TIMES)]))
            parts.append(spans)
        parts[-1].append(("", ["."]))
        for mine, spans in enumerate(parts):
            for tag, words in spans:
                for place, word in enumerate(words):
                    opened = f"({tag}*" if tag and place == 0 else "*"
                    cell = opened + (")" if tag and place == len(words) - 1 else "")
                    cells = [cell if column == mine else "*" for column in range(len(parts))]
                    word_rows.append(word)
                    prop_rows.append(" ".join([word.removesuffix("ng") if tag == "V" else "-", *cells]))
        word_rows.append("")
        prop_rows.append("")

    folder = "conll05st-release/test.wsj"
    members = [
        (f"{folder}/words/test.wsj.words.gz", pack.gz(pack.lines(word_rows))),
        (f"{folder}/props/test.wsj.props.gz", pack.gz(pack.lines(prop_rows))),
    ]
    return pack.gz(pack.tar(members))
