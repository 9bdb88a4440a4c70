"""CelebA by code: aligned photographs in a zip, and text files with columns of several widths; some rows unsorted."""

from collections.abc import Mapping, Sequence

from numpy.random import Generator

from tests.fakes.fake import Case, by, fake, md5, zipped
from tests.fakes.mutations import Mutations, change, change_item
from tests.fakes.pictures import encoded, jpeg, picture
from tests.fakes.scale import scaled

FIELDS = ("5_o_Clock_Shadow", "Bald", "Male", "Smiling", "Young", *(f"Attribute_{number}" for number in range(6, 41)))
KINDS = ("attr", "identity", "bbox", "landmarks")

MUTATIONS: Mutations = {
    "names reversed": change("filename", lambda names: names[::-1]),
    "one name replaced": change_item("filename", 0, lambda names: names[2]),
    "attributes assigned": change("attr", lambda attr: attr * 7),
    "attributes shortened": change("attr", lambda attr: attr[:3]),
    "an attribute replaced": change_item("attr", 0, lambda attr: attr[1] + 5),
    "another target": lambda ds: setattr(ds, "target_type", ["identity", "bbox"]),
    "no target": lambda ds: setattr(ds, "target_type", []),
}


def _text(rows: Mapping[str, Sequence[int]], width: int, *head: str) -> bytes:
    lines = [f"{name} {' '.join(f'{number:{width}d}' for number in row)}" for name, row in rows.items()]
    return "".join(f"{line}\n" for line in (*head, *lines)).encode()


_ARGUMENTS = [
    {},
    *by("split", "valid", "TEST", "all"),
    *({"split": "all", "target_type": kind} for kind in KINDS[1:]),
    {"target_type": ["landmarks", "attr", "identity", "bbox"]},
    {"split": "valid", "target_type": ["bbox", "identity"]},
    {"target_type": ["identity"]},
]
_BAD = (*by("split", "val", 1), {"target_type": [], "target_transform": print})


def _file_list(files: Mapping[str, bytes]) -> Mapping[str, object]:
    return {"file_list": [("", md5(data), name) for name, data in files.items()]}


@fake("celeba", Case("CelebARecord", _ARGUMENTS, _BAD, MUTATIONS, _file_list))
def celeba(rng: Generator) -> dict[str, bytes]:
    """Aligned photographs, and lists of which some have unsorted rows."""
    names = [f"{number:06d}.jpg" for number in (1, 2, 3, 5, 4, 6, 7, 9, 8, *range(10, 1 + scaled(12)))]
    images = {f"img_align_celeba/{name}": jpeg(picture(rng, 20, 24)) for name in sorted(names)}
    images["img_align_celeba/000003.jpg"] = encoded(picture(rng, 20, 24).convert("L"), "JPEG")
    images["img_align_celeba/000099.jpg"] = jpeg(picture(rng, 9, 9))  # in no list
    partition = dict(zip(names, scaled(1) * [[0], [1], [2], [0], [0], [1], [0], [2], [0], [1], [0], [2]], strict=True))
    signs = {name: (2 * rng.integers(0, 2, len(FIELDS)) - 1).tolist() for name in names}
    identity = {name: rng.integers(1, 10178, 1).tolist() for name in names}
    boxes = {name: rng.integers(0, 2000, 4).tolist() for name in names}
    landmarks = {name: rng.integers(-3, 218, 10).tolist() for name in names}
    points = " ".join(f"point{number}_{axis}" for number in range(5) for axis in "xy")
    return {
        "img_align_celeba.zip": zipped({"img_align_celeba/": b"", **images}),
        "list_attr_celeba.txt": _text(signs, 2, str(len(names)), " ".join(FIELDS) + " "),
        "identity_CelebA.txt": _text(identity, 1),
        "list_bbox_celeba.txt": _text(boxes, 3, str(len(names)), "image_id x_1 y_1 width height"),
        "list_landmarks_align_celeba.txt": _text(landmarks, 4, str(len(names)), points),
        "list_eval_partition.txt": _text(partition, 1),
    }
