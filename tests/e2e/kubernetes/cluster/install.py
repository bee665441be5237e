"""``python -m tests.e2e.kubernetes.cluster.install [COMMAND…]`` builds what a cluster is made of, with its progress in sight.

COMMAND is what root is told to type where this process is not root.
"""

from __future__ import annotations

import sys
import time

from tests.e2e.kubernetes.cluster import cache
from tests.e2e.kubernetes.cluster.build import build, complete
from tests.e2e.kubernetes.cluster.docker import Docker
from tests.e2e.kubernetes.cluster.errors import ClusterError
from tests.e2e.kubernetes.cluster.requirements import PUBLISHED_NODE_IMAGE, allow_several, is_private, require_for_build


def main() -> int:
    try:
        _pull_where_possible()
        private = is_private()
        require_for_build(private, " ".join(sys.argv[1:]))
        allow_several()
        here = cache.find()
        if not complete(here, private):
            print(
                f"Building Kubernetes and its node image into {here.programs}: 20 minutes of processor time, once.",
                flush=True,
            )
            began = time.monotonic()
            build(private)
            print(f"Built in {time.monotonic() - began:.0f} s.")
    except ClusterError as error:
        print(error, file=sys.stderr)
        return 1
    whose = "a Docker of its own" if private else "this machine's Docker"
    print(f"A Kubernetes cluster can be made on this machine, with {whose}.")
    return 0


def _pull_where_possible() -> None:
    """Get the published node image where there is a Docker that can; where not, one of our own is built."""
    docker = Docker()
    if is_private() and docker.answers() and not docker.has(PUBLISHED_NODE_IMAGE):
        print(f"Pulling {PUBLISHED_NODE_IMAGE} …", flush=True)
        docker.call("pull", "--quiet", PUBLISHED_NODE_IMAGE, check=False)


if __name__ == "__main__":
    sys.exit(main())
