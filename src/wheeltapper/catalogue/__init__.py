"""The catalogue: what a line means. Signatures are data; see the files beside this one in ``data/``."""

from wheeltapper.catalogue.matching import Catalogue
from wheeltapper.catalogue.model import Match, Meaning, Signature
from wheeltapper.catalogue.ready import load

__all__ = ["Catalogue", "Match", "Meaning", "Signature", "load"]
