"""Replace scikit-learn's SVC: change one import.

    python python/examples/replace_svc.py
"""

from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mercer.svm import SVC  # was: from sklearn.svm import SVC

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

pipeline = make_pipeline(StandardScaler(), SVC())
search = GridSearchCV(pipeline, {"svc__C": [1, 10], "svc__gamma": ["scale", 0.01]}, cv=3)
search.fit(X_train, y_train)
print("best:", search.best_params_)
print(f"right on held-out digits: {search.score(X_test, y_test):.3f}")

svc = search.best_estimator_[-1]
print("support vectors of each digit:", svc.n_support_.tolist())
print(f"duality gap: {svc.training_report_['gap']:.2e}")

# Beyond scikit-learn: each answer with its range, certainty and cost.
decisions = svc.decide(search.best_estimator_[:-1].transform(X_test[:3]))
for decision in decisions:
    print(decision["label"], decision["certainty"], f"margin in [{decision['low']:.6f}, {decision['high']:.6f}]")
assert search.score(X_test, y_test) > 0.95
