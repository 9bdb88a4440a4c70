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
from PIL import Image

from recordzoo import __version__, catalogue, errors
from recordzoo import errors as project
from recordzoo.base import settings as roots
from recordzoo.cli.app import Exit, exit_code
from recordzoo.cli.app import run as run_app
from recordzoo.cli.listing import entry_document
from recordzoo.cli.options import clean, resolve
from recordzoo.cli.prepare import check_room
from recordzoo.net import http as retry
from recordzoo.preparing.options import Options
from recordzoo.preparing.preparation import Outlook, Preparation
from recordzoo.recipes.declared import dataset_recipe
from recordzoo.records.reader import RecordReader
from tests.fakes import cub200, imagenet
from tests.fakes.records import flip, many_missing
from tests.fakes.server import Fault, FileServer
from tests.preparing import wait_for
from tests.running import run
from tests.terminals import run_on_terminal

COMMAND = [sys.executable, "-m", "recordzoo"]
ARCHIVE = "cub200/CUB_200_2011.tgz"  # where a mirror has it


def recordzoo(*arguments, cwd=None, **environment):
    """Run a command in this process, with no other of recordzoo's variables, and return what it did."""
    kept = environment_with(**environment)
    with unittest.mock.patch.dict(os.environ, kept, clear=True):
        return run(*arguments, cwd=cwd or Path.cwd())


def environment_with(**more):
    kept = {key: value for key, value in os.environ.items() if not key.startswith("RECORDZOO_")}
    package = str(Path(__file__).parent.parent)
    return {**kept, "PYTHONPATH": package, "PYTHONWARNINGS": "error", **more}


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
    for name, colour in (("cat/1.png", "red"), ("cat/2.png", "green"), ("dog/1.png", "blue")):
        path = tmp_path / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 6), colour).save(path)
    return tmp_path / "photos"


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
        assert (nothing.returncode, nothing.stdout) == (0, "")
        assert nothing.stderr == f"No dataset fits. recordzoo list shows all {len(catalogue.names())}.\n"

    def test_where_record_sets_are_is_said(self, birds, tmp_path, monkeypatch):
        here = recordzoo("show", birds)
        assert here.returncode == 3
        assert here.stderr.endswith(f"{birds} holds record sets; give the path of one: {birds}/cub200.records.\n")
        state = {"RECORDZOO_STATE": str(tmp_path / "state")}
        unknown = recordzoo("verify", "cub200", cwd=tmp_path, **state)
        assert unknown.stderr.endswith("Run: recordzoo prepare cub200\n")
        monkeypatch.setenv("RECORDZOO_STATE", state["RECORDZOO_STATE"])
        roots.remember(birds)
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
        process = subprocess.Popen(
            [*COMMAND, "list"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment_with()
        )
        process.stdout.close()
        stderr = process.stderr.read()
        process.stderr.close()
        assert (process.wait(60), stderr) == (1, b"")

    def test_a_closed_or_full_stderr_changes_no_exit_code(self, tmp_path):
        command = f"{' '.join(COMMAND)} info {tmp_path}/none/"
        for stderr in ("2>&-", "2>/dev/full"):
            result = subprocess.run(
                ["sh", "-c", f"{command} {stderr}"], env=environment_with(), capture_output=True, check=False
            )
            assert (result.returncode, result.stdout) == (3, b"")


class TestPrepare:
    def test_dry_run_counts_no_unknown_size_as_nothing_and_names_the_option_where_it_helps(self, tmp_path):
        words = ("prepare", "places365", "flickr8k", "objectnet", "--root", tmp_path, "--dry-run")
        printed = recordzoo(*words).stdout
        assert "  space: how much is needed is not known; " in printed
        assert f"  Flickr8k_text.zip: size not known, to be downloaded by hand to {tmp_path}/" in printed
        places, *_, flickr, objects = [line for line in printed.splitlines() if not line.startswith(" ")]
        assert "train_large_places365standard.tar (113 GB)" in places
        assert "Flickr8k_text.zip (size not known)" in flickr
        assert "peak of disk size not known" in flickr
        assert flickr.endswith("; its files must be downloaded by hand, or need --accept-terms")
        assert objects.endswith("; its files must be downloaded by hand")

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

    def test_says_before_it_starts_and_one_line_when_nothing_is_to_do(self, tmp_path):
        cub200.build().write_tree(tmp_path)
        first = recordzoo("prepare", "cub200", "--root", tmp_path)
        assert (first.returncode, first.stdout) == (0, "")
        assert first.stderr.startswith("Preparing cub200")
        assert "12 images" in first.stderr
        again = recordzoo("prepare", "cub200", "--root", tmp_path)
        assert again.stderr == f"cub200: ready, 12 records in {tmp_path}/cub200.records\n"
        document = json.loads(recordzoo("prepare", "cub200", "--root", tmp_path, "--json").stdout)
        (made,) = document["record_sets"]
        assert (made["name"], made["records"], made["was_ready"]) == ("cub200", 12, True)
        assert made["path"] == f"{tmp_path}/cub200.records"

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
        first, *_ = result.stderr.splitlines()
        assert first.startswith(f"imagenet.{lacking}: cannot be prepared: ")
        assert first.endswith(f"{file} is not there). Going on with imagenet.{there}.")
        end = result.stderr.partition(f"imagenet.{there}: ready, ")[2]
        assert f"imagenet.{lacking}: not prepared.\nerror: these files must be downloaded by hand" in end
        assert file in end
        document = recordzoo("prepare", "imagenet", "--root", tmp_path, "--json")
        assert document.returncode == 3
        assert [made["name"] for made in json.loads(document.stdout)["record_sets"]] == [f"imagenet.{there}"]

    def test_where_no_part_can_be_prepared_each_is_named_once(self, tmp_path):
        said = recordzoo("prepare", "imagenet", "--root", tmp_path).stderr
        assert said.count("imagenet.train: ") == said.count("imagenet.val: ") == 1
        assert "\n0 of 2 record sets are ready.\nerror: these files must be downloaded by hand" in said

    def test_a_part_that_was_named_is_not_passed_over(self, tmp_path):
        imagenet.build().write_tree(tmp_path, "val")
        alone = recordzoo("prepare", "imagenet", "--split", "train", "--root", tmp_path)
        assert alone.returncode == 3
        assert alone.stderr.startswith("error: these files must be downloaded by hand")
        assert not list(tmp_path.glob("*.records"))
        both = recordzoo("prepare", "imagenet.train", "imagenet.val", "--root", tmp_path)
        assert both.returncode == 3
        by_hand = "its files must be downloaded by hand, or need --accept-terms"
        assert both.stderr.startswith(f"imagenet.train: failed: {by_hand}. Going on with imagenet.val.\n")
        assert "\nimagenet.train: not prepared.\nerror: these files must be downloaded by hand" in both.stderr
        assert (tmp_path / "imagenet.val.records").is_dir()

    def test_a_later_tree_that_is_none_is_found_first(self, photos, tmp_path):
        (tmp_path / "none").mkdir()
        result = recordzoo("prepare", photos, f"{tmp_path}/none/")
        assert result.returncode == 3
        assert "Couldn't find any class folder" in result.stderr
        assert not (tmp_path / "photos.records").exists()

    def test_room_for_several_is_added_up(self, tmp_path):
        free = shutil.disk_usage(tmp_path).free

        def check(raw_bytes, discard_raw=False):
            size = {"raw_bytes": raw_bytes, "peak_bytes": 2 * raw_bytes, "needed_bytes": 2 * raw_bytes}
            parts = [Preparation(part.recipe(), tmp_path, Options()) for part in resolve("imagenet", tmp_path)]
            check_room([Outlook(part, "download", free, **size) for part in parts], discard_raw=discard_raw)

        check(free // 5)
        check(free // 10 * 3, discard_raw=True)  # 0.3: twice the records, once the archive
        with pytest.raises(errors.DiskSpaceError):
            check(free // 10 * 3)
        (tmp_path / "imagenet.val.records.build").mkdir()  # somebody is at it, and asks for himself
        check(free // 10 * 3)

    def test_a_bar_on_a_terminal(self, photos):
        shown = run_on_terminal("prepare", photos, streams=("stdout", "stderr"))
        assert "3 images" in shown
        assert "\r" in shown
        assert "100%|" in shown


class TestErrors:
    @pytest.mark.parametrize(
        ("words", "variables", "code", "said"),
        [
            ("cub200", {"RECORDZOO_OFFLINE": "1"}, 4, ["error: "]),
            ("cub200 --mirror http://127.0.0.1:1", {"RECORDZOO_TIMEOUT": "abc"}, 2, ["RECORDZOO_TIMEOUT is 'abc'"]),
            ("imagenet.val", {}, 3, ["\n1. ", "\n2. ", "\n3. ", "\n4. ", "--accept-terms"]),
            ("nabirds", {}, 4, ["error: nabirds.tar.gz must be downloaded by hand.\n", "\n1. ", "\n2. ", "\n4. "]),
        ],
        ids=["no network", "a bad variable", "terms", "by hand"],
    )
    def test_what_must_be_done_first(self, tmp_path, words, variables, code, said):
        result = recordzoo("prepare", *words.split(), "--root", tmp_path, **variables)
        assert (result.returncode, result.stdout) == (code, "")
        assert [text for text in said if text not in result.stderr] == []
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
            with subprocess.Popen(
                [*COMMAND, *arguments], stderr=subprocess.PIPE, text=True, env=environment_with()
            ) as process:
                assert server.stalled.wait(60)
                wait_for(lambda: any(part.stat().st_size for part in tmp_path.glob("*.tgz.part")), "a part")
                process.send_signal(signum)
                stderr = process.stderr.read()
            assert process.returncode == code
            assert "what is finished is kept, and the same command goes on from there." in stderr.splitlines()[-1]
            assert "Traceback" not in stderr
            result = recordzoo(*arguments, "--discard-raw")
            assert result.returncode == 0, result.stderr
            assert server.requests(ARCHIVE)[-1].range is not None
            assert server.requests(ARCHIVE)[-1].sent < len(mirrored)
        assert len(RecordReader(tmp_path / "cub200.records")) == 32
        assert [path.name for path in tmp_path.glob("[!.]*")] == ["cub200.records"]

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            ("export photos", "nothing of this run is kept, and the same command begins again."),
            ("cache rm photos", "what is not deleted yet stays."),
            ("show photos", "nothing of this run is kept, and the same command begins again."),
            ("bench photos", "nothing of this run is kept, and the same command begins again."),
        ],
    )
    def test_what_an_interrupted_command_keeps(self, words, said, capsys):
        def interrupted(**options):
            raise KeyboardInterrupt

        assert run_app(interrupted, words.split()) == 130
        assert capsys.readouterr().err == f"interrupted; {said}\n"

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
        path = many_missing(tmp_path / "x.records", 1500)
        result = recordzoo("verify", path)
        assert result.returncode == 5
        assert len(result.stdout.splitlines()) == 51
        last = result.stderr.splitlines()[-1]
        assert last.startswith(
            f"error: {path} is damaged: 1,000 problems, where the check stopped; there may be more. "
        )
        document = json.loads(recordzoo("verify", path, "--json").stdout)
        assert (len(document["problems"]), document["stopped"]) == (1000, True)

    def test_only_a_strange_file_is_noted(self, photos):
        assert recordzoo("prepare", photos).returncode == 0
        path = Path(f"{photos}.records")
        assert (path / "tree.json").exists()
        assert not {"tree.json", "made-from.bin"}.intersection(recordzoo("verify", path).stderr.split())
        (path / "notes.txt").write_text("mine")
        notes = [line for line in recordzoo("verify", path).stderr.splitlines() if "not named in the manifest" in line]
        assert [note.split()[0] for note in notes] == ["notes.txt"]
        assert len(json.loads(recordzoo("verify", path, "--json").stdout)["notes"]) == 3


def test_clean_escapes_what_would_act():
    assert clean("Große Möwe.jpg") == "Große Möwe.jpg"
    assert clean("a\x1b[2J\u202egpj.\udcff\n") == "a\\x1b[2J\\u202egpj.\\udcff\\n"


@pytest.mark.parametrize("flags", [(), ("--json",)], ids=["text", "json"])
def test_an_error_ends_with_its_section_of_the_site(flags, tmp_path, monkeypatch):
    monkeypatch.setattr(project, "url", {"Documentation": "https://docs.example.org/"}.get)
    done = run("verify", "missing.records", *flags, cwd=tmp_path)
    about = "See https://docs.example.org/errors/#notpreparederror"
    if flags:
        assert json.loads(done.stderr)["error"]["notes"] == [about]
    else:
        assert done.stderr.splitlines()[-1] == about
