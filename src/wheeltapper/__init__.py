"""Why did the training job stop, which machine is to blame, and what is done about it.

This package is the brain: it knows neither Slurm nor Kubernetes. What runs on a node lives in
``wheeltapper_hooks``, the Slurm side in ``wheeltapper_slurm``, the Kubernetes side in ``wheeltapper_operator``.
"""

__version__ = "0.1.0"
