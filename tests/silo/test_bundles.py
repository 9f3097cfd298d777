"""Which bundles are approved: the owner's own copies decide, and nobody else may change them."""

import io
import os
import shutil
import zipfile
from hashlib import sha256
from pathlib import Path

import pytest
from app_bundles import make_bundle, packed

from fedkd_flwr.errors import DataError
from fedkd_flwr.silo import bundles
from fedkd_flwr.silo.bundles import Approvals, Bundle, build_bundle, installed_differences

ROOT = Path(__file__).parents[2]


def test_a_bundle_is_named_by_the_hash_of_its_bytes():
    bundle = make_bundle()
    assert bundle.sha256 == sha256(bundle.content).hexdigest()
    assert (bundle.app, bundle.version, bundle.client_app) == ("lab/votes", "1.0", "votes.client:app")
    assert list(bundle.files) == ["pyproject.toml", "votes/client.py"]


def test_a_bundle_that_would_unpack_to_too_much_is_refused_before_it_is_unpacked(monkeypatch):
    monkeypatch.setattr(bundles, "MAX_UNPACKED_BYTES", 1000)
    monkeypatch.setattr(zipfile.ZipFile, "read", None)
    with pytest.raises(DataError, match=r"at most 1,000 bytes unpacked, got 5,\d\d\d bytes"):
        make_bundle("#" * 5000)


@pytest.mark.filterwarnings("ignore:GitWildMatchPattern")  # Flower's own build
def test_the_same_files_give_the_same_hash_in_another_folder_at_another_time(tmp_path):
    hashes = set()
    for name in ("one", "two"):
        app = tmp_path / name / "app"
        shutil.copytree(ROOT / "fedkd_flwr", app / "fedkd_flwr", ignore=shutil.ignore_patterns("*.pyc"))
        for file in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(ROOT / file, app)
        if name == "two":  # Flower packs no such file
            (app / "rows.csv").write_text("1,2", encoding="utf-8")
            os.utime(app / "README.md", (0, 0))
        hashes.add(build_bundle(app).sha256)
    assert len(hashes) == 1
    assert installed_differences(build_bundle(app)) == []
    (app / "fedkd_flwr" / "checks.py").write_text("# other\n", encoding="utf-8")
    assert installed_differences(build_bundle(app)) == ["fedkd_flwr/checks.py"]


def test_a_bundle_is_approved_while_the_owner_s_copy_is_there(tmp_path):
    approvals, bundle = Approvals(tmp_path / "approved"), make_bundle()
    assert approvals.files() == {}
    path = approvals.add(bundle)
    assert path.stat().st_mode & 0o777 == 0o644  # the node may be another user's
    assert approvals.find(bundle.content) == bundle
    assert approvals.find(make_bundle("app = 1\n").content) is None
    assert approvals.find(b"no bundle at all") is None
    for digest in ("", "0", "ffffffff", "*"):
        with pytest.raises(DataError, match="hash must be the first digits"):
            approvals.remove(digest)
    approvals.add(make_bundle("app = 2\n")).rename(path.with_name(f"{'0' * 64}.fab"))
    assert approvals.find(make_bundle("app = 1\n").content) is None  # a file's name approves nothing
    assert approvals.remove(bundle.sha256[:8]) == bundle
    assert approvals.find(bundle.content) is None


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
@pytest.mark.parametrize("what", ["folder", "file"])
def test_approvals_that_others_can_write_are_not_believed(tmp_path, what):
    approvals, bundle = Approvals(tmp_path / "approved"), make_bundle()
    path = approvals.add(bundle)
    (path if what == "file" else path.parent).chmod(0o777)
    with pytest.raises(DataError, match=r"must be writable for its owner alone, got owner \d+, mode 0777"):
        approvals.find(bundle.content)


@pytest.mark.parametrize("what", ["a link to nothing", "a folder"])
def test_an_approval_that_cannot_be_read_is_named_with_the_way_out(tmp_path, what):
    approvals = Approvals(tmp_path / "approved")
    approvals.add(make_bundle())
    path = approvals.folder / "release.fab"
    path.mkdir(mode=0o700) if what == "a folder" else path.symlink_to(tmp_path / "gone.fab")
    with pytest.raises(DataError, match=r"release\.fab must be a file that this user can read, got .*remove it"):
        approvals.find(b"any")


def test_a_client_app_must_be_in_the_bundle_and_installed():
    with pytest.raises(DataError, match="must hold the package os of its ClientApp os:system"):
        installed_differences(make_bundle(client_app="os:system"))
    with pytest.raises(DataError, match="package votes must be installed here, got no such package"):
        installed_differences(make_bundle())


def _damaged_inside():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("pyproject.toml", "# words")
    content = bytearray(buffer.getvalue())
    content[44:48] = b"\xff" * 4  # where the deflated bytes begin
    return bytes(content)


NO_BUNDLES = {
    "nothing": b"", "no zip": b"no zip", "no project": packed({"a.py": ""}), "no toml": packed({"pyproject.toml": "["}),
    "no app": packed({"pyproject.toml": "project = 1"}), "damaged inside": _damaged_inside(),
}  # fmt: skip


@pytest.mark.parametrize("content", NO_BUNDLES.values(), ids=NO_BUNDLES)
def test_what_is_no_bundle_is_refused_with_the_way_to_build_one(content, tmp_path):
    with pytest.raises(DataError, match=r"file x must be a Flower app bundle, got .*fedkd server bundle"):
        Bundle.from_bytes(content, source="file x")
    with pytest.raises(DataError, match=r"must hold a pyproject\.toml, got 'none'"):
        build_bundle(tmp_path)
