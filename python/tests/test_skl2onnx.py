"""skl2onnx converts our estimators, alone and in pipelines."""

import numpy as np
import pytest
import sklearn.svm as theirs
from sklearn.datasets import load_diabetes, load_iris
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

import mercer
import mercer.onnx
import mercer.svm as ours
from mercer.machines import LSSVC, AdditiveSVC, LowRankSVC

skl2onnx = pytest.importorskip("skl2onnx", reason="skl2onnx is not installed; pip install skl2onnx")
runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed; pip install onnxruntime")


@pytest.fixture(autouse=True, scope="module")
def registered():
    mercer.onnx.register()
    mercer.onnx.register()  # twice is as good as once


def answers(model, X, **options):
    """The outputs of the converted model, by name."""
    rows = X.astype(np.float32)
    graph = skl2onnx.to_onnx(model, rows[:1], **options)
    session = runtime.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])
    found = session.run(None, {session.get_inputs()[0].name: rows})
    return dict(zip([output.name for output in session.get_outputs()], found, strict=True))


IRIS = load_iris(return_X_y=True)
CLASSIFIERS = [ours.SVC(), ours.SVC(kernel="poly"), ours.SVC(kernel="linear"), ours.NuSVC(nu=0.2), ours.LinearSVC(C=0.1)]


@pytest.mark.parametrize("model", CLASSIFIERS, ids=repr)
@pytest.mark.parametrize("steps", [[], [StandardScaler()], [StandardScaler(), PCA(3)]], ids=len)
@pytest.mark.parametrize("words", [False, True])
def test_classifiers_keep_their_labels(model, steps, words):
    X, y = IRIS
    y = np.array(["c", "a", "b"])[y] if words else y
    whole = make_pipeline(*steps, model).fit(X, y)
    label = next(iter(answers(whole, X).values()))
    np.testing.assert_array_equal(label, whole.predict(X.astype(np.float32)))


@pytest.mark.parametrize("kind", ["SVC", "NuSVC", "LinearSVC"])
def test_the_graph_is_that_of_the_class_it_replaces(kind):
    X, y = IRIS
    ours_, theirs_ = (getattr(module, kind)(**({"nu": 0.2} if kind == "NuSVC" else {})) for module in (ours, theirs))
    nodes = [
        [node.op_type for node in skl2onnx.to_onnx(model.fit(X, y), X[:1].astype(np.float32)).graph.node]
        for model in (ours_, theirs_)
    ]
    assert nodes[0] == nodes[1]


@pytest.mark.parametrize("model", [ours.SVR(), ours.NuSVR(), ours.LinearSVR()], ids=repr)
@pytest.mark.parametrize("steps", [[], [StandardScaler()]], ids=len)
def test_regressions_keep_their_values(model, steps):
    X, y = load_diabetes(return_X_y=True)
    whole = make_pipeline(*steps, model).fit(X, y)
    value = answers(whole, X)["variable"].ravel()
    np.testing.assert_allclose(value, whole.predict(X.astype(np.float32)), rtol=1e-4)


def test_novelties_keep_their_labels():
    X, _ = IRIS
    model = ours.OneClassSVM(nu=0.2).fit(X)
    label = answers(model, X)["label"].ravel()
    assert np.mean(label == model.predict(X.astype(np.float32))) >= 0.98  # supports on the boundary, in f32


@pytest.mark.parametrize("binary", [True, False])
def test_models_are_converted_with_what_belongs_to_them(binary):
    X, y = IRIS
    y = np.array(["no", "yes"])[(y == 1).astype(int)] if binary else y
    source = make_pipeline(StandardScaler(), theirs.SVC()).fit(X, y)
    model = mercer.accelerate(source)
    expected = source.predict(X.astype(np.float32))
    for whole in (model, make_pipeline(StandardScaler(with_mean=False, with_std=False), model).fit(X, y)):
        np.testing.assert_array_equal(answers(whole, X)["label"], expected)
    assert answers(model, X, options={"zipmap": False})["scores"].shape == (150, 2 if binary else 3)
    line = mercer.from_sklearn(theirs.SVR().fit(X, IRIS[1]))
    np.testing.assert_allclose(answers(line, X)["score"].ravel(), line.predict(X.astype(np.float32)), atol=1e-4)


@pytest.mark.parametrize("model", [LowRankSVC(rank=30), LSSVC(gamma=0.5)], ids=repr)
def test_machines_that_scikit_learn_lacks_are_converted(model):
    X, y = IRIS
    model.fit(X, y == 1)
    label = answers(model, X)["label"]
    assert np.mean(label == model.predict(X.astype(np.float32))) >= 0.99


@pytest.mark.parametrize("kernel", ["intersection", "chi2"])
@pytest.mark.parametrize("steps", [[], [MinMaxScaler((0.1, 1))], [PCA(3), MinMaxScaler((0.1, 1))]], ids=len)
@pytest.mark.parametrize("classes", [[0, 1, 2], ["c", "a", "b"], ["no", "no", "yes"], [4, 7, 4]], ids=str)
def test_machines_of_tables_are_converted_alone_and_in_pipelines(kernel, steps, classes):
    X, y = IRIS
    whole = make_pipeline(*steps, AdditiveSVC(kernel=kernel)).fit(X, np.array(classes)[y])
    found = answers(whole, X)
    rows = X.astype(np.float32)
    label, scores = found.values()
    # Steps of a pipeline in f32: a value may fall into the bin beside that of f64.
    assert np.mean(label == whole.predict(rows)) >= (0.98 if steps else 1)
    if not steps:
        given = whole.decision_function(rows)
        # The machine's own score of two classes is that of the first one.
        given = -given[:, None] if given.ndim == 1 else given
        np.testing.assert_allclose(scores, given, rtol=1e-12, atol=1e-12)


def test_tables_need_the_operators_that_they_are_written_with():
    X, y = IRIS
    with pytest.raises(RuntimeError, match="opset"):
        skl2onnx.to_onnx(AdditiveSVC().fit(X, y), X[:1].astype(np.float32), target_opset={"": 12, "ai.onnx.ml": 1})


def test_what_onnx_cannot_express_is_refused_with_a_sentence():
    X, y = IRIS
    with pytest.raises(ValueError, match="ONNX"):
        skl2onnx.to_onnx(LSSVC(kernel="laplacian").fit(X, y), X[:1].astype(np.float32))
