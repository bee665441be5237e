"""Ordinary output of training that goes well, in the shapes of ten frameworks, with the words that tempt a scanner."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone

Shape = Callable[[random.Random, int, datetime], str]

START = datetime(2026, 3, 1, tzinfo=timezone.utc)


def _megatron(rng: random.Random, step: int, at: datetime) -> str:
    return (
        f" [{at:%Y-%m-%d %H:%M:%S}] iteration {step:8d}/  500000 | consumed samples: {step * 1024:12d} | elapsed time per "
        f"iteration (ms): {rng.uniform(4000, 5000):.1f} | learning rate: 1.500E-04 | global batch size:  1024 | lm loss: "
        f"{rng.uniform(1.8, 2.2):.6E} | loss scale: 1.0 | grad norm: {rng.uniform(0.1, 0.9):.3f} | number of skipped "
        "iterations:   0 | number of nan iterations:   0 |"
    )


def _deepspeed(rng: random.Random, step: int, at: datetime) -> str:
    if step % 97 == 0:
        return (
            f"[{at:%Y-%m-%d %H:%M:%S},123] [INFO] [loss_scaler.py:190:update_scale] [deepspeed] OVERFLOW! Rank 0 Skipping "
            "step. Attempted loss scale: 65536, but hysteresis is 2. Reducing hysteresis to 1"
        )
    return (
        f"[{at:%Y-%m-%d %H:%M:%S},{step % 1000:03d}] [INFO] [logging.py:96:log_dist] [Rank 0] step={step}, skipped=17, "
        f"lr=[0.00015], mom=[(0.9, 0.95)], errors=0, timeouts=0, tput={rng.uniform(90, 99):.2f}"
    )


def _lightning(rng: random.Random, step: int, at: datetime) -> str:
    if step % 101 == 0:
        return (
            "/opt/conda/lib/python3.10/site-packages/lightning/pytorch/trainer/connectors/data_connector.py:441: The "
            "'train_dataloader' does not have many workers which may be a bottleneck. Consider increasing the value."
        )
    done = step % 1000
    return f"Epoch {step // 1000}: {done / 10:3.0f}%|#####     | {done}/1000 [07:13<06:51, 2.31it/s, v_num=3, train_loss={rng.random():.3f}]"


def _hf_trainer(rng: random.Random, step: int, at: datetime) -> str:
    if step % 89 == 0:
        return f"Saving model checkpoint to /ckpt/checkpoint-{step}"
    return f"{{'loss': {rng.uniform(0.5, 2):.4f}, 'grad_norm': {rng.random():.4f}, 'learning_rate': 2e-05, 'epoch': {step / 9000:.2f}}}"


def _torchtitan(rng: random.Random, step: int, at: datetime) -> str:
    return (
        f"[rank{step % 16}]:[titan] {at:%Y-%m-%d %H:%M:%S},123 - root - INFO - step: {step:5d}  loss: {rng.uniform(2, 3):.4f}  "
        f"memory: 63.55GiB(80.12%)  tps: {rng.randint(6000, 6500)}  mfu: {rng.uniform(37, 39):.2f}%"
    )


def _nemo(rng: random.Random, step: int, at: datetime) -> str:
    if step % 53 == 0:
        return (
            f"[NeMo W {at:%Y-%m-%d %H:%M:%S} nemo_logging:349] UserWarning: errors in the sampler will be raised as "
            "RuntimeError in a future release; set `raise_errors=False` to keep ignoring them."
        )
    return f"[NeMo I {at:%Y-%m-%d %H:%M:%S} megatron_gpt_model:712] global_step={step} reduced_train_loss={rng.random():.3f} restarts=0"


def _maxtext(rng: random.Random, step: int, at: datetime) -> str:
    return (
        f"completed step: {step}, seconds: {rng.uniform(2, 3):.3f}, TFLOP/s/device: {rng.uniform(300, 400):.3f}, "
        f"Tokens/s/device: {rng.uniform(5000, 6000):.3f}, total_weights: 4194304, loss: {rng.uniform(2, 3):.3f}"
    )


def _keras(rng: random.Random, step: int, at: datetime) -> str:
    if step % 61 == 0:
        return (
            f"{at:%Y-%m-%d %H:%M:%S}.123456: W tensorflow/core/common_runtime/bfc_allocator.cc:290] Allocator (GPU_0_bfc) ran "
            "out of memory trying to allocate 2.20GiB with freed_by_count=0. The caller indicates that this is not a failure, "
            "but this may mean that there could be performance gains if more memory were available."
        )
    return f"\r{step % 1562}/1562 [=====>....] - ETA: 32s - loss: {rng.random():.4f} - accuracy: {rng.random():.4f}"


def _horovod(rng: random.Random, step: int, at: datetime) -> str:
    return f"[1,{step % 8}]<stdout>:Train Epoch: {step // 900} [{step}/60000 ({rng.randint(0, 99)}%)]\tLoss: {rng.random():.6f}\tfailed=0"


def _ray(rng: random.Random, step: int, at: datetime) -> str:
    if step % 71 == 0:
        return "(RayTrainWorker pid=4242, ip=10.0.0.7) NCCL_ASYNC_ERROR_HANDLING=1 NCCL_TIMEOUT=1800 TORCH_NCCL_BLOCKING_WAIT=0"
    return f"(RayTrainWorker pid=4242, ip=10.0.0.7) step {step} loss {rng.random():.4f} aborted=0 num_failures=0 oom_retries=0"


SHAPES: tuple[Shape, ...] = (
    _megatron,
    _deepspeed,
    _lightning,
    _hf_trainer,
    _torchtitan,
    _nemo,
    _maxtext,
    _keras,
    _horovod,
    _ray,
)

BEGINNING = (
    "torch 2.6.0+cu124, NCCL version 2.21.5+cuda12.4, Driver Version: 550.54.15   CUDA Version: 12.4",
    "srun: job 604410 queued and waiting for resources",
    "srun: job 604410 has been allocated resources",
    "n1:4242:4242 [0] NCCL INFO NET/Plugin: No plugin found (libnccl-net.so), using internal implementation",
    "n1:4242:4242 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.7<0>",
    "n1:4242:4242 [0] NCCL INFO Using network IB",
    "n1:4242:4243 [0] NCCL INFO Connected all rings",
    "WARNING: could not find the metadata file /ckpt/latest_checkpointed_iteration.txt, will not load any checkpoints and will start from random",
    "[W socket.cpp:464] [c10d] The server socket cannot be initialized on [::]:29500 (errno: 97 - Address family not supported by protocol).",
    "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.",
    "UserWarning: If you see CUDA out of memory, lower the batch size or set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True.",
    "using exit_signal_handler ............................. True",
    "  exit_on_missing_checkpoint ...................... False",
    "WARNING:root:Retrying after ConnectionResetError: 1 of 5",
    "Map (num_proc=4): 100%|##########| 232/232 [00:04<00:00, 78.97 examples/s]",
)

ENDING = (
    "[after training is done] saving the final checkpoint",
    "successfully saved checkpoint from iteration 500000",
    "done: 0 errors, 0 warnings",
)


def lines(shape: Shape, count: int, seed: int = 7) -> Iterator[str]:
    """Yield the log of one healthy run: a beginning, *count* steps of *shape*, an end."""
    rng = random.Random(seed)
    yield from BEGINNING
    for step in range(1, count + 1):
        yield shape(rng, step, START + timedelta(seconds=5 * step))
    yield from ENDING


def log(shape: Shape, size: int) -> Iterator[bytes]:
    """Yield about *size* bytes of a healthy log, in pieces."""
    written, piece = 0, bytearray()
    for line in lines(shape, size):
        piece += f"{line}\n".encode()
        if len(piece) >= 1 << 16:
            yield bytes(piece)
            written, piece = written + len(piece), bytearray()
        if written >= size:
            return
    yield bytes(piece)
