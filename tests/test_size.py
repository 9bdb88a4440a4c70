"""`tools/size.py` counts what is there, and says so if a pattern of a feature matches nothing."""

import pytest

from tools import size


def test_all_lines_of_a_feature_are_counted(tmp_path):
    folder = tmp_path / "recordzoo" / "room"
    folder.mkdir(parents=True)
    (folder / "one.py").write_text("a\nb\n")
    (folder / "two.py").write_text("c\n")
    feature = size.Feature("a room", 2, ("room/*.py", "room/one.py"))
    assert size.lines(size.modules(feature, tmp_path / "recordzoo")) == 3


def test_a_pattern_without_a_module_is_an_error(tmp_path):
    with pytest.raises(LookupError, match=r"gone: no module matches recordzoo/room/gone\.py"):
        size.modules(size.Feature("gone", 1, ("room/gone.py",)), tmp_path)


def test_the_table_is_of_this_project(capsys):
    assert size.main([]) == 0
    printed = capsys.readouterr().out
    for feature in size.FEATURES:
        assert feature.name in printed
    assert "lines of the package" in printed
