"""Pictures from a folder: what comes, in which order, and what does not come."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from mlflow_resilience.errors import UsageError
from mlflow_resilience.pipelines import images
from mlflow_resilience.training import reproducible
from mlflow_resilience.training.records import Records

WORDS = "flip:both,rotate:0.1,zoom:0.2,shift:0.1,noise:0.05"


def epoch(data: tf.data.Dataset) -> tuple[np.ndarray, np.ndarray]:
    batches = list(data)
    return np.concatenate([x for x, _ in batches]), np.concatenate([y for _, y in batches])


def test_each_class_gives_its_share_to_validation(pictures: Path) -> None:
    """A quarter of twelve and of eight; labels follow the names; no picture is in both."""
    data = images(pictures, size=(24, 30), validation=0.25, batch_size=4)
    (x, y), (held, labels) = epoch(data.train), epoch(data.validation)
    assert data.classes == ("cat", "dog")
    assert (data.training_records, data.validation_records) == (len(x), len(held)) == (15, 5)
    assert list(np.bincount(y)) == [9, 6] and list(np.bincount(labels)) == [3, 2]
    assert x.dtype == np.float32 and y.dtype == np.int32 and x.min() >= 0 and x.max() <= 1
    assert not {each.tobytes() for each in x} & {each.tobytes() for each in held}


def test_pixels_are_those_of_the_file(pictures: Path) -> None:
    """Without another size, nothing is changed but the scale."""
    data = images(pictures, size=(24, 30), validation=0.0)
    x, _ = epoch(data.train)
    expected = {np.asarray(Image.open(path)).tobytes() for path in pictures.glob("*/*.[pb][nm][gp]")}
    found = {np.round(each * 255).astype("uint8").tobytes() for each in x}
    assert len(expected) == 10 and expected <= found
    assert data.validation is None


def test_the_order_is_new_in_each_epoch_and_follows_from_the_seed(pictures: Path) -> None:
    """Two pipelines of one seed agree in both epochs, and one of another seed does not."""
    one, same, other = (images(pictures, size=(8, 8), augment=WORDS, seed=seed).train for seed in (1, 1, 2))
    first, second = epoch(one)[0], epoch(one)[0]
    assert np.array_equal(first, epoch(same)[0]) and np.array_equal(second, epoch(same)[0])
    assert not np.array_equal(first, second)
    assert not np.array_equal(first, epoch(other)[0])


def test_augmentation_comes_after_the_cache(pictures: Path, tmp_path: Path) -> None:
    """What is kept is as it was decoded: both epochs are those of a pipeline without a cache."""
    plain = images(pictures, size=(8, 8), augment=WORDS, seed=1).train
    cached = images(pictures, size=(8, 8), augment=WORDS, seed=1, cache=tmp_path / "kept").train
    for _ in range(2):
        assert np.array_equal(epoch(plain)[0], epoch(cached)[0])
    kept = list((tmp_path / "kept").iterdir())
    assert len(kept) == 20 and {path.stat().st_size for path in kept} == {8 * 8 * 3}


def test_the_cache_is_read_and_follows_a_changed_picture(pictures: Path, tmp_path: Path) -> None:
    """Pixels come from the kept file; a picture that was written anew is decoded anew."""
    keep = tmp_path / "kept"
    images(pictures, size=(8, 8), cache=keep)
    for path in keep.iterdir():
        path.write_bytes(bytes(8 * 8 * 3))
    assert epoch(images(pictures, size=(8, 8), cache=keep).train)[0].max() == 0
    for path in pictures.glob("*/*"):
        Image.fromarray(np.full((9, 9, 3), 200, np.uint8)).save(path)
    x, _ = epoch(images(pictures, size=(8, 8), cache=keep).train)
    assert x.min() > 0.7


@pytest.mark.parametrize("cached", [False, True])
def test_a_damaged_picture_fails_when_it_is_met_and_has_a_name(
    cached: bool, pictures: Path, tmp_path: Path, damaged: Callable[[str], Path]
) -> None:
    """Building the pipeline bears it; reading it fails; recovery finds the file."""
    path = damaged("dog/03.jpeg")
    data = images(pictures, size=(8, 8), batch_size=4, validation=0.0, cache=tmp_path / "kept" if cached else False)
    with pytest.raises(tf.errors.InvalidArgumentError):
        epoch(data.train)
    records = Records(data.train, iterators=1, taken=0)
    read = 0
    with pytest.raises(StopIteration):
        while True:
            batch: Any = records.next_batch()
            read += len(batch[1])
    assert read == 19
    assert [bad.identity for bad in records.bad] == [str(path)]


def test_its_iterator_can_be_stored_and_it_repeats_itself(pictures: Path, tmp_path: Path) -> None:
    """Nothing in it has a state of its own: a stored iterator goes on with the very next batch."""
    data = images(pictures, size=(8, 8), batch_size=4, augment=WORDS, cache=tmp_path / "kept").train
    assert reproducible.findings(data) == []
    iterator = iter(data)
    next(iterator)
    place = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "place"))
    expected, _ = next(iterator)
    again = iter(data)
    tf.train.Checkpoint(iterator=again).read(place)
    assert np.array_equal(next(again)[0], expected)


def test_a_function_of_ones_own_augments(pictures: Path) -> None:
    """It gets a picture and a key, which differs from record to record and from epoch to epoch."""
    keys: Any = images(pictures, size=(2, 2), augment=lambda x, key: tf.zeros_like(x) + tf.cast(key[0] % 97, x.dtype))
    first, second = epoch(keys.train)[0], epoch(keys.train)[0]
    assert len(np.unique(first)) == 1 and first.max() != second.max()


def test_grey_pictures(pictures: Path) -> None:
    """One channel where one is asked for, of files that can give it."""
    with pytest.raises(UsageError, match="GIF and BMP cannot be read as grey"):
        images(pictures, size=(8, 8), channels=1)
    for path in pictures.glob("*/*.bmp"):
        path.unlink()
    assert epoch(images(pictures, size=(8, 8), channels=1).train)[0].shape[1:] == (8, 8, 1)


def test_the_first_picture_of_an_animation(pictures: Path) -> None:
    """A GIF gives one picture."""
    frames = [Image.fromarray(np.full((6, 6), value, np.uint8)) for value in (0, 255)]
    frames[0].save(pictures / "cat" / "moving.gif", save_all=True, append_images=frames[1:])
    assert images(pictures, size=(8, 8)).training_records + images(pictures, size=(8, 8)).validation_records == 21


def test_the_fingerprint_tells_other_pictures(pictures: Path) -> None:
    """The same for the same files, another one when one is gone."""
    before = images(pictures, size=(8, 8)).fingerprint
    assert images(pictures, size=(8, 8)).fingerprint == before
    (pictures / "cat" / "00.jpg").unlink()
    assert images(pictures, size=(8, 8)).fingerprint != before


def test_what_cannot_be_is_one_line(pictures: Path, tmp_path: Path) -> None:
    """Each mistake says what is wrong and where."""
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="No such file"):
        images(tmp_path / "nowhere", size=(8, 8))
    with pytest.raises(UsageError, match="no folders in it"):
        images(tmp_path / "empty", size=(8, 8))
    with pytest.raises(UsageError, match="cannot be read as a folder"):
        images(pictures / "cat" / "00.jpg", size=(8, 8))
    for more, told in (
        ({"validation": 1.0}, "validation=1.0"),
        ({"channels": 2}, "channels=2"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"augment": "fly"}, "'fly' is not known here"),
        ({"cache": pictures / "cat" / "00.jpg"}, "cannot be written"),
    ):
        with pytest.raises(UsageError, match=told):
            images(pictures, **{"size": (8, 8), **more})  # type: ignore[arg-type]
    (pictures / "bird").mkdir()
    with pytest.raises(UsageError, match=r"bird: no pictures in it"):
        images(pictures, size=(8, 8))
