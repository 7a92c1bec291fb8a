"""Times `sklearn.datasets.load_svmlight_file` on one file.

    python read.py FILE

Prints one JSON object: seconds, sizes of the matrix, and the largest resident size of the process.
"""

import json
import resource
import sys
import time

import sklearn
from sklearn.datasets import load_svmlight_file

start = time.perf_counter()
rows, _ = load_svmlight_file(sys.argv[1])
seconds = time.perf_counter() - start
print(
    json.dumps(
        {
            "seconds": seconds,
            "rows": rows.shape[0],
            "columns": rows.shape[1],
            "nonzeros": int(rows.nnz),
            "matrix_bytes": rows.data.nbytes + rows.indices.nbytes + rows.indptr.nbytes,
            "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            "versions": {"scikit-learn": sklearn.__version__},
        }
    )
)
