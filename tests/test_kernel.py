"""Compiled code makes Pillow's pixels, in the memory it was given and from the memory it was given, and no other."""

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image
from torchvision import transforms as v1
from torchvision.transforms import InterpolationMode, v2

from recordzoo.images import decode as frames
from recordzoo.images.decode import ArrayFrame, Frame, JpegFrame, decode_rgb, open_encoded
from recordzoo.loader import compiled as compiling
from recordzoo.loader import render as rendering
from recordzoo.loader.compiled import Compiled
from recordzoo.loader.plan import Action, Crop, Flip, Pointwise, Resize, decide
from recordzoo.loader.render import RowRenderer, render
from recordzoo.loader.table import read_plan
from tests import extras, warm
from tests.disks import mounted
from tests.fakes.pictures import encoded, picture
from tests.running import printed

if "numba" not in extras.missing():  # a numba that is there and broken is an error
    from recordzoo.loader import run as resample

pytestmark = pytest.mark.needs("numba", "turbojpeg")

FILTERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}
(BILINEAR,) = decide(read_plan(v1.Resize((30, 40))).steps, (9, 9), [])
assert isinstance(BILINEAR, Resize)
RESAMPLING = BILINEAR.resampling
PHOTO = picture(np.random.default_rng(5), 203, 151, 0.6, (40, 30, 100, 80))
JPEG = encoded(PHOTO, "JPEG", quality=90)

sides = st.integers(1, 90) | st.integers(90, 700)


@pytest.fixture(scope="module")
def found() -> Compiled:
    existing = compiling.compiled_code()
    assert existing is not None
    return existing


def noise(height: int, width: int, seed: int = 0) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def renderer(found: Compiled, height: int, width: int, pointwise: Pointwise | None = None) -> RowRenderer:
    return RowRenderer(height, width, pointwise, "exact", found)


# As Pillow


@settings(max_examples=400)
@given(sides, sides, sides, sides, st.sampled_from(sorted(FILTERS)), st.integers(0, 3), st.booleans())
def test_any_size(
    found: Compiled, height: int, width: int, rows: int, columns: int, mode: str, gap: int, is_tensor: bool
) -> None:
    """As Pillow, or as torch resamples bytes: a whole image, or a part of one."""
    pixels = noise(height, width + gap)[:, :width]
    if is_tensor and columns > 1:
        image = v2.functional.to_image(Image.fromarray(noise(height, width + gap)))[..., :width]
        right = v2.functional.resize(image, [rows, columns], InterpolationMode(mode)).permute(1, 2, 0).numpy()
        made = found.resize(image.permute(1, 2, 0).numpy(), rows, columns, mode, "torch")
    else:
        right = np.asarray(Image.fromarray(np.ascontiguousarray(pixels)).resize((columns, rows), FILTERS[mode]))
        made = found.resize(pixels, rows, columns, mode)
    assert np.array_equal(made, right)


RESIZE = Image.Image.resize


def test_a_pillow_that_resamples_in_another_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until 12.1: horizontally first, whatever the shape."""

    def older(image: Image.Image, size: tuple[int, int], resample: Any) -> Image.Image:
        return RESIZE(RESIZE(image, (size[0], image.height), resample), size, resample)

    monkeypatch.setattr(Image.Image, "resize", older)
    found = Compiled()
    assert "Pillow" in found.exact
    for shape in ((90, 80, 20, 70), (200, 30, 31, 40), (30, 200, 40, 31), (405, 4, 90, 7), (400, 4, 90, 7)):
        pixels = noise(*shape[:2])
        right = np.asarray(Image.fromarray(pixels).resize((shape[3], shape[2]), FILTERS["bilinear"]))
        assert np.array_equal(found.resize(pixels, *shape[2:], "bilinear"), right)


def test_a_pillow_that_does_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is resampled by what makes other pixels."""
    with monkeypatch.context() as patch:
        patch.setattr(Image.Image, "resize", lambda image, size, _: RESIZE(image, size, Image.Resampling.HAMMING))
        other = Compiled()
    assert "Pillow" not in other.exact
    rows = torch.empty((1, 3, 30, 40), dtype=torch.uint8)
    assert renderer(other, 30, 40).make([(ArrayFrame(noise(50, 60)), [BILINEAR])], rows) == [0]
    assert RowRenderer(30, 40, None, "fast", other).make([(ArrayFrame(noise(50, 60)), [BILINEAR])], rows) == []
    monkeypatch.setattr(rendering, "compiled_for", lambda *_, **__: other)
    monkeypatch.setattr(other, "resize", lambda *_: pytest.fail("asked"))
    right = np.asarray(Image.fromarray(noise(50, 60)).resize((40, 30), FILTERS["bilinear"]))
    assert np.array_equal(render(ArrayFrame(noise(50, 60)), [BILINEAR], "exact").permute(1, 2, 0), right)


def test_a_torch_that_does_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on processors for which torch has no code for bytes: exact precision asks torchvision, fast is as Pillow."""
    (action,) = decide(read_plan(v2.Compose([v2.ToImage(), v2.Resize((30, 40))])).steps, (9, 9), [])
    pixels, rows = noise(50, 60), torch.empty((1, 3, 30, 40), dtype=torch.uint8)
    resize = v2.functional.resize
    with monkeypatch.context() as patch:
        patch.setattr(v2.functional, "resize", lambda image, *options: resize(image.float(), *options).byte())
        other = Compiled()
    assert other.exact == {"Pillow"}
    assert renderer(other, 30, 40).make([(ArrayFrame(pixels), [action])], rows) == [0]
    monkeypatch.setattr(rendering, "compiled_for", lambda *_, **__: other)
    right = resize(v2.functional.to_image(Image.fromarray(pixels)), [30, 40])
    assert torch.equal(render(ArrayFrame(pixels), [action], "exact"), right)
    assert RowRenderer(30, 40, None, "fast", other).make([(ArrayFrame(pixels), [action])], rows) == []
    right = np.asarray(Image.fromarray(pixels).resize((40, 30), FILTERS["bilinear"]))
    assert np.array_equal(rows[0].permute(1, 2, 0), right)


# What is left to others


def at(height: int, width: int) -> Resize:
    return Resize(height, width, RESAMPLING)


DONE: dict[str, list[Action]] = {
    "nothing": [],
    "crop": [Crop(3, 4, 30, 40)],
    "crop, flip": [Crop(3, 4, 30, 40), Flip()],
    "crop, resize, flip": [Crop(3, 4, 100, 70), at(30, 40), Flip()],
    "resize, crop": [at(77, 99), Crop(20, 30, 30, 40)],
    "crop, resize, crop, two flips": [Crop(9, 0, 80, 90), at(60, 50), Crop(30, 10, 30, 40), Flip(), Flip()],
}
LEFT: dict[str, list[Action]] = {
    "no column": [Crop(3, 4, 30, 0), at(30, 40)],
    "no row": [Crop(3, 4, 0, 40), at(30, 40)],
    "black borders": [Crop(-1, 4, 30, 40)],
    "black borders behind": [at(29, 40), Crop(0, 0, 30, 40)],
    "two crops": [Crop(3, 4, 100, 100), Crop(1, 1, 30, 40)],
    "two resizes": [at(70, 70), at(30, 40)],
    "a flip before": [Flip(), at(30, 40)],
    "a window that is resized": [at(90, 90), Crop(1, 1, 80, 80), at(30, 40)],
    "two windows": [at(90, 90), Crop(1, 1, 80, 80), Crop(1, 1, 30, 40)],
    "another filter": [decide(read_plan(v1.Resize((30, 40), InterpolationMode.BOX)).steps, (9, 9), [])[0]],
}


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("is_float", [False, True])
def test_rows_of_a_batch(found: Compiled, is_float: bool, layout: torch.memory_format) -> None:
    """What is not done is not written to, nor is what lies around the rows."""
    wanted = [(name, actions) for name, actions in (DONE | LEFT).items() if name != "nothing"]
    images: list[tuple[Frame, list[Action]]] = []
    for number, (_, actions) in enumerate(wanted):
        images.append((open_encoded(JPEG) if number % 2 else ArrayFrame(np.asarray(PHOTO)), actions))
    pointwise = Pointwise().then(("div", 255.0), ("sub", (0.4, 0.5, 0.6)), ("div", (0.2, 0.3, 0.4)))
    dtype = torch.float32 if is_float else torch.uint8
    memory = torch.full((len(images) + 2, 3, 30, 40), 77, dtype=dtype).contiguous(memory_format=layout)
    left = renderer(found, 30, 40, pointwise if is_float else None).make(images, memory[1:-1])
    assert left == [number for number, (name, _) in enumerate(wanted) if name in LEFT]
    assert bool((memory[[0, -1, *(number + 1 for number in left)]] == 77).all())
    for number, (frame, actions) in enumerate(images):
        if number not in left:
            right = render(open_encoded(JPEG) if isinstance(frame, JpegFrame) else frame, actions, "exact")
            right = pointwise.apply_(right.float().contiguous()) if is_float else right
            assert torch.equal(memory[number + 1], right)


@pytest.mark.parametrize("actions", [LEFT["no column"], LEFT["no row"], [at(0, 40)]])
def test_what_has_no_pixels_is_not_for_compiled_code(
    actions: list[Action], found: Compiled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(found, "resize", lambda *_: pytest.fail("asked"))
    with pytest.raises((RuntimeError, ValueError)):  # torch's or Pillow's own
        render(open_encoded(JPEG), actions, "exact")


def test_too_little_memory(found: Compiled, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is left to be made by itself, which may be possible and otherwise names it; nothing is compiled again."""

    def fails(*arguments: Any) -> None:
        asked.append(arguments)
        raise MemoryError

    asked: list[Any] = []
    one = renderer(found, 30, 40)
    monkeypatch.setattr(resample, "render", fails)
    rows = torch.empty((2, 3, 30, 40), dtype=torch.uint8)
    assert one.make([(open_encoded(JPEG), [at(30, 40)])] * 2, rows) == [0, 1]
    assert len(asked) == 1


def test_pixels_that_lie_in_another_order(found: Compiled) -> None:
    pixels = noise(40, 50)
    rows = torch.empty((3, 3, 30, 40), dtype=torch.uint8)
    same = [pixels, np.asfortranarray(pixels), pixels[::-1].copy()[::-1]]
    images: list[tuple[Frame, list[Action]]] = [(ArrayFrame(each), [at(30, 40)]) for each in same]
    assert renderer(found, 30, 40).make(images, rows) == [1]
    assert torch.equal(rows[0], rows[2])


@settings(max_examples=150)
@given(st.data())
def test_any_crop_resize_window_and_flip(found: Compiled, data: st.DataObject) -> None:
    """Also where one side or both stay as long as they are."""
    height, width = data.draw(st.tuples(st.integers(1, 151), st.integers(1, 203)))
    crop = Crop(data.draw(st.integers(0, 151 - height)), data.draw(st.integers(0, 203 - width)), height, width)
    rows = data.draw(st.just(height) | st.integers(1, 260))
    columns = data.draw(st.just(width) | st.integers(1, 260))
    mode = data.draw(st.sampled_from([InterpolationMode.BILINEAR, InterpolationMode.BICUBIC]))
    makers = data.draw(st.sampled_from([[], [v2.ToImage()]])) if columns > 1 else []
    (resize,) = decide(read_plan(v2.Compose([*makers, v2.Resize((rows, columns), mode)])).steps, (9, 9), [])
    size = data.draw(st.tuples(st.integers(1, rows), st.integers(1, columns)))
    window = Crop(data.draw(st.integers(0, rows - size[0])), data.draw(st.integers(0, columns - size[1])), *size)
    actions: list[Action] = [crop, resize, window, *[Flip()] * data.draw(st.integers(0, 1))]
    for frame in (open_encoded(JPEG), ArrayFrame(np.asarray(PHOTO))):
        made = torch.empty((1, 3, *size), dtype=torch.uint8)
        assert renderer(found, *size).make([(frame, actions)], made) == []
        picture = Image.fromarray(frame.pixels()[crop.top :, crop.left :][:height, :width])
        image = v2.functional.to_image(picture) if makers else picture
        right = v2.functional.resize(image, [rows, columns], mode)
        right = v2.functional.crop(right, window.top, window.left, *size)
        right = v2.functional.hflip(right) if len(actions) > 3 else right
        assert torch.equal(made[0], v2.functional.to_image(right))


def test_an_image_that_others_opened(found: Compiled) -> None:
    """Of another thread, or so long ago that its decompressor has another image."""
    opened: list[Frame] = []
    thread = threading.Thread(target=lambda: opened.append(open_encoded(JPEG)))
    thread.start()
    thread.join()
    opened += [open_encoded(JPEG[:-2] + b"\xff\xd9") for _ in range(frames.OPENED_AT_ONCE + 1)]
    rows = torch.empty((len(opened), 3, 30, 40), dtype=torch.uint8)
    assert renderer(found, 30, 40).make([(frame, [at(30, 40)]) for frame in opened], rows) == [0, 1]
    for number in (0, 1):
        assert torch.equal(render(opened[number], [at(30, 40)], "exact"), rows[2])


def test_one_that_cannot_be_decoded(found: Compiled) -> None:
    """The others are made, and the next one by the same decompressor."""
    start = JPEG.index(b"\xff\xda")
    broken = JPEG[: start + 40] + b"\xff\xd9"
    opened = [open_encoded(data) for data in (JPEG, broken, JPEG)]
    actions: list[Action] = [Crop(100, 3, 30, 40)]
    rows = torch.full((3, 3, 30, 40), 77, dtype=torch.uint8)
    assert renderer(found, 30, 40).make([(frame, actions) for frame in opened], rows) == [1]
    right = render(open_encoded(JPEG), actions, "exact")
    assert torch.equal(rows[0], right)
    assert torch.equal(rows[2], right)
    assert bool((rows[1] == 77).all())
    decompressor = opened[1].decompressor  # type: ignore[attr-defined]
    assert not decompressor.is_ready_for(broken)  # it begins again, as after some errors it must
    made = render(opened[1], actions, "exact").permute(1, 2, 0)  # as Pillow shows it, with what there is
    assert np.array_equal(made, np.asarray(decode_rgb(broken))[100:130, 3:43])
    again = JpegFrame(JPEG, decompressor)
    assert renderer(found, 30, 40).make([(again, actions)], rows[1:2]) == []
    assert torch.equal(rows[1], right)


EDGE = """
import ctypes, mmap
import numpy as np
import torch
from recordzoo.loader.compiled import compiled_code
from recordzoo.loader.render import RowRenderer
from recordzoo.loader.table import read_plan
from recordzoo.loader.plan import (Crop, Flip, Resize, decide)
from recordzoo.images.decode import ArrayFrame
from torchvision import transforms

found = compiled_code()
page = mmap.PAGESIZE
protect = ctypes.CDLL(None).mprotect

def guarded():
    memory = mmap.mmap(-1, 22 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    assert protect(ctypes.c_void_p(start), page, 0) == protect(ctypes.c_void_p(start + 21 * page), page, 0) == 0
    return memory

def at(memory, size, is_last):
    return np.frombuffer(memory, np.uint8, size, 21 * page - size if is_last else page)

(resize,) = decide(read_plan(transforms.Resize((50, 70))).steps, (9, 9), [])
to = lambda height, width: Resize(height, width, resize.resampling)
memory, output = guarded(), guarded()
for height, width in ((90, 300), (300, 90), (40, 7), (7, 5), (1, 1), (150, 8), (3, 11)):
    size = 3 * height * width
    for is_last in (False, True):
        pixels = at(memory, size, is_last).reshape(height, width, 3)
        for rows, columns in ((30, 40), (5, 90), (200, 3), (height, width), (height, 9), (9, width)):
            for mode in ("bilinear", "bicubic"):
                found.resize(pixels, rows, columns, mode)
        top, left = height // 2, width // 2
        end = Crop(top, left, height - top, width - left)
        for actions in (
            [], [Flip()], [end], [Crop(0, 0, top + 1, left + 1)],
            [end, to(50, 70), Flip()], [end, to(1, 70)], [to(50, 70), Crop(40, 60, 10, 10)],
            [to(height, width + 9), Crop(0, 0, height, 5)], [to(height + 9, width), Crop(5, 0, height, width)],
        ):
            last = ([each for each in actions if not isinstance(each, Flip)] or [Crop(0, 0, height, width)])[-1]
            row = at(output, 3 * last.height * last.width, is_last).reshape(1, 3, last.height, last.width)
            for made in (row, row.reshape(1, last.height, last.width, 3).transpose(0, 3, 1, 2)):
                renderer = RowRenderer(last.height, last.width, None, "exact", found)
                assert renderer.make([(ArrayFrame(pixels), actions)], torch.from_numpy(made)) == []
print("touched nothing else")
"""


@pytest.mark.slow
def test_nothing_beyond_an_image_is_touched() -> None:
    """Whoever reads a byte before or behind the pages of the image dies, or writes one beside those of the row."""
    ended = warm.run(EDGE)
    assert (ended.returncode, ended.stdout.strip(), ended.stderr[-500:]) == (0, "touched nothing else", "")


# Ctrl-C: as notebooks do it, which go on in the same process

PRESSED = """
import os, signal, sys, threading

pressed = []

def press():
    if not pressed:
        pressed.append(threading.current_thread())
        os.kill(os.getpid(), signal.SIGINT)

{when}
from recordzoo.loader.compiled import compiled_code
from recordzoo.loader.plan import Pointwise
from recordzoo.loader.render import RowRenderer

try:
    RowRenderer(9, 9, Pointwise().then(("div", 255.0)), "exact", compiled_code())
except KeyboardInterrupt:
    print("interrupted")
"""

WHILE_IMPORTING = "sys.addaudithook(lambda event, names: event == 'import' and names[0] == {!r} and press())"
WHILE_COMPILING = """
from numba.core import event

class Listener(event.Listener):
    def on_start(self, started):
        if {}:
            press()

    def on_end(self, ended):
        pass

event.register("numba:compile", Listener())
"""


def pressed(when: str, environment: dict[str, str]) -> None:
    """Press Ctrl-C in a process that makes a renderer for the first time; then it makes batches, as it should."""
    code = PRESSED.format(when=when) + MAKES_BATCHES
    ended = warm.run(code, env={**os.environ, **environment, "RECORDZOO_QUIET": "1"}, timeout_s=240)
    assert (ended.returncode, ended.stdout[:15], ended.stderr) == (0, "interrupted\n0.2", "")


@pytest.mark.parametrize("module", ["numba.core.config", pytest.param("llvmlite.binding.ffi", marks=pytest.mark.slow)])
def test_ctrl_c_while_numba_is_imported(module: str) -> None:
    pressed(WHILE_IMPORTING.format(module), {})


@pytest.mark.slow
@pytest.mark.parametrize("what", ["True", "'Array(float32' in str(started.data.get('args'))"], ids=["bytes", "floats"])
def test_ctrl_c_while_it_compiles(what: str, tmp_path: Path) -> None:
    pressed(WHILE_COMPILING.format(what), {"NUMBA_CACHE_DIR": os.fspath(tmp_path)})


# Where it cannot be compiled, or not be kept; without numba: test_missing.py


@pytest.mark.slow
def test_numba_may_be_told_to_compile_nothing() -> None:
    code = "from recordzoo.loader.compiled import why_not_compiled; print(why_not_compiled())"
    assert printed(code, NUMBA_DISABLE_JIT="1").strip() == compiling.DISABLED


MAKES_BATCHES = """
import numpy as np
import torch
from recordzoo.loader.compiled import compiled_code
from recordzoo.loader.plan import Pointwise
from recordzoo.loader.render import RowRenderer
from recordzoo.images.decode import ArrayFrame

assert "Pillow" in compiled_code().exact
renderer = RowRenderer(9, 9, Pointwise().then(("div", 255.0)), "exact", compiled_code())
rows = torch.empty((1, 3, 9, 9))
assert renderer.make([(ArrayFrame(np.full((9, 9, 3), 51, np.uint8)), [])], rows) == []
print(float(rows.mean()))
"""


@pytest.mark.slow
@pytest.mark.parametrize("room", ["8k", "200k"])
def test_the_disk_for_compiled_code_is_full(tmp_path: Path, room: str) -> None:
    """From the first function on, or from some other one."""
    with mounted(tmp_path / "disk", f"size={room}") as volume:
        environment = {**os.environ, "NUMBA_CACHE_DIR": os.fspath(volume.mounted_at)}
        command = [*volume.enter, sys.executable, "-c", MAKES_BATCHES]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert (ended.returncode, ended.stdout[:3]) == (0, "0.2"), ended.stderr


@pytest.mark.slow
def test_compiled_code_is_damaged(tmp_path: Path) -> None:
    """As a machine may leave it that went off."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": os.fspath(tmp_path)}
    for _ in range(2):
        ended = warm.run(MAKES_BATCHES, env=environment)
        assert (ended.returncode, ended.stdout[:3]) == (0, "0.2"), ended.stderr
        kept = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert len(kept) > 10
        for number, path in enumerate(sorted(kept)):
            path.write_bytes(b"" if number % 2 else path.read_bytes()[:100])
