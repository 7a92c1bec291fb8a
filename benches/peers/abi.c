/* Times LIBSVM's interface: `abi MODEL ROWS ROUNDS` loads a model, asks `svm_predict` for the rows of a file one by one, and prints
   JSON: microseconds of a row (the best round), a digest of the labels, the memory of the process. Link it with any libsvm.so. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

struct svm_node { int index; double value; };
struct svm_model;
struct svm_model *svm_load_model(const char *);
double svm_predict(const struct svm_model *, const struct svm_node *);

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int main(int count, char **words) {
    struct svm_node **rows = NULL;
    size_t total = 0, room = 0, size = 0, i;
    char *line = NULL;
    double best = 1e300, sum = 0;
    int round, rounds;
    struct rusage usage;
    struct svm_model *model;
    FILE *file;
    if (count != 4 || (file = fopen(words[2], "r")) == NULL || (model = svm_load_model(words[1])) == NULL) return 1;
    rounds = atoi(words[3]);
    while (getline(&line, &size, file) > 0) {
        char *word = strtok(line, " \n");
        struct svm_node *row = malloc((strlen(line) + size) / 2 * sizeof *row);
        int n = 0;
        while ((word = strtok(NULL, " \n")) != NULL) {
            char *value = strchr(word, ':');
            row[n].index = atoi(word);
            row[n++].value = atof(value + 1);
        }
        row[n].index = -1;
        row = realloc(row, (size_t)(n + 1) * sizeof *row);
        if (total == room) rows = realloc(rows, (room = 2 * room + 64) * sizeof *rows);
        rows[total++] = row;
    }
    svm_predict(model, rows[0]);
    for (round = 0; round < rounds; round++) {
        double start = seconds(), time;
        sum = 0;
        for (i = 0; i < total; i++) sum += svm_predict(model, rows[i]) * (double)(i % 97 + 1);
        time = (seconds() - start) / (double)total;
        if (time < best) best = time;
    }
    getrusage(RUSAGE_SELF, &usage);
    printf("{\"us\": %.4f, \"labels\": %.17g, \"kilobytes\": %ld, \"rows\": %lu}\n", 1e6 * best, sum, usage.ru_maxrss, (unsigned long)total);
    return 0;
}
