"""`mercer serve` on the real command, driven by an unmodified tritonclient over HTTP and gRPC."""

import pathlib
import shutil
import subprocess

import grpc
import numpy as np
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
from google.protobuf import json_format
from grpc_health.v1 import health_pb2 as health
from grpc_health.v1 import health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2 as reflection
from serving import DIGITS, Server, command, digits_rows

TOKEN = "0123456789abcdef"
ADMIN = "fedcba9876543210"


@pytest.fixture(scope="module")
def server():
    with Server() as started:
        yield started


@pytest.fixture(scope="module")
def rows():
    return digits_rows()


def inputs(client, rows, datatype="FP64"):
    tensor = client.InferInput("x", list(rows.shape), datatype)
    tensor.set_data_from_numpy(rows)
    return [tensor]


NAMES = ["label", "low", "high", "certainty", "cost"]


def test_both_protocols_give_the_same_bits(server, rows):
    answers = []
    for client, address in [(httpclient, server.http), (grpcclient, server.grpc)]:
        connection = client.InferenceServerClient(address)
        result = connection.infer("digits", inputs(client, rows), request_id="7")
        answers.append([result.as_numpy(name).tobytes() for name in NAMES if name != "certainty"])
        assert list(result.as_numpy("certainty")) == [b"exact"] * 40
        single = connection.infer("digits", inputs(client, rows[:1].astype(np.float32), "FP32"))
        assert single.as_numpy("label")[0] == result.as_numpy("label")[0]
    assert answers[0] == answers[1]


def test_every_call_of_the_grpc_client_works_or_is_refused_with_a_sentence(server, rows):
    client = grpcclient.InferenceServerClient(server.grpc)
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("digits")
    assert "statistics" in client.get_server_metadata().extensions
    metadata = client.get_model_metadata("digits")
    assert metadata.inputs[0].shape == [-1, 64] and metadata.versions == ["1"]
    config = client.get_model_config("digits").config
    assert config.max_batch_size > 0 and config.input[0].data_type == 12 and config.input[0].dims == [64]
    client.infer("digits", inputs(grpcclient, rows))
    assert client.get_inference_statistics("digits").model_stats[0].inference_count >= 40
    assert client.get_model_repository_index().models[0].state == "READY"
    unsupported = [
        client.get_system_shared_memory_status,
        client.unregister_system_shared_memory,
        lambda: client.register_system_shared_memory("a", "/a", 8),
        client.get_cuda_shared_memory_status,
        client.unregister_cuda_shared_memory,
        client.get_trace_settings,
        client.update_trace_settings,
        client.get_log_settings,
        lambda: client.update_log_settings({}),
        lambda: client.load_model("digits"),
        lambda: client.unload_model("digits"),
    ]
    for call in unsupported:
        with pytest.raises(grpcclient.InferenceServerException) as refused:
            call()
        assert "UNIMPLEMENTED" in refused.value.status() and len(refused.value.message()) > 10


def test_every_call_of_the_http_client_works_or_is_refused_with_a_sentence(tmp_path, rows):
    (tmp_path / "admin").write_text(ADMIN)
    with Server("--admin-token-file", str(tmp_path / "admin")) as server:
        client = httpclient.InferenceServerClient(server.http, concurrency=2)
        assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("digits")
        assert client.is_model_ready("digits", "1") and not client.is_model_ready("nobody")
        assert {"statistics", "schedule_policy"} <= set(client.get_server_metadata()["extensions"])
        metadata = client.get_model_metadata("digits")
        assert metadata["inputs"][0]["shape"] == [-1, 64] and metadata["versions"] == ["1"]
        config = client.get_model_config("digits")
        assert config["max_batch_size"] > 0 and config["input"][0]["data_type"] == "TYPE_FP64"
        assert config["version_policy"] == {"latest": {"num_versions": 1}}
        expected = client.infer("digits", inputs(httpclient, rows)).as_numpy("label")
        waiting = [client.async_infer("digits", inputs(httpclient, rows), request_id=str(at)) for at in range(3)]
        for at, later in enumerate(waiting):
            found = later.get_result(timeout=30)
            assert (found.as_numpy("label") == expected).all() and found.get_response()["id"] == str(at)
        with pytest.raises(httpclient.InferenceServerException, match="there is no model 'nobody'"):
            client.async_infer("nobody", inputs(httpclient, rows)).get_result(timeout=30)
        for name in ["digits", ""]:
            assert client.get_inference_statistics(name)["model_stats"][0]["inference_count"] == 160
        assert client.get_model_repository_index()[0]["state"] == "READY"
        admin = {"Authorization": f"Bearer {ADMIN}"}
        with pytest.raises(httpclient.InferenceServerException, match="token"):
            client.unload_model("digits")
        client.unload_model("digits", headers=admin)
        assert client.is_server_live() and not client.is_model_ready("digits")
        assert client.get_model_repository_index()[0]["state"] == "UNAVAILABLE"
        client.load_model("digits", headers=admin)
        assert client.is_model_ready("digits")
        with pytest.raises(httpclient.InferenceServerException, match="parameters are not taken"):
            client.load_model("digits", headers=admin, config="{}")
        for call in [
            client.get_system_shared_memory_status,
            lambda: client.get_system_shared_memory_status("a"),
            client.unregister_system_shared_memory,
            lambda: client.unregister_system_shared_memory("a"),
            lambda: client.register_system_shared_memory("a", "/a", 8),
            client.get_cuda_shared_memory_status,
            client.unregister_cuda_shared_memory,
            lambda: client.register_cuda_shared_memory("a", b"YQ==", 0, 8),
            client.get_trace_settings,
            lambda: client.get_trace_settings("digits"),
            client.update_trace_settings,
            lambda: client.update_trace_settings("digits", {"trace_rate": "1"}),
            client.get_log_settings,
            lambda: client.update_log_settings({"log_info": True}),
        ]:
            with pytest.raises(httpclient.InferenceServerException, match="is not served here") as refused:
                call()
            assert refused.value.status() == "501"
        client.close()


def test_statistics_count_failures_with_their_time_and_batches_by_size(rows):
    with Server() as server:
        stats = []
        for client, address in [(httpclient, server.http), (grpcclient, server.grpc)]:
            connection = client.InferenceServerClient(address)
            for count in [40, 1, 40]:
                connection.infer("digits", inputs(client, rows[:count]))
            for given, parameters in [(rows[:, :3].copy(), {}), (rows, {"bugdet": 1})]:
                with pytest.raises(client.InferenceServerException):
                    connection.infer("digits", inputs(client, given), parameters=parameters)
            found = connection.get_inference_statistics("digits")
            stats.append(found if client is httpclient else json_format.MessageToDict(found, preserving_proto_field_name=True))
        for times, found in enumerate(stats, 1):
            found = found["model_stats"][0]
            fail, success = (found["inference_stats"][name] for name in ("fail", "success"))
            assert int(fail["count"]) == 2 * times and int(fail["ns"]) > 0
            assert int(success["count"]) == 3 * times and int(found["execution_count"]) == 3 * times
            batches = {int(batch["batch_size"]): batch["compute_infer"] for batch in found["batch_stats"]}
            assert {size: int(batch["count"]) for size, batch in batches.items()} == {1: times, 40: 2 * times}
            assert sum(int(batch["ns"]) for batch in batches.values()) > 0


def test_the_configuration_says_which_versions_are_served(tmp_path):
    for version in ["1", "3"]:
        (tmp_path / "two" / version).mkdir(parents=True)
        (tmp_path / "two" / version / "model.mercer").write_text(TWO_CLASSES)
    for versions, policy in [
        ("latest", {"latest": {"num_versions": 1}}),
        ("all", {"all": {}}),
        ("1,3", {"specific": {"versions": ["1", "3"]}}),
    ]:
        with Server(str(tmp_path), "--versions", versions) as server:
            client = httpclient.InferenceServerClient(server.http)
            served = ["3"] if versions == "latest" else ["1", "3"]
            assert client.get_model_metadata("two")["versions"] == served
            assert client.get_model_config("two")["version_policy"] == policy
            client = grpcclient.InferenceServerClient(server.grpc)
            said = client.get_model_config("two", as_json=True)["config"]["version_policy"]
            assert said == policy


def test_asynchronous_streamed_and_compressed_requests_are_answered(server, rows):
    import queue

    client, found = grpcclient.InferenceServerClient(server.grpc), queue.Queue()
    expected = client.infer("digits", inputs(grpcclient, rows)).as_numpy("label")
    client.async_infer("digits", inputs(grpcclient, rows), callback=lambda result, error: found.put((result, error)))
    result, error = found.get(timeout=30)
    assert error is None and (result.as_numpy("label") == expected).all()
    client.start_stream(callback=lambda result, error: found.put((result, error)))
    client.async_stream_infer("digits", inputs(grpcclient, rows))
    client.async_stream_infer("nobody", inputs(grpcclient, rows))
    client.async_stream_infer("digits", inputs(grpcclient, rows))
    outcomes = [found.get(timeout=30) for _ in range(3)]
    client.stop_stream()
    assert "there is no model 'nobody'" in outcomes[1][1].message()
    for result, error in [outcomes[0], outcomes[2]]:
        assert error is None and (result.as_numpy("label") == expected).all()
    for name in ["gzip", "deflate"]:
        result = client.infer("digits", inputs(grpcclient, rows), compression_algorithm=name)
        assert (result.as_numpy("label") == expected).all()


def test_parameters_and_time_limits_act_as_over_http(server, rows):
    for client, address in [(httpclient, server.http), (grpcclient, server.grpc)]:
        connection = client.InferenceServerClient(address)
        poor = connection.infer("digits", inputs(client, rows), parameters={"budget": 640})
        assert list(poor.as_numpy("certainty")) == [b"unsettled"] * 40
        late = connection.infer("digits", inputs(client, rows), timeout=1)
        assert set(late.as_numpy("certainty")) == {b"unsettled"}
        for asked, message in [
            ({"priority": 1}, "parameter 'priority' is 1; it must be 0: requests are answered as they come"),
            ({"parameters": {"require": "exact"}}, "parameter 'require' is 'exact'; it may be certified"),
        ]:
            with pytest.raises(client.InferenceServerException) as refused:
                connection.infer("digits", inputs(client, rows), **asked)
            assert message in refused.value.message()
        # Requests that belong together are not: every request is answered by itself.
        unsupported = "501" if client is httpclient else "StatusCode.UNIMPLEMENTED"
        for asked in [{"sequence_id": 7}, {"sequence_id": "a", "sequence_start": True}, {"sequence_id": 3, "sequence_end": True}]:
            with pytest.raises(client.InferenceServerException) as refused:
                connection.infer("digits", inputs(client, rows), **asked)
            assert refused.value.status() == unsupported
            assert "sequences are not served here" in refused.value.message()


TWO_CLASSES = """svm_type c_svc
kernel_type rbf
gamma 0.5
nr_class 2
total_sv 2
rho 0.1
label 1 -1
nr_sv 1 1
SV
1 1:1
-1 1:-1 2:0.5
"""


def test_scores_are_compared_with_a_threshold_as_predict_does(tmp_path):
    from mercer import Client

    model, table = tmp_path / "two.model", np.array([[x / 4, y / 4] for x in range(-8, 9) for y in range(-8, 9)])
    model.write_text(TWO_CLASSES)
    queries = tmp_path / "rows.svm"
    queries.write_text("".join(f"0 1:{x} 2:{y}\n" for x, y in table))
    predict = [command(), "predict", str(model), str(queries), "--format", "libsvm", "--quiet"]
    labels = {}
    with Server(str(model)) as server:
        for threshold in [0, 0.25, -0.5]:
            asked = subprocess.run([*predict, "--threshold", str(threshold)], check=True, capture_output=True, text=True)
            labels[threshold] = [int(line) for line in asked.stdout.split()]
            for client, address in [(httpclient, server.http), (grpcclient, server.grpc)]:
                connection = client.InferenceServerClient(address)
                found = connection.infer("two", inputs(client, table), parameters={"threshold": threshold})
                assert found.as_numpy("label").tolist() == labels[threshold]
            with Client(f"http://{server.http}", "two") as client:
                assert client.decide(table, threshold=threshold)["label"].tolist() == labels[threshold]
        for client, address in [(httpclient, server.http), (grpcclient, server.grpc)]:
            with pytest.raises(client.InferenceServerException, match="a threshold needs a machine"):
                connection = client.InferenceServerClient(address)
                connection.infer("digits", inputs(client, digits_rows()), parameters={"threshold": 0.5})
    assert labels[0] != labels[0.25] and labels[0] != labels[-0.5]


def test_bad_requests_get_a_sentence(rows):
    with Server("--config", str(small_limits())) as server:
        for client, address in [(httpclient, server.http), (grpcclient, server.grpc)]:
            connection = client.InferenceServerClient(address)
            nan = rows[:2].copy()
            nan[1, 2] = np.nan
            twice = inputs(client, rows[:1]) + inputs(client, rows[:1])
            for given, message in [
                (inputs(client, nan), "input 'x': row 2, column 3 is NaN"),
                (inputs(client, rows[:, :3].copy()), "rows have 3 columns, the model has 64"),
                (inputs(client, np.zeros((60, 64))), "60 rows in one request"),
                (twice, "two inputs are named 'x'"),
                (inputs(client, np.zeros((500, 64))), "the body is longer than 1000"),
            ]:
                with pytest.raises(client.InferenceServerException) as refused:
                    connection.infer("digits", given)
                assert message in refused.value.message(), refused.value
            for name, parameters, message in [
                ("nobody", {}, "there is no model 'nobody'"),
                ("digits", {"bugdet": 1}, "there is no parameter 'bugdet'"),
                ("digits", {"digest": "0"}, "the request asks for 0"),
            ]:
                with pytest.raises(client.InferenceServerException) as refused:
                    connection.infer(name, inputs(client, rows[:1]), parameters=parameters)
                assert message in refused.value.message()
            zeros = inputs(client, np.zeros((5000, 64)))
            packed = {"request_compression_algorithm": "gzip"} if client is httpclient else {"compression_algorithm": "gzip"}
            with pytest.raises(client.InferenceServerException):
                connection.infer("digits", zeros, **packed)
            assert connection.infer("digits", inputs(client, rows[:1])).as_numpy("label").shape == (1,)


def small_limits():
    import tempfile

    path = pathlib.Path(tempfile.mkdtemp()) / "serve.toml"
    path.write_text("body_bytes = 100000\nrows = 50\nread_seconds = 1\n")
    return path


def test_forged_lengths_and_contents_are_refused(server):
    from tritonclient.grpc import service_pb2, service_pb2_grpc

    stub = service_pb2_grpc.GRPCInferenceServiceStub(grpc.insecure_channel(server.grpc))
    Input = service_pb2.ModelInferRequest.InferInputTensor
    x = Input(name="x", datatype="FP64", shape=[1, 64])
    typed = Input(name="x", datatype="FP64", shape=[1, 64])
    typed.contents.fp64_contents.extend([0.0] * 64)
    wrong = Input(name="x", datatype="FP32", shape=[1, 64])
    wrong.contents.fp64_contents.extend([0.0] * 64)
    texts = Input(name="x", datatype="BYTES", shape=[1])
    make = service_pb2.ModelInferRequest
    assert stub.ModelInfer(make(model_name="digits", inputs=[typed])).outputs[0].shape == [1]
    for request, message in [
        (make(model_name="digits", inputs=[x]), "does not fit its 0 elements"),
        (make(model_name="digits", inputs=[x], raw_input_contents=[b"", b""]), "2 raw_input_contents for 1 inputs"),
        (make(model_name="digits", inputs=[x], raw_input_contents=[b"1234567"]), "not a whole number of FP64"),
        (make(model_name="digits", inputs=[typed], raw_input_contents=[bytes(512)]), "both contents and raw"),
        (make(model_name="digits", inputs=[wrong]), "its contents are not those of FP32"),
        (make(model_name="digits", inputs=[texts], raw_input_contents=[b"\xff\xff\xff\xff"]), "longer than what follows"),
        (make(model_name="digits", inputs=[Input(name="x", datatype="FP9", shape=[1])]), "no datatype 'FP9'"),
        (make(model_name="digits", inputs=[Input(name="x", datatype="FP64", shape=[-1, 64])]), "negative size"),
        (make(model_name="digits"), "the request has no inputs"),
    ]:
        with pytest.raises(grpc.RpcError) as refused:
            stub.ModelInfer(request)
        assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert message in refused.value.details()


def test_health_and_both_reflection_services_answer(server):
    channel = grpc.insecure_channel(server.grpc)
    for name in ["", "inference.GRPCInferenceService"]:
        assert health_pb2_grpc.HealthStub(channel).Check(health.HealthCheckRequest(service=name)).status == 1
    for version in ["v1", "v1alpha"]:
        call = channel.stream_stream(
            f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
            request_serializer=reflection.ServerReflectionRequest.SerializeToString,
            response_deserializer=reflection.ServerReflectionResponse.FromString,
        )
        reply = next(call(iter([reflection.ServerReflectionRequest(list_services="")])))
        names = [service.name for service in reply.list_services_response.service]
        assert "inference.GRPCInferenceService" in names


def certificate(folder, name, issuer=None):
    """A key and a certificate, signed by itself or by the issuer."""
    key, signed = folder / f"{name}.key", folder / f"{name}.pem"
    new = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    new += ["-keyout", key, "-out", signed, "-subj", f"/CN={name}", "-days", "2"]
    if issuer:
        new += ["-CA", issuer[1], "-CAkey", issuer[0], "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
        new += ["-addext", "basicConstraints=critical,CA:FALSE"]
    subprocess.run(new, check=True, capture_output=True)
    return key, signed


@pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not installed")
def test_tls_client_certificates_and_tokens_guard_both_protocols(tmp_path, rows):
    import ssl
    import urllib.error
    import urllib.request

    authority = certificate(tmp_path, "authority")
    server_key, server_pem = certificate(tmp_path, "server", authority)
    client_key, client_pem = certificate(tmp_path, "client", authority)
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "admin").write_text(ADMIN)
    tls = ["--tls-cert", server_pem, "--tls-key", server_key, "--tls-client-ca", authority[1]]
    tokens = ["--token-file", tmp_path / "token", "--admin-token-file", tmp_path / "admin"]
    with Server(*map(str, tls + tokens)) as server:
        files = {"root_certificates": str(authority[1])}
        own = {"private_key": str(client_key), "certificate_chain": str(client_pem)}
        client = grpcclient.InferenceServerClient(server.grpc, ssl=True, **files, **own)
        ask, admin = [{"authorization": f"Bearer {token}"} for token in (TOKEN, ADMIN)]
        assert client.is_server_live()
        assert client.infer("digits", inputs(grpcclient, rows), headers=ask).as_numpy("label").shape == (40,)
        client.load_model("digits", headers=admin)
        for call in [
            lambda: client.infer("digits", inputs(grpcclient, rows)),
            lambda: client.infer("digits", inputs(grpcclient, rows), headers={"authorization": "Bearer no"}),
            lambda: client.load_model("digits", headers=ask),
        ]:
            with pytest.raises(grpcclient.InferenceServerException) as refused:
                call()
            assert "UNAUTHENTICATED" in refused.value.status()
        stranger = grpcclient.InferenceServerClient(server.grpc, ssl=True, **files)
        with pytest.raises(grpcclient.InferenceServerException):
            stranger.is_server_live(client_timeout=5)
        context = ssl.create_default_context(cafile=authority[1])
        ready, metadata = [f"https://{server.http}/v2{path}" for path in ("/health/ready", "")]
        with pytest.raises(OSError):
            urllib.request.urlopen(ready, context=context, timeout=10).read()
        context.load_cert_chain(client_pem, client_key)
        assert urllib.request.urlopen(ready, context=context, timeout=10).status == 200
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(metadata, context=context, timeout=10)
        assert refused.value.code == 401
        request = urllib.request.Request(metadata, headers={"Authorization": f"Bearer {TOKEN}"})
        assert urllib.request.urlopen(request, context=context, timeout=10).status == 200


@pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not installed")
def test_the_command_line_asks_a_server_with_tls(tmp_path):
    authority = certificate(tmp_path, "authority")
    key, pem = certificate(tmp_path, "server", authority)
    stranger = certificate(tmp_path, "stranger")
    queries = str(DIGITS / "queries.svm")
    expected = subprocess.run(
        [command(), "predict", str(DIGITS / "digits.model"), queries, "--quiet"], check=True, capture_output=True
    )
    with Server("--tls-cert", str(pem), "--tls-key", str(key)) as server:
        ask = [command(), "predict", "digits", queries, "--quiet", "--server"]
        url = f"https://localhost:{server.http.rsplit(':', 1)[1]}"
        found = subprocess.run([*ask, url, "--server-ca", str(authority[1])], check=True, capture_output=True)
        assert found.stdout == expected.stdout
        for more, message in [([], "needs --server-ca"), (["--server-ca", str(stranger[1])], "certificate")]:
            refused = subprocess.run([*ask, url, *more], capture_output=True, text=True)
            assert refused.returncode == 1 and message in refused.stderr
