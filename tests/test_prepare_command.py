"""`prepare` of several record sets, and `--dry-run`: what is said, and what one that fails does to the others."""

import io
import json
import os
import tarfile
from pathlib import Path

import pytest

from recordzoo.records.reader import is_record_set
from tests.fakes import cub200
from tests.fakes.folder import image_bytes, write_tree
from tests.running import Result, run


@pytest.fixture
def trees(tmp_path: Path) -> Path:
    """Three trees; where the records of the second belong, something else is in the way."""
    for name in ("a", "b", "c"):
        write_tree(tmp_path / name)
    (tmp_path / "b.records").mkdir()
    (tmp_path / "b.records" / "notes").write_text("mine")
    return tmp_path


class TestSeveral:
    def test_one_that_fails_does_not_stop_the_others(self, trees: Path) -> None:
        result = run("prepare", "a", "b", "c", cwd=trees)
        assert result.returncode == 1
        lines = result.stderr.splitlines()
        assert any(line.startswith("b: failed: ") for line in lines)
        assert [is_record_set(trees / f"{name}.records") for name in "abc"] == [True, False, True]
        summary, error = lines[-2:]
        assert summary == "2 of 3 record sets are ready: a, c."
        assert error.startswith(f"error: {trees}/b.records is in the way: ")
        assert "Traceback" not in result.stderr
        document = json.loads(run("prepare", "a", "b", "c", "--json", cwd=trees).stdout)
        assert [each["name"] for each in document["record_sets"]] == ["a", "c"]
        (failed,) = document["failed"]
        assert (failed["name"], failed["code"], failed["type"]) == ("b", 1, "PrepareError")

    def test_the_exit_code_is_that_of_the_first_failure(self, trees: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Also where a later one has another, and where it is a mistake in recordzoo."""
        monkeypatch.setattr("recordzoo.recipes.folders.FlatRecipe.build_table", lambda *_: 1 / 0)
        result = run("prepare", "a", "b", "--from", "flat", cwd=trees)
        assert result.returncode == 1
        assert "a: failed: division by zero.\n" in result.stderr
        assert "0 of 2 record sets are ready.\nTraceback" in result.stderr
        assert result.stderr.endswith("(an error in recordzoo; please report it)\n")

    def test_shards_that_the_shell_lists_are_not_taken_one_by_one(self, tmp_path: Path) -> None:
        for name in ("train-000.tar", "train-001.tar", "val-000.tar"):
            with tarfile.open(tmp_path / name, "w") as tar:
                for key, data in (("a.jpg", image_bytes("a.jpg", 0)), ("a.cls", b"1")):
                    member = tarfile.TarInfo(key)
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))
        result = run("prepare", *sorted(tmp_path.glob("*.tar")), cwd=tmp_path)
        assert result.returncode == 2
        assert f"{tmp_path}/train-000.tar and 1 other file have the same name" in result.stderr
        assert run("prepare", "train-001.tar", "val-000.tar", cwd=tmp_path).returncode == 0


def plan_of(result: Result) -> dict[str, object]:
    (plan,) = json.loads(result.stdout)["plans"]
    return plan  # type: ignore[no-any-return]  # JSON


class TestDryRun:
    def test_a_download(self, tmp_path: Path) -> None:
        mirror = "https://user:secret@mirror.example.org/sets"
        words = ["prepare", "cub200", "--root", tmp_path, "--mirror", mirror, "--dry-run"]
        first, *details = run(*words, cwd=tmp_path).stdout.splitlines()
        assert first.startswith("cub200: downloads and converts CUB_200_2011.tgz (1.15 GB)")
        assert details[0] == (
            "  CUB_200_2011.tgz: 1.15 GB, downloaded from https://mirror.example.org/sets/cub200/CUB_200_2011.tgz"
        )
        assert details[1].startswith("  space: about 2.32 GB needed, ")
        assert "secret" not in "".join(details)
        plan = plan_of(run(*words, "--json", cwd=tmp_path))
        assert plan["needed_bytes"] == plan["peak_bytes"]
        assert plan["download_bytes"] == 1_150_585_339
        assert not list(tmp_path.iterdir())

    def test_an_archive_that_is_there(self, tmp_path: Path) -> None:
        archive = cub200.build().write_archive(tmp_path)
        plan = plan_of(run("prepare", "cub200", "--dry-run", "--json", cwd=tmp_path))
        (source,) = plan["sources"]  # type: ignore[misc]
        assert source["state"] == "there"
        assert source["bytes"] == archive.stat().st_size
        assert plan["needed_bytes"] < plan["peak_bytes"]  # type: ignore[operator]
        assert os.listdir(tmp_path) == [archive.name]

    def test_a_tree_and_its_variant(self, trees: Path) -> None:
        shown = run("prepare", "a", "--dry-run", cwd=trees).stdout
        assert f", there already: {trees}/a\n" in shown
        assert "downloading" not in shown
        variant = run("prepare", "a", "--short-side", 8, "--dry-run", cwd=trees).stdout
        assert variant.startswith("a: converts ")
        assert run("prepare", "a", cwd=trees).returncode == 0
        ready = run("prepare", "a", "--dry-run", cwd=trees).stdout
        assert ready.splitlines() == [f"a: ready in {trees}/a.records; nothing to do"]

    def test_files_by_hand(self, tmp_path: Path) -> None:
        shown = run("prepare", "imagenet.val", "--root", tmp_path, "--dry-run", cwd=tmp_path).stdout
        assert f"to be downloaded by hand to {tmp_path}/ILSVRC2012_img_val.tar, or with --accept-terms" in shown
        accepted = run("prepare", "imagenet.val", "--accept-terms", "--dry-run", cwd=tmp_path).stdout
        assert "ILSVRC2012_img_val.tar: 6.74 GB, downloaded from https://" in accepted

    def test_too_little_room(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("recordzoo.preparing.preparation.free_bytes", lambda folder: 10**9)
        shown = run("prepare", "cub200", "--root", tmp_path, "--dry-run", cwd=tmp_path).stdout
        assert "  space: about 2.32 GB needed, 1 GB free: 1.32 GB too little\n" in shown
