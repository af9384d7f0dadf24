"""One SQLite file that holds a campaign.

    events      append-only; triggers refuse to change or delete a row
    blobs       the site, written once
    snapshots   a cache of the strategy's memory, so that opening need not replay every plan

WAL with full synchronisation: an event is acknowledged only when it is on the disk, readers
never block, and a second writer waits for the first and then sees its events.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from sojourn.campaign.events import AnyEvent
from sojourn.errors import StoreError

APPLICATION_ID = 0x534A524E  # "SJRN": how a campaign file is told from any other database
SCHEMA = 1
BUSY_SECONDS = 10.0
ROOM = 1 << 16
"""With fewer free bytes than this a disk is called full."""
SYNCHRONOUS = "FULL"  # an event is on the disk before it is acknowledged
_NETWORK = {
    "nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre", "beegfs",
    "davfs", "fuse.sshfs", "fuse.rclone", "fuse.glusterfs", "fuse.ceph", "fuse.davfs",
    "fuse.gvfsd-fuse", "vboxsf",
}  # fmt: skip

_TABLES = """
CREATE TABLE events (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at TEXT NOT NULL,
    body TEXT NOT NULL
);
CREATE TRIGGER events_are_final BEFORE UPDATE ON events
BEGIN SELECT RAISE(ABORT, 'events are never changed'); END;
CREATE TRIGGER events_stay BEFORE DELETE ON events
BEGIN SELECT RAISE(ABORT, 'events are never deleted'); END;
CREATE TABLE blobs (name TEXT PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE snapshots (event INTEGER PRIMARY KEY, body BLOB NOT NULL);
"""

_MIGRATIONS: dict[int, tuple[str, ...]] = {}
"""Schema version n → the statements that make it n + 1."""

_encode = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(AnyEvent)


class Store:
    """The file. Every method either does the whole of it or nothing."""

    def __init__(self, path: Path, *, readonly: bool = False) -> None:
        self.path = path
        self.notes: list[str] = []
        if not _exists(path):
            raise StoreError(
                f"there is no campaign {path}", "create one with `sojourn campaign new`"
            )
        _refuse_foreign(path)
        with self._sentences():
            self._db = self._connect(readonly)
        try:
            with self._sentences():
                self._check(readonly)
        except BaseException:
            self.close()
            raise
        filesystem = network_filesystem(path)
        if filesystem:
            self.notes.append(
                f"{path} lies on a network file system ({filesystem}), where file locks are not "
                "reliable: keep the campaign on a local disk and copy it"
            )

    @classmethod
    def create(cls, path: Path, site: bytes, events: Sequence[AnyEvent]) -> None:
        """A new file with its first events: it appears under its name complete, or not at all."""
        if _exists(path):
            raise StoreError(
                f"{path} exists already",
                "go on with it (`sojourn campaign next`, Campaign.open), or choose another name",
            )
        if not path.parent.is_dir():
            raise StoreError(f"there is no folder {path.parent}", "create it first")
        draft = path.with_name(f".{path.name}.{os.getpid()}.new")
        store = cls.__new__(cls)
        store.path, store.notes = path, []
        try:
            with store._sentences():
                store._db = _connected(draft, "rwc")
                try:
                    store._db.execute("PRAGMA journal_mode=WAL")
                    store._db.executescript(
                        f"BEGIN; PRAGMA application_id={APPLICATION_ID}; "
                        f"PRAGMA user_version={SCHEMA}; {_TABLES} COMMIT;"
                    )
                    with store.writing():
                        store.put_blob("site", site)
                        for event in events:
                            store.append(event)
                finally:
                    # The last connection to close brings the log into the file and removes it.
                    store.close()
            _name_it(draft, path)
        finally:
            for leftover in (draft, *(Path(f"{draft}{ending}") for ending in ("-wal", "-shm"))):
                with contextlib.suppress(OSError):
                    leftover.unlink(missing_ok=True)

    def _connect(self, readonly: bool) -> sqlite3.Connection:
        try:
            db = _connected(self.path, "ro" if readonly else "rw")
            if readonly:
                db.execute("SELECT 1 FROM sqlite_master").fetchone()
            return db
        except sqlite3.OperationalError:
            # In a folder that can't be written, or on a full disk, there is no place for the
            # shared memory of WAL. With nothing in the log the file can be read alone.
            log = Path(f"{self.path}-wal")
            if not readonly or (log.exists() and log.stat().st_size):
                raise
            return _connected(self.path, "ro&immutable=1")

    def _check(self, readonly: bool) -> None:
        application = self._db.execute("PRAGMA application_id").fetchone()[0]
        if application != APPLICATION_ID:
            raise StoreError(
                f"{self.path} is a database, but not a campaign", "choose the right file"
            )
        version = self._version()
        if version > SCHEMA:
            raise StoreError(
                f"{self.path} was written by a newer sojourn (format {version}, this one reads "
                f"up to {SCHEMA})",
                "update sojourn",
            )
        for old in range(version, SCHEMA):
            if old not in _MIGRATIONS:
                raise StoreError(
                    f"{self.path} has format {old}, which sojourn never wrote",
                    "it is no campaign, or was changed from outside: go back to a copy of it",
                )
        if version < SCHEMA and readonly:
            # A reader changes nothing: the old format is brought forward in a copy in memory.
            with closing(self._db) as file:
                self._db = sqlite3.connect(":memory:", isolation_level=None)
                file.backup(self._db)
            self._migrate()
            self._db.execute("PRAGMA query_only=1")
        elif version < SCHEMA:
            backup = self._backup(version)
            self._migrate()
            self.notes.append(
                f"the file was brought to format {SCHEMA}; the old one is {backup.name}"
            )
        result = self._db.execute("PRAGMA quick_check(1)").fetchone()[0]
        if result != "ok":
            raise StoreError(
                f"{self.path} is damaged: {result}",
                "restore the file from a copy; `sqlite3 FILE .recover` may save what is left",
            )

    def _version(self) -> int:
        return int(self._db.execute("PRAGMA user_version").fetchone()[0])

    def _backup(self, version: int) -> Path:
        """A copy of the file as it is, log included; an older backup is never overwritten."""
        for attempt in range(1000):
            ending = f".format{version}.bak" if not attempt else f".format{version}.{attempt}.bak"
            backup = self.path.with_name(self.path.name + ending)
            if not backup.exists():
                break
        with closing(_connected(backup, "rwc")) as copy:
            self._db.backup(copy)
        return backup

    def _migrate(self) -> None:
        """Bring the file to the newest format: all of it in one transaction."""
        with self.writing():
            # Another program may have done it while this one waited for the lock.
            for old in range(self._version(), SCHEMA):
                for statement in _MIGRATIONS[old]:
                    self._db.execute(statement)
                self._db.execute(f"PRAGMA user_version={old + 1}")

    @contextmanager
    def writing(self) -> Iterator[None]:
        """A transaction: everything inside is stored, or nothing is."""
        with self._sentences():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Everything read inside is of one moment, whatever others write meanwhile."""
        if self._db.in_transaction:
            yield
            return
        with self._sentences():
            self._db.execute("BEGIN")
        try:
            yield
        finally:
            if self._db.in_transaction:
                self._db.execute("COMMIT")

    def append(self, event: AnyEvent) -> int:
        """Add an event (inside :meth:`writing`); its id."""
        cursor = self._db.execute(
            "INSERT INTO events (at, body) VALUES (?, ?)",
            (datetime.now(UTC).isoformat(timespec="milliseconds"), _encode(event).decode()),
        )
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def events(self, after: int = 0) -> Iterator[tuple[int, str, AnyEvent]]:
        """(id, time, event) of the events after an id, in order."""
        with self._sentences():
            rows = self._db.execute(
                "SELECT id, at, body FROM events WHERE id > ? ORDER BY id", (after,)
            ).fetchall()
        for number, at, body in rows:
            try:
                yield number, at, _decoder.decode(body)
            except (msgspec.DecodeError, TypeError) as error:
                raise StoreError(
                    f"event {number} of {self.path} can't be read ({error})",
                    "restore the file from a copy",
                ) from error

    def put_blob(self, name: str, body: bytes) -> None:
        self._db.execute("INSERT INTO blobs (name, body) VALUES (?, ?)", (name, body))

    def blob(self, name: str) -> bytes:
        with self._sentences():
            row = self._db.execute("SELECT body FROM blobs WHERE name = ?", (name,)).fetchone()
        if row is None:
            raise StoreError(f"{self.path} has no {name}", "restore the file from a copy")
        return bytes(row[0])

    def put_snapshot(self, event: int, body: bytes) -> None:
        """Keep the memory as of an event (inside :meth:`writing`); older ones are dropped."""
        self._db.execute(
            "INSERT OR REPLACE INTO snapshots (event, body) VALUES (?, ?)", (event, body)
        )
        self._db.execute("DELETE FROM snapshots WHERE event < ?", (event,))

    def snapshot(self) -> tuple[int, bytes] | None:
        """The newest snapshot and the event that it belongs to."""
        with self._sentences():
            row = self._db.execute(
                "SELECT event, body FROM snapshots ORDER BY event DESC LIMIT 1"
            ).fetchone()
        return None if row is None else (int(row[0]), bytes(row[1]))

    def forget_snapshots(self) -> None:
        """Drop the cache, so that the next opening folds over every event."""
        with self.writing():
            self._db.execute("DELETE FROM snapshots")

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def _sentences(self) -> Iterator[None]:
        """SQLite's errors as sentences that say what to do."""
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError) as error:
            # Damage can reach the text of the error itself.
            raise StoreError(*self._explain(error)) from error

    def _explain(self, error: Exception) -> tuple[str, str]:
        damaged = "SQLITE_CORRUPT" if isinstance(error, UnicodeDecodeError) else ""
        code = getattr(error, "sqlite_errorname", "") or damaged
        text = str(error)
        if isinstance(error, sqlite3.ProgrammingError) and "closed" in text:
            return (f"the campaign {self.path} was closed", "open it again with Campaign.open")
        if isinstance(error, sqlite3.ProgrammingError) and "thread" in text:
            return (
                f"{self.path} was opened in another thread",
                "open the campaign once in each thread: each sees the others' events",
            )
        if code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")) or "locked" in text:
            return (
                f"{self.path} is being written by another program",
                f"close the other one; this one waited {BUSY_SECONDS:g} s and changed nothing",
            )
        if code.startswith("SQLITE_FULL") or (
            # Where not even the shared memory of the log has room, SQLite says I/O error.
            code.startswith(("SQLITE_IOERR", "SQLITE_CANTOPEN")) and _free(self.path) < ROOM
        ):
            return (f"the disk is full: nothing was written to {self.path}", "free some space")
        if (
            code.startswith("SQLITE_READONLY")
            or "readonly" in text
            or (
                # On a disk that can't be written there is no place for the log.
                code.startswith("SQLITE_CANTOPEN") and not os.access(self.path.parent, os.W_OK)
            )
        ):
            return (f"{self.path} is read-only", "copy it to a place where you may write")
        if code.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
            return (
                f"{self.path} is damaged or not a campaign ({text})",
                "restore the file from a copy; `sqlite3 FILE .recover` may save what is left",
            )
        if code.startswith("SQLITE_CANTOPEN"):
            return (f"{self.path} can't be opened ({text})", "check the folder and its permissions")
        if code.startswith("SQLITE_IOERR"):
            return (f"the disk failed while {self.path} was used ({text})", "check the disk")
        return (f"{self.path} can't be used ({text})", "restore the file from a copy")


def _connected(path: Path, mode: str) -> sqlite3.Connection:
    db = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}", uri=True, timeout=BUSY_SECONDS,
        isolation_level=None,
    )  # fmt: skip
    try:
        db.execute(f"PRAGMA synchronous={SYNCHRONOUS}")
    except BaseException:
        db.close()
        raise
    return db


def _free(path: Path) -> int:
    """The bytes that can still be written where a file lies."""
    try:
        disk = shutil.disk_usage(path.parent)
    except OSError:
        return ROOM
    # What has no size at all (/proc) is not a disk that is full.
    return disk.free if disk.total else ROOM


def _exists(path: Path) -> bool:
    try:
        if "\0" in str(path):
            raise ValueError("it has a zero byte")
        return path.exists()
    except (OSError, ValueError) as error:
        raise StoreError(f"{path} is no name for a file ({error})", "choose another") from error


def _name_it(draft: Path, path: Path) -> None:
    """Give a finished file its name, unless somebody took it meanwhile."""
    try:
        try:
            os.link(draft, path)
        except FileExistsError:
            raise
        except OSError:
            # No hard links here (FAT, exFAT): look, then rename.
            if path.exists():
                raise FileExistsError from None
            draft.rename(path)
    except FileExistsError:
        raise StoreError(f"{path} exists already", "choose another name") from None
    except OSError as error:
        raise StoreError(
            f"{path} can't be written ({error.strerror})", "check the folder and its permissions"
        ) from error
    with contextlib.suppress(OSError):
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            # The name itself has to reach the disk too.
            os.fsync(folder)
        finally:
            os.close(folder)


def _refuse_foreign(path: Path) -> None:
    # SQLite accepts an empty file as an empty database, and would turn it into one.
    if path.is_dir():
        raise StoreError(
            f"{path} is a folder, not a campaign", "name a file, such as survey.sojourn"
        )
    try:
        with path.open("rb") as file:
            head = file.read(16)
    except OSError as error:
        raise StoreError(
            f"{path} can't be read ({error.strerror})", "check its permissions"
        ) from error
    if head != b"SQLite format 3\x00":
        raise StoreError(
            f"{path} is not a campaign" + (" (it is empty)" if not head else ""),
            "choose the right file; a truncated one must be restored from a copy",
        )


def network_filesystem(path: Path) -> str | None:
    """The type of the network file system that a path lies on, if it does (Linux)."""
    try:
        mounts = Path("/proc/mounts").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    target = os.path.realpath(path)
    best, kind = "", ""
    for line in mounts:
        fields = line.split()
        if len(fields) < 3:
            continue
        point = fields[1].replace("\\040", " ")
        if (target == point or target.startswith(point.rstrip("/") + "/")) and len(point) >= len(
            best
        ):
            best, kind = point, fields[2]
    return kind if kind in _NETWORK else None
