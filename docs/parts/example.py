"""The script of `examples/`, as a page shows it."""

from pathlib import Path

_SCRIPT = Path(__file__).parent.parent.parent / "examples" / "train_imagenet.py"


def training() -> str:
    """Return the training script as a block of code."""
    return f"```python\n{_SCRIPT.read_text(encoding='utf-8')}```"
