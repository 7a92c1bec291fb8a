/* `run PROGRAM ARGUMENT ...` runs a program and prints JSON: its seconds, and its memory, the largest resident set. What the program
   prints goes to the standard error output. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int main(int count, char **words) {
    double start = seconds();
    struct rusage usage;
    int status = 1;
    pid_t child;
    if (count < 2 || (child = fork()) < 0) return 1;
    if (child == 0) {
        dup2(2, 1);
        execvp(words[1], words + 1);
        _exit(127);
    }
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0) return 1;
    getrusage(RUSAGE_CHILDREN, &usage);
    printf("{\"seconds\": %.4f, \"kilobytes\": %ld}\n", seconds() - start, usage.ru_maxrss);
    return 0;
}
