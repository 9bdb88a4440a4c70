"""Python imports this when it starts, where this folder is in PYTHONPATH: so worker processes are on "Windows", too."""

from tests.windows import become

become()
