"""The estimates as a table or as GeoJSON, for other programs."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sojourn.errors import ArgumentError, CampaignError, need

if TYPE_CHECKING:
    from sojourn.campaign.campaign import Campaign

FORMATS = (".csv", ".parquet", ".geojson")


def rows(campaign: Campaign) -> list[dict[str, Any]]:
    """One record per site; infinite intervals and errors are None."""
    site, estimates = campaign.site, campaign.estimates()
    coordinates = site.coordinates
    result = []
    for s, name in enumerate(site.names):
        record: dict[str, Any] = {
            "site": str(site.mdp.state_labels[s]),
            "name": name,
            "weight": float(site.weight[s]),
            "visits": int(estimates.visits[s]),
            "mean": float(estimates.mean[s]) if estimates.visits[s] else None,
            "variance": _finite(estimates.variance[s]) if estimates.visits[s] else None,
            "standard_error": _finite(estimates.standard_error[s]),
            "low": _finite(estimates.low[s]),
            "high": _finite(estimates.high[s]),
            "basis": estimates.basis[s] if estimates.visits[s] else "none",
        }
        if coordinates is not None:
            record |= {"x": float(coordinates[s, 0]), "y": float(coordinates[s, 1])}
        result.append(record)
    return result


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def write_export(campaign: Campaign, path: Path) -> Path:
    """Write :func:`rows` in the format that the file's ending names."""
    ending = path.suffix.lower()
    records = rows(campaign)
    if ending == ".csv":
        buffer = io.StringIO()
        writer = csv.DictWriter(buffer, fieldnames=list(records[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(records)
        return replace_file(path, buffer.getvalue().encode())
    if ending == ".geojson":
        return replace_file(path, _geojson(campaign, records).encode())
    if ending == ".parquet":
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError as error:
            raise need("pyarrow", "data", "writing parquet") from error
        sink = pyarrow.BufferOutputStream()
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(records), sink)
        return replace_file(path, sink.getvalue().to_pybytes())
    raise ArgumentError(f"{path.name} ends in {ending!r}", f"use one of {', '.join(FORMATS)}")


def _geojson(campaign: Campaign, records: list[dict[str, Any]]) -> str:
    if campaign.site.coordinates is None:
        raise CampaignError(
            "the sites have no coordinates, so there is no map to export",
            "give the sites x and y in the site file, or export .csv",
        )
    features = [
        {
            "type": "Feature",
            "id": record["site"],
            "geometry": {"type": "Point", "coordinates": [record["x"], record["y"]]},
            "properties": {k: v for k, v in record.items() if k not in ("x", "y", "site")},
        }
        for record in records
    ]
    return json.dumps({"type": "FeatureCollection", "features": features}, indent=1) + "\n"


def replace_file(path: Path, content: bytes) -> Path:
    """Write a whole file or nothing: an old one is replaced only by a complete new one."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            umask = os.umask(0)
            os.umask(umask)
            os.chmod(name, 0o666 & ~umask)
            os.replace(name, path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise CampaignError(
            f"{path} can't be written ({error.strerror})",
            "choose another folder or free some space",
        ) from error
    return path
