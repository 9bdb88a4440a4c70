"""DTD by code: class folders, and ten partitions as lists of `<class>/<file>`."""

import numpy as np

from tests.fakes.fake import Case, Fake, tar
from tests.fakes.mutations import FILES
from tests.fakes.pictures import jpeg, picture
from tests.fakes.scale import scaled

CLASSES = ("banded", "blotchy", "braided", "zigzagged")
SPLITS = ("train", "val", "test")


def _build() -> Fake:
    rng = np.random.default_rng(0)
    numbers = (2, 17, 40, 85, 101, *range(131, 126 + scaled(6)))
    names = [f"{name}/{name}_{number:04d}.jpg" for name in CLASSES for number in numbers]
    files = {f"dtd/images/{name}": jpeg(picture(rng, 24, 20)) for name in names}
    files["dtd/imdb/imdb.mat"] = b"not read"
    files["dtd/labels/labels_joint_anno.txt"] = b"banded/banded_0002.jpg banded\n"
    for partition in range(1, 11):
        order = rng.permutation(names).tolist()
        for number, split in enumerate(SPLITS):
            listed = sorted(order[scaled(8 * number) : scaled(8 * number + 8)])
            files[f"dtd/labels/{split}{partition}.txt"] = "".join(f"{name}\n" for name in listed).encode()
    arguments = [{}, *({"split": split, "partition": partition} for split in SPLITS for partition in (1, 4, 10))]
    bad = ({"split": "all"}, {"partition": 12.5})
    return Fake("dtd", {"dtd-r1.0.1.tar.gz": tar(files)}, [Case("DTDRecord", arguments, bad, FILES)])


FAKES = (_build(),)
