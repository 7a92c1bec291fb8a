"""Every limit of `mercer serve` over HTTP and gRPC: whoever sends something wrong gets a sentence, and nobody else notices."""

import contextlib
import gzip
import http.client
import json
import re
import socket
import struct
import threading
import time

import grpc
import numpy as np
import pytest
from h2.connection import H2Connection
from h2.settings import SettingCodes
from serving import Server, digits_rows
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc

SERVICE = "/inference.GRPCInferenceService/"
LIMITS = {"body_bytes": 100_000, "rows": 50, "read_seconds": 1, "connections": 40}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Server(folder=tmp_path_factory.mktemp("limits"), **LIMITS) as started:
        yield started


@pytest.fixture(autouse=True)
def others_are_answered(request):
    """After each test both protocols answer, and the process is the same."""
    yield
    if "server" not in request.fixturenames:
        return
    server = request.getfixturevalue("server")
    assert server.process.poll() is None
    assert http_infer(server, tensor(digits_rows(1)))[0] == 200
    assert stub(server).ModelInfer(message(digits_rows(1)), timeout=20).model_name == "digits"


def http_send(server, method, path, body=b"", headers=None):
    connection = http.client.HTTPConnection(server.http, timeout=20)
    try:
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def http_infer(server, inputs, headers=None, **more):
    body = json.dumps({"inputs": inputs, **more}).encode()
    return http_send(server, "POST", "/v2/models/digits/infer", body, headers)


def tensor(rows, name="x", datatype="FP64"):
    return [{"name": name, "shape": list(rows.shape), "datatype": datatype, "data": rows.tolist()}]


def stub(server):
    return service_pb2_grpc.GRPCInferenceServiceStub(grpc.insecure_channel(server.grpc))


def message(rows, name="x", raw=True):
    request = pb.ModelInferRequest(model_name="digits")
    request.inputs.append(pb.ModelInferRequest.InferInputTensor(name=name, datatype="FP64", shape=rows.shape))
    if raw:
        request.raw_input_contents.append(rows.astype("<f8").tobytes())
    return request


def grpc_refusal(server, request, **more):
    with pytest.raises(grpc.RpcError) as refused:
        stub(server).ModelInfer(request, timeout=20, **more)
    return refused.value.code().name, refused.value.details()


def refused(reply):
    status, body = reply
    return status, json.loads(body)["error"]


WIDE = np.zeros((1, 3))
LONG = np.zeros((60, 64))


def with_nan():
    rows = digits_rows(2)
    rows[1, 2] = np.nan
    return rows


@pytest.mark.parametrize(
    "rows, name, status, code, sentence",
    [
        (WIDE, "x", 400, "INVALID_ARGUMENT", "rows have 3 columns, the model has 64"),
        (LONG, "x", 413, "OUT_OF_RANGE", "60 rows in one request; at most 50 are accepted"),
        (np.zeros((600, 64)), "x", 413, "OUT_OF_RANGE", "the body is longer than 100000 bytes"),
    ],
)
def test_wrong_rows_are_refused_alike(server, rows, name, status, code, sentence):
    found, said = refused(http_infer(server, tensor(rows, name)))
    assert found == status and sentence in said
    found, said = grpc_refusal(server, message(rows, name))
    assert found == code and sentence in said


def test_values_that_are_not_finite_are_named_by_tensor_row_and_column(server):
    rows = with_nan()
    sentence = "input 'x': row 2, column 3 is NaN, not a finite number"
    assert grpc_refusal(server, message(rows)) == ("INVALID_ARGUMENT", sentence)
    typed = message(rows, raw=False)
    typed.inputs[0].contents.fp64_contents.extend(rows.ravel())
    assert grpc_refusal(server, typed) == ("INVALID_ARGUMENT", sentence)
    size = rows.nbytes
    head = [{"name": "x", "shape": [2, 64], "datatype": "FP64", "parameters": {"binary_data_size": size}}]
    head = json.dumps({"inputs": head}).encode()
    headers = {"Inference-Header-Content-Length": str(len(head))}
    reply = http_send(server, "POST", "/v2/models/digits/infer", head + rows.tobytes(), headers)
    assert refused(reply) == (400, sentence)
    # JSON has no such values: the second row has 64 before it.
    assert refused(http_infer(server, tensor(rows))) == (400, "input 'x': element 67 is not a number")
    huge = json.dumps({"inputs": tensor(digits_rows(1))}).replace("[[0.0", "[[1e999", 1).encode()
    status, said = refused(http_send(server, "POST", "/v2/models/digits/infer", huge))
    assert status == 400 and "element 1 is too large for a number" in said


def test_duplicate_names_and_unknown_models_are_refused(server):
    rows = digits_rows(1)
    status, said = refused(http_infer(server, tensor(rows) + tensor(rows)))
    assert status == 400 and said == "two inputs are named 'x'"
    request = message(rows)
    request.MergeFrom(message(rows))
    assert grpc_refusal(server, request) == ("INVALID_ARGUMENT", "two inputs are named 'x'")
    status, said = refused(http_infer(server, tensor(rows), outputs=[{"name": "label"}, {"name": "label"}]))
    assert status == 400 and said == "two outputs are named 'label'"
    status, said = refused(http_send(server, "POST", "/v2/models/nobody/infer", b"{}"))
    assert (status, said) == (404, "there is no model 'nobody'")
    request = message(rows)
    request.model_name = "nobody"
    assert grpc_refusal(server, request) == ("NOT_FOUND", "there is no model 'nobody'")
    request = message(rows)
    request.model_version = "9"
    assert grpc_refusal(server, request) == ("NOT_FOUND", "the model 'digits' has no version '9'")


def test_forged_lengths_are_refused(server):
    rows = digits_rows(1)
    body = json.dumps({"inputs": tensor(rows)}).encode()
    for length in ["-1", "x", "18446744073709551616", str(len(body) + 1), ""]:
        headers = {"Inference-Header-Content-Length": length}
        status, said = refused(http_send(server, "POST", "/v2/models/digits/infer", body, headers))
        assert status == 400 and "inference-header-content-length is" in said
    other = "its binary_data_size is not what follows the JSON part"
    sizes = {-1: other, 0: "does not fit its 0 elements", 511: "511 bytes are not a whole number", 513: other, 2**62: other}
    for size, sentence in sizes.items():
        head = [{"name": "x", "shape": [1, 64], "datatype": "FP64", "parameters": {"binary_data_size": size}}]
        head = json.dumps({"inputs": head}).encode()
        headers = {"Inference-Header-Content-Length": str(len(head))}
        status, said = refused(http_send(server, "POST", "/v2/models/digits/infer", head + rows.tobytes(), headers))
        assert status == 400 and said.startswith("input 'x': ") and sentence in said
    wrong = {(2**40, 2**40): 400, (2**63 - 1,): 400, (0, 64, 5): 413}
    for shape, status in wrong.items():
        request = message(rows)
        request.inputs[0].shape[:] = shape
        code, said = grpc_refusal(server, request)
        assert code == "INVALID_ARGUMENT" and "shape" in said
        inputs = [{"name": "x", "shape": shape, "datatype": "FP64", "data": [1, 2]}]
        found, said = refused(http_infer(server, inputs))
        assert found == status and ("does not fit its 2 elements" in said or "more than 0 elements" in said)
    request = message(rows)
    request.inputs[0].datatype = "BYTES"
    request.inputs[0].shape[:] = [1]
    request.raw_input_contents[0] = struct.pack("<I", 2**32 - 1) + b"1:1"
    code, said = grpc_refusal(server, request)
    assert code == "INVALID_ARGUMENT" and "element 1 is longer than what follows" in said


def test_bombs_are_not_inflated(server):
    bomb = gzip.compress(b" " * 50_000_000)
    assert len(bomb) < 100_000
    reply = http_send(server, "POST", "/v2/models/digits/infer", bomb, {"Content-Encoding": "gzip"})
    assert refused(reply) == (413, "the body takes more than 100000 bytes when it is inflated")
    for compression in [grpc.Compression.Gzip, grpc.Compression.Deflate]:
        found = grpc_refusal(server, message(np.zeros((5000, 64))), compression=compression)
        assert found == ("OUT_OF_RANGE", "the body takes more than 100000 bytes when it is inflated")
        assert stub(server).ModelInfer(message(np.zeros((10, 64))), compression=compression).outputs[0].shape == [10]
    # In a stream such a message ends the stream; what fits is answered.
    answers = stub(server).ModelStreamInfer(
        iter([message(np.zeros((10, 64))), message(np.zeros((5000, 64)))]), compression=grpc.Compression.Gzip, timeout=20
    )
    assert next(answers).infer_response.outputs[0].shape == [10]
    with pytest.raises(grpc.RpcError) as ended:
        next(answers)
    assert ended.value.code().name == "RESOURCE_EXHAUSTED" and "100000 bytes" in ended.value.details()
    reply = http_send(server, "POST", "/v2/models/digits/infer", b"x", {"Content-Encoding": "zstd"})
    assert refused(reply)[0] == 415


def test_deep_json_and_other_text_are_refused(server):
    deep = '{"inputs": [{"name": "x", "shape": [1], "datatype": "FP64", "data": %s1%s}]}'
    status, said = refused(http_send(server, "POST", "/v2/models/digits/infer", (deep % ("[" * 9, "]" * 9)).encode()))
    assert status == 400 and "nested more than 8" in said
    for text in [
        deep % ("[" * 40_000, "]" * 40_000),
        "[" * 90_000,
        '{"inputs": ' * 9000,
        '{"parameters": {"a": ' + '{"a": ' * 1000 + "1" + "}" * 1002,
    ]:
        assert refused(http_send(server, "POST", "/v2/models/digits/infer", text.encode()))[0] == 400
        assert refused(http_send(server, "POST", "/v2/repository/index", text.encode()))[0] == 400
    bad = b'{"id": "\xff\xfe", "inputs": []}'
    assert refused(http_send(server, "POST", "/v2/models/digits/infer", bad))[0] == 400
    status, said = refused(http_send(server, "GET", "/v2/models/%ff%fe"))
    assert status == 400 and "the address cannot be read" in said
    channel = grpc.insecure_channel(server.grpc)
    call = channel.unary_unary(SERVICE + "ModelInfer")
    # Field 1, a text, that is not UTF-8; then a message that is cut off.
    for wrong in [b"\x0a\x02\xff\xfe", b"\x0a\x7f", b"\xff" * 20]:
        with pytest.raises(grpc.RpcError) as said:
            call(wrong, timeout=20)
        # The library that reads messages has chosen this code.
        assert said.value.code().name == "INTERNAL" and "failed to decode" in said.value.details()


def test_long_heads_are_refused(server):
    with socket.create_connection(address(server.http), timeout=20) as raw:
        raw.sendall(b"GET /v2 HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 100_000 + b"\r\n\r\n")
        assert raw.recv(100).startswith(b"HTTP/1.1 431")


def address(text):
    host, port = text.rsplit(":", 1)
    return host, int(port)


def closed_after(raw, limit=20.0):
    """Seconds until the other side closes, and what it said."""
    start, said = time.monotonic(), b""
    raw.settimeout(limit)
    while True:
        try:
            piece = raw.recv(65536)
        except ConnectionError:
            piece = b""
        if not piece:
            return time.monotonic() - start, said
        said += piece


def test_slow_senders_are_cut_over_http(server):
    infer = b"POST /v2/models/digits/infer HTTP/1.1\r\nHost: localhost\r\n"
    # A head that does not come ends the connection without a word; a body that does not come gets a sentence.
    for start, status in [(b"", b""), (infer, b""), (infer + b"Content-Length: 50\r\n\r\n{", b"HTTP/1.1 408")]:
        with socket.create_connection(address(server.http), timeout=20) as raw:
            raw.sendall(start)
            seconds, said = closed_after(raw)
            assert 0.5 < seconds < 10 and said.startswith(status) and bool(said) == bool(status), said
            assert not status or b"the body did not arrive in time" in said
    # A byte now and then is no help.
    with socket.create_connection(address(server.http), timeout=20) as raw:
        raw.sendall(b"POST /v2/models/digits/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000\r\n\r\n")
        start, was_cut = time.monotonic(), False
        while time.monotonic() - start < 10 and not was_cut:
            time.sleep(0.2)
            try:
                raw.sendall(b" ")
                raw.settimeout(0.01)
                was_cut = raw.recv(12) == b"HTTP/1.1 408"
            except TimeoutError:
                pass
        assert was_cut and time.monotonic() - start > 0.5


class Http2:
    """A connection whose frames a test sends one by one."""

    def __init__(self, server, path):
        self.raw = socket.create_connection(address(server.grpc), timeout=20)
        self.h2 = H2Connection()
        self.h2.initiate_connection()
        self.path, self.events = path, []
        self.flush()

    def flush(self):
        self.raw.sendall(self.h2.data_to_send())

    def call(self, data=b"", more=(), end=False):
        number = self.h2.get_next_available_stream_id()
        head = [(":method", "POST"), (":path", self.path), (":scheme", "http"), (":authority", "x")]
        self.h2.send_headers(number, [*head, ("content-type", "application/grpc"), ("te", "trailers"), *more])
        if data:
            self.h2.send_data(number, data, end_stream=end)
        self.flush()
        return number

    def until(self, name, seconds=10.0):
        """The next event of this kind; none if none comes."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = next((event for event in self.events if type(event).__name__ == name), None)
            if found:
                self.events.remove(found)
                return found
            self.raw.settimeout(max(0.01, end - time.monotonic()))
            try:
                data = self.raw.recv(65536)
            except TimeoutError:
                return None
            if not data:
                return None
            self.events += self.h2.receive_data(data)
            self.flush()
        return None


def status_of(event):
    headers = {bytes(name): bytes(value) for name, value in event.headers}
    return int(headers.get(b"grpc-status", b"-1"))


def test_slow_senders_are_cut_over_grpc(server):
    connection = Http2(server, SERVICE + "ModelInfer")
    # A message of a hundred bytes, of which five come.
    connection.call(struct.pack(">BI", 0, 100) + b"12345")
    start = time.monotonic()
    answered = connection.until("ResponseReceived")
    assert status_of(answered) == grpc.StatusCode.DEADLINE_EXCEEDED.value[0]
    assert time.monotonic() - start < 8


def test_slow_messages_of_a_stream_end_it(server):
    connection = Http2(server, SERVICE + "ModelStreamInfer")
    request = message(digits_rows(1)).SerializeToString()
    whole = struct.pack(">BI", 0, len(request)) + request
    number = connection.call(whole)
    assert connection.until("ResponseReceived") and connection.until("DataReceived")
    # It may rest between messages for longer than a message may take.
    time.sleep(1.5)
    connection.h2.send_data(number, whole)
    connection.flush()
    assert connection.until("DataReceived")
    connection.h2.send_data(number, whole[:20])
    connection.flush()
    start = time.monotonic()
    ended = connection.until("TrailersReceived", 15)
    assert status_of(ended) == grpc.StatusCode.DEADLINE_EXCEEDED.value[0]
    assert time.monotonic() - start < 10


def memory(server, name="VmRSS"):
    """Kilobytes of the server's process: now, or at most so far (VmHWM)."""
    with open(f"/proc/{server.process.pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(name))


def test_forged_lengths_of_messages_take_no_memory(server):
    before = memory(server, "VmHWM")
    forged = struct.pack(">BI", 0, 2**32 - 1) + b"12345"
    for _ in range(20):
        connection = Http2(server, SERVICE + "ModelInfer")
        connection.call(forged)
        assert status_of(connection.until("ResponseReceived")) == grpc.StatusCode.OUT_OF_RANGE.value[0]
        connection = Http2(server, SERVICE + "ModelStreamInfer")
        connection.call(forged)
        assert connection.until("ResponseReceived")
        assert status_of(connection.until("TrailersReceived")) == grpc.StatusCode.OUT_OF_RANGE.value[0]
    assert memory(server, "VmHWM") - before < 10_000


def test_messages_beyond_the_memory_of_all_bodies_are_refused(tmp_path):
    with Server(folder=tmp_path, body_bytes=1_000_000, bodies_bytes=1_500_000, read_seconds=20) as server:
        # The first has announced a megabyte, and has its memory before the rest comes; in a stream as well.
        for call in ["ModelInfer", "ModelStreamInfer"]:
            connection = Http2(server, SERVICE + call)
            connection.call(struct.pack(">BI", 0, 1_000_000) + b"12345")
            time.sleep(0.3)
            large = message(np.zeros((1500, 64)))
            code, said = grpc_refusal(server, large)
            assert code == "RESOURCE_EXHAUSTED" and "the memory that there is for them" in said
            answers = stub(server).ModelStreamInfer(iter([large]), timeout=20)
            with pytest.raises(grpc.RpcError) as refused:
                next(answers)
            assert refused.value.code().name == "RESOURCE_EXHAUSTED"
            assert stub(server).ModelInfer(message(digits_rows(1)), timeout=20).model_name == "digits"
            connection.raw.close()
            time.sleep(0.3)
        assert stub(server).ModelInfer(message(np.zeros((500, 64))), timeout=20).outputs[0].shape == [500]


def test_long_heads_are_refused_over_http2(server):
    request = message(digits_rows(1)).SerializeToString()
    for size in [20_000, 70_000]:
        connection = Http2(server, SERVICE + "ModelInfer")
        connection.until("RemoteSettingsChanged")
        # Frames hold 16 KiB: the library sends what follows as continuations.
        number = connection.call(more=[(f"x-{at}", "a" * 10_000) for at in range(size // 10_000)])
        answered = connection.until("ResponseReceived")
        headers = {bytes(name): bytes(value) for name, value in answered.headers}
        assert answered.stream_id == number
        if size > 64 << 10:
            assert headers[b":status"] == b"431"
        else:
            assert status_of(answered) == grpc.StatusCode.OUT_OF_RANGE.value[0]
            assert headers[b"grpc-message"] == b"the%20head%20is%20longer%20than%2016384%20bytes"
        # The connection goes on.
        connection.call(struct.pack(">BI", 0, len(request)) + request, end=True)
        assert status_of(connection.until("TrailersReceived")) == 0
    # Far beyond that it ends.
    connection = Http2(server, SERVICE + "ModelInfer")
    with contextlib.suppress(ConnectionError):
        connection.call(more=[(f"x-{at}", "a" * 10_000) for at in range(200)])
    ended = None
    with contextlib.suppress(ConnectionError):
        ended = connection.until("ConnectionTerminated")
    assert ended is None or ended.error_code != 0
    seconds, _ = closed_after(connection.raw)
    assert seconds < 10


STREAMS = 256


def test_streams_of_a_connection_are_limited(tmp_path):
    with Server(folder=tmp_path, read_seconds=60) as server:
        connection = Http2(server, SERVICE + "ModelInfer")
        changed = connection.until("RemoteSettingsChanged").changed_settings
        assert changed[SettingCodes.MAX_CONCURRENT_STREAMS].new_value == STREAMS
        # A caller that does not keep to it.
        connection.h2.remote_settings[SettingCodes.MAX_CONCURRENT_STREAMS] = 2 * STREAMS
        connection.h2.remote_settings.acknowledge()
        request = message(digits_rows(1)).SerializeToString()
        whole = struct.pack(">BI", 0, len(request)) + request
        held = [connection.call(whole[:5]) for _ in range(STREAMS)]
        refused = connection.call(whole, end=True)
        reset = connection.until("StreamReset")
        assert reset.stream_id == refused and reset.error_code == 7, "REFUSED_STREAM"
        assert connection.until("ResponseReceived", 0.5) is None, "the others go on"
        # One that ends makes room for another.
        connection.h2.send_data(held[0], whole[5:], end_stream=True)
        connection.flush()
        ended = connection.until("TrailersReceived")
        assert ended.stream_id == held[0] and status_of(ended) == 0
        assert connection.until("ResponseReceived").stream_id == held[0]
        again = connection.call(whole, end=True)
        ended = connection.until("TrailersReceived")
        assert ended.stream_id == again and status_of(ended) == 0
        # A client that keeps to it lets its own calls wait.
        channel = grpc.insecure_channel(server.grpc)
        calls = [service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer.future(message(digits_rows(1)), timeout=60)
                 for _ in range(2 * STREAMS)]
        assert all(call.result().model_name == "digits" for call in calls)


def test_connections_beyond_the_limit_wait_for_others_to_end(tmp_path):
    with Server(folder=tmp_path, connections=2, read_seconds=2) as server:
        for place in ["http", "grpc"]:
            held = [socket.create_connection(address(getattr(server, place)), timeout=20) for _ in range(2)]
            time.sleep(0.2)
            start = time.monotonic()
            if place == "http":
                assert http_infer(server, tensor(digits_rows(1)))[0] == 200
            else:
                assert stub(server).ModelInfer(message(digits_rows(1)), timeout=30)
            # They were answered once the silent ones had been cut.
            assert time.monotonic() - start > 0.5
            for raw in held:
                raw.close()


def test_the_deadline_of_a_call_is_kept(tmp_path):
    with Server(folder=tmp_path, read_seconds=60) as server:
        connection = Http2(server, SERVICE + "ModelInfer")
        for text, code in [("300m", 4), ("1x", 3), ("-1m", 3), ("123456789m", 3)]:
            start = time.monotonic()
            connection.call(b"\x00", [("grpc-timeout", text)])
            assert status_of(connection.until("ResponseReceived", 30)) == code, text
            assert time.monotonic() - start < 20, "before the time that bodies have"


def test_work_of_callers_that_left_is_dropped_before_it_starts(tmp_path):
    with Server("--threads", "1", folder=tmp_path, queue_ms=1e6) as server:
        rows = np.repeat(digits_rows(), 500, axis=0)
        body = message(rows).SerializeToString()
        call = grpc.insecure_channel(server.grpc, [("grpc.max_send_message_length", -1)]).unary_unary(
            SERVICE + "ModelInfer"
        )
        first = [call.future(body) for _ in range(3)]
        time.sleep(0.3)
        left = [call.future(body) for _ in range(20)]
        time.sleep(0.3)
        for one in left:
            one.cancel()
        for one in first:
            one.result(timeout=120)
        time.sleep(0.3)
        stats = json.loads(http_send(server, "GET", "/v2/models/digits/stats")[1])["model_stats"][0]
        # The first three are answered; of the others at most those that had begun when their callers left.
        assert 3 * len(rows) <= stats["inference_count"] <= 13 * len(rows)
        # Batches of 2048 rows each, of three requests and of those that were at work when their callers left.
        assert stats["execution_count"] < 12 * -(-len(rows) // 2048)


def test_a_full_queue_is_refused_with_the_time_to_wait(tmp_path):
    with Server("--threads", "1", "--queue-ms", "1", folder=tmp_path) as server:
        rows = np.repeat(digits_rows(), 250, axis=0)
        call = grpc.insecure_channel(server.grpc).unary_unary(SERVICE + "ModelInfer")
        calls = [call.future(message(rows).SerializeToString()) for _ in range(8)]
        refusals = [one.exception(timeout=120) for one in calls]
        refusals = [one for one in refusals if one is not None]
        assert 0 < len(refusals) < 8
        for one in refusals:
            assert one.code().name == "RESOURCE_EXHAUSTED" and "the queue is full" in one.details()
            assert int(dict(one.trailing_metadata())["grpc-retry-pushback-ms"]) >= 1
            assert dict(one.trailing_metadata())["mercer-shed"] == "queue"
        shed = http_send(server, "GET", "/metrics")[1].decode()
        assert f'mercer_shed_total{{reason="queue"}} {len(refusals)}' in shed
    # The memory for all bodies together: the second of two large ones may find it taken, and is told when to come again.
    with Server(folder=tmp_path, body_bytes=4_000_000, bodies_bytes=1_000_000) as server:
        body = json.dumps({"inputs": tensor(np.zeros((8000, 64)))}).encode()
        status, said = refused(http_send(server, "POST", "/v2/models/digits/infer", body))
        assert status == 429 and "the memory that there is for them" in said
        metrics = http_send(server, "GET", "/metrics")[1].decode()
        counts = dict(re.findall(r'mercer_shed_total\{reason="(\w+)"\} (\d+)', metrics))
        assert counts == {"queue": "0", "memory": "1", "batches": "0"}
        assert http_infer(server, tensor(digits_rows(1)))[0] == 200


def test_many_wrong_requests_at_once_change_no_answer(server):
    expected = stub(server).ModelInfer(message(digits_rows())).raw_output_contents
    wrong = [b"{", b"\xff", json.dumps({"inputs": tensor(WIDE)}).encode(), b"[" * 5000]
    stop = threading.Event()

    def disturb():
        while not stop.is_set():
            for body in wrong:
                assert http_send(server, "POST", "/v2/models/digits/infer", body)[0] == 400

    threads = [threading.Thread(target=disturb) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(50):
            assert stub(server).ModelInfer(message(digits_rows())).raw_output_contents == expected
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_memory_stays_flat_under_bad_requests(server):
    bomb = gzip.compress(b" " * 5_000_000)

    def once():
        assert http_send(server, "POST", "/v2/models/digits/infer", bomb, {"Content-Encoding": "gzip"})[0] == 413
        assert http_send(server, "POST", "/v2/models/digits/infer", b"[" * 90_000)[0] == 400
        assert http_infer(server, tensor(LONG))[0] == 413

    for _ in range(30):
        once()
    before = memory(server)
    for _ in range(100):
        once()
    assert memory(server) - before < 3_000, "kilobytes"
