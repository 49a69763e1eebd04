"""The real error in a log is found whatever stands around it: warnings of every start, of every end, of survivors."""

from __future__ import annotations

import time

import pytest

from mlflow_resilience.errors import NothingToExplain
from mlflow_resilience.explain import explain

BEFORE = """\
2025-02-03 04:05:06.100: W tensorflow/dso_loader.cc:64] Could not load dynamic library 'libcudart.so.12'; dlerror: none
2025-02-03 04:05:06.150: I tensorflow/cudart_stub.cc:29] Ignore above cudart dlerror if you do not have a GPU set up.
2025-02-03 04:05:06.200: E external/cuda_blas.cc:1515] Unable to register cuBLAS factory: already been registered
2025-02-03 04:05:06.300: I external/cuda_executor.cc:901] successful NUMA node read from SysFS had negative value (-1)
2025-02-03 04:05:06.400: W external/cpu_allocator_impl.cc:83] Allocation of 998877665 exceeds 10% of free system memory.
/usr/lib/python3.11/popen_fork.py:66: RuntimeWarning: os.fork() was called. os.fork() is incompatible with threads, \
so this will likely lead to a deadlock.
"""
PROGRESS = "Epoch 3/9\n" + "".join(f" {n}/40 [==>...] - ETA: 1s - loss: 1.{n} - accuracy: 0.4\n" for n in range(10, 39))
ENDED = """\
2025-02-03 05:00:00.100: W external/local_rendezvous.cc:404] Local rendezvous is aborting with status: OUT_OF_RANGE: \
End of sequence
\t [[{{node IteratorGetNext}}]]
"""
AFTER = """\
WARNING:tensorflow:Detecting that an object or model or tf.train.Checkpoint is being deleted with unrestored values.
WARNING:tensorflow:Value in checkpoint could not be found in the restored object: (root).optimizer.iter
srun: error: gpu-3: task 0: Exited with exit code 1
srun: Terminating StepId=55.0
"""
AT_EXIT = """\
Exception ignored in: <function Pool.__del__ at 0x7f>
Traceback (most recent call last):
  File "/usr/lib/python3.11/multiprocessing/connection.py", line 200, in send_bytes
    self._send_bytes(m[offset:offset + size])
BrokenPipeError: [Errno 32] Broken pipe
"""
RAISED = """\
Traceback (most recent call last):
  File "/home/me/train.py", line 12, in <module>
    model.fit(data)
{}
"""
SURVIVED = """\
2025-02-03 04:30:00 WARNING mlflow.utils.autologging_utils: Encountered unexpected error during autologging
Traceback (most recent call last):
  File "/x/site-packages/mlflow/utils/rest_utils.py", line 3, in http
    raise MlflowException("API request failed")
mlflow.exceptions.MlflowException: API request failed
"""

ERRORS = [
    ("device_oom", RAISED.format("ResourceExhaustedError: OOM when allocating tensor with shape[9,9] on device:GPU:0")),
    ("unknown", RAISED.format("LookupError: the reactor melted")),
    ("unknown", "RuntimeError: the reactor melted\n"),
    ("tracking", "  File 'x.py', line 3, in http\n    raise E(x)\nmlflow.exceptions.MlflowException: not allowed\n"),
    ("host_oom", "    frames = read()\nMemoryError\n"),
    ("bad_data", "W0203 05:00:00.1 77 k.cc:17] OP_REQUIRES failed at d.cc:9 : DATA_LOSS: corrupted record at 7\n"),
    ("checkpoint_error", "2025-02-03 05:00:01.1: W op_kernel.cc:11] Data loss: Checksum does not match: 7 vs. 8\n"),
    ("host_oom", "terminate called after throwing 'std::bad_alloc'\n  what():  std::bad_alloc\nAborted\n"),
    ("host_oom", "[9911.000001] oom-kill:constraint=CONSTRAINT_MEMCG,task=python3,pid=7,uid=0\n"),
    ("hang", "[9911.000001] INFO: task python3:77 blocked for more than 120 seconds.\n"
             '[9911.000002] "echo 0 > /proc/sys/kernel/hung_task_timeout_secs" disables this message.\n'),
    ("device_fault", "[ 77.000001] NVRM: GPU 0000:b3:00.0\n     NVRM: fallen off the bus and is not responding.\n"),
    ("divergence", " 39/40 [=====>] - ETA: 1s - loss: nan - accuracy: 0.1\n"),
    ("transient_io", "2025-02-03 05:00:01.1: E tensorflow/c/logging.cc:40] HTTP response code: 503\nRequest ID: \n"),
    ("bad_data", "INFO:tensorflow:Error reported to Coordinator: Invalid JPEG data, size 77\n"),
    ("environment", "InvalidArgumentError: Restoring failed. Original error:\n\nPermission denied: gs://b/7\n"),
    ("process_death", "[W 2025-02-03 05:00:01.123 ServerApp] kernel 77-1f restarted\n"),
]  # fmt: skip


@pytest.mark.parametrize(("expected", "error"), ERRORS, ids=[error[:30] for _, error in ERRORS])
def test_what_stands_around_does_not_matter(expected: str, error: str) -> None:
    """Nor do warnings of the start and of the end, and what was printed while the interpreter cleaned up."""
    for before in ("", BEFORE, BEFORE + PROGRESS):
        for after in ("", AFTER, AT_EXIT):
            assert explain(before + error + after).failure_class == expected, (before[:20], after[:20])


@pytest.mark.parametrize("text", [BEFORE, BEFORE + PROGRESS, PROGRESS + AFTER.splitlines()[0]])
def test_a_calm_log_has_no_error(text: str) -> None:
    """The warnings of every start and end are none."""
    with pytest.raises(NothingToExplain):
        explain(text)


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        ("process_death", BEFORE + PROGRESS + ENDED + PROGRESS + "Segmentation fault (core dumped)\n"),
        ("process_death", BEFORE + SURVIVED + PROGRESS + "Segmentation fault (core dumped)\n"),
        ("process_death", BEFORE + PROGRESS.rstrip() + "Killed\n"),
        ("process_death", BEFORE + PROGRESS + AFTER),
        ("device_oom", ERRORS[0][1] + ENDED),
        ("input_exhausted", BEFORE + PROGRESS.rstrip() + ENDED),
        ("process_death", AT_EXIT + "Segmentation fault (core dumped)\n"),
        ("transient_io", AT_EXIT),
    ],
)
def test_what_is_always_said_is_no_reason(expected: str, text: str) -> None:
    """An end of data at each epoch, an error that was survived, and a broken pipe at exit count only alone."""
    assert explain(text).failure_class == expected


def test_a_message_that_points_to_the_log_is_asked_after_it() -> None:
    """A library that could not start for a reason that was logged above is explained by that reason."""
    vague = RAISED.format("UnknownError: cuDNN failed to initialize, so look for a warning log message printed above.")
    why = "2025-02-03 05:00:01.1: E cuda_dnn.cc:367] Loaded CuDNN library: 8.1 but source was compiled with: 8.9.\n"
    assert explain(why + vague).failure_class == "environment"
    assert explain(BEFORE + vague).failure_class == "device_oom"


def test_lines_that_differ_in_numbers_alone_are_one_note() -> None:
    """Thousands of the same complaint beside the error neither cost time nor push out the one that tells."""
    many = "".join(f"2025-02-03 05:00:01.1: W a.cc:7] lost shard {n}\n" for n in range(500))
    telling = "2025-02-03 05:00:01.1: E a.cc:7] CUDA_ERROR_ILLEGAL_ADDRESS: failed to query event\n"
    assert explain(many + telling).failure_class == "device_fault"


def test_the_plainest_words_of_a_very_long_log_are_read() -> None:
    """Though they stand far from its end, and no traceback is near them."""
    calm = "".join(f"waiting for the others, round {n}\n" for n in range(9_000))
    assert explain(calm + "Segmentation fault (core dumped)\n" + calm).failure_class == "process_death"


@pytest.mark.parametrize(
    "told", ["loss weights layers tensor value ", "image jpeg file label invalid ", "[[ node ", "0 "]
)
def test_a_very_long_line_is_read_in_time(told: str) -> None:
    """A dump of data within a message costs no more than its beginning and its end."""
    begun = time.process_time()
    explain("RuntimeError: " + told * (200_000 // len(told)))
    assert time.process_time() - begun < 5.0
