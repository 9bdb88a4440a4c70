"""The sections about MDS and LitData run with their packages; `make formats` makes their environment."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from recordzoo.records.reader import RecordReader
from tests.foreign import pairs
from tests.test_docs import ROOT
from tests.test_pages import DRIVER

HERE = Path(__file__).parent
SAID = os.environ.get("RECORDZOO_STREAMING_PYTHON")
"""`make formats` says which Python, and then it must be there."""


@pytest.mark.slow
def test_the_sections_run_with_the_packages(tmp_path: Path) -> None:
    python = Path(SAID or HERE / ".venv-streaming/bin/python").absolute()
    if not python.exists() and not SAID:
        pytest.skip("streaming and litdata are installed by `make formats`")
    samples = [pair for pair in pairs(12) if pair[0].startswith(b"\xff\xd8")]
    for number, (image, label) in enumerate(samples):
        (tmp_path / f"{number}-{label}.jpg").write_bytes(image)
    blocks = tmp_path / "blocks.json"
    page = (ROOT / "docs" / "importing.md").read_text(encoding="utf-8")
    sections = page.partition("\n### MDS\n")[2].partition("\n### FFCV\n")[0]
    codes = re.findall(r"```(python)\n(.*?)```", sections, re.DOTALL)
    assert len(codes) == 3
    blocks.write_text(json.dumps(codes))
    for command in ([HERE / "write_streaming.py"], ["-c", DRIVER, blocks]):
        done = subprocess.run(
            [python, *command],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    for name in ("mds", "mds-val", "litdata"):
        reader = RecordReader(tmp_path / f"{name}.records")
        assert [reader.read("image", number) for number in range(len(reader))] == [image for image, _ in samples]
        assert reader.array("target").tolist() == [label for _, label in samples]
