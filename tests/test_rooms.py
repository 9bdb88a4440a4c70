"""The rooms of docs/architecture.md: imports point up their list, and never down."""

import ast
import functools
import re
from pathlib import Path

import pytest
from PIL import Image

from recordzoo import catalogue
from tests.fakes.pictures import encoded
from tests.fakes.records import write_records
from tests.running import printed

# One worker parses the modules, for all tests.
pytestmark = pytest.mark.xdist_group("rooms")

PACKAGE = Path(__file__).parent.parent / "recordzoo"
PAGE = PACKAGE.parent / "docs" / "architecture.md"
MODULES = sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))
OUTSIDE = {"__init__", "__main__"}  # the front door and the command: below all rooms


def rooms() -> list[str]:
    """Read the list of rooms from the page, top to bottom."""
    section = PAGE.read_text(encoding="utf-8").partition("\n## Rooms\n")[2].partition("\n## ")[0]
    names = re.findall(r"^\| `(\w+)/?` \|", section, flags=re.MULTILINE)
    assert len(names) > 5, "the table of rooms was not found"
    return names


def room_of(module: Path) -> str:
    return module.parts[0].removesuffix(".py")


@functools.cache
def nodes_of(module: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse((PACKAGE / module).read_text(encoding="utf-8"))))


def imported_rooms(module: Path) -> set[str]:
    """Find the rooms that a module imports from, inside functions too, and by name through `import_module`."""
    found = set()
    for node in nodes_of(module):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: relative imports are not used here"
            names = [node.module or ""]
            if node.module == "recordzoo":
                names = [f"recordzoo.{alias.name}" for alias in node.names]
        else:
            continue
        found |= {name.split(".")[1] for name in names if name.startswith("recordzoo.")}
    return found


def test_every_room_is_on_the_list():
    assert {room_of(module) for module in MODULES} - OUTSIDE == set(rooms())


def test_imports_point_up_the_list():
    order = rooms()
    for module in MODULES:
        if room_of(module) not in OUTSIDE:
            below = (imported_rooms(module) & set(order)) - set(order[: order.index(room_of(module)) + 1])
            assert not below, f"{module} imports from rooms below its own: {sorted(below)}"


# A dataset gave its name to a format that many tools write, and to the extra that reads it.
FORMATS = {"own/annotations.py": {"coco", "voc"}, "images/decode.py": {"coco"}}


def test_only_its_own_folder_names_a_dataset():
    """In code, that is: messages, help texts and docstrings may have examples."""
    known = {*catalogue.names(), *(name for each in catalogue.names() for name in catalogue.entry(each).class_names)}
    for module in MODULES:
        if room_of(module) == "datasets":
            continue
        nodes = nodes_of(module)
        used = {node.id for node in nodes if isinstance(node, ast.Name)}
        used |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        used |= {alias.name for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names}
        used |= {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
        found = used & known - FORMATS.get(module.as_posix(), set())
        assert not found, f"{module} names {found}"


def modules_after(code: str) -> set[str]:
    """Run code in a fresh process and list the packages that it has imported, and the modules of PIL."""
    code += "\nimport sys; print(); print(*{n if n[:4] == 'PIL.' else n.partition('.')[0] for n in sys.modules})"
    return set(printed(code).splitlines()[-1].split())


@pytest.mark.parametrize(
    "arguments", [["--help"], ["list"], ["list", "--json"], ["info", "imagenet"], ["prepare", "--help"]]
)
def test_light_commands_import_no_torch(arguments):
    code = f"from recordzoo.cli.app import app; from recordzoo.cli.app import run; run(app, {arguments!r})"
    assert not modules_after(code) & {"torch", "torchvision", "numpy", "requests", "rich", "lmdb", "PIL.Image"}


def test_importing_the_package_imports_no_torch():
    heavy = {"torch", "torchvision", "numpy", "requests", "lmdb", "numba", "simplejpeg", "isal"}
    assert not modules_after("import recordzoo") & {*heavy, "PIL"}
    assert not modules_after("import recordzoo.errors") & {*heavy, "PIL.Image"}  # PIL itself has the error's base


@pytest.mark.slow
def test_a_loader_imports_no_numba_before_its_first_batch():
    assert not modules_after("from recordzoo import ImageFolderRecord, RecordLoader") & {"numba", "llvmlite"}


def test_preparing_imports_no_torch():
    code = "import recordzoo.datasets, recordzoo.preparing, recordzoo.catalogue as c, recordzoo.recipes.folders\n"
    code += "from recordzoo.recipes.declared import dataset_recipe\n"
    code += "[dataset_recipe(n, p.name) for n in c.names() for p in c.entry(n).parts]\n"
    code += "import recordzoo.preparing.preparation"  # what `recordzoo prepare PATH` asks of a tree that it made before
    assert not modules_after(code) & {"torch", "torchvision", "scipy", "pyarrow"}


@pytest.mark.parametrize("command", ["show", "info"])
def test_looking_at_a_record_set_imports_no_torch(command, tmp_path):
    path = write_records(tmp_path / "some.records", [encoded(Image.new("L", (3, 2)), "PNG")], encoding="image")
    arguments = [command, str(path), *(["--output", str(tmp_path / "out.png")] if command == "show" else [])]
    code = f"from recordzoo.cli.app import app; from recordzoo.cli.app import run; print(run(app, {arguments!r}))"
    loaded = modules_after(code)
    assert "PIL.Image" in loaded
    assert not loaded & {"torch", "torchvision", "scipy"}
    assert (tmp_path / "out.png").exists() == (command == "show")
