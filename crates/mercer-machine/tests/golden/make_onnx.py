"""Trains four small machines, converts them with skl2onnx and writes what onnxruntime answers.

Each line of onnx.txt: name, answer, the three columns of the query. Used by src/file/onnx/tests.rs.
"""
import warnings

import numpy as np
import onnxruntime
from skl2onnx import to_onnx
from sklearn.svm import SVC, SVR, OneClassSVM

warnings.simplefilter("ignore")
rng = np.random.RandomState(0)
X = rng.randn(60, 3).astype(np.float32)
two = (X[:, 0] + X[:, 1] ** 2 > 0.5).astype(int)
three = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0)
queries = rng.randn(40, 3).astype(np.float32)
with open("onnx.txt", "w") as out:
    for name, machine, target in [
        ("svc2", SVC(gamma=0.5, C=2), two),
        ("svc3", SVC(gamma=0.5), three),
        ("svr", SVR(gamma=0.5), X[:, 2]),
        ("oc", OneClassSVM(gamma=0.5, nu=0.2), None),
    ]:
        machine.fit(X, target)
        options = {id(machine): {"zipmap": False}} if name.startswith("svc") else None
        model = to_onnx(machine, X[:1], options=options, target_opset=15).SerializeToString()
        with open(f"{name}.onnx", "wb") as file:
            file.write(model)
        session = onnxruntime.InferenceSession(model)
        answers = session.run(None, {session.get_inputs()[0].name: queries})[0].ravel()
        for answer, query in zip(answers, queries):
            print(name, float(answer), *map(float, query), file=out)
