"""The command line: codes, streams and JSON; where it matters in real processes, with real signals."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import unittest.mock
from pathlib import Path

import pytest

from recordzoo import __version__, catalogue, errors
from recordzoo import errors as project
from recordzoo.base import settings
from recordzoo.cli.app import Exit, exit_code
from recordzoo.cli.app import run as run_app
from recordzoo.cli.listing import entry_document
from recordzoo.cli.options import resolve
from recordzoo.net import http as retry
from recordzoo.recipes.declared import dataset_recipe
from recordzoo.records.reader import RecordReader
from tests.fakes import cub200, folder, imagenet
from tests.fakes.records import flip, many_missing
from tests.fakes.server import Fault, FileServer
from tests.preparing import REPOSITORY, wait_for
from tests.running import run
from tests.terminals import run_on_terminal

COMMAND = [sys.executable, "-m", "recordzoo"]
ARCHIVE = "cub200/CUB_200_2011.tgz"  # where a mirror has it


def recordzoo(*arguments, cwd=None, **environment):
    """Run a command in this process with these variables, and return what it did."""
    with unittest.mock.patch.dict(os.environ, environment):
        return run(*arguments, cwd=cwd or Path.cwd())


def environment():
    return {**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTHONWARNINGS": "error"}


@pytest.fixture(scope="module")
def mirrored(tmp_path_factory):
    """The fake archive's bytes: several times what a download reads at once."""
    folder = tmp_path_factory.mktemp("mirror")
    return cub200.build(4, 8, size=(260, 200)).write_archive(folder).read_bytes()


@pytest.fixture(scope="module")
def birds(tmp_path_factory):
    """A root with the prepared record set of a fake tree."""
    root = tmp_path_factory.mktemp("birds")
    cub200.build().write_tree(root)
    result = run("prepare", "cub200", "--root", root, cwd=root, apart=True)
    assert result.returncode == 0, result.stderr
    return root


@pytest.fixture
def photos(tmp_path):
    """A class-per-folder tree."""
    return folder.write_tree(tmp_path / "photos")


def test_help_and_version():
    assert run("--version", cwd=Path.cwd(), apart=True).stdout == f"recordzoo {__version__}\n"
    helped = run("--help", cwd=Path.cwd(), apart=True)
    assert (helped.returncode, helped.stdout) == (0, recordzoo().stdout)  # which is given without arguments, too
    for code in Exit:
        assert f"\n{code.value:>5}  " in helped.stdout


class TestListAndInfo:
    def test_words_are_searched_as_on_the_site(self):
        result = recordzoo("list", "Bird", "boxes", "--json")
        found = [dataset["name"] for dataset in json.loads(result.stdout)["datasets"]]
        assert found == ["cub200", "cub200_2010", "nabirds"]
        assert recordzoo("list", "CIFAR10Record").stdout.splitlines()[1].startswith("cifar10 ")
        nothing = recordzoo("list", "unicorn")
        assert (nothing.returncode, nothing.stdout, nothing.stderr[:16]) == (0, "", "No dataset fits.")

    def test_where_record_sets_are_is_said(self, birds, tmp_path, monkeypatch):
        (birds / "CUB_200_2011.tgz").touch()  # prepare asks whether it is meant
        here = recordzoo("show", birds)
        (birds / "CUB_200_2011.tgz").unlink()
        assert here.returncode == 3
        assert here.stderr.endswith(f"{birds} holds record sets; give the path of one: {birds}/cub200.records.\n")
        state = {"RECORDZOO_STATE": str(tmp_path / "state")}
        assert recordzoo("verify", "cub200", cwd=tmp_path, **state).stderr.endswith("Run: recordzoo prepare cub200\n")
        monkeypatch.setenv("RECORDZOO_STATE", state["RECORDZOO_STATE"])
        settings.remember_root(birds)
        elsewhere = recordzoo("verify", "cub200", cwd=tmp_path, **state)
        assert elsewhere.stderr.endswith(f"It is prepared elsewhere: {birds}/cub200.records.\n")

    def test_info_shows_what_the_catalogue_knows(self):
        text = recordzoo("info", "cub200").stdout
        entry = catalogue.entry("cub200")
        for fact in (entry.title, entry.homepage, entry.license, entry.files[0].sha256, "train 5,994", "CUB200Record"):
            assert fact in text

    @pytest.mark.parametrize("name", catalogue.names())
    def test_info_shows_the_names_on_disk(self, name):
        entry = catalogue.entry(name)
        text = recordzoo("info", name).stdout
        parts = {part["label"]: part["set_name"] for part in entry_document(entry)["parts"]}
        for label, set_name in parts.items():
            (target,) = resolve(label, Path("/data"))
            assert target.recipe().target(target.root) == Path(f"/data/{set_name}.records")
            assert re.search(rf"^  {re.escape(label)} +{re.escape(set_name)}\.records( |$)", text, re.MULTILINE)

    def test_a_closed_pipe_is_quiet(self):
        words = [*COMMAND, "list"]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
        process.stdout.close()
        stderr = process.stderr.read()
        process.stderr.close()
        assert (process.wait(60), stderr) == (1, b"")

    def test_a_closed_or_full_stderr_changes_no_exit_code(self, tmp_path):
        command = f"{' '.join(COMMAND)} info {tmp_path}/none/"
        for stderr in ("2>&-", "2>/dev/full"):
            words = ["sh", "-c", f"{command} {stderr}"]
            result = subprocess.run(words, env=environment(), capture_output=True, check=False)
            assert (result.returncode, result.stdout) == (3, b"")


class TestPrepare:
    def test_dry_run_counts_no_unknown_size_as_nothing(self, tmp_path):
        printed = recordzoo("prepare", "flickr8k", "objectnet", "--root", tmp_path, "--dry-run").stdout
        assert "peak of disk size not known" in printed
        assert "  space: how much is needed is not known; " in printed
        assert f"  Flickr8k_text.zip: size not known, to be downloaded by hand to {tmp_path}/" in printed
        assert "; its files must be downloaded by hand\n" in printed  # those of objectnet

    @pytest.mark.parametrize(
        ("name", "part"), [(name, part.name) for name in catalogue.names() for part in catalogue.entry(name).parts]
    )
    def test_what_a_recipe_says_to_run_makes_its_set(self, name, part, tmp_path):
        recipe = dataset_recipe(name, part)
        program, command, label, option, root = shlex.split(recipe.command(tmp_path / "a b"))
        assert (program, command, option, root) == ("recordzoo", "prepare", "--root", f"{tmp_path}/a b")
        made = [target.recipe().set_name for target in resolve(label, Path(root))]
        assert recipe.set_name in made
        if part:
            assert made == [recipe.set_name]

    def test_a_record_set_has_the_same_name_before_and_after(self, birds, photos):
        for arguments in (["cub200", "--root", birds], [photos]):
            (plan,) = json.loads(recordzoo("prepare", *arguments, "--dry-run", "--json").stdout)["plans"]
            (made,) = json.loads(recordzoo("prepare", *arguments, "--json").stdout)["record_sets"]
            assert (made["name"], made["path"]) == (plan["name"], plan["target"])

    def test_what_is_ready_is_left_alone(self, birds):
        again = recordzoo("prepare", "cub200", "--root", birds)
        assert again.stderr == f"cub200: ready, 12 records in {birds}/cub200.records\n"
        (made,) = json.loads(recordzoo("prepare", "cub200", "--root", birds, "--json").stdout)["record_sets"]
        assert (made["name"], made["records"], made["was_ready"]) == ("cub200", 12, True)

    @pytest.mark.parametrize(
        ("there", "lacking", "file"),
        [("val", "train", "ILSVRC2012_img_train.tar"), ("train", "val", "ILSVRC2012_devkit_t12.tar.gz")],
    )
    def test_the_parts_that_can_be_prepared_are(self, tmp_path, there, lacking, file):
        fake = imagenet.build()
        fake.write_tree(tmp_path, there)
        if lacking == "val":
            fake.write_val_archive(tmp_path)  # without the development kit
        before = {path.name for path in tmp_path.glob("[!.]*")}
        result = recordzoo("prepare", "imagenet", "--root", tmp_path)
        assert result.returncode == 3, result.stderr
        assert {path.name for path in tmp_path.glob("[!.]*")} == {*before, f"imagenet.{there}.records"}
        assert len(RecordReader(tmp_path / f"imagenet.{there}.records")) == len(fake.split(there))
        assert f"imagenet.{lacking}: failed: its files must be downloaded by hand" in result.stderr
        assert file in result.stderr
        document = recordzoo("prepare", "imagenet", "--root", tmp_path, "--json")
        assert document.returncode == 3
        assert [made["name"] for made in json.loads(document.stdout)["record_sets"]] == [f"imagenet.{there}"]

    def test_where_no_part_can_be_prepared_each_is_named_once(self, tmp_path):
        said = recordzoo("prepare", "imagenet", "--root", tmp_path).stderr
        assert said.count("imagenet.train: ") == said.count("imagenet.val: ") == 1

    def test_a_part_that_was_named_is_not_passed_over(self, tmp_path):
        imagenet.build().write_tree(tmp_path, "val")
        alone = recordzoo("prepare", "imagenet", "--split", "train", "--root", tmp_path)
        assert alone.returncode == 3
        assert alone.stderr.startswith("error: these files must be downloaded by hand")
        assert not list(tmp_path.glob("*.records"))
        both = recordzoo("prepare", "imagenet.train", "imagenet.val", "--root", tmp_path)
        assert both.returncode == 3
        assert both.stderr.startswith("imagenet.train: failed: its files must be downloaded by hand, or need --accept-")
        assert "\nerror: these files must be downloaded by hand" in both.stderr
        assert (tmp_path / "imagenet.val.records").is_dir()

    def test_a_later_tree_that_is_none_fails_alone(self, photos, tmp_path):
        (tmp_path / "none").mkdir()
        result = recordzoo("prepare", photos, f"{tmp_path}/none/")
        assert result.returncode == 3
        assert "none has no class folders" in result.stderr
        assert (tmp_path / "photos.records").exists()

    def test_a_bar_on_a_terminal(self, photos):
        shown = run_on_terminal("prepare", photos, streams=("stdout", "stderr"))
        assert "13 images" in shown
        assert "\r" in shown
        assert "100%|" in shown


class TestErrors:
    @pytest.mark.parametrize(
        ("words", "variables", "code", "said"),
        [
            ("cub200", {"RECORDZOO_OFFLINE": "1"}, 4, "error: "),
            ("cub200 --mirror http://127.0.0.1:1", {"RECORDZOO_TIMEOUT": "abc"}, 2, "RECORDZOO_TIMEOUT is 'abc'"),
            ("imagenet.val", {}, 3, "--accept-terms"),
            ("nabirds", {}, 4, "error: nabirds.tar.gz must be downloaded by hand.\n"),
        ],
    )
    def test_what_must_be_done_first(self, tmp_path, words, variables, code, said):
        result = recordzoo("prepare", *words.split(), "--root", tmp_path, **variables)
        assert (result.returncode, result.stdout) == (code, "")
        assert said in result.stderr
        assert ("\n1. " in result.stderr and "\n4. " in result.stderr) == (not variables)  # steps to follow
        assert not list(tmp_path.glob("[!.]*"))

    def test_a_wrong_hash(self, tmp_path, mirrored, monkeypatch):
        monkeypatch.setattr(retry, "BACKOFF_S", 0.001)
        with FileServer({ARCHIVE: mirrored}) as server:
            arguments = ("prepare", "cub200", "--root", tmp_path, "--mirror", server.url)
            result = recordzoo(*arguments, "--json", RECORDZOO_OFFLINE="")
        # The mirror's file is not the one that the catalogue knows, and the official host is out of reach.
        assert result.returncode == 5
        document = json.loads(result.stderr[result.stderr.index("{") :])
        assert document["error"]["code"] == result.returncode
        assert not (tmp_path / "cub200.records").exists()

    @pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
    def test_a_signal_ends_it_and_the_same_command_goes_on(self, tmp_path, mirrored, signum, code):
        middle = len(mirrored) // 2
        with FileServer({ARCHIVE: mirrored}, {ARCHIVE: [Fault(stall_after=middle)]}) as server:
            arguments = ["prepare", "cub200", "--root", str(tmp_path), "--mirror", server.url, "--no-check-hash"]
            words = [*COMMAND, *arguments]
            with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=environment()) as process:
                assert server.stalled.wait(60)
                wait_for(lambda: any(part.stat().st_size for part in tmp_path.glob("*.tgz.part")), "a part")
                process.send_signal(signum)
                stderr = process.stderr.read()
            assert process.returncode == code
            assert "what is finished is kept, and the same command goes on from there." in stderr.splitlines()[-1]
            assert "Traceback" not in stderr
            result = recordzoo(*arguments, "--discard-raw")
            assert result.returncode == 0, result.stderr
            assert server.requests(ARCHIVE)[-1].range is None  # without a hash, another process trusts no part
        assert len(RecordReader(tmp_path / "cub200.records")) == 32
        assert [path.name for path in tmp_path.glob("[!.]*")] == ["cub200.records"]

    def test_what_an_interrupted_command_keeps(self, capsys):
        def interrupted(**options):
            raise KeyboardInterrupt

        for words, said in (
            (["export", "x"], "nothing of this run is kept"),
            (["cache", "rm", "x"], "what is not deleted"),
        ):
            assert run_app(interrupted, words) == 130
            assert capsys.readouterr().err.startswith(f"interrupted; {said}")

    def test_the_code_of_each_error(self):
        codes = {
            1: "SourceError SampleError PrepareError ForkError EmptyBatchError FormatVersionError OtherSourceError",
            2: "ArgumentError SampleIndexError",
            3: "NotPreparedError TermsError FolderError",
            4: "DownloadError RemoteError",
            5: "HashMismatchError ArchiveError RecordError ManifestError CorruptRecordError ImageError",
            6: "DiskSpaceError",
        }
        expected = {name: code for code, names in codes.items() for name in names.split()} | {"RecordZooError": 1}
        kinds = [k for k in vars(errors).values() if isinstance(k, type) and issubclass(k, errors.RecordZooError)]
        assert {kind.__name__: exit_code(kind("x")) for kind in kinds} == expected
        assert exit_code(OSError(28, "No space left on device")) == Exit.DISK_FULL  # wherever it happens


class TestVerify:
    def test_a_damaged_one(self, birds, tmp_path):
        path = shutil.copytree(birds / "cub200.records", tmp_path / "cub200.records")
        flip(path / "shard-00000.lmdb", 4 * (path / "shard-00000.lmdb").stat().st_size)
        result = recordzoo("verify", path, "--full")
        assert result.returncode == 5
        assert "shard-00000.lmdb" in result.stdout
        assert result.stderr.splitlines()[-1].startswith(f"error: {path} is damaged")
        document = json.loads(recordzoo("verify", path, "--full", "--json").stdout)
        assert document["ok"] is False
        assert document["problems"]

    def test_one_with_more_problems_than_anybody_reads(self, tmp_path):
        result = recordzoo("verify", many_missing(tmp_path / "x.records", 1500))
        assert result.returncode == 5
        assert len(result.stdout.splitlines()) == 51
        assert "1,000 problems, where the check stopped; there may be more. " in result.stderr.splitlines()[-1]

    def test_only_a_strange_file_is_noted(self, photos):
        assert recordzoo("prepare", photos).returncode == 0
        path = Path(f"{photos}.records")
        (path / "notes.txt").write_text("mine")
        notes = [line for line in recordzoo("verify", path).stderr.splitlines() if "not named in the manifest" in line]
        assert [note.split()[0] for note in notes] == ["notes.txt"]


def test_an_error_ends_with_its_section_of_the_site(tmp_path, monkeypatch):
    monkeypatch.setattr(project, "url", {"Documentation": "https://docs.example.org/"}.get)
    about = "See https://docs.example.org/errors/#notpreparederror"
    assert run("verify", "missing.records", cwd=tmp_path).stderr.splitlines()[-1] == about
    as_json = run("verify", "missing.records", "--json", cwd=tmp_path).stderr
    assert json.loads(as_json)["error"]["notes"] == [about]
