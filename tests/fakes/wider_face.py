"""WIDER FACE by code: zips of images, lists in an order of their own; a photograph without faces, a grey one."""

import numpy as np

from tests.fakes.fake import Case, Fake, zipped
from tests.fakes.mutations import IMG_INFO
from tests.fakes.pictures import encoded, jpeg, picture
from tests.fakes.scale import scaled

EVENTS = ("0--Parade", "10--People_Marching", "2--Demonstration")


def _faces(rng: np.random.Generator, count: int) -> str:
    if not count:
        return "0\n0 0 0 0 0 0 0 0 0 0 \n"
    boxes = np.concatenate([rng.integers(0, 40, (count, 4)), rng.integers(0, 3, (count, 6))], 1)
    return f"{count}\n" + "".join(f"{' '.join(map(str, box))} \n" for box in boxes.tolist())


def _build() -> Fake:
    rng = np.random.default_rng(0)
    files: dict[str, bytes] = {}
    lists: dict[str, str] = {"readme.txt": "x1, y1, w, h, blur, expression, illumination, invalid, occlusion, pose"}
    for split, count in (("train", 3), ("val", 2), ("test", 2)):
        images = {f"WIDER_{split}/": b"", f"WIDER_{split}/images/": b""}
        listed = ""
        for event in EVENTS:
            for number in range(scaled(count)):
                name = f"{event}/{event.partition('--')[0]}_{split}_{number}_{7 * number}.jpg"
                image = picture(rng, 40 + number % 20, 30)
                images[f"WIDER_{split}/images/{name}"] = jpeg(image.convert("L") if number == 1 else image)
                listed += f"{name}\n" + ("" if split == "test" else _faces(rng, number % 20))
        images[f"WIDER_{split}/images/{EVENTS[0]}/in_no_list.jpg"] = encoded(picture(rng, 9, 9), "JPEG")
        files[f"WIDER_{split}.zip"] = zipped(dict(reversed(images.items())))
        lists[f"wider_face_{split}_{'filelist' if split == 'test' else 'bbx_gt'}.txt"] = listed
        lists[f"wider_face_{split}.mat"] = "not read"
    files["wider_face_split.zip"] = zipped({f"wider_face_split/{name}": text.encode() for name, text in lists.items()})
    bad = ({"split": "valid"}, {"split": 1})
    case = Case("WIDERFaceRecord", ({}, {"split": "val"}, {"split": "test"}), bad, mutations=IMG_INFO)
    return Fake("wider_face", files, [case])


FAKES = (_build(),)
