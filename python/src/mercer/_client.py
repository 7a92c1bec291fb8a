"""A client of `mercer serve` that needs nothing but the standard library and numpy: dense and sparse rows over HTTP."""

import http.client
import json
import ssl
import struct
import time
import urllib.parse

import numpy as np

_LENGTH = "Inference-Header-Content-Length"
_NUMBERS = {"FP64": "<f8", "INT64": "<i8"}
_DATATYPES = {"f8": "FP64", "f4": "FP32", "i8": "INT64", "i4": "INT32", "i2": "INT16", "i1": "INT8", "u1": "UINT8"}


class ServerError(Exception):
    """A refusal of the server: `status` is the code of HTTP, the text its sentence."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


class Client:
    """Asks a server for the answers of one model.

    Parameters
    ----------
    url : str
        The address of the server, such as ``http://127.0.0.1:8000``.
    model : str
        The name of the model.
    version : str or int, optional
        Its version; the latest if not given.
    token : str, optional
        Sent with every request.
    retries : int
        How often a request is sent again that the server refused because its queue is full (429). The client waits as
        long as the server says.
    timeout : float
        Seconds in which the server must answer.
    context : ssl.SSLContext, optional
        Certificates for ``https``.
    """

    def __init__(self, url, model, *, version=None, token=None, retries=3, timeout=30.0, context=None):
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is no address of a server; http://127.0.0.1:8000 is one")
        self._host, self._port, self._is_tls = parts.hostname, parts.port, parts.scheme == "https"
        self._path = f"{parts.path.rstrip('/')}/v2/models/{urllib.parse.quote(model, safe='')}"
        if version is not None:
            self._path += f"/versions/{version}"
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._retries, self._timeout, self._context = retries, timeout, context
        self._connection = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Closes the connection; the next request opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def metadata(self):
        """What the server says of the model."""
        return json.loads(self._send("GET", "", None, {})[1])

    def predict(self, rows):
        """The label of each row."""
        return self.decide(rows)["label"]

    def decide(self, rows, **parameters):
        """Label, low, high, certainty and cost of each row, as arrays by name.

        `rows` is an array, or a sparse matrix of scipy; parameters are those of a request: ``budget``, ``budget_us``,
        ``timeout``, ``require``, ``tolerance``, ``threshold``, ``digest``, ``scores``, ``probabilities``. The parameters of the
        response are at ``"parameters"``.
        """
        tensors = _tensors(rows)
        inputs = [
            {"name": name, "shape": list(values.shape), "datatype": _DATATYPES[values.dtype.str[1:]],
             "parameters": {"binary_data_size": values.nbytes}}
            for name, values in tensors
        ]
        head = {"parameters": {**parameters, "binary_data_output": True}, "inputs": inputs}
        head = json.dumps(head).encode()
        body = head + b"".join(values.tobytes() for _, values in tensors)
        headers = {_LENGTH: str(len(head)), "Content-Type": "application/octet-stream"}
        found, body = self._send("POST", "/infer", body, headers)
        length = int(found[_LENGTH])
        reply, at = json.loads(body[:length]), length
        answers = {"parameters": reply["parameters"]}
        for output in reply["outputs"]:
            size = output["parameters"]["binary_data_size"]
            answers[output["name"]] = _array(output, body[at : at + size])
            at += size
        return answers

    def _send(self, method, path, body, headers):
        for attempt in range(self._retries + 1):
            status, found, data = self._exchange(method, self._path + path, body, {**self._headers, **headers})
            if status == 200:
                return found, data
            if status != 429 or attempt == self._retries:
                raise ServerError(status, _sentence(data))
            time.sleep(_seconds(found))

    def _exchange(self, method, path, body, headers):
        is_new = self._connection is None
        try:
            return self._once(method, path, body, headers)
        except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
            # A connection that was idle may have been closed by the server; questions change nothing there.
            self.close()
            if is_new:
                raise
            return self._once(method, path, body, headers)

    def _once(self, method, path, body, headers):
        if self._connection is None:
            if self._is_tls:
                context = self._context or ssl.create_default_context()
                self._connection = http.client.HTTPSConnection(
                    self._host, self._port, timeout=self._timeout, context=context
                )
            else:
                self._connection = http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)
        try:
            self._connection.request(method, path, body, headers)
            response = self._connection.getresponse()
            return response.status, response.headers, response.read()
        except BaseException:
            # What is left of this exchange must not be taken for the answer to the next.
            self.close()
            raise


def _seconds(headers):
    """How long the server asks to wait."""
    exact = headers.get("retry-after-ms")
    return float(exact) / 1e3 if exact else float(headers.get("Retry-After") or 1)


def _sentence(data):
    try:
        return json.loads(data)["error"]
    except (ValueError, KeyError, TypeError):
        return data.decode(errors="replace") or "the server said nothing"


def _tensors(rows):
    if hasattr(rows, "tocsr"):
        rows = rows.tocsr()
        starts, indices = rows.indptr.astype("<i8"), rows.indices.astype("<i8")
        return [("indptr", starts), ("indices", indices), ("values", rows.data.astype("<f8"))]
    rows = np.asarray(rows)
    if rows.dtype.str[1:] not in _DATATYPES:
        rows = rows.astype("<f8")
    if rows.ndim != 2:
        raise ValueError(f"rows have the shape {rows.shape}; two dimensions are needed")
    return [("x", np.ascontiguousarray(rows, dtype=rows.dtype.newbyteorder("<")))]


def _array(output, data):
    shape, kind = output["shape"], _NUMBERS.get(output["datatype"])
    if kind:
        return np.frombuffer(data, kind).reshape(shape)
    texts, at = [], 0
    while at < len(data):
        (length,) = struct.unpack_from("<I", data, at)
        texts.append(data[at + 4 : at + 4 + length].decode())
        at += 4 + length
    return np.array(texts, dtype=str).reshape(shape)
