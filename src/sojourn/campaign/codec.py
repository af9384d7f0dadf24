"""Arrays and models as bytes, and back. Nothing is ever unpickled.

Numbers go through NumPy's own ``.npz`` with ``allow_pickle=False``; labels go through JSON.
A file that was tampered with can therefore hold wrong numbers, never code.
"""

from __future__ import annotations

import io
import json
import struct
import zipfile
import zlib
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sojourn.errors import StoreError
from sojourn.importing import Site, site_name
from sojourn.model import MDP

_DAMAGE = (
    ValueError, TypeError, OSError, KeyError, EOFError, IndexError, OverflowError, SyntaxError,
    MemoryError, NotImplementedError, RuntimeError, zipfile.BadZipFile, zlib.error, struct.error,
)  # fmt: skip
"""What NumPy, zip and JSON raise on bytes that are not what they were."""


def pack(arrays: dict[str, NDArray]) -> bytes:
    """Named arrays of numbers as bytes."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def unpack(data: bytes) -> dict[str, NDArray]:
    """The inverse of :func:`pack`."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except _DAMAGE as error:
        raise StoreError(
            f"the campaign file holds numbers that can't be read ({error})",
            "restore the file from a copy",
        ) from error


def pack_site(site: Site) -> bytes:
    """A site as bytes; labels become the text by which a user names them."""
    mdp = site.mdp
    P = mdp.transitions
    arrays: dict[str, NDArray] = {
        "data": P.data, "indices": P.indices, "indptr": P.indptr, "pair_start": mdp.pair_start,
        "weight": site.weight, "mean": site.mean, "variance": site.variance,
    }  # fmt: skip
    known = {"coordinates": mdp.coordinates, "initial": mdp.initial, "time": site.time}
    arrays |= {name: value for name, value in known.items() if value is not None}
    text = {
        "title": site.title, "unit": site.unit, "names": list(site.names),
        "states": [site_name(label) for label in mdp.state_labels],
        "actions": [site_name(mdp.action_label(pair)) for pair in range(mdp.n_pairs)],
        "home": site.home, "start": site.start, "geographic": site.geographic,
        "outline": list(site.outline),
        "data": {str(s): list(values) for s, values in site.data.items()},
    }  # fmt: skip
    arrays["text"] = np.frombuffer(json.dumps(text).encode(), dtype=np.uint8)
    return pack(arrays)


def unpack_site(data: bytes) -> Site:
    """The inverse of :func:`pack_site`."""
    arrays = unpack(data)
    try:
        text: dict[str, Any] = json.loads(arrays["text"].tobytes().decode())
        start = arrays["pair_start"]
        mdp = MDP(
            sp.csr_matrix(
                (arrays["data"], arrays["indices"], arrays["indptr"]),
                shape=(int(start[-1]), start.size - 1),
            ),
            start,
            state_labels=text["states"],
            action_labels=text["actions"],
            coordinates=arrays.get("coordinates"),
            initial=arrays.get("initial"),
        )
        return Site(
            mdp=mdp, names=tuple(text["names"]), title=text["title"], unit=text["unit"],
            weight=arrays["weight"], mean=arrays["mean"], variance=arrays["variance"],
            data={int(s): tuple(values) for s, values in text["data"].items()},
            home=text["home"], start=text["start"], geographic=text["geographic"],
            time=arrays.get("time"), outline=tuple(text["outline"]),
        )  # fmt: skip
    except _DAMAGE as error:
        raise StoreError(
            f"the campaign file holds a map that can't be read ({error})",
            "restore the file from a copy",
        ) from error
