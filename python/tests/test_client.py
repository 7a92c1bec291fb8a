"""`mercer.Client`: dense and sparse rows, refusals, and waiting as long as the server asks."""

import http.server
import json
import threading

import numpy as np
import pytest
from scipy import sparse

from mercer import Client, ServerError


class Busy(http.server.BaseHTTPRequestHandler):
    """Refuses twice, then answers with what it was sent."""

    protocol_version = "HTTP/1.1"
    refusals, seen = 0, []

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        length = int(self.headers["Inference-Header-Content-Length"])
        Busy.seen.append((json.loads(body[:length]), body[length:], self.headers["Authorization"]))
        if Busy.refusals > 0:
            Busy.refusals -= 1
            return self.reply(429, b'{"error": "the queue is full"}', {"Retry-After": "1", "retry-after-ms": "5"})
        label = np.array([3, 8], "<i8").tobytes()
        names = b"\x05\x00\x00\x00exact\x09\x00\x00\x00certified"
        outputs = [
            {"name": "label", "datatype": "INT64", "shape": [2], "parameters": {"binary_data_size": len(label)}},
            {"name": "certainty", "datatype": "BYTES", "shape": [2], "parameters": {"binary_data_size": len(names)}},
        ]
        head = json.dumps({"parameters": {"digest": "d"}, "outputs": outputs}).encode()
        self.reply(200, head + label + names, {"Inference-Header-Content-Length": str(len(head))})

    def reply(self, status, body, headers):
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def url():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Busy)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    Busy.refusals, Busy.seen = 0, []
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_dense_and_sparse_rows_are_sent_and_answers_read(url):
    rows = np.array([[0.0, 2.0], [1.0, 0.0]])
    with Client(url, "m", token="secret") as client:
        answers = client.decide(rows, budget=7)
        assert answers["label"].tolist() == [3, 8]
        assert answers["certainty"].tolist() == ["exact", "certified"]
        assert answers["parameters"] == {"digest": "d"}
        assert client.predict(sparse.csr_array(rows)).tolist() == [3, 8]
        assert client.predict(rows.astype(np.float32)).tolist() == [3, 8]
    (head, body, token), (other, other_body, _), (single, _, _) = Busy.seen
    assert head["parameters"] == {"budget": 7, "binary_data_output": True} and token == "Bearer secret"
    assert (np.frombuffer(body).reshape(2, 2) == rows).all()
    assert [tensor["name"] for tensor in other["inputs"]] == ["indptr", "indices", "values"]
    assert np.frombuffer(other_body, "<i8", 3).tolist() == [0, 1, 2]
    assert single["inputs"][0]["datatype"] == "FP32"


def test_a_full_queue_is_waited_for_as_often_as_allowed(url):
    rows = np.zeros((2, 2))
    Busy.refusals = 2
    assert Client(url, "m", retries=2).predict(rows).tolist() == [3, 8]
    assert len(Busy.seen) == 3
    Busy.refusals = 2
    with pytest.raises(ServerError, match="the queue is full") as refused:
        Client(url, "m", retries=1).predict(rows)
    assert refused.value.status == 429 and len(Busy.seen) == 5


def test_addresses_and_shapes_are_checked(url):
    with pytest.raises(ValueError, match="no address"):
        Client("127.0.0.1:8000", "m")
    with pytest.raises(ValueError, match="two dimensions"):
        Client(url, "m").predict([1.0, 2.0])
