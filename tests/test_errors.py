"""The error tree: drawn, exported, picklable, and what torchvision users catch."""

import inspect
import pickle
import re
import traceback
from email.message import Message

import pytest
from torch._utils import ExceptionWrapper

from recordzoo import errors
from recordzoo import errors as project
from recordzoo.errors import RecordZooError

KINDS = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, RecordZooError)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
class TestEveryError:
    def test_comes_out_of_a_worker_as_itself(self, kind):
        try:
            raise kind("what went wrong", path="/a")
        except RecordZooError:
            wrapped = pickle.loads(pickle.dumps(ExceptionWrapper(where="in worker 0")))
        with pytest.raises(kind, match="what went wrong"):
            wrapped.reraise()

    def test_keeps_text_details_and_its_section_of_the_site_through_pickle(self, kind, monkeypatch):
        monkeypatch.setattr(project, "url", {"Documentation": "https://docs.example.org/zoo"}.get)
        again = pickle.loads(pickle.dumps(kind("what went wrong", path="/a", position=7)))
        assert type(again) is kind
        assert (str(again), again.path, again.position) == ("what went wrong", "/a", 7)
        with pytest.raises(AttributeError):
            _ = again.no_such_detail
        about = f"See https://docs.example.org/zoo/errors/#{kind.__name__.lower()}"
        assert "".join(traceback.format_exception(again)).endswith(f"what went wrong\n{about}\n")

    def test_is_more_than_ours(self, kind):
        builtins = [base for base in kind.__mro__ if base.__module__ in ("builtins", "PIL")]
        assert kind is RecordZooError or len(builtins) > len([Exception, BaseException, object])


def test_the_drawing_is_the_tree():
    drawn = {}
    parents: list[str] = []
    for line in errors.__doc__.splitlines():
        match = re.match(r"^    ([│├└─ ]*)(\w+Error)(?: \(([\w, ]+)\))?", line)
        if match is None:
            continue
        depth = len(match[1]) // 4
        parents = [*parents[:depth], match[2]]
        drawn[match[2]] = (parents[-2] if depth else None, set(match[3].split(", ")) if match[3] else set())
    assert set(drawn) == {kind.__name__ for kind in KINDS}
    for kind in KINDS:
        parent, builtins = drawn[kind.__name__]
        names = {base.__name__ for base in kind.__bases__}
        assert names == ({"Exception"} if parent is None else {parent} | builtins)


def test_addresses_are_those_of_the_installed_package(monkeypatch):
    of_the_package = Message()
    of_the_package["Project-URL"] = "Source, https://example.org/a, b"
    of_the_package["Project-URL"] = "Documentation, https://example.org/docs/"
    monkeypatch.setattr("importlib.metadata.metadata", {"recordzoo": of_the_package}.get)
    project.url.cache_clear()
    try:
        assert project.url("Source") == "https://example.org/a, b"
        assert project.page("errors/") == "https://example.org/docs/errors/"
        assert project.url("documentation") == "https://example.org/docs/"
        assert project.url("Changelog") is None
    finally:
        project.url.cache_clear()


def test_a_package_without_addresses_invents_none(monkeypatch):
    monkeypatch.setattr(project, "url", lambda label: None)
    assert project.page("errors/") is None
    assert not hasattr(RecordZooError("what went wrong"), "__notes__")
    assert str(RecordZooError()) == ""
