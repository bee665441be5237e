"""``python -m tests.bench.agent_in_a_pod ACCOUNT CONFIG``: an agent whose service account lies elsewhere than in a pod."""

from __future__ import annotations

import sys
from pathlib import Path

from wheeltapper_hooks.agent import resident  # first: it leaves OpenSSL out while it loads

from wheeltapper_hooks.agent import api_server  # isort: skip

if __name__ == "__main__":
    api_server.ACCOUNT = Path(sys.argv[1])
    sys.exit(resident.main(Path(sys.argv[2])))
