"""Bars in a notebook: in a real kernel, where tqdm decides whether there are widgets."""

from typing import Any

import pytest
from jupyter_client.manager import start_new_kernel

from tests.preparing import REPOSITORY

pytestmark = [
    pytest.mark.slow,
    # jupyter_client: https://github.com/jupyter/jupyter_client, of its own event loop and transport
    pytest.mark.filterwarnings("ignore::DeprecationWarning:jupyter_client"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

WORK = """
import logging, sys
logging.disable()
from recordzoo.base.progress import default_progress
progress = default_progress()
progress.begin("converting photos", 1000)
progress.advance(400, 3)
progress.advance(500, 2)
progress.end()
"""


# Any: the content of a message.
def messages(code: str) -> list[tuple[str, dict[str, Any]]]:
    """Execute code as a cell of a new notebook; return what the kernel shows."""
    manager, client = start_new_kernel(kernel_name="python3")
    try:
        number = client.execute(f"import sys; sys.path.insert(0, {str(REPOSITORY)!r})\n{code}")
        found = []
        while True:
            message = client.get_iopub_msg(timeout=60)
            if message["parent_header"].get("msg_id") != number:
                continue
            kind, content = message["msg_type"], message["content"]
            assert kind != "error", content
            if kind == "status" and content["execution_state"] == "idle":
                return found
            found.append((kind, content))
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def test_bars_are_widgets() -> None:
    shown = messages(WORK)
    assert [list(content["data"]) for kind, content in shown if kind == "display_data"] == [
        ["text/plain", "application/vnd.jupyter.widget-view+json"]
    ]
    states = [content["data"].get("state", {}) for kind, content in shown if kind.startswith("comm_")]
    values = [state["value"] for state in states if "value" in state]
    assert values[-3:] == [900.0, "converting\u2007photos:\u2007100%", values[-1]]
    assert "5\u2007images" in values[-1]
    assert [state["max"] for state in states if "max" in state] == [1000.0, 900.0]  # an estimate, then what it was
    assert not [content for kind, content in shown if kind == "stream"]


def test_without_ipywidgets_they_are_text() -> None:
    shown = messages(f"import sys; sys.modules['ipywidgets'] = None\n{WORK}")
    assert {kind for kind, _ in shown} <= {"status", "execute_input", "stream"}
    text = "".join(content["text"] for kind, content in shown if kind == "stream")
    assert "converting photos: 100%|" in text
    assert "5 images" in text
    assert "IProgress" not in text
    assert max(map(len, text.replace("\n", "\r").split("\r"))) <= 80
