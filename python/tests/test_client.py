"""`mercer.Client`: dense and sparse rows, refusals, and waiting as long as the server asks."""

import http.server
import json
import threading

import numpy as np
import pytest
from scipy import sparse
from serving import DIGITS, Server, command, digits_rows

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


def test_a_real_server_gives_the_answers_of_predict(tmp_path):
    import csv
    import subprocess

    (tmp_path / "token").write_text("0123456789abcdef")
    predict = [command(), "predict", str(DIGITS / "digits.model"), str(DIGITS / "queries.svm"), "--quiet"]
    subprocess.run([*predict, "-o", str(tmp_path / "answers.csv")], check=True)
    expected = list(csv.DictReader((tmp_path / "answers.csv").open()))[:40]
    rows = digits_rows()
    with Server("--token-file", str(tmp_path / "token")) as server:
        url = f"http://{server.http}"
        with Client(url, "digits", token="0123456789abcdef") as client:
            assert client.metadata()["inputs"][0]["shape"] == [-1, 64]
            for given in [rows, sparse.csr_array(rows), rows.astype(np.float32), rows.astype(np.uint8)]:
                answers = client.decide(given)
                assert [str(label) for label in answers["label"]] == [row["label"] for row in expected]
                assert answers["low"].tolist() == [float(row["low"]) for row in expected]
                assert answers["high"].tolist() == [float(row["high"]) for row in expected]
                assert answers["certainty"].tolist() == [row["certainty"] for row in expected]
            poor = client.decide(rows, budget=640)
            assert set(poor["certainty"]) == {"unsettled"} and poor["parameters"]["budget"] == 640
            assert client.decide(rows[:2], scores=True)["scores"].shape == (2, 45)
            digest = client.metadata()["properties"]["digest"]
            assert client.decide(rows, digest=digest)["parameters"]["digest"] == digest
            with pytest.raises(ServerError, match="the request asks for 0") as refused:
                client.decide(rows, digest="0")
            assert refused.value.status == 409
            with pytest.raises(ServerError, match="there is no parameter"):
                client.decide(rows, bugdet=1)
        with pytest.raises(ServerError, match="the token is missing") as refused:
            Client(url, "digits").predict(rows)
        assert refused.value.status == 401
        with pytest.raises(ServerError, match="no model 'nobody'"):
            Client(url, "nobody", token="0123456789abcdef").predict(rows)


def test_a_full_queue_of_a_real_server_is_waited_for(tmp_path):
    rows = np.repeat(digits_rows(), 250, axis=0)
    with Server("--threads", "1", "--queue-ms", "1", folder=tmp_path) as server:
        url, labels, refusals = f"http://{server.http}", [], []

        def ask(retries):
            try:
                with Client(url, "digits", retries=retries, timeout=120) as client:
                    labels.append(client.predict(rows).tolist())
            except ServerError as error:
                refusals.append(error.status)

        for retries in (0, 200):
            threads = [threading.Thread(target=ask, args=(retries,)) for _ in range(6)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            if retries == 0:
                assert set(refusals) == {429} and labels
                labels.clear()
        assert len(labels) == 6 and all(one == labels[0] for one in labels)
