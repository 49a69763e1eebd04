"""Kinds of messages as users meet them, each in words and numbers of our own, with the class that is right."""

from __future__ import annotations

import pytest

from mlflow_resilience.core.attempt import AttemptLog, Settings
from mlflow_resilience.core.failure import classify
from mlflow_resilience.core.fault import Fault, Phase, Position
from mlflow_resilience.core.policy import Capabilities, Policy, decide
from mlflow_resilience.explain import explain
from mlflow_resilience.recoveries import BUILT_IN

KINDS = [
    # Memory: schedulers and notebooks name it in their own ways; what fails after a fault of the device is no memory.
    ("host_oom", "slurmstepd: error: Detected 3 oom_kill events in StepId=77.0. Some tasks have been OOM Killed."),
    ("host_oom", "The node was low on resource: memory."),
    ("host_oom", "State: Terminated\nReason: OOMKilled\nExit Code: 137"),
    ("host_oom", "TERM_MEMLIMIT: job killed after reaching LSF memory usage limit."),
    ("host_oom", "=>> PBS: job killed: mem 41943041kb exceeded limit 41943040kb"),
    ("host_oom", "Container killed by YARN for exceeding memory limits. 11 GB of 10 GB used."),
    ("host_oom", "Your notebook tried to allocate more memory than is available. It has restarted."),
    ("device_fault", "could not allocate CUDA stream for context 0x3f1: CUDA_ERROR_ILLEGAL_ADDRESS: illegal access"),
    ("device_oom", "failed to allocate 2.2G (2362232012 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY: out of memory"),
    # The accelerator.
    ("device_fault", "Unable to determine the device handle for GPU0000:1A:00.0: Unknown Error"),
    ("device_fault", "NVRM: The NVIDIA probe routine failed for 2 device(s)."),
    ("hang", "This thread has been waiting for `clique for rank 3; stream=0` for 20 seconds and may be stuck"),
    ("hang", "Termination timeout for `clique for rank 3` of 40 seconds exceeded. Exiting."),
    # Records.
    ("bad_data", "NotFoundError (see above for traceback): ./pictures/00042.jpg"),
    ("bad_data", "HTTP response code 404 with body 'x'\n\t [[node in/while/IteratorGetNext (defined at t.py:3) ]]"),
    ("bad_data", "NoSuchKey: An error occurred (NoSuchKey) when calling the GetObject operation: no such key"),
    ("bad_data", "InvalidArgumentError: Number of channels inherent in the image must be 1, 3 or 4, was 2"),
    ("bad_data", "SyntaxError: broken PNG file (chunk b'')"),
    ("bad_data", "BadGzipFile: CRC check failed 0x1 != 0x2"),
    ("bad_data", "InvalidArgumentError: assertion failed: [`labels` out of bound] [Condition x < y did not hold]"),
    ("bad_data", "InvalidArgumentError: Saw a non-null label (index >= num_classes - 1) following a null label"),
    ("bad_data", "Out of range: EOF reached, 0 bytes were read out of 4096 bytes requested."),
    ("bad_data", "Out of range: EOF reached"),
    ("bad_data", "{{function_node __wrapped__DecodeWav_x}} Bad format chunk size for WAV: Expected 16, but got 7"),
    ("bad_data", "InvalidArgumentError: Odd string\n\t [[node in/DecodeCSV (defined at a.py:3) ]]"),
    ("input_exhausted", "ValueError: No images found in directory pictures/train."),
    # Numbers.
    ("divergence", "InvalidArgumentError: assertion failed: [predictions must be >= 0] [x = ] [[nan][nan]]"),
    ("divergence", "ValueError: cannot convert float NaN to integer"),
    # Storage and network.
    ("transient_io", "The transmission of request 0x1 has been stuck at 0 of 0 bytes. CURL timing information: 1"),
    ("transient_io", "TooManyRequests: 429 GET https://storage.example/o: the rate of requests exceeded"),
    ("transient_io", "nfs: server 10.1.1.1 not responding, still trying"),
    ("transient_io", "OSError: [Errno 4] Interrupted system call: '/mnt/a.bin'"),
    ("disk_full", "The node was low on resource: ephemeral-storage. Container t was using 90Mi."),
    ("resource_limit", "OSError: [Errno 28] inotify watch limit reached"),
    ("resource_limit", "OpenBLAS: pthread_creat error in blas_thread_init function. Error code:11"),
    ("resource_limit", "terminate called after 'std::system_error'\n  what():  Resource temporarily unavailable"),
    # Checkpoints.
    ("checkpoint_error", "NotFoundError: ; No such file or directory\n\t [[Node: save_3/SaveV2 = SaveV2[dtypes=[X]]]]"),
    ("checkpoint_error", "NotFoundError: Key w/kernel is missing [Op:RestoreV2]"),
    ("checkpoint_error", 'ValueError: NOT_FOUND: Metadata at "w/.zarray" in OCDBT database at gs://b/3/ is gone'),
    ("checkpoint_error", "BadZipFile: File is not a zip file"),
    ("checkpoint_error", "FileNotFoundError: [Errno 2] No such file or directory: 'runs/7/checkpoint'"),
    # Other processes, and this one.
    ("worker_lost", 'UnavailableError: {"description":"EOF","file":"external/grpc/src/tcp.c","grpc_status":14}'),
    ("worker_lost", "UNAVAILABLE: Task /job:w/task:3 heartbeat timeout: it has failed, got preempted, or crashed."),
    ("worker_lost", "This may be due to a preemption in a connected worker or parameter server. Error: Socket closed"),
    ("input_exhausted", "BaseCollectiveExecutor::StartAbort Out of range: End of sequence"),
    ("input_exhausted", "OutOfRangeError: End of sequence [[a/_5 = _Recv[send_device_incarnation=1]]]"),
    ("process_death", "Check failed: NDIMS == dims() (3 vs. 2) Asking for tensor of 3 dimensions"),
    ("process_death", "kernel 1f0c-77 restarted"),
    ("process_death", "pod trainer-0: terminated with exit code (137). Reason [Error]."),
    ("process_death", "srun: error: n7: task 0: Exited with exit code 1"),
    ("interruption", "=>> PBS: job killed: walltime 7201 exceeded limit 7200"),
    ("interruption", "The Spot VM is being evicted"),
    ("interruption", "srun: Job step aborted: Waiting. slurmstepd: error: STEP 7.0 CANCELLED AT x DUE TO TIME LIMIT"),
    ("unknown", "RuntimeError: 30 batches were evicted from the cache"),
    ("unknown", "ValueError: the memory limit is odd"),
    ("interruption", "srun: interrupt (one more within 1 sec to abort)"),
    ("interruption", "tasks 4-7: Terminated"),
    ("process_death", "State: Terminated\nReason: Error\nExit Code: 2"),
    # The installation.
    ("environment", "Could not communicate with the NVIDIA driver."),
    ("environment", "ValueError: Your currently installed version is not supported. Please install the older package."),
    ("environment", "UnknownError: JIT compilation failed. [Op:Cos]"),
    ("environment", "ValueError: dtype size changed, may indicate binary incompatibility. Expected 96, got 88"),
    ("environment", "InternalError: failed with 'CUDA_ERROR_UNSUPPORTED_PTX_VERSION'"),
    # The code, though its words are those of other classes.
    ("programming_error", "ValueError: Found a sample_weight array for an input with shape (8, 2)."),
    ("programming_error", 'ValueError: Input 0 of layer "upload" is incompatible with the layer'),
    ("programming_error", "ValueError: Target data is missing. Your model was compiled with loss=mse."),
    ("programming_error", "InvalidArgumentError: input #1 was expected to be a float tensor but is a half tensor"),
    ("programming_error", "ValueError: Layer m expects 2 input(s), but it received 1 input tensors."),
    ("programming_error", "ValueError: `steps=None` is only valid for a generator of a known length."),
    ("programming_error", "FailedPreconditionError: Could not find variable dense/bias."),
    ("programming_error", "ValueError: The path must end in `.keras`. Received: filepath=/data/checkpoints/9/b.x"),
    ("programming_error", "IsADirectoryError: [Errno 21] Is a directory: 'checkpoints'"),
    ("tracking", "S3UploadFailedError: Failed to upload a.yaml to mlflow-artifacts/0/a.yaml: InvalidAccessKeyId"),
    ("tracking", "ReadTimeoutError: PUT /1/00112233445566778899aabbccddeeff/artifacts/model.keras"),
]  # fmt: skip


@pytest.mark.parametrize(("expected", "told"), KINDS, ids=[told[:40] for _, told in KINDS])
def test_kinds(expected: str, told: str) -> None:
    """Each kind is explained as its class."""
    assert explain(told).failure_class == expected


@pytest.mark.parametrize(("expected", "told"), KINDS, ids=[told[:40] for _, told in KINDS])
def test_what_cannot_help_is_not_tried_and_what_can_is(expected: str, told: str) -> None:
    """Stop classes stop at once; every other has its ladder, and none is taken for a stop class."""
    name, _, message = told.partition(": ")
    named = name.isidentifier() and name[0].isupper() and name != "State"
    fault = Fault(exception=name if named else "", message=message if named else told, position=Position(global_step=3))
    recovery = classify(fault, BUILT_IN)
    able = Capabilities(in_place=True, new_process=True)
    verdict = decide(fault, recovery, AttemptLog(), Settings(), Policy(), able).verdict
    if expected in ("programming_error", "environment"):
        assert verdict == "stop"
    else:
        assert recovery.failure_class not in ("programming_error", "environment")


WITH_CHECKPOINTS: list[tuple[Phase, str, str, str]] = [
    ("validation", "RuntimeError", "no metric for /data/checkpoints/val/7", "unknown"),
    ("validation", "RuntimeError", "none of the checkpoints was compared", "unknown"),
    ("validation", "FileNotFoundError", "[Errno 2] No such file or directory: '/data/checkpoints/v/1.jpg'", "bad_data"),
    ("callback", "RuntimeError", "cannot open checkpoints/x", "unknown"),
    ("callback", "RuntimeError", "metric failed in 'checkpoints'", "unknown"),
    ("unknown", "ValueError", "filepath=checkpoints is odd", "unknown"),
    ("callback", "RuntimeError", "the checkpoint is damaged", "checkpoint_error"),
]


@pytest.mark.parametrize(("phase", "exception", "message", "expected"), WITH_CHECKPOINTS)
def test_a_folder_called_checkpoints_is_no_checkpoint(
    phase: Phase, exception: str, message: str, expected: str
) -> None:
    """The word within a path says nothing; and in validation nothing reads or writes one."""
    fault = Fault(exception=exception, message=message, phase=phase)
    assert classify(fault, BUILT_IN).failure_class == expected


@pytest.mark.parametrize(
    ("message", "phase", "expected"),
    [
        ("no room; \n\t [[{{node save/SaveV2}}]]", "step", "checkpoint_error"),
        ("odd [Op:MergeV2Checkpoints]", "unknown", "checkpoint_error"),
        ("odd\n\t [[node save/RestoreV2 (defined at a.py:1) ]]", "unknown", "checkpoint_error"),
        ("odd\n\t [[node save/RestoreV2 (defined at a.py:1) ]]", "callback", "unknown"),
    ],
)
def test_the_operation_tells_the_phase(message: str, phase: Phase, expected: str) -> None:
    """TensorFlow's note of the operation is more exact than where its error was met."""
    fault = Fault(exception="UnknownError", message=message, phase=phase)
    assert classify(fault, BUILT_IN).failure_class == expected


def test_a_process_that_could_not_be_started() -> None:
    """The number that storage gives for "just now not" is a limit of the system where a process was to begin."""
    told = "[Errno 11] Resource temporarily unavailable"
    frames = 'Traceback (most recent call last):\n  File "popen_fork.py", line 7, in _launch\n    os.fork()\n'
    here = Fault(exception="BlockingIOError", message=told, errno=11, traceback=frames + f"BlockingIOError: {told}")
    assert classify(here, BUILT_IN).failure_class == "resource_limit"
    assert (
        classify(Fault(exception="BlockingIOError", message=told, errno=11), BUILT_IN).failure_class == "transient_io"
    )
