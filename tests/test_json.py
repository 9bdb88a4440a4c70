"""`--json`: each command's document is what its schema in docs/schemas says, no key more and none less."""

import json
import re

import jsonschema
import pytest
from referencing import Registry, Resource

from recordzoo.cli.bench import STOCK, Result, Task, document
from recordzoo.cli.options import SCHEMA_VERSION
from tests.fakes import folder, legacy
from tests.preparing import REPOSITORY
from tests.running import run
from tests.test_commands import COMMANDS

FOLDER = REPOSITORY / "docs" / "schemas"
SCHEMAS = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json"))}


def strict(schema):
    """Refuse keys that a schema does not name; to readers they are allowed, for versions to come."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: strict(value) for key, value in schema.items()}
    return {"additionalProperties": False, **found} if isinstance(found.get("properties"), dict) else found


REGISTRY = Registry().with_resources(
    (f"{name}.json", Resource.from_contents(strict(schema))) for name, schema in SCHEMAS.items()
)


def check(name, text):
    """Validate a document, and return it."""
    found = json.loads(text)
    validator = jsonschema.Draft202012Validator(strict(SCHEMAS[name]), registry=REGISTRY)
    assert [error.message for error in validator.iter_errors(found)] == []
    assert found["schema_version"] == SCHEMA_VERSION
    return found


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A directory with a tree, its record set, a variant of it, and a database of another tool."""
    here = tmp_path_factory.mktemp("json")
    folder.write_tree(here / "photos")
    assert run("prepare", "photos", cwd=here).returncode == 0
    assert run("prepare", "photos", "--short-side", 8, cwd=here).returncode == 0
    assert run("push", "photos", "memory://there", cwd=here).returncode == 0
    images = legacy.pixels(2)
    legacy.caffe(here / "old", {f"{i:08d}": legacy.datum(*each) for i, each in enumerate(images)})
    return here


CASES = {
    "list": ("list", 0),
    "info-dataset": ("info imagenet", 0),
    "info-record-set": ("info photos", 0),
    "prepare": ("prepare photos", 0),
    "prepare-dry-run": ("prepare photos cub200 --dry-run", 0),
    "export": ("export photos --to folder --output exported", 0),
    "verify": ("verify photos", 0),
    "show": ("show photos --number 2 --output sheet.png", 0),
    "copy": ("copy photos copied", 0),
    "merge": ("merge photos photos.records --output merged.records", 0),
    "split": ("split photos --val 50%", 0),
    "subset": ("subset photos --indices 0,2 --output some.records", 0),
    "push": ("push photos memory://here", 0),
    "pull": ("pull memory://there pulled", 0),
    "cache-ls": ("cache ls .", 0),
    "doctor": ("doctor", 0),
    "error": ("info mnsit", 2),
}


@pytest.mark.parametrize("name", CASES)
def test_the_document_is_what_the_schema_says(name, here):
    words, code = CASES[name]
    result = run(*words.split(), "--json", cwd=here)
    assert result.returncode == code, result.stderr
    check(name, result.stderr if name == "error" else result.stdout)


def test_bench(tmp_path):
    results = [Result(STOCK, [100.0]), Result("another", [100.0, 110.0]), Result("broken", [], "KeyError: 'x'")]
    task = Task(tmp_path, None, "train")
    check("bench", json.dumps({"schema_version": 1, "bench": document(results, task, 1)}, default=str))


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("info photos-8.records", "info-record-set"),
        ("info cub200", "info-dataset"),
        ("prepare cub200 --dry-run --root empty", "prepare-dry-run"),
        ("prepare old", "prepare"),
        ("prepare old --dry-run", "prepare-dry-run"),
    ],
)
def test_other_forms_of_a_document(words, name, here):
    (here / "empty").mkdir(exist_ok=True)
    check(name, run(*words.split(), "--json", cwd=here).stdout)


@pytest.mark.parametrize(
    "words", ["prepare photos --from flat --allow-empty", "verify ./nowhere", "cache ls nowhere", "prepar"]
)
def test_every_error_is_one_document(words, here):
    result = run(*words.split(), "--json", cwd=here)
    assert (result.returncode != 0, result.stdout) == (True, "")
    assert check("error", result.stderr)["error"]["code"] == result.returncode


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_is_one_that_a_test_compares_and_the_page_links(name):
    jsonschema.Draft202012Validator.check_schema(SCHEMAS[name])
    assert name in {*CASES, "dataset", "bench"}
    assert f"(schemas/{name}.json)" in (REPOSITORY / "docs" / "cli.md").read_text(encoding="utf-8")


def test_every_command_with_json_has_a_schema():
    titles = " ".join(schema["title"] for schema in SCHEMAS.values())
    for name, command in COMMANDS.items():
        if any("--json" in parameter.opts for parameter in command.params):
            assert re.search(rf"recordzoo {name}\b", titles), name
