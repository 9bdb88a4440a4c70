"""What the benchmark scripts import from recordzoo is there, also in the code that they run in other processes."""

import importlib
import re
import socket
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from benchmarks import common, prepare_imagenet
from benchmarks.object_storage import link
from benchmarks.usage import cpu_seconds, memory_bytes
from tests.fakes.pictures import jpeg, picture

FOLDER = Path(__file__).parent.parent / "benchmarks"
_IMPORT = re.compile(r"^\s*from (recordzoo[\w.]*) import (\w+(?:, \w+)*)", re.MULTILINE)
IMPORTS = sorted(
    {
        (path.relative_to(FOLDER).as_posix(), module, name)
        for path in FOLDER.rglob("*.py")
        if ".venv" not in path.as_posix()
        for module, names in _IMPORT.findall(path.read_text(encoding="utf-8"))
        for name in names.split(", ")
    }
)


@pytest.mark.parametrize(("script", "module", "name"), IMPORTS, ids=[" ".join(each) for each in IMPORTS])
def test_what_a_benchmark_imports_is_there(script: str, module: str, name: str) -> None:
    found = importlib.import_module(module)
    assert hasattr(found, name), f"benchmarks/{script} imports {name} from {module}, which has no such thing"


def test_the_slow_link_passes_on_what_is_asked_and_answered() -> None:
    answers = {b"a": b"x" * 3_000_000, b"b": b"y" * 10}
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                while asked := connection.recv(1):
                    connection.sendall(answers[asked])

        port = server.getsockname()[1]
        threading.Thread(target=answer, daemon=True).start()
        serving = threading.Thread(target=link.serve, args=(listener, port, 0.0, link.Bandwidth(1e9)), daemon=True)
        serving.start()
        with socket.create_connection(listener.getsockname()) as client, client.makefile("rb") as received:
            for asked in (b"a", b"b"):
                client.sendall(asked)
                assert received.read(len(answers[asked])) == answers[asked]
            client.shutdown(socket.SHUT_WR)
            assert received.read() == b""
        listener.shutdown(socket.SHUT_RDWR)
        serving.join()


@pytest.mark.slow
def test_preparing_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare_imagenet, "drop_caches", lambda: None)  # only root can
    monkeypatch.setattr(common, "WORK", tmp_path)
    rng = np.random.default_rng(0)
    lines = prepare_imagenet.measure([jpeg(picture(rng, 40, 30)) for _ in range(8)], 1, 200_000)
    assert [line.what.rpartition(" GB, ")[2] for line in lines] == [
        "MD5 on both sides",
        "our SHA-256, their MD5",
    ]
    for line in lines:
        assert line.against.startswith("torchvision: ")
        assert "; 0 image files" in line.measured


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_processes_below_count_too() -> None:
    before = cpu_seconds(), memory_bytes()
    code = "data = bytearray(b'x' * 400_000_000); sum(range(5_000_000)); print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        # Pages of libraries count less as soon as another process, of the tests beside this one, has them too.
        assert memory_bytes() - before[1] > 200_000_000
        assert cpu_seconds() - before[0] >= 0.05
        child.communicate(b"\n")
