"""The file: nothing acknowledged is lost, nothing foreign is touched, every fault is a sentence."""

import contextlib
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import sojourn as sj
from sojourn.campaign.events import Told
from sojourn.campaign.store import APPLICATION_ID, Store, network_filesystem
from sojourn.errors import SojournError, StoreError
from sojourn.learning import Uniform

GRID = "...\n...\n..."


@pytest.fixture
def path(tmp_path):
    return tmp_path / "survey.sojourn"


def campaign(path, **options):
    return sj.Campaign.create(path, sj.MDP.from_grid(GRID), Uniform(), **options)


def test_a_file_that_is_not_a_campaign(tmp_path):
    other = tmp_path / "other"
    for content, word in ((b"", "empty"), (b"hello, this is text", "not a campaign")):
        other.write_bytes(content)
        with pytest.raises(StoreError, match=word):
            sj.Campaign.open(other)
        assert other.read_bytes() == content
    database = tmp_path / "notes.db"
    with sqlite3.connect(database) as db:
        db.execute("CREATE TABLE notes (text TEXT)")
    db.close()
    before = database.read_bytes()
    with pytest.raises(StoreError, match="not a campaign"):
        sj.Campaign.open(database)
    assert database.read_bytes() == before
    with pytest.raises(StoreError, match="no campaign"):
        sj.Campaign.open(tmp_path / "missing")
    with pytest.raises(StoreError, match="folder"):
        sj.Campaign.open(tmp_path)


def test_every_event_is_on_the_disk_before_it_is_acknowledged(path):
    c = campaign(path)
    assert c._store._db.execute("PRAGMA synchronous").fetchone()[0] == 2
    assert c._store._db.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    c.close()


def test_a_creation_that_fails_leaves_no_file(path, monkeypatch):
    def full(*_):
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as broken:
        broken.setattr(Store, "put_blob", full)
        with pytest.raises(StoreError):
            campaign(path)
    assert list(path.parent.iterdir()) == []
    campaign(path).close()
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_where_there_are_no_hard_links(path, monkeypatch):
    def refuse(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "link", refuse)
    campaign(path).close()
    with pytest.raises(StoreError, match="exists already"):
        campaign(path)
    sj.Campaign.open(path).close()


def test_names_that_are_no_names(tmp_path):
    for name in ("x" * 300, "a\0b"):
        with pytest.raises(StoreError):
            campaign(tmp_path / name)
        with pytest.raises(StoreError):
            sj.Campaign.open(tmp_path / name)


def test_an_existing_file_is_never_overwritten(path):
    campaign(path).close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="exists already"):
        campaign(path)
    assert path.read_bytes() == before


def test_a_truncated_file_is_a_sentence(path):
    c = campaign(path)
    for k in range(200):
        c.tell(float(k), state=0, extra=True)
    c.close()
    content = path.read_bytes()
    for keep in (10, 100, len(content) // 2):
        path.write_bytes(content[:keep])
        with pytest.raises(StoreError, match=r"damaged|not a campaign|can't be"):
            sj.Campaign.open(path)


def test_damaged_bytes_are_a_sentence_or_harmless(path, tmp_path):
    """Flip bytes anywhere: the file opens and answers, or says what is wrong; never a traceback."""
    c = campaign(path, budget=30, home=8)
    for k in range(12):
        advice = c.ask()
        c.tell(float(k), state=advice.state)
    c.close()
    content = path.read_bytes()
    dice = random.Random(2)
    bad = tmp_path / "bad"
    sentences = 0
    for _ in range(150):
        damaged = bytearray(content)
        for _ in range(dice.randint(1, 30)):
            damaged[dice.randrange(len(damaged))] = dice.randrange(256)
        for leftover in tmp_path.glob("bad*"):
            leftover.unlink()
        bad.write_bytes(damaged)
        try:
            with sj.Campaign.open(bad) as c:
                c.status()
                if not c.ask().stop:
                    c.tell(1.0, state=0)
                assert not np.isnan(c.estimates().mean).any()
        except SojournError:
            sentences += 1
    assert sentences > 10


@contextlib.contextmanager
def ordinary_user():
    """Permissions mean nothing to the superuser: be somebody else for a moment."""
    superuser = os.geteuid() == 0
    if superuser:
        os.seteuid(65534)
    try:
        yield
    finally:
        if superuser:
            os.seteuid(0)


def test_a_file_in_a_folder_that_cannot_be_written():
    """No place for the shared memory of the log: a reader reads the file alone."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "survey.sojourn"
        c = campaign(path)
        c.tell(1.5, state=0, extra=True)
        c.close()
        path.chmod(0o444)
        Path(folder).chmod(0o555)
        try:
            with ordinary_user():
                with sj.Campaign.open(path, readonly=True) as c:
                    assert c.estimates().mean[0] == 1.5
                with pytest.raises(StoreError, match=r"read-only|can't be opened"):
                    sj.Campaign.open(path)
                with pytest.raises(StoreError, match=r"read-only|can't be"):
                    campaign(Path(folder) / "new")
        finally:
            Path(folder).chmod(0o755)


def test_a_newer_format_is_refused(path):
    campaign(path).close()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version=99")
    db.close()
    with pytest.raises(StoreError, match="newer sojourn"):
        sj.Campaign.open(path)


def test_events_are_append_only(path):
    c = campaign(path)
    c.tell(1.0, state=0, extra=True)
    c.close()
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID
        for statement in ("DELETE FROM events", "UPDATE events SET body='{}'"):
            with pytest.raises(sqlite3.IntegrityError, match="never"):
                db.execute(statement)
    db.close()


def test_a_full_disk_loses_nothing(path):
    c = campaign(path)
    c._store._db.execute("PRAGMA max_page_count=20")
    told = 0
    full = None
    while full is None and told < 2000:
        try:
            c.tell(1.0, state=0, extra=True, note="x" * 200)
            told += 1
        except StoreError as error:
            full = error
    assert "disk is full" in str(full)
    c._store._db.execute("PRAGMA max_page_count=100000")
    c.tell(2.0, state=1, extra=True)
    c.close()
    again = sj.Campaign.open(path)
    assert again.estimates().visits[:2].tolist() == [told, 1]
    again.close()


def test_a_disk_without_room_for_the_log_is_called_full(path, monkeypatch):
    """SQLite says "disk I/O error" there; what is known can still be read."""
    campaign(path).close()
    opened = sqlite3.connect

    class NoRoom(sqlite3.Connection):
        def execute(self, statement, *values):
            if "immutable" not in self.name and "synchronous" not in statement:
                error = sqlite3.OperationalError("disk I/O error")
                error.sqlite_errorname = "SQLITE_IOERR_SHMSIZE"
                raise error
            return super().execute(statement, *values)

    def connect(name, **options):
        db = opened(name, factory=NoRoom, **options)
        db.name = name
        return db

    monkeypatch.setattr(sqlite3, "connect", connect)
    for free, words in ((0, "the disk is full"), (10**9, "the disk failed")):
        monkeypatch.setattr(
            shutil, "disk_usage", lambda _, free=free: SimpleNamespace(free=free, total=1 << 30)
        )
        with pytest.raises(StoreError, match=words):
            sj.Campaign.open(path)
    with sj.Campaign.open(path, readonly=True) as c:
        assert c.steps == 0


def test_a_read_only_campaign_can_be_read(path):
    c = campaign(path)
    c.tell(1.5, state=0, extra=True)
    c.close()
    reader = sj.Campaign.open(path, readonly=True)
    assert reader.estimates().mean[0] == 1.5
    with pytest.raises(StoreError, match="read-only"):
        reader.tell(1.0, state=0, extra=True)
    reader.close()


def test_two_programs_see_each_others_events(path):
    first = campaign(path, budget=20)
    second = sj.Campaign.open(path)
    advice = first.ask()
    assert second.ask().event == advice.event
    second.tell(1.0, state=advice.state)
    following = first.ask()
    assert following.step == 2
    assert first.steps == second.steps == 1
    first.close()
    second.close()


def test_a_second_writer_gets_a_sentence(path, monkeypatch):
    monkeypatch.setattr("sojourn.campaign.store.BUSY_SECONDS", 0.05)
    first, second = campaign(path), sj.Campaign.open(path)
    with first._store.writing():
        with pytest.raises(StoreError, match="another program"):
            second.tell(1.0, state=0, extra=True)
        # A reader never waits.
        assert second.estimates().visits.sum() == 0
    assert second.tell(1.0, state=0, extra=True) > 0
    first.close()
    second.close()


def test_a_transaction_that_fails_leaves_nothing(path):
    c = campaign(path)
    before = len(c.events())

    def fail():
        with c._store.writing():
            c._store.append(Told(state=0, values=(1.0,)))
            raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError):
        fail()
    assert len(c.events()) == before
    c.close()


@pytest.fixture
def old(path, monkeypatch):
    """A campaign of an older format: the newest one without the table that a migration adds."""
    c = campaign(path)
    for k in range(3):
        c.tell(float(k), state=0, extra=True)
    c.close()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version=0")
    db.close()
    with pytest.raises(StoreError, match="never wrote"):
        Store(path)
    assert not list(path.parent.glob("*.bak"))
    monkeypatch.setattr(
        "sojourn.campaign.store._MIGRATIONS",
        {0: ("CREATE TABLE migrated (x INTEGER)", "INSERT INTO migrated VALUES (7)")},
    )
    return path


def test_an_older_format_is_migrated_with_a_backup(old):
    with pytest.warns(UserWarning, match="format 1") as warned, sj.Campaign.open(old) as c:
        assert c.estimates().visits[0] == 3
    backup = old.with_name(old.name + ".format0.bak")
    assert backup.name in str(warned[0].message)
    for file, version in ((old, 1), (backup, 0)):
        db = sqlite3.connect(file)
        assert db.execute("PRAGMA user_version").fetchone()[0] == version
        assert db.execute("SELECT count(*) FROM events").fetchone()[0] == 4
        assert (db.execute("SELECT name FROM sqlite_master WHERE name='migrated'").fetchone()
                is None) == (version == 0)  # fmt: skip
        db.close()
    sj.Campaign.open(old).close()
    assert len(list(old.parent.glob("*.bak"))) == 1


def test_a_reader_leaves_an_older_format_as_it_is(old):
    before = old.read_bytes()
    with sj.Campaign.open(old, readonly=True) as c:
        assert c.estimates().visits[0] == 3
        with pytest.raises(StoreError, match="read-only"):
            c.tell(1.0, state=0, extra=True)
    assert old.read_bytes() == before
    assert not list(old.parent.glob("*.bak"))


def test_a_migration_that_fails_changes_nothing(old, monkeypatch):
    monkeypatch.setattr(
        "sojourn.campaign.store._MIGRATIONS",
        {0: ("CREATE TABLE migrated (x INTEGER)", "CREATE TABLE events (x INTEGER)")},
    )
    with pytest.raises(StoreError):
        Store(old)
    db = sqlite3.connect(old)
    assert db.execute("PRAGMA user_version").fetchone()[0] == 0
    assert db.execute("SELECT count(*) FROM events").fetchone()[0] == 4
    assert db.execute("SELECT name FROM sqlite_master WHERE name='migrated'").fetchone() is None
    db.close()


def test_network_file_systems_are_told_from_local_ones(tmp_path, monkeypatch):
    assert network_filesystem(tmp_path) is None
    mounts = f"disk / ext4 rw 0 0\nserver:/x {tmp_path} nfs4 rw 0 0\n"
    monkeypatch.setattr(Path, "read_text", lambda self, **k: mounts)
    assert network_filesystem(tmp_path / "survey.sojourn") == "nfs4"


WRITER = """
import sys
import numpy as np
import sojourn as sj
from sojourn.learning import Uniform
c = sj.Campaign.open(sys.argv[1])
rng = np.random.default_rng()
while True:
    advice = c.ask()
    number = c.tell(float(rng.integers(1000)), state=advice.state)
    print(number, flush=True)
"""


def test_kill_the_writer_at_random_and_lose_nothing(path):
    """SIGKILL in the middle of hundreds of tells: every event that was acknowledged is there."""
    campaign(path).close()
    dice = random.Random(4)
    acknowledged = 0
    for _ in range(4):
        writer = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(WRITER), str(path)],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert writer.stdout is not None
        lines = []
        limit = dice.randint(20, 80)
        for line in writer.stdout:
            lines.append(int(line))
            if len(lines) >= limit:
                break
        time.sleep(dice.random() * 0.01)
        os.kill(writer.pid, signal.SIGKILL)
        lines += [int(x) for x in writer.stdout.read().split() if x.strip()]
        writer.wait()
        writer.stdout.close()
        # What is in the pipe was written after the commit.
        acknowledged += len(lines)
        shutil.copy(path, path.with_suffix(".copy"))
        c = sj.Campaign.open(path)
        told = [n for n, _, e in c.events() if isinstance(e, Told)]
        assert set(lines) <= set(told)
        assert acknowledged <= c.steps <= acknowledged + 4
        assert np.array_equal(c.estimates().visits.sum(), c.steps)
        acknowledged = c.steps
        c.close()
    assert acknowledged > 100


@pytest.mark.parametrize("version", [1])
def test_files_of_every_old_format_open(tmp_path, version):
    """A file that an older sojourn wrote: it opens, its numbers stand, and it goes on."""
    old = Path(__file__).parent / "data" / f"format{version}.sojourn"
    copy = tmp_path / old.name
    shutil.copy(old, copy)
    with sj.Campaign.open(copy) as c:
        assert c.steps == 6
        assert c.estimates().visits.sum() == 7
        assert [type(e).__name__ for _, _, e in c.events()][-4:] == [
            "Told", "Corrected", "Told", "Voided",
        ]  # fmt: skip
        c.ask()
        c.tell(5.0)
        assert c.steps == 7
