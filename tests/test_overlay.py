"""Containers: what lies in a lower layer of an overlay can be read and removed, but its directories not renamed."""

from pathlib import Path

from tests import preparing
from tests.disks import overlaid
from tests.fakes import simple
from tests.preparing import again, assert_made, builds, contents

OPTIONS = {"shard_bytes": 1 << 17, "workers": 1}


def test_a_build_in_the_image(tmp_path: Path) -> None:
    simple.write(tmp_path / "wanted", "tree")
    simple.write(tmp_path / "image", "tree")
    preparing.run(tmp_path / "image", "tree", env={"RECORDZOO_KILL_AT": "shard.done:2"}, **OPTIONS)
    (left,) = builds(tmp_path / "image")
    assert list(left.glob("*.lmdb"))
    with overlaid(tmp_path / "container", tmp_path / "image") as volume:
        ended = preparing.run(volume.mounted_at, "tree", prefix=volume.enter, **OPTIONS)
        assert ended.digest
        assert "are already converted" in ended.log
        assert_made(volume.path, "tree", contents(again(tmp_path / "wanted", "tree", **OPTIONS)))
    assert left.exists()  # in the image nothing changes
