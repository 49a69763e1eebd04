"""Each failure class is recognised by facts: allocators, status, signals, phases, where an exception came from."""

from __future__ import annotations

from typing import Any

import pytest

from mlflow_resilience import recoveries
from mlflow_resilience.core.failure import FAILURE_CLASSES, Recovery, classify
from mlflow_resilience.core.fault import Cause, Fault, Phase, describe
from mlflow_resilience.core.policy import Policy
from mlflow_resilience.recoveries import BUILT_IN, allocation, known

GRAPH = "Graph execution error:\n\n{}\n\t [[{{{{node x}}}}]]"


def judged(exception: str = "", message: str = "", **facts: Any) -> str:
    return classify(Fault(exception=exception, message=message, **facts), BUILT_IN).failure_class


def test_the_list_is_closed_and_complete() -> None:
    """Every class of the contract has one recovery, with a hint of one line, and a domain."""
    assert sorted(recovery.failure_class for recovery in BUILT_IN) == sorted(FAILURE_CLASSES)
    assert BUILT_IN[-1].failure_class == "unknown"
    for recovery in BUILT_IN:
        assert recovery.hint and "\n" not in recovery.hint
        assert recovery.domain in ("workload", "infrastructure", "unknown")


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"exit_code": 137, "signal": 9, "kernel_oom": True}, "host_oom"),
        ({"exit_code": 137}, "process_death"),
        ({"signal": 9}, "process_death"),
        ({"signal": 11}, "process_death"),
        ({"signal": 6, "output_tail": "terminate called after throwing an instance of 'std::bad_alloc'"}, "host_oom"),
        ({"signal": 9, "output_tail": "Epoch 1/3\n 1/9 [=>...] - loss: 2.0\n"}, "process_death"),
        ({"exit_code": 1, "output_tail": "ModuleNotFoundError: No module named 'x'"}, "environment"),
        ({"exit_code": 1, "output_tail": "RuntimeError: the reactor melted"}, "process_death"),
        ({"signal": 9, "silent_seconds": 300.0}, "hang"),
        ({"signal": 15, "silent_seconds": 300.0}, "hang"),
        ({"signal": 15}, "interruption"),
        ({"signal": 2}, "interruption"),
        ({"exit_code": 143}, "interruption"),
        ({"signal": 15, "output_tail": "MemoryError"}, "interruption"),
        ({"signal": 9, "phase": "checkpoint"}, "process_death"),
    ],
)
def test_a_worker_that_ended_without_a_word(facts: dict[str, Any], expected: str) -> None:
    """Exit status, the kernel's count, silence and last output decide together."""
    assert judged("SIGX", **{"phase": "process", **facts}) == expected


def test_memory_by_device() -> None:
    """The same words mean the host's memory on a CPU, and the device's elsewhere."""
    told = "Out of memory while trying to allocate 6.52GiB."
    assert judged("ResourceExhaustedError", told, device="CPU") == "host_oom"
    assert judged("ResourceExhaustedError", told, device="GPU:0") == "device_oom"
    assert judged("ResourceExhaustedError", told) == "device_oom"
    assert judged("MemoryError", phase="data", device="GPU:0") == "host_oom"
    assert judged("ResourceExhaustedError", "OOM on device:GPU:0", device="CPU") == "device_oom"


def test_a_full_disk_in_the_guise_of_exhausted_memory() -> None:
    """The class ResourceExhaustedError decides nothing; TensorFlow's hint about memory neither."""
    told = (
        "x.tempstate1; No space left on device [Op:SaveV2]\nHint: If you want to see allocated tensors when OOM happens"
    )
    assert judged("ResourceExhaustedError", told) == "disk_full"
    assert judged("ResourceExhaustedError", "something else") == "unknown"


def test_an_impossible_allocation_is_a_mistake() -> None:
    """Hundreds of TiB are asked for by wrong code, whatever the allocator calls it."""
    shape = "OOM when allocating tensor with shape[1048576,1048576,256] and type float on device:GPU:0"
    assert judged("ResourceExhaustedError", shape) == "programming_error"
    assert judged("MemoryError", "Unable to allocate 412. TiB for an array") == "programming_error"
    assert judged("ResourceExhaustedError", "failed to allocate 900,000,000,000,000 bytes") == "programming_error"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("Out of memory while trying to allocate 6.5GiB.", 6.5 * 2**30),
        ("failed to allocate 1,024 bytes", 1024),
        ("OOM when allocating tensor with shape[2,3,4] and type double on x", 192),
        ("OOM when allocating tensor with shape[10] and type half", 20),
        ("Tried to allocate 2.00 GiB (GPU 0; 15.90 GiB total)", 2 * 2**30),
        ("no amount here", 0),
    ],
)
def test_how_much_was_asked_for(message: str, expected: float) -> None:
    """Amounts are read in every unit, and from a tensor's shape."""
    assert allocation.bytes_asked(message) == expected


def test_what_did_not_fit_is_named() -> None:
    """The words of a stop name the request and the tensor."""
    told = allocation.largest(Fault(exception="E", message="OOM when allocating tensor with shape[1024,1024,1024]"))
    assert told == "it does not fit: 4.00 GiB were asked for (a tensor of shape [1024,1024,1024])"
    assert allocation.largest(Fault(exception="E", message="allocating 2GiB")).endswith("2.00 GiB were asked for")
    told = allocation.largest(Fault(exception="E", message="failed to allocate 3MiB"))
    assert told == "it does not fit: 3.00 MiB were asked for"


def test_of_many_tensors_the_largest_are_named() -> None:
    """As XLA lists them: the three that take most, with what they take."""
    listed = "Out of memory while trying to allocate 6.00GiB.\nf32[16,16], bf16[1024,1024,1024], f32[1024,1024], s64[8]"
    assert allocation.largest(Fault(exception="E", message=listed)) == (
        "it does not fit: 6.00 GiB were asked for (the largest tensors: [1024,1024,1024] of 2.00 GiB, "
        "[1024,1024] of 4.00 MiB, [16,16] of 0.00 MiB)"
    )


def test_without_an_amount_nothing_is_named() -> None:
    """A text about memory that names no number."""
    assert allocation.largest(Fault(exception="E")) == ""


def test_an_error_in_user_code_is_unknown() -> None:
    """A RuntimeError says nothing, whatever words it holds that a library would mean."""
    assert judged("RuntimeError", "the reactor melted") == "unknown"
    assert judged("RuntimeError", "sensor shape is invalid") == "unknown"
    assert judged("KeyError", "'label'") == "unknown"
    assert judged("ValueError", "the time limit is over") == "unknown"


def test_complaints_of_a_library_are_told_by_where_they_came_from() -> None:
    """A ValueError raised by Keras about what it was given is a programming error; the same from user code is not."""
    told = 'Traceback (most recent call last):\n  File "{}", line 3, in f\nValueError: odd'
    keras, user = told.format("/x/site-packages/keras/src/layers/x.py"), told.format("/home/u/train.py")
    assert judged("ValueError", "odd", traceback=keras) == "programming_error"
    assert judged("ValueError", "odd", traceback=user) == "unknown"


def test_mlflow_by_origin() -> None:
    """Anything that came out of MLflow is tracking, though a socket raised it; autologging's frame alone is not."""
    frame = '  File "/x/lib/python3.11/{}", line 3, in f\n'
    log = frame.format("site-packages/mlflow/fluent.py") + frame.format("site-packages/urllib3/c.py")
    assert judged("TimeoutError", "timed out", traceback=log + frame.format("socket.py")) == "tracking"
    auto = frame.format("site-packages/mlflow/utils/autologging_utils/safety.py")
    assert (
        judged("TimeoutError", "timed out", traceback=auto + frame.format("site-packages/keras/x.py")) == "transient_io"
    )
    assert judged("ValueError", "x", type_names=("mlflow.exceptions.OwnError",)) == "tracking"
    assert judged("ValueError", "x", phase="tracking") == "tracking"


def test_mlflow_as_outermost_of_a_network_error() -> None:
    """A connection refused under MLflow's exception is no fault of the data's."""
    cause = Cause("ConnectionRefusedError", "[Errno 111] Connection refused", "context")
    assert judged("MlflowException", "API request failed", chain=(cause,)) == "tracking"
    full = Cause("OSError", "[Errno 28] No space left on device", "context")
    assert judged("MlflowException", "cannot log artifact", chain=(full,)) == "disk_full"


def test_our_own_name_is_not_mlflow() -> None:
    """A path of ours within a message does not make it MLflow's."""
    assert judged("RuntimeError", "cannot use .mlflow_resilience/jobs/x") == "unknown"


def test_code_that_names_another_class_is_code() -> None:
    """What Python says of a name that is not there is a programming error, whatever the name."""
    assert judged("NameError", "name 'horovod' is not defined") == "programming_error"
    assert judged("AttributeError", "module 'mlflow' has no attribute 'log_everything'") == "programming_error"
    assert judged("ImportError", "cannot import name 'nccl' from 'x'") == "environment"
    assert judged("TypeError", "checkpoint() takes 2 positional arguments but 3 were given") == "programming_error"


PHASES: list[tuple[Phase, str, str, str]] = [
    ("data", "InvalidArgumentError", "slice index 5 of dimension 0 out of bounds", "bad_data"),
    ("step", "InvalidArgumentError", "slice index 5 of dimension 0 out of bounds", "programming_error"),
    ("data", "ValueError", "bad record 7", "bad_data"),
    ("data", "TypeError", "'NoneType' object is not subscriptable", "bad_data"),
    ("data", "NameError", "name 'x' is not defined", "programming_error"),
    ("data", "FileNotFoundError", "[Errno 2] No such file or directory: 'a.bin'", "bad_data"),
    ("data", "OSError", "[Errno 5] Input/output error", "transient_io"),
    ("data", "OSError", "Unable to open file (truncated file: eof = 5)", "bad_data"),
    ("data", "RuntimeError", "the reactor melted", "unknown"),
    ("data", "OutOfRangeError", "End of sequence", "input_exhausted"),
    ("data", "OutOfRangeError", "Read fewer bytes than requested", "unknown"),
    ("restore", "ValueError", "anything", "checkpoint_error"),
    ("restore", "OSError", "[Errno 5] Input/output error", "transient_io"),
    ("restore", "FileNotFoundError", "[Errno 2] No such file or directory: 'a.jpg'", "checkpoint_error"),
    ("checkpoint", "OSError", "[Errno 28] No space left on device", "disk_full"),
    ("start", "FileNotFoundError", "[Errno 2] No such file or directory: 'x/ckpt-7.index'", "checkpoint_error"),
    ("step", "FileNotFoundError", "[Errno 2] No such file or directory: 'a.jpg'", "bad_data"),
    ("start", "FileNotFoundError", "[Errno 2] No such file or directory: 'settings'", "unknown"),
    ("callback", "CheckpointError", "of another model", "checkpoint_error"),
    ("callback", "EOFError", "Ran out of input: state.pkl", "checkpoint_error"),
    ("step", "DataLossError", "corrupted record at 12887", "bad_data"),
    ("step", "FailedPreconditionError", "/data/images", "programming_error"),
    ("step", "FailedPreconditionError", "something else", "unknown"),
    ("step", "IsADirectoryError", "[Errno 21] Is a directory: 'x'", "programming_error"),
    ("callback", "Divergence", "the loss is not finite", "divergence"),
    ("step", "UsageError", "no such recipe", "programming_error"),
]  # fmt: skip


@pytest.mark.parametrize(("phase", "exception", "message", "expected"), PHASES)
def test_the_phase_is_a_fact(phase: Phase, exception: str, message: str, expected: str) -> None:
    """The same exception means one thing in the data, another in the step, another in a checkpoint."""
    assert judged(exception, message, phase=phase) == expected


def test_root_cause_over_what_it_led_to() -> None:
    """A fault in a pipeline is read out of TensorFlow's text, and cancelled calls and aborted collectives lose."""
    nested = "OSError: [Errno 116] Stale file handle: 'a.npy'\nTraceback (most recent call last):\n"
    assert judged("UnknownError", GRAPH.format(nested), phase="data") == "transient_io"
    two = "2 root error(s) found.\n  (0) UNAVAILABLE: Socket closed\n  (1) RESOURCE_EXHAUSTED: OOM on device:GPU:0"
    assert judged("UnavailableError", two) == "device_oom"
    everyday = Cause("ModuleNotFoundError", "No module named 'ujson'", "context")
    assert judged("OSError", "[Errno 5] Input/output error", chain=(everyday,)) == "transient_io"


PY_FUNCTION = """Graph execution error:

Detected at node EagerPyFunc defined at (most recent call last):
<stack traces unavailable>
{0}
Traceback (most recent call last):

  File "/site-packages/tensorflow/python/autograph/impl/api.py", line 643, in wrapper
    return func(*args, **kwargs)
           ^^^^^^^^^^^^^^^^^^^^^

  File "train.py", line 9, in read
    raise RuntimeError("checkpoint of the shape of a socket")

{0}


\t [[{{{{node EagerPyFunc}}}}]]
\t [[IteratorGetNext]] [Op:__inference_multi_step_on_iterator_203]"""


@pytest.mark.parametrize(
    ("original", "expected"),
    [
        ("RuntimeError: melted", "unknown"),
        ("KeyError: 'label'", "unknown"),
        ("ValueError: bad record 7", "bad_data"),
        ("OSError: [Errno 28] No space left on device", "disk_full"),
        ("NameError: name 'x' is not defined", "programming_error"),
    ],
)
def test_stacks_within_a_message_say_nothing(original: str, expected: str) -> None:
    """Paths and source lines of the stack that TensorFlow prints into its message are no evidence."""
    error = RuntimeError(PY_FUNCTION.format(original))
    assert classify(describe(error), BUILT_IN).failure_class == expected


def test_missing_files_by_their_kind() -> None:
    """A missing picture is a bad record, a missing checkpoint a checkpoint's error."""
    assert judged("NotFoundError", "cat.jpg; No such file or directory") == "bad_data"
    assert judged("NotFoundError", "model.ckpt-7.index; No such file or directory") == "checkpoint_error"


def test_condemned_processes() -> None:
    """After these nothing of the process is used again."""
    by_name = {recovery.failure_class: recovery for recovery in BUILT_IN}
    for name in ("device_fault", "hang", "worker_lost"):
        assert by_name[name].condemns(Fault(exception="E"))
    for name in ("device_oom", "host_oom"):
        assert by_name[name].condemns(Fault(exception="E", jit=True))
        assert not by_name[name].condemns(Fault(exception="E"))
    assert not by_name["transient_io"].condemns(Fault(exception="E", jit=True))


def test_words_of_a_stop() -> None:
    """What ran out is counted, with what was asked for where that is told."""
    by_name = {recovery.failure_class: recovery for recovery in BUILT_IN}
    assert by_name["input_exhausted"].detail(Fault(exception="E")) == "0 steps were done"


def test_installed_ones_come_between(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another package's class is known by its entry point, after the policy's own and before the built-in ones."""
    other = Recovery(failure_class="other", domain="workload", matches=lambda fault: fault.exception == "Other")

    class Entry:
        def load(self) -> Recovery:
            return other

    monkeypatch.setattr(recoveries, "entry_points", lambda group: [Entry()])
    recoveries.installed.cache_clear()
    own = Recovery(failure_class="own", domain="workload")
    found = known(Policy().with_recovery(own))
    recoveries.installed.cache_clear()
    assert [recovery.failure_class for recovery in found[:3]] == ["own", "other", BUILT_IN[0].failure_class]
    assert classify(Fault(exception="Other"), found).failure_class == "other"
