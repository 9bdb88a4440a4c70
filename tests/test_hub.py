"""`push` to the Hugging Face Hub: the real client, and a server that stores what that client sends."""

import traceback

import huggingface_hub
import pytest
from fsspec.config import conf

import recordzoo
from recordzoo.errors import ArgumentError, OtherSourceError, RemoteError
from recordzoo.sets.push import CARD, MARK
from tests.copying import MANIFEST_NAME, copied_files, killed, shard, write_set
from tests.fakes.folder import write_dataset
from tests.fakes.hub import Answer, Hub, Repository
from tests.fakes.records import some_values, write_records
from tests.preparing import Notes, prepared
from tests.running import python

TOKEN = "hf_ThisIsTheSecretOfTheTests"
URL = "hf://datasets/user/photos"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("short_pauses"),
    pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning"),  # the client's use of httpx2
]


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """The server, with the login of "user"; large files come by Git LFS. Another process gets it by its environment."""
    with Hub({TOKEN: "user"}) as hub:
        monkeypatch.setitem(conf, "hf", {"endpoint": hub.url, "token": TOKEN})
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_XET", True)
        environment = {
            "HF_ENDPOINT": hub.url,
            "HF_TOKEN": TOKEN,
            "HF_HOME": str(tmp_path / "hf"),
            "HF_HUB_DISABLE_XET": "1",
        }
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        yield hub


@pytest.fixture
def path(tmp_path):
    return write_set(tmp_path / "a.records")


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """A record set of class folders, with pictures."""
    folder = tmp_path_factory.mktemp("photos")
    write_dataset(folder / "photos")
    return prepared(folder / "photos")


def program(*arguments, **environment):
    """Run the command line in a process of its own."""
    return python("-m", "recordzoo", *arguments, **environment)


def arrived(hub, folder="a.records", revision="main"):
    """The files of a folder of the repository, by name."""
    files = hub.datasets["user/photos"].files(revision)
    return {name.removeprefix(f"{folder}/"): data for name, data in files.items() if name.startswith(f"{folder}/")}


def commits(hub, branch="main"):
    return hub.datasets["user/photos"].branches[branch]


class TestOneCommit:
    def test_it_has_the_files_the_manifest_and_the_card(self, hub, path):
        assert recordzoo.push(path, URL) == f"{URL}/a.records"
        assert arrived(hub) == copied_files(path)
        assert len(commits(hub)) == 2  # the one of an empty repository, and this one
        others = {name for name in hub.datasets["user/photos"].files() if not name.startswith("a.records/")}
        assert others == {".gitattributes", CARD}
        assert not hub.datasets["user/photos"].private

    def test_again_nothing_is_sent(self, hub, path):
        recordzoo.push(path, URL)
        hub.log.clear()
        recordzoo.push(path, URL)
        recordzoo.push(path, URL, replace=True, verify=True)
        assert hub.requests("^(POST|PUT)") == []
        assert len(hub.requests(f"GET .*/{shard(0)}")) == 1  # `verify` read it back

    def test_a_lost_or_changed_file_is_sent_again(self, hub, path):
        recordzoo.push(path, URL)
        files = dict(hub.datasets["user/photos"].files())
        del files[f"a.records/{shard(0)}"]
        files["a.records/image.marks"] = bytes(len(files["a.records/image.marks"]))
        hub.datasets["user/photos"].commit("main", files)
        hub.log.clear()
        recordzoo.push(path, URL)
        assert arrived(hub) == copied_files(path)
        assert len(hub.requests("preupload")) == 2

    def test_it_is_read_there(self, hub, photos, tmp_path):
        url = recordzoo.push(photos, URL)
        there, here = recordzoo.open(url), recordzoo.open(photos)
        assert [label for _, label in there] == [label for _, label in here]
        assert there[0][0].tobytes() == here[0][0].tobytes()
        copy = recordzoo.pull(URL, tmp_path / "back")  # the only set below that address
        assert copied_files(copy) == copied_files(photos)
        for command in ("info", "verify"):
            done = program(command, url)
            assert done.returncode == 0, done.stderr

    def test_a_branch(self, hub, path):
        with pytest.raises(RemoteError, match=r"photos@new/a.records cannot be written: .*status 404"):
            recordzoo.push(path, f"{URL}@new")
        hub.datasets["user/photos"].commit("new", {})
        recordzoo.push(path, f"{URL}@new")
        assert arrived(hub, revision="new") == copied_files(path)
        assert f'open("{URL}@new/a.records")' in hub.datasets["user/photos"].files("new")[CARD].decode()
        assert len(commits(hub)) == 1

    @pytest.mark.parametrize(
        ("url", "text"),
        [
            (f"{URL}@{'0' * 40}", "names a commit, which cannot change"),
            ("hf://user/photos", "is no dataset and no bucket of the Hub"),
        ],
    )
    def test_what_is_no_place_for_a_record_set(self, hub, path, url, text):
        with pytest.raises(ArgumentError, match=text):
            recordzoo.push(path, url)
        assert hub.log == []

    def test_the_command(self, hub, photos):
        planned = program("push", photos, URL, "--dry-run")
        assert "would push" in planned.stdout, planned.stderr
        assert hub.datasets == {}
        pushed = program("push", photos, URL)
        assert pushed.stdout.startswith(f"pushed to {URL}/photos.records:"), pushed.stderr
        assert "B/s]" not in pushed.stderr  # the client's own bars
        again = program("push", photos, URL, "--dry-run")
        assert "is complete already:" in again.stdout
        assert TOKEN not in pushed.stdout + pushed.stderr


class TestInterrupted:
    def test_what_was_uploaded_before_a_kill_is_not_sent_again(self, hub, path, tmp_path):
        killed("push.sent:2", "push", path, URL, "--workers", "1", cwd=tmp_path)
        before = list(hub.uploads)
        assert len(before) == 2
        assert len(commits(hub)) == 1  # nothing is published
        recordzoo.push(path, URL)
        assert arrived(hub) == copied_files(path)
        assert sorted(hub.uploads) == sorted(set(hub.uploads))

    def test_a_commit_that_fails_for_a_moment_is_tried_again(self, hub, path):
        answers = [Answer(503), None]
        hub.before = lambda method, path: answers.pop(0) if "/commit/" in path and answers else None
        recordzoo.push(path, URL)
        assert arrived(hub) == copied_files(path)
        assert sorted(hub.uploads) == sorted(set(hub.uploads))


class TestTwoAtOnce:
    def meanwhile(self, hub, action):
        """Do something right before the first commit is stored."""
        actions = [action]

        def before(method, path):
            if "/commit/" in path and actions:
                actions.pop()()

        hub.before = before

    def test_of_two_sets_one_arrives(self, hub, path, tmp_path):
        other = write_set(tmp_path / "other" / "a.records", seed=1)
        self.meanwhile(hub, lambda: recordzoo.push(other, URL))
        with pytest.raises(OtherSourceError, match=rf"another record set .* at {URL}/a.records. Pass --replace"):
            recordzoo.push(path, URL)
        assert arrived(hub) == copied_files(other)

    def test_the_same_set_twice(self, hub, path):
        self.meanwhile(hub, lambda: recordzoo.push(path, URL))
        recordzoo.push(path, URL)
        assert arrived(hub) == copied_files(path)
        assert len(commits(hub)) == 2

    def test_two_addresses_in_one_repository(self, hub, path):
        self.meanwhile(hub, lambda: recordzoo.push(path, f"{URL}/b.records"))
        recordzoo.push(path, URL)
        assert arrived(hub) == arrived(hub, "b.records") == copied_files(path)
        card = hub.datasets["user/photos"].files()[CARD].decode()
        assert f'open("{URL}/a.records")' in card
        assert f'open("{URL}/b.records")' in card


class TestAnotherSetIsThere:
    def test_it_is_replaced_in_one_commit(self, hub, path, tmp_path):
        other = write_set(tmp_path / "other" / "a.records", seed=1, count=18)
        recordzoo.push(other, URL)
        files = hub.datasets["user/photos"].files()
        hub.datasets["user/photos"].commit("main", {**files, "a.records/notes.txt": b"of the user's"})
        recordzoo.push(path, URL, replace=True)
        assert arrived(hub) == {**copied_files(path), "notes.txt": b"of the user's"}
        assert len(commits(hub)) == 4
        assert all(f"a.records/{MANIFEST_NAME}" in files for _, files in commits(hub)[1:])


class TestRefused:
    def refused(self, path, url, status):
        with pytest.raises(RemoteError, match=rf"cannot be written: .*\(status {status}\).*hf auth login") as caught:
            recordzoo.push(path, url)
        assert caught.value.status == status
        assert TOKEN not in "".join(traceback.format_exception(caught.value))

    def test_a_wrong_token(self, hub, path):
        hub.users.clear()
        self.refused(path, URL, 401)

    def test_what_is_somebody_elses(self, hub, path):
        hub.datasets["other/photos"] = Repository()
        for name in ("photos", "new"):
            self.refused(path, f"hf://datasets/other/{name}", 403)
        assert len(hub.datasets["other/photos"].branches["main"]) == 1
        assert hub.datasets.keys() == {"other/photos"}

    def test_offline(self, hub, path, monkeypatch):
        monkeypatch.setenv("RECORDZOO_OFFLINE", "1")
        with pytest.raises(RemoteError, match="RECORDZOO_OFFLINE is set"):
            recordzoo.push(path, URL)
        assert hub.log == []


def card_of(hub):
    return huggingface_hub.DatasetCard(hub.datasets["user/photos"].files()[CARD].decode())


class TestCard:
    def test_what_it_says(self, hub, photos):
        recordzoo.push(photos, URL)
        card = card_of(hub)
        assert card.data.to_dict() == {"pretty_name": "photos", "tags": ["recordzoo", "image"], "viewer": False}
        assert f'dataset = recordzoo.open("{URL}/photos.records")' in card.text

    @pytest.mark.parametrize(
        ("dataset", "facts"),
        [("eurosat", {"license": "mit"}), ("food101", {"license": "other", "license_name": "food101-license"})],
    )
    def test_a_dataset_of_the_zoo(self, hub, path, tmp_path, dataset, facts):
        entry = recordzoo.info(dataset)
        progress = Notes()
        known = write_records(tmp_path / "known" / "known.records", some_values(3), dataset=dataset)
        recordzoo.push(known, URL, progress=progress)
        card = card_of(hub)
        assert facts == {name: value for name, value in card.data.to_dict().items() if name in facts}
        for text in (f"## {entry.title}", entry.summary, entry.license, entry.homepage, entry.citation):
            assert text in card.text
        assert ["Check that you may publish its images" in note for note in progress.notes] == [True] * (
            facts["license"] == "other"
        )
        recordzoo.push(path, URL)  # the license of one set is not that of the repository
        assert card_of(hub).data.license is None

    def test_a_card_of_somebody_is_kept(self, hub, photos):
        hub.datasets["user/photos"] = Repository()
        hub.datasets["user/photos"].commit("main", {CARD: b"# Mine"})
        recordzoo.push(photos, URL)
        assert hub.datasets["user/photos"].files()[CARD] == b"# Mine"

    def test_our_own_is_written_again(self, hub, photos, path):
        recordzoo.push(path, URL)
        recordzoo.push(photos, URL)
        for name in ("a", "photos"):
            assert f"recordzoo pull {URL}/{name}.records data" in card_of(hub).text
        assert card_of(hub).text.count("recordzoo.open(") == 2
        edited = {**hub.datasets["user/photos"].files(), CARD: f"{MARK}\nmy words".encode()}
        hub.datasets["user/photos"].commit("main", edited)
        recordzoo.push(photos, URL)  # no record set has changed
        assert hub.datasets["user/photos"].files()[CARD].endswith(b"my words")

    def test_none_is_asked_for(self, hub, photos):
        done = program("push", photos, URL, "--no-card")
        assert done.returncode == 0, done.stderr
        assert CARD not in hub.datasets["user/photos"].files()
        recordzoo.push(photos, URL)
        assert card_of(hub).data.pretty_name == "photos"


class TestXet:
    """With hf_xet, which comes with the client, large files are sent in chunks."""

    def test_a_dataset(self, hub, path):
        done = program("push", path, URL, HF_HUB_DISABLE_XET="0")
        assert done.returncode == 0, done.stderr
        assert arrived(hub) == copied_files(path)
        assert len(commits(hub)) == 2
        assert hub.uploads == []
        assert hub.xorbs

    def test_a_bucket(self, hub, photos, tmp_path):
        hub.buckets["user/data"] = {}
        (tmp_path / "tmp").mkdir()
        url = "hf://buckets/user/data/sets"
        options = {"HF_HUB_DISABLE_XET": "0", "TMPDIR": str(tmp_path / "tmp")}
        done = program("push", photos, url, **options)
        assert done.returncode == 0, done.stderr
        sent = {f"sets/photos.records/{name}": data for name, data in copied_files(photos).items()}
        assert hub.buckets["user/data"] == sent
        hub.log.clear()
        again = program("push", photos, url, **options)
        assert "is complete already" in again.stdout
        assert hub.requests("^POST") == []
        assert recordzoo.open(f"{url}/photos.records")[0][1] == recordzoo.open(photos)[0][1]
        assert copied_files(recordzoo.pull(url, tmp_path / "back")) == copied_files(photos)
        assert list((tmp_path / "tmp").iterdir()) == []

    @pytest.mark.parametrize(
        ("name", "text"), [("other/data", "access was refused"), ("user/none", "there is no such bucket")]
    )
    def test_a_bucket_that_is_not_ours(self, hub, path, name, text):
        hub.buckets["other/data"] = {}
        done = program("push", path, f"hf://buckets/{name}", HF_HUB_DISABLE_XET="0")
        assert done.returncode != 0
        assert text in done.stderr
        assert TOKEN not in done.stderr
        assert hub.buckets == {"other/data": {}}
