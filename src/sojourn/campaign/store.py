"""One SQLite file that holds a campaign.

    events      append-only; triggers refuse to change or delete a row
    blobs       the site, written once
    snapshots   a cache of the strategy's memory, so that opening need not replay every plan

WAL with full synchronisation: an event is acknowledged only when it is on the disk, readers
never block, and a second writer waits for the first and then sees its events.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from sojourn.campaign.events import AnyEvent
from sojourn.errors import StoreError

APPLICATION_ID = 0x534A524E  # "SJRN": how a campaign file is told from any other database
SCHEMA = 1
BUSY_SECONDS = 10.0
_NETWORK = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "fuse.rclone", "afs"}

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

_MIGRATIONS: dict[int, str] = {}
"""Schema version n → the statements that make it n + 1."""

_encode = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(AnyEvent)


class Store:
    """The file. Every method either does the whole of it or nothing."""

    def __init__(self, path: Path, *, create: bool = False, readonly: bool = False) -> None:
        self.path = path
        self.notes: list[str] = []
        if create and path.exists():
            raise StoreError(
                f"{path} exists already",
                "open it with Campaign.open, or choose another name",
            )
        if not create and not path.exists():
            raise StoreError(
                f"there is no campaign {path}", "create one with `sojourn campaign new`"
            )
        if create and not path.parent.is_dir():
            raise StoreError(f"there is no folder {path.parent}", "create it first")
        if not create:
            _refuse_foreign(path)
        mode = "ro" if readonly else ("rwc" if create else "rw")
        uri = f"{path.resolve().as_uri()}?mode={mode}"
        with self._sentences():
            self._db = sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None)
        try:
            with self._sentences():
                if create:
                    self._make()
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

    def _make(self) -> None:
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.executescript(
            f"BEGIN; PRAGMA application_id={APPLICATION_ID}; PRAGMA user_version={SCHEMA};"
            f"{_TABLES} COMMIT;"
        )

    def _check(self, readonly: bool) -> None:
        self._db.execute("PRAGMA synchronous=FULL")
        application = self._db.execute("PRAGMA application_id").fetchone()[0]
        version = self._db.execute("PRAGMA user_version").fetchone()[0]
        if application != APPLICATION_ID:
            raise StoreError(
                f"{self.path} is a database, but not a campaign", "choose the right file"
            )
        if version > SCHEMA:
            raise StoreError(
                f"{self.path} was written by a newer sojourn (format {version}, this one reads "
                f"up to {SCHEMA})",
                "update sojourn",
            )
        if version < SCHEMA and not readonly:
            self._migrate(version)
        result = self._db.execute("PRAGMA quick_check(1)").fetchone()[0]
        if result != "ok":
            raise StoreError(
                f"{self.path} is damaged: {result}",
                "restore the file from a copy; `sqlite3 FILE .recover` may save what is left",
            )

    def _migrate(self, version: int) -> None:
        backup = self.path.with_name(f"{self.path.name}.format{version}.bak")
        self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        shutil.copy2(self.path, backup)
        for old in range(version, SCHEMA):
            if old not in _MIGRATIONS:
                raise StoreError(f"{self.path} has format {old}, which sojourn never wrote")
            self._db.executescript(
                f"BEGIN IMMEDIATE; {_MIGRATIONS[old]}; PRAGMA user_version={old + 1}; COMMIT;"
            )
        self.notes.append(f"the file was brought to format {SCHEMA}; the old one is {backup.name}")

    @contextmanager
    def writing(self) -> Iterator[None]:
        """A transaction: everything inside is stored, or nothing is."""
        with self._sentences():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
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
            except msgspec.DecodeError as error:
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
        except sqlite3.Error as error:
            raise StoreError(*self._explain(error)) from error

    def _explain(self, error: sqlite3.Error) -> tuple[str, str]:
        code = getattr(error, "sqlite_errorname", "") or ""
        text = str(error)
        if code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")) or "locked" in text:
            return (
                f"{self.path} is being written by another program",
                f"close the other one; this one waited {BUSY_SECONDS:g} s and changed nothing",
            )
        if code.startswith("SQLITE_FULL"):
            return (f"the disk is full: nothing was written to {self.path}", "free some space")
        if code.startswith("SQLITE_READONLY") or "readonly" in text:
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


def _refuse_foreign(path: Path) -> None:
    # SQLite accepts an empty file as an empty database, and would turn it into one.
    if path.is_dir():
        raise StoreError(f"{path} is a folder, not a campaign")
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
