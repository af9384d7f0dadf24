"""Site files: one TOML that says where the sites are, how moves go and what is known."""

from sojourn.importing.defects import Defect, SiteFileError
from sojourn.importing.load import load_site
from sojourn.importing.schema import json_schema
from sojourn.importing.site import Site, site_name

__all__ = ["Defect", "Site", "SiteFileError", "json_schema", "load_site", "site_name"]
