"""``python -m tests.e2e.slurm.cluster.install [COMMAND…]`` installs what a cluster needs, apt's own progress in sight.

COMMAND is what root is told to type where this process is not root.
"""

from __future__ import annotations

import sys

from tests.e2e.slurm.cluster.errors import Unavailable
from tests.e2e.slurm.cluster.requirements import ensure_installed


def main() -> int:
    try:
        ensure_installed(" ".join(sys.argv[1:]))
    except Unavailable as error:
        print(error, file=sys.stderr)
        return 1
    print("A private Slurm cluster can be made on this machine.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
