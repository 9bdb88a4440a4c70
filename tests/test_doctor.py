"""`recordzoo doctor`: what it finds on machines of all kinds, what it advises, and that it shows no password."""

import dataclasses
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from recordzoo.cli.doctor import packages, speed
from recordzoo.cli.doctor import place as places
from recordzoo.cli.doctor.advice import advice, problems
from recordzoo.cli.doctor.findings import Findings
from recordzoo.cli.doctor.machine import Machine, machine
from recordzoo.cli.doctor.packages import Package
from recordzoo.cli.doctor.place import CAVEATS, Place, caveat, find_mount, place
from recordzoo.cli.doctor.speed import DiskSpeed
from recordzoo.cli.doctor.surroundings import Variable, known_variables
from tests.disks import mounted
from tests.preparing import REPOSITORY
from tests.running import run

GIB = 1 << 30

GOOD = Findings(
    essential=[Package("torch", "2.9")],
    optional=[Package("numba", "0.62", purpose="speed")],
    machine=Machine(8, 8, None, 64 * GIB, None, 32 * GIB, 4096),
    place=Place(Path("/data"), "ext4", "/", "", 900 * GIB, 500 * GIB, is_writable=True),
    proxies={},
    variables=[],
    known_variables=["RECORDZOO_MIRROR"],
    disk=DiskSpeed(5e8, 2e9, 9000.0, is_cold=True),
    decoder=None,
)


def changed(**parts):
    """Change attributes of the parts of a good machine: ``machine={"quota_cores": 2.0}``."""
    found = {}
    for name, values in parts.items():
        part = getattr(GOOD, name)
        found[name] = dataclasses.replace(part, **values) if isinstance(values, dict) else values
    return dataclasses.replace(GOOD, **found)


class TestAdvice:
    def test_a_good_machine_gets_none(self):
        assert (problems(GOOD), advice(GOOD)) == ([], [])

    @pytest.mark.parametrize(
        ("parts", "expected"),
        [
            ({"machine": {"quota_cores": 2.0}}, "time of 2 cores, and 8 are visible: pass --workers 2"),
            ({"machine": {"memory_limit_bytes": 2 * GIB}}, "2.15 GB of memory is little"),
            ({"machine": {"shared_memory_bytes": 64 << 20}}, "--shm-size 8g"),
            ({"machine": {"open_files": 256}}, "ulimit -n 4096"),
            ({"place": {"file_system": "overlay", "caveat": CAVEATS["overlay"]}}, "/data is on overlay: "),
            ({"place": {"is_writable": False}}, "/data may not be written to: pass --root"),
            ({"place": {"free_bytes": GIB}}, "1.07 GB free; `recordzoo cache ls`"),
            ({"disk": {"random_reads_per_s": 90.0}}, "The disk does 90 random reads a second"),
            ({"optional": [Package("numba", None, "", "", "pip install x")]}, "add numba: pip install x"),
            (
                {"optional": [Package("h5py", "3", "ImportError: x", "", "")]},
                "h5py 3 cannot be imported: ImportError: x",
            ),
            ({"variables": [Variable("RECORDZOO_OFFLINE", "1")]}, "RECORDZOO_OFFLINE is set: nothing is downloaded."),
            (
                {"variables": [Variable("RECORDZOO_X", "1", "no such variable.")]},
                "RECORDZOO_X is set: no such variable.",
            ),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_each_weakness_gets_one(self, parts, expected):
        (line,) = advice(changed(**parts))
        assert expected in line
        assert problems(changed(**parts)) == []

    @pytest.mark.parametrize(
        ("parts", "expected"),
        [
            (
                {"essential": [Package("torch", None, install="pip install torch")]},
                "torch is not installed: pip install",
            ),
            (
                {"essential": [Package("torch", "2", "OSError: libc10.so")]},
                "torch 2 cannot be imported: OSError: libc10",
            ),
            ({"place": {"problem": "LMDB cannot write here"}}, "/data: LMDB cannot write here. Keep record sets"),
            ({"variables": [Variable("RECORDZOO_MIRROR", "x", "must be an address.")]}, "must be an address."),
        ],
    )
    def test_what_is_broken_is_said(self, parts, expected):
        (line,) = problems(changed(**parts))
        assert expected in line


class TestMachine:
    def cgroups(self, root, line, **files):
        (root / "proc/self").mkdir(parents=True)
        (root / "proc/self/cgroup").write_text(line)
        for path, text in files.items():
            file = root / "sys/fs/cgroup" / path.replace("__", "/").replace("_dot_", ".")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return machine(root)

    def test_the_second_version_of_cgroups(self, tmp_path):
        found = self.cgroups(
            tmp_path,
            "0::/job/step\n",
            job__cpu_dot_max="150000 100000\n",
            job__step__cpu_dot_max="max 100000\n",
            job__step__memory_dot_max="8589934592\n",
            job__memory_dot_max="max\n",
        )
        assert (found.quota_cores, found.memory_limit_bytes) == (1.5, 8 * GIB)

    def test_the_first_version(self, tmp_path):
        found = self.cgroups(
            tmp_path,
            "4:memory:/docker/abc\n2:cpu,cpuacct:/docker/abc\n",
            # A container sees its own group as the top one.
            **{
                "memory__memory_dot_limit_in_bytes": "9223372036854771712\n",
                "memory__docker__abc__memory_dot_limit_in_bytes": "1073741824\n",
                "cpu,cpuacct__cpu_dot_cfs_quota_us": "200000\n",
                "cpu,cpuacct__cpu_dot_cfs_period_us": "100000\n",
            },
        )
        assert (found.quota_cores, found.memory_limit_bytes) == (2.0, GIB)

    def test_no_limits(self, tmp_path):
        found = machine(tmp_path)
        assert (found.quota_cores, found.memory_limit_bytes, found.shared_memory_bytes) == (None, None, None)
        assert 1 <= found.usable_cores <= found.cores


MOUNTS = """22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
23 22 0:40 / /data rw - nfs4 server:/data rw
24 23 0:41 / /data/my\\040disk rw shared:7 - fuse.sshfs sshfs rw
25 22 0:42 / /data rw - lustre server:/other rw
"""


class TestPlace:
    @pytest.mark.parametrize(
        ("path", "expected"),
        [
            ("/home/me", ("ext4", "/")),
            ("/data/birds", ("lustre", "/data")),  # mounted over the other
            ("/database", ("ext4", "/")),
            ("/data/my disk/x", ("fuse.sshfs", "/data/my disk")),
        ],
    )
    def test_the_volume_of_a_path(self, tmp_path, path, expected):
        (tmp_path / "mountinfo").write_text(MOUNTS)
        assert find_mount(Path(path), tmp_path / "mountinfo") == expected

    def test_where_there_is_no_list_nothing_is_known(self, tmp_path):
        assert find_mount(tmp_path, tmp_path / "nothing") == (None, None)

    @pytest.mark.parametrize(
        ("kind", "group"),
        [
            ("nfs4", "nfs"),
            ("cifs", "smb"),
            ("overlay", "overlay"),
            ("fuse.gcsfuse", "fuse"),
            ("fuseblk", "fuse"),
            ("tmpfs", "memory"),
            ("9p", "windows"),
            ("vfat", "fat"),
            ("lustre", "cluster"),
        ],
    )
    def test_kinds_with_caveats(self, kind, group):
        assert caveat(kind) == CAVEATS[group]

    @pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "zfs", "apfs", None])
    def test_kinds_without(self, kind):
        assert caveat(kind) == ""

    def test_nothing_is_left_behind(self, tmp_path):
        found = place(tmp_path)
        assert (found.is_writable, found.problem) == (True, "")
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize(
        ("code", "said"),
        [
            ("import os; os.kill(os.getpid(), 7)", "LMDB cannot write here (signal 7)"),  # a mapped file without room
            ("raise OSError('Invalid argument')", "LMDB cannot write here (OSError: Invalid argument)"),
        ],
    )
    def test_a_file_system_on_which_lmdb_dies(self, tmp_path, monkeypatch, code, said):
        monkeypatch.setattr(places, "_LMDB_TEST", code)
        assert place(tmp_path).problem == said
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.slow
    def test_a_full_disk(self, tmp_path):
        with mounted(tmp_path / "small", "size=1m") as volume:
            volume.fill(0)
            words = [sys.executable, "-m", "recordzoo", "doctor", "--json", "--root", str(volume.mounted_at)]
            done = subprocess.run([*volume.enter, *words], capture_output=True, text=True)
            found = json.loads(done.stdout)
            assert (done.returncode, found["ok"], found["root"]["file_system"]) == (0, True, "tmpfs")
            assert any(text.startswith(f"{volume.mounted_at} has 0 B free") for text in found["advice"])
            assert [path.name for path in volume.path.iterdir()] == ["ballast"]


class TestPackages:
    def test_each_is_installed_with_the_extra_that_has_it(self):
        project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        for each in packages._OPTIONAL:
            extras = re.findall(r"recordzoo\[(.*)\]", each.install)
            requirements = project["optional-dependencies"][extras[0]] if extras else project["dependencies"]
            assert any(line.startswith(f"{each.name}>=") for line in requirements)
            assert extras != ["dev"]

    def test_a_missing_dependency_comes_with_the_command(self, monkeypatch):
        monkeypatch.setattr(packages, "_version", lambda name: None)
        monkeypatch.setattr(packages, "how_to_install", lambda name: f"install {name}")
        found = {each.name: each.install for each in packages.optional()}
        assert (found["numba"], found["isal"]) == ("install numba", "install isal")

    def test_a_missing_one_comes_with_the_command(self, monkeypatch):
        monkeypatch.setattr(
            packages, "_OPTIONAL", [packages._Optional("no-such", "no_such", "nothing", "pip install it")]
        )
        assert packages.optional()[1] == Package("no-such", None, "", "nothing", "pip install it")

    def test_a_broken_one_ends_with_code_1(self, tmp_path, monkeypatch):
        (tmp_path / "broken_torch.py").write_text("raise OSError('libc10.so: not found')")
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.setattr(packages, "ESSENTIAL", ("numpy", "pillow", "torch"))
        monkeypatch.setattr(packages, "_MODULES", {"pillow": "PIL", "torch": "broken_torch"})
        result = run("doctor", "--no-speed", "--root", tmp_path, cwd=tmp_path)
        assert result.returncode == 1
        assert "cannot be imported: OSError: libc10.so: not found" in result.stdout
        assert "recordzoo works here" not in result.stdout


@pytest.mark.slow
def test_it_runs_where_nothing_can_be_imported(tmp_path):
    code = "import sys\nfor name in ('torch', 'torchvision', 'lmdb', 'numpy'): sys.modules[name] = None\n"
    code += "from recordzoo.cli.app import app; from recordzoo.cli.run import run; sys.exit(run(app, ['doctor']))"
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.count("broken: ") == 4


class TestCommand:
    def test_the_text_names_everything(self, tmp_path, monkeypatch):
        monkeypatch.setattr(speed, "FILE_BYTES", 2 << 20)
        monkeypatch.setattr(speed, "_SHARE_S", 0.02)
        result = run("doctor", "--root", tmp_path, cwd=tmp_path)
        assert (result.returncode, result.stderr) == (0, "")
        heads = [line.partition(":")[0] for line in result.stdout.splitlines() if ":" in line and line[0] != " "]
        assert heads[:7] == ["recordzoo", "Python", *packages.ESSENTIAL]
        assert {"cores", "memory", "root", "file system", "free", "proxies", "disk reads", "decoding"} <= {*heads}
        assert result.stdout.endswith("recordzoo works here.\n")
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("options", [(), ("--json",)])
    def test_no_password_is_shown(self, tmp_path, monkeypatch, options):
        monkeypatch.setenv("https_proxy", "http://me:s3cret@proxy:3128")
        monkeypatch.setenv("RECORDZOO_MIRROR", "https://me:s3cr3t@mirror/data")
        result = run("doctor", "--no-speed", *options, cwd=tmp_path)
        assert result.returncode == 0
        assert "s3cr" not in result.stdout + result.stderr
        assert "http://proxy:3128" in result.stdout
        assert "https://mirror/data" in result.stdout

    def test_variables_are_checked(self, tmp_path, monkeypatch):
        monkeypatch.setenv("RECORDZOO_OFLINE", "1")
        monkeypatch.setenv("RECORDZOO_TIMEOUT", "soon")
        result = run("doctor", "--no-speed", "--json", cwd=tmp_path)
        found = json.loads(result.stdout)
        assert (result.returncode, found["ok"]) == (1, False)
        assert found["problems"] == [
            "The environment variable RECORDZOO_TIMEOUT is 'soon'; it must be a number, 0 or more."
        ]
        assert "Did you mean RECORDZOO_OFFLINE?" in found["advice"][-1]

    def test_every_variable_is_known(self):
        assert {"RECORDZOO_MIRROR", "RECORDZOO_STATE", "RECORDZOO_QUIET"} <= {*known_variables()}

    def test_a_root_that_is_not_there(self, tmp_path):
        assert run("doctor", "--root", "nowhere", cwd=tmp_path).returncode == 3

    def test_too_little_room_for_the_test_of_the_disk(self, tmp_path):
        assert speed.disk_speed(tmp_path, 1000) is None
