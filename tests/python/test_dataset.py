"""paddle.dataset: the cache folder, downloads, real files and stand-ins."""

import collections
import gzip
import importlib
import io
import os
import pathlib
import pickle
import re
import shutil
import subprocess
import sys
import tarfile
import zlib

import numpy as np
import pytest

from paddle.dataset import common, image, matfile, synthetic

DATA = pathlib.Path(__file__).resolve().parent.parent / "data"


def module(name):
    return importlib.import_module(f"paddle.dataset.{name}")


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty cache folder, no stand-ins asked for, nothing said yet."""
    monkeypatch.setattr(common, "DATA_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(common, "_said", set())
    monkeypatch.delenv("PADDLE_DATASET_SYNTHETIC", raising=False)
    return tmp_path / "home"


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    return tmp_path_factory.mktemp("made")


@pytest.fixture
def stand_ins(made, monkeypatch):
    """A cache folder without real files, with stand-ins asked for."""
    monkeypatch.setattr(common, "DATA_HOME", str(made))
    monkeypatch.setattr(common, "_said", set())
    monkeypatch.setenv("PADDLE_DATASET_SYNTHETIC", "1")


def put(home, folder, name, source):
    (home / folder).mkdir(parents=True, exist_ok=True)
    shutil.copy(source, home / folder / name)


# The cache folder and downloads


def test_home_is_taken_from_the_environment(tmp_path):
    code = "import paddle.dataset.common as c; print(c.DATA_HOME)"
    env = {**os.environ, "HOME": str(tmp_path)}
    env.pop("PADDLE_DATASET_HOME", None)

    def ask():
        return subprocess.run(
            [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
        ).stdout

    assert ask().strip() == str(tmp_path / ".cache/paddle/dataset")
    assert not (tmp_path / ".cache").exists()
    env["PADDLE_DATASET_HOME"] = "~/mine"
    assert ask().strip() == str(tmp_path / "mine")


def test_both_names_are_found(home):
    url = "file:///nowhere/demo%2Fdata.txt"
    for name in ("data.txt", "demo%2Fdata.txt"):
        path = home / "demo" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("here")
        md5 = common.md5file(path)
        assert common.download(url, "demo", md5) == str(path)
        assert common.download("file:///nowhere/data.txt", "demo", md5) == str(path)
        path.unlink()


def test_the_right_md5_comes_first(home):
    (home / "demo").mkdir(parents=True)
    (home / "demo/data.txt").write_text("wrong")
    (home / "demo/demo%2Fdata.txt").write_text("right")
    md5 = common.md5file(home / "demo/demo%2Fdata.txt")
    assert common.download("file:///nowhere/data.txt", "demo", md5).endswith("demo%2Fdata.txt")


def test_other_md5_is_used_with_one_warning(home, recwarn):
    (home / "demo").mkdir(parents=True)
    (home / "demo/data.txt").write_text("mine")
    for _ in range(3):
        common.download("file:///nowhere/data.txt", "demo", "0" * 32)
    (warning,) = [str(each.message) for each in recwarn]
    assert common.md5file(home / "demo/data.txt") in warning and "0" * 32 in warning
    assert (home / "demo/data.txt").read_text() == "mine"


def test_download(home, tmp_path):
    (tmp_path / "data.txt").write_text("from afar")
    url, md5 = f"file://{tmp_path}/data.txt", common.md5file(tmp_path / "data.txt")
    assert pathlib.Path(common.download(url, "demo", md5)).read_text() == "from afar"
    assert common.download(url, "demo", md5, "saved.txt") == str(home / "demo/data.txt")
    with pytest.raises(RuntimeError, match=f"what came has md5 {md5}"):
        common.download(url, "other", "0" * 32)
    assert os.listdir(home / "other") == []


def test_failed_download_says_what_to_do(home, monkeypatch):
    mnist = module("mnist")
    url = "file:///nowhere/train-images-idx3-ubyte.gz"
    monkeypatch.setattr(mnist, "_TRAIN", [(url, mnist.TRAIN_IMAGE_MD5), mnist._TRAIN[1]])
    with pytest.raises(RuntimeError) as caught:
        mnist.train()
    text = str(caught.value)
    for part in (url, mnist.TRAIN_IMAGE_MD5, str(home / "mnist/train-images-idx3-ubyte.gz")):
        assert part in text
    assert "3 tries" in text and "PADDLE_DATASET_SYNTHETIC=1" in text


def test_no_stand_in_no_hint(home):
    with pytest.raises(RuntimeError) as caught:
        common.download("file:///nowhere/fit_a_line.fluid.tar", "uci_housing", "0" * 32)
    assert "SYNTHETIC" not in str(caught.value)


def test_split_and_cluster_files_reader(tmp_path):
    pattern = str(tmp_path / "part-%05d.pickle")
    common.split(lambda: range(10), 4, pattern)
    assert sorted(os.listdir(tmp_path)) == [f"part-{n:05d}.pickle" for n in range(3)]
    read = lambda count, place: list(common.cluster_files_reader(str(tmp_path / "part-*"), count, place)())
    assert read(1, 0) == list(range(10))
    assert read(2, 0) == [0, 1, 2, 3, 8, 9] and read(2, 1) == [4, 5, 6, 7]
    write_text = lambda samples, out: out.write(" ".join(map(str, samples)))
    common.split(lambda: range(3), 2, str(tmp_path / "text-%d"), write_text)
    loader = lambda text: text.read().split(" ")
    assert list(common.cluster_files_reader(str(tmp_path / "text-*"), 1, 0, loader)()) == ["0", "1", "2"]


def test_recordio_is_refused(tmp_path):
    with pytest.raises(RuntimeError, match="(?s)RecordIO.*common.split"):
        common.convert(str(tmp_path), lambda: [], 10, "demo")
    for name in (
        "mnist",
        "cifar",
        "imdb",
        "imikolov",
        "movielens",
        "conll05",
        "sentiment",
        "uci_housing",
        "wmt14",
    ):
        with pytest.raises(RuntimeError, match="RecordIO"):
            module(name).convert(str(tmp_path))


# Real files


def test_uci_housing(home, recwarn):
    put(home, "uci_housing", "housing.data", DATA / "uci_housing/housing.data")
    uci = module("uci_housing")
    train, test = list(uci.train()()), list(uci.test()())
    assert not recwarn.list
    assert (len(train), len(test)) == (404, 102)
    assert all(
        x.dtype == y.dtype == np.float64 and x.shape == (13,) and y.shape == (1,) for x, y in train + test
    )
    raw = np.loadtxt(DATA / "uci_housing/housing.data")
    x = np.array([sample[0] for sample in train + test])
    want = (raw - raw.mean(axis=0)) / (raw.max(axis=0) - raw.min(axis=0))
    assert np.allclose(x, want[:, :-1], atol=1e-12)
    assert np.array_equal(np.concatenate([sample[1] for sample in train + test]), raw[:, -1])
    assert np.array_equal(uci.predict_reader()[0], test[0][0])
    assert len(uci.feature_names) == 13


def test_broken_housing_file(home):
    (home / "uci_housing").mkdir(parents=True)
    (home / "uci_housing/housing.data").write_text("1 2 3")
    with pytest.warns(UserWarning), pytest.raises(ValueError, match="3 numbers do not make rows of 14"):
        module("uci_housing").train()


@pytest.fixture
def real_mnist(home):
    for path in (DATA / "mnist").iterdir():
        put(home, "mnist", path.name, path)
    return home


@pytest.mark.filterwarnings("ignore:paddle.dataset")
def test_mnist(real_mnist):
    mnist = module("mnist")
    train, test = list(mnist.train()()), list(mnist.test()())
    assert (len(train), len(test)) == (2000, 500)
    assert [label for _, label in train[:10]] == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
    assert [label for _, label in test[:10]] == [7, 2, 1, 0, 4, 1, 4, 9, 5, 9]
    pixels, label = train[0]
    assert pixels.dtype == np.float32 and pixels.shape == (784,) and type(label) is int
    raw = gzip.decompress((DATA / "mnist/train-images-idx3-ubyte.gz").read_bytes())[16 : 16 + 784]
    assert np.array_equal(pixels, np.frombuffer(raw, np.uint8).astype("float32") / 255.0 * 2.0 - 1.0)


@pytest.mark.filterwarnings("ignore:paddle.dataset")
@pytest.mark.parametrize(
    "broken, text",
    [
        (b"\0\0\x08\x03", "not an IDX file"),
        (b"\0\0\x08\x03" + bytes([0, 0, 0, 9, 0, 0, 0, 28, 0, 0, 0, 28]), "only 0 bytes follow"),
        (b"\0\0\x08\x03" + bytes([0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 7]), "has 1 images.* 2000 labels"),
    ],
)
def test_broken_mnist_files(real_mnist, broken, text):
    (real_mnist / "mnist/train-images-idx3-ubyte.gz").write_bytes(gzip.compress(broken))
    with pytest.raises(ValueError, match=text):
        next(module("mnist").train()())


@pytest.mark.filterwarnings("ignore:paddle.dataset")
def test_cifar_runs_no_foreign_code(home):
    class Evil:
        def __reduce__(self):
            return os.system, ("true",)

    (home / "cifar").mkdir(parents=True)
    with tarfile.open(home / "cifar/cifar-10-python.tar.gz", "w:gz") as tar:
        data = pickle.dumps({b"data": Evil()})
        info = tarfile.TarInfo("cifar-10-batches-py/data_batch_1")
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))
    with pytest.raises(pickle.UnpicklingError, match="system"):
        next(module("cifar").train10()())


# Stand-ins


def ids_below(samples, place, limit):
    return all(0 <= number < limit for sample in samples for number in sample[place])


def test_stand_in_is_said_once_and_only_when_asked(stand_ins, capsys):
    for _ in range(2):
        module("uci_housing").train()
    lines = [line for line in capsys.readouterr().err.splitlines() if "synthetic" in line]
    assert len(lines) == 1 and lines[0].endswith("uci_housing/housing.data")


def test_real_file_goes_before_stand_in(home, monkeypatch, capsys):
    monkeypatch.setenv("PADDLE_DATASET_SYNTHETIC", "1")
    put(home, "uci_housing", "housing.data", DATA / "uci_housing/housing.data")
    assert next(module("uci_housing").train()())[1] == [24.0]
    assert capsys.readouterr().err == ""


def test_images_and_labels_are_never_mixed(home, monkeypatch):
    monkeypatch.setenv("PADDLE_DATASET_SYNTHETIC", "1")
    name = "train-images-idx3-ubyte.gz"
    put(home, "mnist", name, DATA / "mnist" / name)
    with pytest.warns(UserWarning):
        assert len(list(module("mnist").train()())) == 4000


def test_stand_ins_are_the_same_every_time():
    from paddle.dataset.synthetic import roles, tables, text, translation

    for make in (tables.housing, text.imikolov, roles.corpus, translation.wmt16):
        assert zlib.crc32(make()) == zlib.crc32(make())


def test_stand_in_where_home_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    path = synthetic.file_for(str(tmp_path / "file/synthetic"), "conll05st", "conll05st%2FverbDict.txt")
    assert os.path.getsize(path) and path.startswith(str(tmp_path))


def test_every_data_set_has_stand_ins(stand_ins):
    common.fetch_all()


def test_uci_housing_stand_in(stand_ins):
    uci = module("uci_housing")
    train, test = ([np.array(part) for part in zip(*reader())] for reader in (uci.train(), uci.test()))
    assert train[0].shape == (404, 13) and test[1].shape == (102, 1) and train[0].dtype == np.float64
    with_bias = lambda x: np.column_stack([x, np.ones(len(x))])
    weights = np.linalg.lstsq(with_bias(train[0]), train[1], rcond=None)[0]
    assert np.mean((with_bias(test[0]) @ weights - test[1]) ** 2) < 10 < np.var(test[1])


def test_mnist_stand_in_can_be_learned(stand_ins):
    mnist = module("mnist")
    (x, y), (tx, ty) = (
        [np.array(part) for part in zip(*reader())] for reader in (mnist.train(), mnist.test())
    )
    assert x.dtype == np.float32 and x.shape == (4000, 784) and x.min() == -1 and 0.9 < x.max() <= 1
    assert set(y) == set(range(10))
    rng = np.random.RandomState(0)
    w1, w2 = rng.randn(784, 64) * 0.03, rng.randn(64, 10) * 0.1
    for start in range(0, len(x), 20):
        part, labels = x[start : start + 20], y[start : start + 20]
        hidden = np.maximum(part @ w1, 0)
        score = np.exp(hidden @ w2)
        error = (score / score.sum(1, keepdims=True) - np.eye(10)[labels]) / 20
        w1 -= 0.05 * part.T @ ((error @ w2.T) * (hidden > 0))
        w2 -= 0.05 * hidden.T @ error
    assert np.mean((np.maximum(tx @ w1, 0) @ w2).argmax(1) == ty) > 0.95


@pytest.mark.parametrize("classes", [10, 100])
def test_cifar_stand_in(stand_ins, classes):
    cifar = module("cifar")
    train, test = (getattr(cifar, f"{part}{classes}") for part in ("train", "test"))
    (x, y), (tx, ty) = ([np.array(part) for part in zip(*reader())] for reader in (train(), test()))
    assert x.dtype == np.float32 and x.shape[1:] == (3072,) and 0 <= x.min() and x.max() <= 1
    assert set(y) == set(ty) == set(range(classes))
    means = np.stack([x[y == each].mean(axis=0) for each in range(classes)])
    found = ((tx[:, None, :] - means[None]) ** 2).sum(-1).argmin(1) if classes == 10 else None
    assert found is None or np.mean(found == ty) > 0.7


def test_cifar_cycle(stand_ins):
    endless = module("cifar").test10(cycle=True)()
    first = next(endless)
    for _ in range(499):
        next(endless)
    assert np.array_equal(next(endless)[0], first[0])


def test_imikolov_stand_in(stand_ins):
    imikolov = module("imikolov")
    words = imikolov.build_dict()
    assert sorted(words.values()) == list(range(len(words))) and words["<unk>"] == len(words) - 1
    assert all(word in words for word in ("among", "a", "group", "of", b"of"))
    assert words["of"] == words[b"of"] == words.get("of") and words.get("nowhere", 7) == 7
    assert len(words) == 303, "300 words, the two ends of a sentence, and <unk>"
    grams = list(imikolov.train(words, 5)())
    assert all(type(gram) is tuple and len(gram) == 5 and max(gram) < len(words) for gram in grams)
    # The two words before tell the next one in most cases.
    counts = collections.defaultdict(collections.Counter)
    for gram in grams:
        counts[gram[-2]][gram[-1]] += 1
    tests = list(imikolov.test(words, 5)())
    hits = sum(bool(counts[gram[-2]]) and counts[gram[-2]].most_common(1)[0][0] == gram[-1] for gram in tests)
    assert hits > 0.4 * len(tests)
    for source, target in imikolov.test(words, 8, imikolov.DataType.SEQ)():
        assert source[1:] == target[:-1] and source[0] == words["<s>"] and target[-1] == words["<e>"]
        assert len(source) <= 8
    own = {word if isinstance(word, str) else word.decode(): number for word, number in words.items()}
    assert list(imikolov.train(own, 5)()) == grams
    with pytest.raises(ValueError, match="data_type must be"):
        imikolov.train(words, 5, 3)


def test_movielens_stand_in(stand_ins):
    movielens = module("movielens")
    train, test = list(movielens.train()()), list(movielens.test()())
    assert len(train) + len(test) == 12000 and 1100 < len(test) < 1300
    titles, categories = movielens.get_movie_title_dict(), movielens.movie_categories()
    assert movielens.max_user_id() == 6040 and movielens.max_movie_id() == 3952
    assert movielens.max_job_id() == 20 and len(categories) == 18 and len(titles) > 4140
    for user, gender, age, job, film, _, _, (score,) in train:
        assert 1 <= user <= 6040 and gender in (0, 1) and age < len(movielens.age_table) and job <= 20
        assert 1 <= film <= 3952 and -3 <= score <= 5
    assert ids_below(train, 5, 18) and ids_below(train, 6, len(titles))
    film = movielens.movie_info()[783]
    assert film.title.startswith("Hunchback") and film.value()[0] == 783
    assert "id(1)" in repr(movielens.user_info()[1])


def word_scores(samples, size):
    """Bag-of-words rows and labels."""
    return np.array([np.bincount(words, minlength=size) for words, _ in samples]), [
        label for _, label in samples
    ]


def check_reviews(train, test, size):
    assert {label for _, label in train} == {0, 1} and ids_below(train, 0, size)
    x, y = word_scores(train, size)
    tx, ty = word_scores(test, size)
    weights = np.linalg.lstsq(x, np.array(y) - 0.5, rcond=None)[0]
    assert np.mean((tx @ weights > 0) == ty) > 0.85


def test_imdb_stand_in(stand_ins):
    imdb = module("imdb")
    words = imdb.word_dict()
    assert words["<unk>"] == len(words) - 1 and all(
        each in words for each in ("great", "movie", "bad", "read")
    )
    train, test = imdb.train(words), imdb.test(words)
    check_reviews(list(train()), list(test()), len(words))
    assert list(train) == list(train())


def test_sentiment_stand_in(stand_ins):
    sentiment = module("sentiment")
    words = sentiment.get_word_dict()
    assert [number for _, number in words] == list(range(len(words)))
    train, test = sentiment.train(), sentiment.test()
    assert next(train)[1] == 0 and next(train)[1] == 1
    assert len(list(train)) == 1600 and len(list(test())) == 400
    check_reviews(list(train), list(test), len(words))


def test_conll05_stand_in(stand_ins):
    conll05 = module("conll05")
    words, verbs, labels = conll05.get_dict()
    assert len(labels) == 59 and labels["O"] == 58 and labels["I-A0"] == labels["B-A0"] + 1
    samples = list(conll05.test()())
    assert len(samples) > 1000
    for sample in samples:
        assert len(sample) == 9 and len({len(each) for each in sample}) == 1
        place = sample[8].index(labels["B-V"])
        assert sample[3][0] == sample[0][place] and sample[7][place] == 1 and sum(sample[7]) <= 5
    for place in range(6):
        assert ids_below(samples, place, len(words))
    assert ids_below(samples, 6, len(verbs)) and ids_below(samples, 8, len(labels))
    vectors = np.fromfile(conll05.get_embedding(), np.float32, offset=16)
    assert vectors.size == len(words) * 32


def test_conll05_brackets():
    labels = module("conll05")._labels
    assert list(labels(["*", "(A0*", "*", "*)", "(V*)", "*"])) == ["O", "B-A0", "I-A0", "I-A0", "B-V", "O"]
    with pytest.raises(ValueError, match=r"cannot read the label 'A0\)'"):
        list(labels(["A0)"]))


def test_wmt14_stand_in(stand_ins):
    wmt14 = module("wmt14")
    source, target = wmt14.get_dict(30000)
    assert len(source) == len(target) == 30000 and source[0] == "<s>" and target[2] == "<unk>"
    assert wmt14.get_dict(10, reverse=False)[0]["<e>"] == 1
    for reader, count in ((wmt14.train, 2000), (wmt14.test, 200), (wmt14.gen, 100)):
        samples = list(reader(100)())
        assert len(samples) == count and all(ids_below(samples, place, 100) for place in range(3))
        for ids, into, out in samples:
            assert ids[0] == into[0] == 0 and ids[-1] == out[-1] == 1 and into[1:] == out[:-1]
    with pytest.raises(AttributeError, match="paddle.v2.parameters is not there yet. It belongs to the layer API of v2"):
        wmt14.model()


def test_wmt16_stand_in(stand_ins):
    wmt16 = module("wmt16")
    assert len(wmt16.get_dict("en", 50)) == 50 and wmt16.get_dict("de", 50, reverse=True)[2] == "<unk>"
    for reader, count in ((wmt16.train, 2000), (wmt16.test, 200), (wmt16.validation, 200)):
        samples = list(reader(80, 60)())
        assert len(samples) == count and ids_below(samples, 0, 80) and ids_below(samples, 2, 60)
        swapped = list(reader(60, 80, "de")())
        assert swapped[0][0][1:-1] == samples[0][2][:-1]
    with pytest.raises(ValueError, match="'en'.*'de'.*got 'fr'"):
        wmt16.train(10, 10, "fr")


def test_mq2007_stand_in(stand_ins):
    mq2007 = module("mq2007")
    for label, better, worse in mq2007.train():
        assert label.tolist() == [1] and better.shape == worse.shape == (46,)
    for relevance, features in mq2007.test(format="listwise")():
        assert relevance.shape == (len(features), 1) and features.shape[1] == 46
        assert relevance.max() > 0 and np.all(np.diff(relevance[:, 0]) <= 0)
    assert len(next(mq2007.test(format="plain_txt"))) == 3 and len(next(mq2007.test(format="pointwise"))) == 2
    with pytest.raises(ValueError, match="format must be"):
        mq2007.train(format="other")
    row = mq2007.Query.parse("2 qid:10 " + " ".join(f"{n}:NULL" for n in range(1, 47)) + " #docid = 1", -7)
    assert (row.relevance_score, row.query_id, row.feature_vector, row.description) == (
        2,
        10,
        [-7] * 46,
        "docid = 1",
    )


def test_flowers_stand_in(stand_ins):
    flowers = module("flowers")
    samples = list(flowers.test()())
    assert sorted(label for _, label in samples) == list(range(102))
    assert all(pixels.shape == (3 * 224 * 224,) and pixels.dtype == np.float32 for pixels, _ in samples)
    raw = list(flowers.train(mapper=lambda sample: sample, use_xmap=False)())
    assert len(raw) == 408 and isinstance(raw[0][0], bytes)
    assert len(list(flowers.valid(mapper=lambda sample: sample[1])())) == 102


def test_voc2012_stand_in(stand_ins):
    voc = module("voc2012")
    assert [len(list(reader()())) for reader in (voc.train, voc.test, voc.val)] == [80, 60, 20]
    for pixels, label in voc.val()():
        assert pixels.dtype == label.dtype == np.uint8 and pixels.shape == (*label.shape, 3)
        assert {0, 255} < set(np.unique(label))


# Images and MATLAB files


def test_image_transforms():
    im = np.arange(6 * 8 * 3, dtype=np.uint8).reshape(6, 8, 3)
    assert image.resize_short(im, 12).shape == (12, 16, 3)
    assert image.resize_short(im.transpose(1, 0, 2), 12).shape == (16, 12, 3)
    assert np.array_equal(image.resize_short(im, 6), im)
    flat = np.full((5, 7, 3), 200, np.uint8)
    assert np.all(image.resize_short(flat, 9) == 200)
    assert np.array_equal(image.center_crop(im, 4), im[1:5, 2:6])
    assert np.array_equal(image.left_right_flip(im)[:, 0], im[:, -1])
    assert image.random_crop(im, 4).shape == (4, 4, 3)
    assert np.array_equal(image.to_chw(im), im.transpose(2, 0, 1))
    planes = image.simple_transform(im, 6, 4, False, mean=[1, 2, 3])
    assert planes.dtype == np.float32
    assert np.array_equal(planes, im[1:5, 2:6].transpose(2, 0, 1) - np.array([1, 2, 3.0])[:, None, None])
    assert image.simple_transform(im[..., 0], 6, 4, True, is_color=False).shape == (4, 4)
    with pytest.raises(ValueError, match="2 dimensions"):
        image.to_chw(im[..., 0])


def test_image_files(tmp_path):
    im = np.random.RandomState(0).randint(0, 256, (3, 2, 3)).astype(np.uint8)
    data = b"P6\n# a comment\n2 3\n255\n" + im.tobytes()
    assert np.array_equal(image.decode(data), im)
    assert np.array_equal(image.load_image_bytes(data), im[..., ::-1])
    gray = image.load_image_bytes(data, is_color=False)
    assert gray.shape == (3, 2) and abs(float(gray[0, 0]) - im[0, 0] @ [0.299, 0.587, 0.114]) <= 0.5
    (tmp_path / "a.ppm").write_bytes(data)
    assert image.load_and_transform(str(tmp_path / "a.ppm"), 2, 2, False).shape == (3, 2, 2)
    with pytest.raises(ValueError, match="cut off"):
        image.decode(data[:-1])


def test_batch_images_from_tar(tmp_path):
    path = tmp_path / "images.tar"
    with tarfile.open(path, "w") as tar:
        for number in range(5):
            info = tarfile.TarInfo(f"{number}.jpg")
            info.size = 1
            tar.addfile(info, io.BytesIO(b"%d" % number))
    labels = {f"{number}.jpg": number for number in (0, 1, 3, 4)}
    listed = image.batch_images_from_tar(str(path), "train", labels, 3)
    files = pathlib.Path(listed).read_text().split()
    batches = [pickle.loads(pathlib.Path(file).read_bytes()) for file in files]
    assert [batch["label"] for batch in batches] == [[0, 1, 3], [4]]
    assert batches[1]["data"] == [b"4"]
    assert image.batch_images_from_tar(str(path), "train", {}) == listed


def test_matfile(tmp_path):
    arrays = {"a": np.arange(6, dtype=np.uint16).reshape(2, 3), "longer_name": np.array([[1.5]])}
    plain = matfile.dump(arrays)
    (tmp_path / "plain.mat").write_bytes(plain)
    # MATLAB itself compresses each matrix, and puts short data into the tag.
    size = 8 + int.from_bytes(plain[132:136], "little")
    packed = zlib.compress(plain[128 : 128 + size])
    head = (15).to_bytes(4, "little") + len(packed).to_bytes(4, "little")
    (tmp_path / "packed.mat").write_bytes(plain[:128] + head + packed + plain[128 + size :])
    for name in ("plain.mat", "packed.mat"):
        got = matfile.load(str(tmp_path / name))
        assert got.keys() == arrays.keys() and all(np.array_equal(got[key], arrays[key]) for key in arrays)
    (tmp_path / "cut.mat").write_bytes(plain[:150])
    with pytest.raises(ValueError, match="cannot be read"):
        matfile.load(str(tmp_path / "cut.mat"))
    (tmp_path / "text.mat").write_text("no")
    with pytest.raises(ValueError, match="not a MATLAB 5 file"):
        matfile.load(str(tmp_path / "text.mat"))


def test_the_page_on_data_sets_tells_the_truth(stand_ins):
    page = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "DATASETS.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (?:`(\w+)` )?\| `(.+?)` \| (\d+) \|", page, re.MULTILINE)
    assert len(rows) > 20
    name = None
    for found, call, count in rows:
        name = found or name
        reader = eval(call, {**vars(module(name)), "__builtins__": {}})
        assert sum(1 for _ in (reader() if callable(reader) else reader)) == int(count), f"{name}.{call}"
