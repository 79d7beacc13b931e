/* measure OUT PROGRAM ARGUMENTS...: run a program to its end and write what it and its children cost.
 *
 * OUT gets one line: wall seconds, user seconds, system seconds, peak resident KiB of the largest process, exit status.
 * It is a program of its own because a child's peak starts at its parent's, and this parent is small.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double seconds(struct timeval t) { return (double)t.tv_sec + (double)t.tv_usec / 1e6; }

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: measure OUT PROGRAM ARGUMENTS...\n");
        return 2;
    }
    struct timespec before, after;
    clock_gettime(CLOCK_MONOTONIC, &before);
    pid_t child = fork();
    if (child == 0) {
        execvp(argv[2], argv + 2);
        perror(argv[2]);
        _exit(127);
    }
    int status = 0;
    struct rusage cost;
    if (child < 0 || wait4(child, &status, 0, &cost) < 0) {
        perror("measure");
        return 1;
    }
    clock_gettime(CLOCK_MONOTONIC, &after);
    double wall = (double)(after.tv_sec - before.tv_sec) + (double)(after.tv_nsec - before.tv_nsec) / 1e9;
    FILE *out = fopen(argv[1], "w");
    if (!out) {
        perror(argv[1]);
        return 1;
    }
    fprintf(out, "%.6f %.6f %.6f %ld %d\n", wall, seconds(cost.ru_utime), seconds(cost.ru_stime), cost.ru_maxrss,
            WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    return fclose(out) ? 1 : 0;
}
