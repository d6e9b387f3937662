"""A folder becomes the same layer wherever it is packed, and what .dockerignore names stays out of it."""

from __future__ import annotations

import gzip
import hashlib
import os
import socket
import tarfile
from pathlib import Path

import pytest

from runtime.contract.errors import BadInput, InfrastructureError
from tasks.cloud import image_layer
from tasks.cloud.image_ignore import IGNORE_FILE
from tasks.cloud.image_layer import check_folder, pack_layer


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def names_in(file: Path) -> list[str]:
    with tarfile.open(file) as tar:
        return tar.getnames()


def packed(folder: Path, ignore: str | None, tmp_path: Path) -> set[str]:
    """Returns the files that are packed, without the folder they are put below."""
    if ignore is not None:
        (folder / ".dockerignore").write_text(ignore)
    layer = pack_layer(folder, tmp_path / "layer.tar.gz")
    with tarfile.open(layer.file) as tar:
        return {one.name.removeprefix("app/") for one in tar if one.isfile()} - {".dockerignore"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "code", train="1", data__big="2", data__keep="3", src__a="4", src__deep__a="5")


def test_the_same_files_are_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    one = pack_layer(folder, tmp_path / "one")
    other = write(tmp_path / "other", src__deep__a="5", src__a="4", data__keep="3", data__big="2", train="1")
    os.utime(other / "train", (1, 1))
    (other / "train").chmod(0o600)
    two = pack_layer(other, tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert one.digest == two.digest and one.files == two.files == 5
    (other / "train").chmod(0o755)
    assert pack_layer(other, tmp_path / "three").diff_id != one.diff_id


def test_digests_are_of_what_is_there(folder: Path, tmp_path: Path) -> None:
    layer = pack_layer(folder, tmp_path / "layer")
    content = layer.file.read_bytes()
    assert layer.digest == f"sha256:{hashlib.sha256(content).hexdigest()}" and layer.size == len(content)
    assert layer.diff_id == f"sha256:{hashlib.sha256(gzip.decompress(content)).hexdigest()}"


def test_nothing_tells_who_packed_it(folder: Path, tmp_path: Path) -> None:
    with tarfile.open(pack_layer(folder, tmp_path / "layer").file) as tar:
        assert {(one.uid, one.gid, one.uname, one.gname, one.mtime) for one in tar} == {(0, 0, "", "", 0)}
        assert tar.getnames()[0] == "app" and tar.getmember("app/src/deep").isdir()


@pytest.mark.parametrize(
    ("ignore", "kept"),
    [
        (None, {"train", "data/big", "data/keep", "src/a", "src/deep/a"}),
        ("# data\n\n", {"train", "data/big", "data/keep", "src/a", "src/deep/a"}),
        ("data", {"train", "src/a", "src/deep/a"}),
        ("/data/", {"train", "src/a", "src/deep/a"}),
        ("a", {"train", "data/big", "data/keep", "src/a", "src/deep/a"}),  # from the top only, unlike git's
        ("**/a", {"train", "data/big", "data/keep"}),
        ("*/a", {"train", "data/big", "data/keep", "src/deep/a"}),
        ("data\n!data/keep", {"train", "data/keep", "src/a", "src/deep/a"}),  # unlike git's
        ("*\n!src/deep", {"src/deep/a"}),
        ("!src\nsrc", {"train", "data/big", "data/keep"}),  # the last one decides
        ("./src/../data  ", {"train", "src/a", "src/deep/a"}),
        ("src/?", {"train", "data/big", "data/keep", "src/deep/a"}),
        ("data/[a-c]ig", {"train", "data/keep", "src/a", "src/deep/a"}),
        (".", {"train", "data/big", "data/keep", "src/a", "src/deep/a"}),
        ("/", {"train", "data/big", "data/keep", "src/a", "src/deep/a"}),
        ("..\n../code", {"train", "data/big", "data/keep", "src/a", "src/deep/a"}),
        ("data\r\nsrc\r\n", {"train"}),
        ("\ufeffdata", {"train", "src/a", "src/deep/a"}),
        ("src/**/a", {"train", "data/big", "data/keep"}),
        ("data/**\n!data/b*", {"train", "data/big", "src/a", "src/deep/a"}),
        ("[^a-z]\n[d]ata\n\\train", {"src/a", "src/deep/a"}),
    ],
)
def test_dockerignore_is_read_as_docker_reads_it(
    ignore: str | None, kept: set[str], folder: Path, tmp_path: Path
) -> None:
    assert packed(folder, ignore, tmp_path) == kept


@pytest.mark.parametrize("line", ["!", " ! ", "[", "data/[", "a[]", "[^]", "secret\\"])
def test_what_docker_refuses_in_it_is_refused_with_its_line(line: str, folder: Path, tmp_path: Path) -> None:
    (folder / ".dockerignore").write_text(f"# keys\n{line}\n")
    with pytest.raises(BadInput, match=r"\.dockerignore:2:1: "):
        pack_layer(folder, tmp_path / "layer")


def test_a_dockerignore_in_other_letters_leaves_nothing_in_by_mistake(folder: Path, tmp_path: Path) -> None:
    (folder / ".dockerignore").write_text("data", encoding="utf-16")
    with pytest.raises(BadInput, match="is not text, save it as UTF-8"):
        pack_layer(folder, tmp_path / "layer")
    (folder / os.fsdecode(b"gr\xfc\xdfe")).write_text("1")
    (folder / ".dockerignore").write_bytes(b"gr\xfc*\ndata\n")
    assert packed(folder, None, tmp_path) == {"train", "src/a", "src/deep/a"}


def test_a_full_disk_is_told_with_where_else(folder: Path) -> None:
    with pytest.raises(
        InfrastructureError, match="cannot pack .*: No space left .* free some space, or set TMPDIR"
    ):
        pack_layer(folder, Path("/dev/full"))


def test_a_folder_that_cannot_be_looked_into_is_no_empty_one(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = os.scandir

    def scandir(path: str) -> object:
        if str(path).endswith("src"):
            raise PermissionError(13, "Permission denied", path)
        return looked(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(InfrastructureError, match=r"cannot read .*: Permission denied \(.*/src\)$"):
        pack_layer(folder, tmp_path / "layer")


def test_histories_and_caches_stay_out_unless_taken_back(tmp_path: Path) -> None:
    folder = write(tmp_path / "code", a="", x__y="")
    write(folder / ".git", config="token")
    write(folder / "x" / "__pycache__", y="")
    assert packed(folder, None, tmp_path) == {"a", "x/y"}
    assert packed(folder, "!**/.git", tmp_path) == {"a", "x/y", ".git/config"}


def test_what_is_taken_back_has_its_folders(folder: Path, tmp_path: Path) -> None:
    (folder / ".dockerignore").write_text("*\n!src/deep/a")
    assert names_in(pack_layer(folder, tmp_path / "layer").file) == [
        "app",
        "app/src",
        "app/src/deep",
        "app/src/deep/a",
    ]


def test_links_stay_links(folder: Path, tmp_path: Path) -> None:
    (folder / "link").symlink_to("src/a")
    (folder / "folder").symlink_to("src")
    with tarfile.open(pack_layer(folder, tmp_path / "layer").file) as tar:
        assert tar.getmember("app/link").linkname == "src/a" and tar.getmember("app/folder").issym()
        assert "app/folder/a" not in tar.getnames()


def test_what_no_layer_can_hold_is_told_unless_it_is_ignored(folder: Path, tmp_path: Path) -> None:
    os.mkfifo(folder / "pipe")
    os.mkfifo(folder / "data" / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        here = os.open(folder, os.O_RDONLY)  # addresses of sockets must be short
        listening.bind(f"/proc/self/fd/{here}/agent")
        os.close(here)
    (folder / "zero").symlink_to("pipe")  # a link is held, whatever it leads to
    (folder / IGNORE_FILE).write_text("data\n")
    layer = pack_layer(folder, tmp_path / "layer")
    assert layer.left_out == ("agent is a socket", "pipe is a pipe")
    assert not {"app/pipe", "app/agent"} & set(names_in(layer.file)) and "app/zero" in names_in(layer.file)


@pytest.mark.parametrize("link", ["/etc/passwd", "../secret", "src/../../secret"])
def test_a_link_that_leads_out_is_refused(link: str, folder: Path, tmp_path: Path) -> None:
    (folder / "link").symlink_to(link)
    with pytest.raises(BadInput, match="leads out of the folder"):
        pack_layer(folder, tmp_path / "layer")


def test_nothing_and_too_much_are_refused(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / ".dockerignore").write_text("*")
    with pytest.raises(BadInput, match="holds no files"):
        pack_layer(folder, tmp_path / "layer")
    (folder / ".dockerignore").write_text("")
    monkeypatch.setattr(image_layer, "LARGEST", 3)
    with pytest.raises(BadInput, match=r"the largest are data, src, train"):
        pack_layer(folder, tmp_path / "layer")


def test_a_home_is_not_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for folder in (tmp_path, Path("/")):
        with pytest.raises(BadInput, match="keys and passwords"):
            check_folder(folder)
    with pytest.raises(BadInput, match="is not a folder"):
        check_folder(tmp_path / "none")
