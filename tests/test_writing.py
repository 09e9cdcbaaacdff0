"""Files appear whole or not at all, and what somebody else made stays."""

import errno
import os
import warnings
from pathlib import Path

import pytest

from anchor.errors import InputError, Notice
from anchor.writing import MANIFEST, OwnFiles, check_place, draft, replace_file, safe_name


def test_a_failed_write_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "table.csv"
    replace_file(path, "first")

    def fails_half_way() -> None:
        with draft(path) as made:
            made.write_text("half")
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        fails_half_way()
    assert path.read_text() == "first"
    assert [p.name for p in path.parent.iterdir()] == ["table.csv"]


def test_a_full_disk_leaves_no_empty_file(tmp_path: Path) -> None:
    """A child with a limit on the size of files, as a disk that ends."""
    child = os.fork()
    if child == 0:
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
        try:
            replace_file(tmp_path / "weights", b"x" * 10_000)
        except OSError as error:
            os._exit(0 if error.errno == errno.EFBIG else 2)
        os._exit(3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_replaced_by_nothing_but_made_whole(tmp_path: Path) -> None:
    with draft(tmp_path / "cifs") as made:
        made.mkdir()
        (made / "a.cif").write_text("a")
    assert (tmp_path / "cifs" / "a.cif").read_text() == "a"


def test_a_link_stays_a_link_and_a_device_a_device(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    replace_file(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "new"
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="no plain file"):
        replace_file(tmp_path / "pipe", "new")


@pytest.mark.parametrize(
    ("name", "overwrite", "folder", "reason"),
    [
        ("file", False, False, "exists"),
        ("folder", True, False, "is a folder"),
        ("pipe", True, False, "no plain file"),
        ("file/below", True, False, "is a file, not a folder"),
        ("file", True, True, "is a file"),
    ],
)
def test_places_are_refused_before_the_work(
    tmp_path: Path, name: str, overwrite: bool, folder: bool, reason: str
) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match=reason):
        check_place(tmp_path / name, overwrite=overwrite, folder=folder)
    assert (tmp_path / "file").read_text() == "mine"


def test_good_places_are_not_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    check_place(tmp_path / "file", overwrite=True)
    check_place(tmp_path / "new" / "deep" / "file")
    check_place(tmp_path, folder=True)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="a folder of Linux")
def test_a_folder_that_takes_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be"):  # root may write there, by its permissions
        check_place(Path("/proc/none/table.csv"))
    check_place(tmp_path / "table.csv")
    assert list(tmp_path.iterdir()) == []


def test_own_files_are_replaced_and_others_kept(tmp_path: Path) -> None:
    (tmp_path / "finds").mkdir()
    (tmp_path / "finds" / "mine.cif").write_text("mine")
    own = OwnFiles(tmp_path)
    own.put({"finds/1.cif": "one", "finds/2.cif": "two", "a.csv": "a"}, instead_of="finds/")
    (tmp_path / "finds" / "2.cif").write_text("edited")

    own = OwnFiles(tmp_path)
    own.put({"finds/3.cif": "three"}, instead_of="finds/")
    assert sorted(p.name for p in (tmp_path / "finds").iterdir()) == ["2.cif", "3.cif", "mine.cif"]
    assert (tmp_path / "finds" / "2.cif").read_text() == "edited"  # changed since: somebody's
    assert own.name_for("a.csv") == "a.csv"
    (tmp_path / "a.csv").write_text("edited")
    with pytest.warns(Notice, match="it stays"):
        assert own.name_for("a.csv") == "a-2.csv"


def test_without_a_list_nothing_is_ours(tmp_path: Path) -> None:
    OwnFiles(tmp_path).put({"a.csv": "a"})
    (tmp_path / MANIFEST).write_text("{")
    with pytest.warns(Notice):
        assert OwnFiles(tmp_path).name_for("a.csv") == "a-2.csv"


def test_killed_between_list_and_file_both_contents_are_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list names the new content before it is written: old and new file are known after a kill."""
    OwnFiles(tmp_path).put({"a.csv": "old"})

    def killed(path: Path, data: bytes | str) -> Path:
        if path.name == "a.csv":
            raise KeyboardInterrupt
        return replace_file(path, data)

    monkeypatch.setattr("anchor.writing.replace_file", killed)
    with pytest.raises(KeyboardInterrupt):
        OwnFiles(tmp_path).put({"a.csv": "new"})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert OwnFiles(tmp_path).name_for("a.csv") == "a.csv"
        (tmp_path / "a.csv").write_text("new")
        assert OwnFiles(tmp_path).name_for("a.csv") == "a.csv"


def test_a_growing_log_is_ours_but_a_strangers_is_not(tmp_path: Path) -> None:
    path = OwnFiles(tmp_path).growing("metrics.jsonl")
    assert not path.exists()  # a full disk would leave it empty
    path.write_text("line\n")
    assert OwnFiles(tmp_path).growing("metrics.jsonl") == path
    (tmp_path / "other.jsonl").write_text("mine")
    with pytest.warns(Notice):
        assert OwnFiles(tmp_path).growing("other.jsonl").name == "other-2.jsonl"
    assert (tmp_path / "other.jsonl").read_text() == "mine"


@pytest.mark.parametrize("name", ["../out.cif", "finds/../../out.cif", "/etc/out.cif"])
def test_no_name_leads_out_of_the_folder(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "run"
    with pytest.raises(InputError, match="outside"):
        OwnFiles(folder).put({name: "x"})
    assert not (tmp_path / "out.cif").exists()


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Nd2(CN2)3", "Nd2(CN2)3"),
        ("/../../x", "_.._.._x"),
        ("..", "unnamed"),
        ("a\nb", "a_b"),
        ("", "unnamed"),
    ],
)
def test_names_are_harmless(text: str, name: str) -> None:
    assert safe_name(text) == name
