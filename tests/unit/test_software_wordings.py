"""Which kind of software failure the last line of a traceback tells of, as the libraries print it."""

from __future__ import annotations

import pytest

from tests.unit.evidence import log
from wheeltapper.diagnosis.diagnose import diagnose

TRACEBACK = ["Traceback (most recent call last):", '  File "/w/train.py", line 3, in <module>', "    main()"]

WORDINGS = {
    "env_mismatch": r"""
RuntimeError: jaxlib version 0.5.1 is newer than and incompatible with jax version 0.4.2. Please update your jax and/or jaxlib packages.
RuntimeError: Numpy is not available
AttributeError: module 'torch' has no attribute 'compile'
AttributeError: module 'jax' has no attribute 'tree_map'
AttributeError: 'DynamicCache' object has no attribute 'seen_tokens'
RuntimeError: Couldn't load custom C++ ops. This can happen if your PyTorch and torchvision versions are incompatible
pkg_resources.DistributionNotFound: The 'apex' distribution was not found and is required by the application
RuntimeError: FlashAttention only supports Ampere GPUs or newer.
RuntimeError: Ninja is required to load C++ extensions
RuntimeError: Cannot find a working triton installation. Either the package is not installed or it is too old.
RuntimeError: Triton Error [CUDA]: device kernel image is invalid
RuntimeError: cuDNN error: CUDNN_STATUS_VERSION_MISMATCH
RuntimeError: Failed to import transformers.trainer because of the following error (look up to see its traceback):
TypeError: Accelerator.__init__() got an unexpected keyword argument 'dispatch_batches'
RuntimeError: No HIP GPUs are available
RuntimeError: Distributed package doesn't have NCCL built in
/usr/bin/python3: No module named deepspeed.launcher
ValueError: The checkpoint you are trying to load has model type `qwen9` but Transformers does not recognize this architecture.
""",
    "config": r"""
Error: Invalid value for '--lr': 'abc' is not a valid float.
Key 'foo' is not in struct
You must specify 'db', e.g, db=<OPTION>
omegaconf.errors.InterpolationKeyError: Interpolation key 'paths.root' not found
tomllib.TOMLDecodeError: Invalid value (at line 3, column 8)
ValueError: Please correct the following DeepSpeed config values that mismatch TrainingArguments values:
RuntimeError: Default process group has not been initialized, please make sure to call init_process_group.
ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0.
KeyError: 'WORLD_SIZE'
KeyError: "Dataset 'm' is not registered! Available datasets are: coco"
botocore.exceptions.NoCredentialsError: Unable to locate credentials
google.api_core.exceptions.Forbidden: 403 GET https://storage.local/b/x: no access
datasets.data_files.EmptyDatasetError: The directory at /data doesn't contain any data files
ValueError: Unknown split "validation". Should be one of ['train'].
Lmod has detected the following error:  The following module(s) are unknown: "cuda/99.1"
srun: fatal: SLURM_MEM_PER_CPU, SLURM_MEM_PER_GPU, and SLURM_MEM_PER_NODE are mutually exclusive.
""",
    "checkpoint": r"""
ValueError: loaded state dict has a different number of parameter groups
OSError: Unable to load weights from pytorch checkpoint file for '/w/pytorch_model.bin' at '/w/pytorch_model.bin'.
ValueError: Can't find a valid checkpoint at /w/out/checkpoint-500
RuntimeError: Invalid magic number; corrupt file?
KeyError: 'optimizer_state_dict'
deepspeed.runtime.zero.utils.ZeRORuntimeException: The checkpoint being loaded used a DP world size of 8 but the current world size is 4.
tensorflow.python.framework.errors_impl.NotFoundError: Key dense/kernel not found in checkpoint
tensorflow.python.framework.errors_impl.DataLossError: Unable to open table file /ckpt/model: Data loss: not an sstable
RuntimeError: Size mismatch between saved torch.Size([8]) and current: torch.Size([16]) for model.x
MisconfigurationException: Checkpoint at /x/last.ckpt not found. Aborting training.
""",
    "dataloader": r"""
PIL.Image.DecompressionBombError: Image size exceeds limit
ValueError: /data/shard-0001.tar: unexpected end of data
EOFError: Compressed file ended before the end-of-stream marker was reached
zlib.error: Error -3 while decompressing data: incorrect header check
pandas.errors.EmptyDataError: No columns to parse from file
decord._ffi.base.DECORDError: [10:00:00] /io/video_reader.cc:151: Check failed: st_nb >= 0
soundfile.LibsndfileError: Error opening '/x.flac': Format not recognised.
tensorflow.python.framework.errors_impl.DataLossError: truncated record at 13 failed with EOF reached
""",
    "framework_crash": r"""
torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:
torch._inductor.exc.CppCompileError: C++ compile error
corrupted double-linked list
pyo3_runtime.PanicException: index out of bounds
SystemError: <built-in function all_gather> returned NULL without setting an exception
2026-06-10 09:12:44.118822: F external/xla/xla/service/gpu/gpu_executable.cc:91] Non-OK-status: status
""",
    "cuda_fault": r"""
RuntimeError: CUDA error: operation not permitted when stream is capturing
RuntimeError: CUDA driver error: invalid argument
RuntimeError: CUDA error: CUBLAS_STATUS_NOT_SUPPORTED when calling `cublasLtMatmul`
""",
    "oom": r"""
RuntimeError: CUDA driver error: out of memory
RuntimeError: Triton Error [CUDA]: out of memory
RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB (NPU 0; 60.97 GiB total capacity)
torch.cuda.OutOfMemoryError: Allocation on device 0 would exceed allowed memory. (out of memory)
""",
    "deadlock": r"""
RuntimeError: DDP expects same model across all ranks, but Rank 1 has 12 params, while rank 0 has inconsistent 10 params.
""",
    "user_code": r"""
AttributeError: module 'utils' has no attribute 'seed_all'
TypeError: Block.forward() got an unexpected keyword argument 'mask_ratio'
RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x512 and 768x10)
KeyError: 'labels'
FloatingPointError: Loss became infinite or NaN at iteration=46!
""",
}

CASES = [(kind, line) for kind, lines in WORDINGS.items() for line in lines.strip().splitlines()]


@pytest.mark.parametrize(("kind", "line"), CASES)
def test_the_last_line_of_a_traceback_tells_the_kind(kind, line):
    answer = diagnose(log(*TRACEBACK, line), None, window_s=1800.0)
    assert answer.label == f"software/{kind}"
    assert answer.root is not None
    assert answer.root.evidence.line == len(TRACEBACK) + 1


def test_a_compiler_that_is_missing_outranks_the_compilation_that_failed():
    answer = diagnose(
        log(
            "torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:",
            "RuntimeError: Failed to find C compiler. Please specify via CC environment variable.",
        ),
        None,
        window_s=1800.0,
    )
    assert answer.label == "software/env_mismatch"
