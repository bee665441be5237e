"""Wordings as programs print them, one case each: the last words of a log, and what they are called."""

from __future__ import annotations

import pytest

from tests.unit.evidence import log
from wheeltapper.diagnosis.diagnose import diagnose

TRACEBACK = ["Traceback (most recent call last):", '  File "train.py", line 3, in <module>', "    main()"]

WORDINGS = [
    (
        "software/oom",
        [
            "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 88.00 MiB (GPU 3; 39.39 GiB total capacity; 37.01 GiB already allocated; 21.12 MiB free; 37.5 GiB reserved in total by PyTorch)"
        ],
    ),
    (
        "software/oom",
        [
            "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine."
        ],
    ),
    (
        "software/oom",
        ["RuntimeError: cusolver error: CUSOLVER_STATUS_ALLOC_FAILED, when calling `cusolverDnCreate(handle)`"],
    ),
    (
        "resource/host_oom",
        [
            "numpy.core._exceptions.MemoryError: Unable to allocate 93.1 GiB for an array with shape (12500000000,) and data type float64"
        ],
    ),
    (
        "resource/host_oom",
        ["terminate called after throwing an instance of 'std::bad_alloc'", "  what():  std::bad_alloc"],
    ),
    ("resource/host_oom", ["OSError: [Errno 12] Cannot allocate memory"]),
    ("resource/host_oom", ["TERM_MEMLIMIT: job killed after reaching LSF memory usage limit."]),
    ("scheduler/time_limit", ["TERM_RUNLIMIT: job killed after reaching LSF run time limit."]),
    ("scheduler/time_limit", [">> PBS: job killed: walltime 86415 exceeded limit 86400"]),
    ("resource/shm", ["OSError: [Errno 28] No space left on device: '/dev/shm/sem.mp-abc'"]),
    (
        "resource/shm",
        [
            "RuntimeError: unable to open shared memory object </torch_1_2> in read-write mode: No space left on device (28)"
        ],
    ),
    ("resource/disk_full", ["OSError: [Errno 122] Disk quota exceeded: '/home/u/x'"]),
    ("resource/disk_full", ["tar: /out/x: Cannot write: No space left on device"]),
    ("resource/fd_limit", ["OSError: [Errno 24] Too many open files: '/data/x'"]),
    ("resource/pids_limit", ["RuntimeError: can't start new thread"]),
    (
        "resource/pids_limit",
        [
            "java.lang.OutOfMemoryError: unable to create native thread: possibly out of memory or process/resource limits reached"
        ],
    ),
    (
        "resource/memlock",
        [
            "ib_md.c:309  UCX  ERROR ibv_reg_mr(address=0x7f, length=1) failed: Cannot allocate memory : Please set max locked memory (ulimit -l) to 'unlimited'"
        ],
    ),
    ("network/link_down", ["n3:1:2 [0] /rccl/net_ib.cc:94 NCCL WARN NET/IB : mlx5_2:1 Got async event : port error"]),
    (
        "network/transport",
        [
            "[n1:1:0:1] ib_mlx5_log.c:171  Transport retry count exceeded on mlx5_2:1/IB (synd 0x15 vend 0x81 hw_synd 0/0)"
        ],
    ),
    (
        "network/transport",
        ["NCCL WARN NET/OFI Request 0x7f completed with error. RC: 113. Error: 15 (remote error). Completed length: 0"],
    ),
    (
        "network/socket",
        [
            "n1:1:2 [0] misc/socket.cc:484 NCCL WARN socketStartConnect: Connect to 10.1.1.2<45679> failed : No route to host"
        ],
    ),
    (
        "network/rendezvous",
        [
            "torch.distributed.DistNetworkError: The client socket has timed out after 300s while trying to connect to (10.0.0.1, 29500)."
        ],
    ),
    (
        "network/rendezvous",
        [
            "RuntimeError: Timed out initializing process group in store based barrier on rank: 3, for key: store_based_barrier_key:1 (world_size=16, worker_count=15, timeout=0:30:00)"
        ],
    ),
    (
        "network/rendezvous",
        [
            "jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: Deadline Exceeded",
            "Additional GRPC error information from remote target unknown_target_for_coordination_leader while calling /tensorflow.CoordinationService/RegisterTask:",
        ],
    ),
    ("network/dns", ["socket.gaierror: [Errno -3] Temporary failure in name resolution"]),
    ("network/remote_storage", ["OSError: [Errno 108] Cannot send after transport endpoint shutdown: '/lustre/ckpt'"]),
    (
        "network/remote_storage",
        ['botocore.exceptions.ReadTimeoutError: Read timeout on endpoint URL: "https://s3.local/x"'],
    ),
    (
        "network/nccl_timeout",
        [
            "[E ProcessGroupNCCL.cpp:719] [Rank 5] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3, OpType=BROADCAST, Timeout(ms)=1800000) ran for 1803170 milliseconds before timing out."
        ],
    ),
    (
        "network/nccl_timeout",
        [
            "RuntimeError: [../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation to complete"
        ],
    ),
    (
        "software/deadlock",
        [
            "RuntimeError: Detected mismatch between collectives on ranks. Rank 3 is running collective: CollectiveFingerPrint(SequenceNumber=12, OpType=ALLREDUCE, TensorShape=[4]), but Rank 0 is running collective: X"
        ],
    ),
    (
        "software/framework_crash",
        [
            'RuntimeError: isDifferentiableType(variable.scalar_type()) INTERNAL ASSERT FAILED at "../torch/csrc/autograd/functions/utils.h":65, please report a bug to PyTorch.'
        ],
    ),
    (
        "software/framework_crash",
        ["Fatal Python error: Segmentation fault", "Thread 0x00007f (most recent call first):"],
    ),
    ("software/framework_crash", ["*** Error in `python': double free or corruption (!prev): 0x000 ***"]),
    (
        "software/env_mismatch",
        ["ImportError: /x/flash_attn_2_cuda.cpython-310.so: undefined symbol: _ZN3c104cuda9SetDeviceEi"],
    ),
    ("software/env_mismatch", ["OSError: libcudnn.so.8: cannot open shared object file: No such file or directory"]),
    ("software/env_mismatch", ["RuntimeError: NCCL version mismatch: expected 2.18.1, found 2.14.3"]),
    (
        "software/env_mismatch",
        [
            "A module that was compiled using NumPy 1.x cannot be run in",
            "NumPy 2.0.0 as it may crash.",
            "AttributeError: _ARRAY_API not found",
            "ImportError: numpy.core.multiarray failed to import",
        ],
    ),
    ("software/config", ["RuntimeError: CUDA error: invalid device ordinal"]),
    (
        "software/config",
        [
            "AssertionError: global batch size (100) is not divisible by micro batch size (8) times data parallel size (3)"
        ],
    ),
    ("software/config", ["srun: error: Unable to allocate resources: Requested node configuration is not available"]),
    (
        "scheduler/quota",
        [
            "sbatch: error: QOSMaxGRESPerUser",
            "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)",
        ],
    ),
    (
        "software/checkpoint",
        ["RuntimeError: Error(s) in loading state_dict for LlamaForCausalLM:", '\tMissing key(s) in state_dict: "x"'],
    ),
    ("software/checkpoint", ["ValueError: Error reading from OCDBT database: checkpoint is incomplete"]),
    ("software/checkpoint", ["RuntimeError: unexpected EOF, expected 123 more bytes. The file might be corrupted."]),
    ("software/checkpoint", ["EOFError: Ran out of input"]),
    ("software/dataloader", ["tarfile.ReadError: unexpected end of data"]),
    ("software/dataloader", ["OSError: image file is truncated (12 bytes not processed)"]),
    (
        "software/user_code",
        [
            "KeyError: Caught KeyError in DataLoader worker process 0.",
            "Original Traceback (most recent call last):",
            '  File "x.py"',
            "KeyError: 'label'",
        ],
    ),
    ("software/user_code", ["TypeError: forward() got an unexpected keyword argument 'x'"]),
    (
        "software/user_code",
        ["FloatingPointError: Minimum loss scale reached (0.0001). Your loss is probably exploding."],
    ),
    (
        "software/cuda_fault",
        [
            "../aten/src/ATen/native/cuda/Loss.cu:250: nll_loss_forward_reduce_cuda_kernel_2d: block: [0,0,0], thread: [4,0,0] Assertion `t >= 0 && t < n_classes` failed.",
            "RuntimeError: CUDA error: device-side assert triggered",
        ],
    ),
    (
        "hardware/gpu_lost",
        [
            "Unable to determine the device handle for GPU1: 0000:5E:00.0: GPU is lost.  Reboot the system to recover this GPU"
        ],
    ),
]


@pytest.mark.parametrize(("label", "said"), WORDINGS, ids=[f"{label}-{said[0][:40]}" for label, said in WORDINGS])
def test_wording_is_understood(label, said):
    for before in ([], TRACEBACK):
        answer = diagnose(log("step 1", *before, *said), None, window_s=1800.0)
        assert answer.label == label
        assert answer.root is not None
        assert (answer.root.evidence.line or 0) > 1 + len(before)
