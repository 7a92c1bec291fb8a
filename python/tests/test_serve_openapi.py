"""schemathesis against the OpenAPI description that `mercer serve` gives of itself, on the real command."""

import json
import subprocess
import sys
import urllib.request

import schemathesis  # noqa: F401 (it is run as a program)
from serving import Server

TOKEN = "0123456789abcdef"

# Whether a body is accepted depends on more than its schema: the shape must fit the data, and both the model. So valid bodies
# may be refused, and every other check is made.
CHECKS = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "missing_required_header",
    "unsupported_method",
]


def test_the_server_does_what_its_description_says(tmp_path):
    (tmp_path / "admin").write_text(TOKEN)
    with Server("--admin-token-file", str(tmp_path / "admin"), "--show-supports") as server:
        run = [sys.executable, "-m", "schemathesis.cli", "run", f"http://{server.http}/openapi.json"]
        run += ["--checks", ",".join(CHECKS), "--phases", "examples,coverage,fuzzing", "--max-examples", "12"]
        run += ["--seed", "1", "--max-time", "40", "--suppress-health-check", "all", "--warnings", "off"]
        run += ["--header", f"Authorization: Bearer {TOKEN}", "--no-color"]
        # 501 is what the first ones are there for; the last would take the model away from the others.
        run += ["--exclude-operation-id-regex", "^(unsupported.*|unload)$"]
        done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
        ready = urllib.request.urlopen(f"http://{server.http}/v2/health/ready", timeout=10)
        assert json.loads(ready.read())["ready"] and server.process.poll() is None
