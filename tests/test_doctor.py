"""`recordzoo doctor`: what it finds on machines of all kinds, and what it advises."""

import json
import re
import subprocess
import sys
import tomllib
from typing import NamedTuple

import pytest

from recordzoo.cli import doctor
from recordzoo.cli.doctor import Package, disk, optional_packages
from tests.disks import mounted
from tests.preparing import REPOSITORY
from tests.running import python

GIB = 1 << 30


class Usage(NamedTuple):
    total: int
    free: int


class TestDisk:
    @pytest.fixture(autouse=True)
    def good(self, monkeypatch):
        """A disk that has room."""
        self.sizes = {"/dev/shm": Usage(32 * GIB, 32 * GIB)}
        usual = Usage(900 * GIB, 500 * GIB)
        monkeypatch.setattr(doctor.shutil, "disk_usage", lambda path: self.sizes.get(str(path), usual))

    def test_a_good_one_gets_no_advice(self, tmp_path):
        found = disk(tmp_path)
        assert (found.problems, found.advice) == ([], [])
        assert (found.facts["free"], found.facts["shared memory"]) == ("537 GB of 966 GB", "34.4 GB")
        assert list(tmp_path.iterdir()) == []

    def test_what_is_short_is_advised(self, tmp_path, monkeypatch):
        self.sizes = {str(tmp_path): Usage(900 * GIB, GIB), "/dev/shm": Usage(64 << 20, 64 << 20)}
        room, shared = disk(tmp_path).advice
        assert "1.07 GB free" in room
        assert "The shared memory has 67.1 MB" in shared
        monkeypatch.setattr(doctor, "_is_writable", lambda path: False)
        found = disk(tmp_path)
        assert f"{tmp_path} may not be written to: pass --root" in found.advice[0]
        assert (found.facts["root"], found.problems) == (f"{tmp_path} (may not be written to)", [])


@pytest.mark.slow
def test_a_full_disk(tmp_path):
    with mounted(tmp_path / "small", "size=1m") as volume:
        volume.fill(0)
        words = [sys.executable, "-m", "recordzoo", "doctor", "--json", "--root", str(volume.mounted_at)]
        done = subprocess.run([*volume.enter, *words], capture_output=True, text=True)
        found = json.loads(done.stdout)
        assert (done.returncode, found["ok"]) == (0, True)
        assert any(text.startswith(f"{volume.mounted_at} has 0 B free") for text in found["advice"])
        assert [path.name for path in volume.path.iterdir()] == ["ballast"]


class TestPackages:
    def test_each_is_installed_with_the_extra_that_has_it(self):
        project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        for each in doctor.OPTIONAL:
            extras = re.findall(r"recordzoo\[(.*)\]", each.install)
            requirements = project["optional-dependencies"][extras[0]] if extras else project["dependencies"]
            assert any(line.startswith(f"{each.name}>=") for line in requirements)
            assert extras != ["dev"]

    def test_missing_ones_come_with_one_command(self, tmp_path, monkeypatch):
        monkeypatch.setattr(doctor, "_imported", lambda package: (None, ""))
        monkeypatch.setattr(doctor, "_turbojpeg", lambda: (Package("libjpeg-turbo", "", "speed"), "3.1.2"))
        monkeypatch.setattr(doctor, "how_to_install", lambda name: f"pip install --upgrade {name}")
        found = optional_packages(tmp_path)
        assert found.facts["pyarrow"].startswith("missing: pip install 'recordzoo[formats]' (")
        assert (found.facts["libjpeg-turbo"], found.problems) == ("3.1.2 (speed)", [])
        assert found.advice == ["For faster reading add numba, isal: pip install --upgrade numba isal"]

    def test_an_optional_one_that_is_broken(self, tmp_path, monkeypatch):
        (tmp_path / "broken_h5py.py").write_text("raise ImportError('x')")
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.setattr(doctor, "OPTIONAL", [Package("numpy", "broken_h5py", "HDF5 files", "pip install it")])
        monkeypatch.setattr(doctor, "_turbojpeg", lambda: (Package("libjpeg-turbo", "", "speed"), "3.1.2"))
        found = optional_packages(tmp_path)
        assert found.facts["numpy"] == "missing: pip install it (HDF5 files)"
        (line,) = found.advice
        assert re.fullmatch(r"numpy [0-9.]+ cannot be imported: ImportError: x", line)


@pytest.mark.slow
def test_it_runs_where_nothing_can_be_imported(tmp_path):
    code = "import sys\nfor name in ('torch', 'torchvision', 'lmdb', 'numpy'): sys.modules[name] = None\n"
    code += "from recordzoo.cli.app import app; from recordzoo.cli.app import run; sys.exit(run(app, ['doctor']))"
    done = python("-c", code, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.count("broken: ") == 4
