"""Servers over scikit-learn, for `cargo xtask bench serve`: a machine for MLServer, and a plain FastAPI service.

    python serve.py fit --rows X.npy --labels Y.npy --out DIR --port N [--intelex]
    python serve.py fastapi --model DIR/model.joblib --port N

`fit` trains the machine of `mnist38` and `mnist10` (tasks.toml) and writes the folder that `mlserver start DIR` serves, as the model `svc`.
"""

import argparse
import json
from pathlib import Path


def fit(options):
    import joblib
    import numpy as np

    if options.intelex:
        from sklearnex.svm import SVC
    else:
        from sklearn.svm import SVC
    rows, labels = np.load(options.rows), np.load(options.labels).astype(np.int64)
    machine = SVC(C=10.0, kernel="rbf", gamma=0.02, cache_size=1000).fit(rows, labels)
    options.out.mkdir(parents=True, exist_ok=True)
    joblib.dump(machine, options.out / "model.joblib")
    settings = {
        "http_port": options.port,
        "grpc_port": options.port + 1,
        "metrics_port": options.port + 2,
        "host": "127.0.0.1",
        # No worker processes: a request does not cross between processes.
        "parallel_workers": 0,
        "debug": False,
    }
    (options.out / "settings.json").write_text(json.dumps(settings))
    model = {
        "name": "svc",
        "implementation": "mlserver_sklearn.SKLearnModel",
        "parameters": {"uri": "./model.joblib"},
    }
    (options.out / "model-settings.json").write_text(json.dumps(model))
    print(json.dumps({"supports": int(machine.n_support_.sum())}))


def fastapi(options):
    import joblib
    import numpy as np
    import uvicorn
    from fastapi import FastAPI
    from pydantic import BaseModel

    machine = joblib.load(options.model)

    class Rows(BaseModel):
        data: list[list[float]]

    app = FastAPI()

    @app.get("/ready")
    def ready():
        return {}

    @app.post("/predict")
    def predict(rows: Rows):
        labels = machine.predict(np.asarray(rows.data))
        return {"outputs": [{"name": "label", "data": labels.tolist()}]}

    uvicorn.run(app, host="127.0.0.1", port=options.port, log_level="warning")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    one = verbs.add_parser("fit")
    one.add_argument("--rows", required=True)
    one.add_argument("--labels", required=True)
    one.add_argument("--out", required=True, type=Path)
    one.add_argument("--port", required=True, type=int)
    one.add_argument("--intelex", action="store_true")
    other = verbs.add_parser("fastapi")
    other.add_argument("--model", required=True)
    other.add_argument("--port", required=True, type=int)
    options = parser.parse_args()
    {"fit": fit, "fastapi": fastapi}[options.verb](options)


if __name__ == "__main__":
    main()
