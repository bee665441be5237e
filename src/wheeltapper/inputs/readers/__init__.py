"""One module for each kind of document, with a ``READER``."""
