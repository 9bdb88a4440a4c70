"""What the pictures on the cards show: plain figures of a few curves, our own drawings, 240 by 180 units large."""

import itertools
import math
from dataclasses import dataclass

from docs.parts.shapes import Point, Shape, disc, fill, line, points

WIDTH, HEIGHT = 240, 180


@dataclass(frozen=True)
class Subject:
    """What a picture shows.

    Attributes:
        words: A dataset whose summary or class names have one of them is drawn with this subject.
        objects: The things in the picture, each of some shapes; the first one is the most important.
        ground: What is behind them.
        points: Parts of the first object, where a dataset has parts or keypoints.
        caption: What a caption says of it.
        number: Its class among those whose names have none of the words.
    """

    words: frozenset[str]
    objects: tuple[tuple[Shape, ...], ...]
    ground: tuple[Shape, ...]
    points: tuple[Point, ...]
    caption: str
    number: int

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """All that the picture shows, from the back to the front."""
        return (*self.ground, *itertools.chain(*self.objects))


def _subject(
    words: str,
    *objects: tuple[Shape, ...],
    ground: tuple[Shape, ...] = (),
    parts: str = "",
    caption: str,
    number: int = 3,
) -> Subject:
    return Subject(frozenset(words.split()), objects, ground, points(parts), caption, number)


_EARTH = fill(0.1, "0,150! 70,140 150,158 240,144! 240,180! 0,180!")

SUBJECTS = (
    _subject(
        "digits",
        (line(0.9, 21, "76,52 92,26 142,22 160,56 134,84 104,86! 140,86 166,118 142,154 92,156 72,128"),),
        caption="The digit three.",
    ),
    _subject(
        "characters",
        (
            line(0.9, 14, "62,66 100,64 136,56"),
            line(0.9, 14, "100,28 104,88 100,152! 70,166 56,136 78,112 140,86 182,118 168,156 132,160"),
            line(0.9, 14, "158,44 172,56 184,72"),
        ),
        caption="A character of a script.",
        number=0,
    ),
    _subject(
        "birds bird",
        (
            fill(0.45, "58,50 84,38 106,56 140,70 172,92 214,124! 206,134! 160,130 116,138 76,118 74,80"),
            fill(0.6, "66,52! 40,62! 66,66!"),
            fill(0.3, "104,76 148,86 184,118 138,122 104,106"),
            disc(0.95, 76, 56, 3.5),
            line(0.6, 4, "112,130 114,154"),
            line(0.6, 4, "130,131 134,155"),
        ),
        ground=(line(0.2, 9, "10,166 90,152 160,160 240,146"),),
        parts="42,62 76,56 84,44 104,60 74,92 94,124 140,104 140,72 122,132 210,126",
        caption="A bird on a branch.",
    ),
    _subject(
        "events",
        (disc(0.4, 62, 74, 20, 25),),
        (disc(0.4, 124, 56, 21, 26),),
        (disc(0.4, 186, 78, 20, 25),),
        ground=(
            fill(0.15, "90,180! 90,110 106,90 142,90 158,110 158,180!"),
            fill(0.22, "26,180! 26,126 44,106 80,106 98,126 98,180!"),
            fill(0.22, "150,180! 150,130 168,110 204,110 222,130 222,180!"),
        ),
        caption="Three people at a party.",
    ),
    _subject(
        "faces face happy",
        (
            disc(0.2, 120, 88, 44, 56),
            fill(0.5, "72,92 68,24 120,14 172,24 168,92 158,58 120,50 82,58"),
            disc(0.8, 103, 82, 4.5),
            disc(0.8, 137, 82, 4.5),
            line(0.5, 3.5, "121,84 114,104! 123,105"),
            line(0.7, 4.5, "101,116 120,132 139,116"),
        ),
        ground=(fill(0.12, "40,180! 44,150 100,142 120,156 140,142 196,150 200,180!"),),
        parts="103,82 137,82 119,104 102,117 138,117",
        caption="A smiling face.",
    ),
    _subject(
        "streets street car cars automobile truck",
        (
            fill(0.5, "30,148! 30,124 38,114 58,110 76,86 128,86 150,110 172,116 176,148!"),
            fill(0.15, "70,110! 84,94 100,94! 100,110!"),
            fill(0.15, "108,110! 108,94! 122,94 138,110!"),
            disc(0.85, 64, 148, 13),
            disc(0.85, 142, 148, 13),
        ),
        (fill(0.4, "206,98! 214,98! 214,152! 206,152!"), disc(0.3, 210, 76, 20, 30)),
        ground=(
            fill(0.1, "0,70! 40,70! 40,44! 76,44! 76,80! 112,80! 112,30! 160,30! 160,62! 240,62! 240,140! 0,140!"),
            fill(0.2, "0,140! 240,140! 240,180! 0,180!"),
        ),
        caption="A car on a street with a tree.",
    ),
    _subject(
        "cats cat",
        (
            fill(0.4, "84,168! 76,116 100,92 140,92 164,116 156,168!"),
            fill(0.5, "84,20! 108,42 132,42 156,20! 164,70 146,100 94,100 76,70"),
            disc(0.95, 105, 66, 4.5, 6),
            disc(0.95, 135, 66, 4.5, 6),
            fill(0.9, "114,78 126,78 120,86"),
            line(0.5, 8, "154,160 190,164 196,128 186,112"),
        ),
        ground=(_EARTH,),
        parts="84,26 156,26 105,66 135,66 120,81 120,124",
        caption="A cat sits and looks.",
    ),
    _subject(
        "dogs dog",
        (
            fill(0.4, "84,168! 76,116 100,92 140,92 164,116 156,168!"),
            fill(0.5, "86,44 104,22 136,22 154,44 158,74 142,106 98,106 82,74"),
            fill(0.75, "94,30! 70,32 58,84 72,96 88,60!"),
            fill(0.75, "146,30! 170,32 182,84 168,96 152,60!"),
            disc(0.95, 106, 58, 4.5),
            disc(0.95, 134, 58, 4.5),
            disc(0.95, 120, 80, 9, 6),
            line(0.5, 8, "152,160 186,152 200,126"),
        ),
        ground=(_EARTH,),
        caption="A dog sits and waits.",
    ),
    _subject(
        "flowers flower leaf leaves weeds plants beans",
        (
            line(0.4, 6, "122,90 116,130 122,180"),
            fill(0.3, "120,140! 140,112 176,112! 166,140 140,150"),
            fill(0.3, "118,156! 96,130 66,132! 76,156 98,164"),
            *(
                disc(0.35, 122 + 30 * math.cos(turn), 62 + 30 * math.sin(turn), 19)
                for turn in (step * math.pi / 3 for step in range(6))
            ),
            disc(0.75, 122, 62, 17),
        ),
        ground=(_EARTH,),
        caption="A flower with two leaves.",
    ),
    _subject(
        "clothes shirt",
        (
            fill(0.7, "88,26! 152,26! 196,52 202,92! 172,96! 162,72! 164,158! 76,158! 78,72! 68,96! 38,92! 44,52"),
            fill(0.35, "98,26! 142,26! 120,48"),
        ),
        caption="A shirt with short sleeves.",
    ),
    _subject(
        "aircraft airplane",
        (
            fill(0.5, "18,92 50,74 190,78 222,44! 230,44! 224,96 190,108 60,108"),
            fill(0.75, "96,96! 130,96! 176,150! 156,150!"),
            fill(0.35, "110,80! 134,80! 164,44! 148,44!"),
            line(0.15, 5, "46,86 120,86 184,88"),
        ),
        ground=(fill(0.09, "30,156 60,136 100,140 130,160 80,170"), fill(0.09, "150,34 180,14 214,20 230,36 190,44")),
        caption="An aircraft in the clouds.",
    ),
    _subject(
        "satellite aerial",
        (fill(0.45, "0,66! 70,84 120,52 240,40! 240,66! 130,78 76,108 0,92!"),),
        (fill(0.3, "30,112! 92,122! 84,180! 20,180!"),),
        ground=(
            fill(0.1, "0,0! 110,0! 104,44! 0,58!"),
            fill(0.22, "122,0! 240,0! 240,30! 116,44!"),
            fill(0.16, "108,116! 240,84! 240,180! 100,180!"),
            line(0.4, 4, "100,124 92,180"),
            *(line(0.25, 3, f"{x},{128 - x // 6} {x - 4},180") for x in range(132, 240, 24)),
        ),
        caption="Fields on both sides of a river.",
    ),
    _subject("heart", (fill(0.75, "120,64! 100,26 54,40 62,90 120,142! 178,90 186,40 140,26"),), caption="A heart."),
    _subject(
        "food",
        (
            disc(0.15, 120, 104, 88, 58),
            disc(0.05, 120, 102, 62, 38),
            fill(0.45, "72,108 84,78 122,66 160,82 168,112 120,130"),
            disc(0.75, 104, 94, 11),
            disc(0.75, 138, 104, 11),
            disc(0.2, 128, 84, 9),
        ),
        caption="A plate of food.",
    ),
    _subject(
        "textures",
        tuple(
            disc(0.3 + 0.25 * (row % 2), 40 * column + 20 * (row % 2), 18 + 36 * row, 14)
            for row in range(5)
            for column in range(7 - row % 2)
        ),
        caption="Dots in rows.",
    ),
    _subject(
        "sentences",
        tuple(line(0.6, 7, f"22,{y} {x},{y}") for y, x in ((44, 214), (68, 190), (92, 206), (116, 176), (140, 92))),
        caption="Lines of text.",
    ),
    _subject(
        "medical lymph",
        (disc(0.25, 96, 84, 38, 32), disc(0.7, 90, 80, 14)),
        *(
            (disc(0.15, x, y, size, size - 3), disc(0.5, x - 2, y, size / 2.6))
            for x, y, size in (
                (172, 58, 24),
                (160, 132, 27),
                (66, 148, 22),
                (36, 40, 20),
                (222, 112, 20),
                (118, 18, 20),
            )
        ),
        caption="Cells under a microscope.",
    ),
    _subject(
        "signs",
        (
            line(0.4, 8, "120,120 120,180"),
            fill(0.75, "120,14! 184,126! 56,126!"),
            fill(0.1, "120,36! 166,116! 74,116!"),
            line(0.9, 9, "120,66 120,92"),
            disc(0.9, 120, 105, 5),
        ),
        ground=(_EARTH,),
        caption="A road sign.",
    ),
    _subject(
        "people keypoints boxes",
        (
            disc(0.55, 84, 38, 15),
            fill(0.5, "66,60 102,60 106,112 62,112"),
            line(0.5, 10, "70,66 50,90 62,112"),
            line(0.5, 10, "98,66 114,90 138,96"),
            line(0.55, 13, "76,108 70,136 66,162"),
            line(0.55, 13, "92,108 100,136 104,162"),
        ),
        (
            fill(0.4, "160,122 206,118 208,140 160,142"),
            fill(0.5, "144,112 150,100! 158,104 168,120 158,130 140,124"),
            *(line(0.4, 7, f"{x},136 {x},162") for x in (166, 176, 195, 204)),
            line(0.4, 6, "204,124 220,112 222,102"),
        ),
        ground=(_EARTH, line(0.35, 2, "138,96 146,108 160,122")),
        parts="84,38 68,66 100,66 52,90 114,88 62,110 138,96 76,108 92,108 71,136 99,136 66,160 104,160",
        caption="A person walks a dog.",
    ),
    _subject(
        "rendered objects products domains",
        (disc(0.4, 64, 118, 34), disc(0.15, 54, 106, 9)),
        (
            fill(0.55, "116,92! 168,100! 168,156! 116,146!"),
            fill(0.3, "116,92! 150,82! 200,88! 168,100!"),
            fill(0.7, "168,100! 200,88! 200,140! 168,156!"),
        ),
        (fill(0.45, "98,84! 98,38! 138,38! 138,84!"), disc(0.45, 118, 84, 20, 6), disc(0.25, 118, 38, 20, 6)),
        ground=(fill(0.1, "0,76! 240,76! 240,180! 0,180!"),),
        caption="A ball, a box and a can.",
    ),
)
"""The first one that fits is taken."""

VIEW = _subject(
    "house",
    (
        fill(0.35, "58,90! 132,90! 132,150! 58,150!"),
        fill(0.6, "46,92! 95,48! 144,92!"),
        fill(0.75, "84,114! 104,114! 104,150! 84,150!"),
    ),
    (fill(0.5, "178,112! 186,112! 186,154! 178,154!"), disc(0.35, 182, 88, 27, 35)),
    ground=(disc(0.22, 206, 30, 14), fill(0.08, "0,118! 60,86 150,120 240,92! 240,180! 0,180!"), _EARTH),
    parts="95,52 52,92 138,92 58,148 132,148",
    caption="A house beside a tree.",
)
"""What is drawn for all other datasets."""
