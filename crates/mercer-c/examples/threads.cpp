// One model, asked by several threads of a C++ program.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "mercer.h"

using Model = std::unique_ptr<mercer_model, void (*)(mercer_model *)>;

static Model opened(const std::string &text) {
    mercer_model *model = nullptr;
    auto bytes = reinterpret_cast<const uint8_t *>(text.data());
    if (mercer_model_read(bytes, text.size(), false, &model) != MERCER_OK) {
        std::fprintf(stderr, "error: %s\n", mercer_last_error());
        std::exit(1);
    }
    return Model(model, mercer_model_free);
}

int main() {
    // A model as LIBSVM's svm-train writes it.
    Model model = opened(
        "svm_type c_svc\nkernel_type rbf\ngamma 0.5\nnr_class 2\ntotal_sv 2\nrho 0.1\n"
        "label 1 -1\nnr_sv 1 1\nSV\n1 1:1 \n-1 1:-1 2:0.5 \n");
    std::vector<double> labels(8);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < labels.size(); i++) {
        threads.emplace_back([&, i] {
            const double row[2] = {i % 2 ? 1.0 : -1.0, 0.25};
            mercer_rows rows = mercer_dense(row, 1, 2);
            if (mercer_predict(model.get(), &rows, &labels[i]) != MERCER_OK) std::exit(1);
        });
    }
    for (auto &thread : threads) thread.join();
    for (std::size_t i = 0; i < labels.size(); i++) {
        if (labels[i] != (i % 2 ? 1.0 : -1.0)) return 1;
    }
    std::puts("done");
    return 0;
}
