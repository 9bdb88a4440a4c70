"""Mark what lies here: it needs the packages of the extra `frameworks`, and runs with ``make frameworks`` only.

Each test may take 900 seconds: two ranks that import Lightning share two cores with another test worker.
"""

from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.frameworks)
            item.add_marker(pytest.mark.timeout(900))
