/*
 * Times launches of several commands that take turns, so that a busy machine slows all of them alike.
 *
 *   launchbench ROUNDS < COMMANDS
 *
 * COMMANDS has one a line: a name, a tab, then the arguments, separated by tabs. The first is the measure
 * of the others. Each round starts with another one. All run in the current directory, with /dev/null as
 * descriptors 0, 1 and 2. Prints one line for each: name, median and minimum in microseconds of wall time,
 * the median until nothing of it was left, mean CPU time of all its processes, those it did not wait for
 * included, the ratios of the medians and of CPU to the first, and failures.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

enum { COMMANDS_MAX = 32, ARGUMENTS_MAX = 256 };

struct command {
    char *name;
    char *argv[ARGUMENTS_MAX];
    double *wall;
    double *gone;
    double cpu;
    int failures;
};

extern char **environ;
static struct command commands[COMMANDS_MAX];
static posix_spawn_file_actions_t quiet;

static double microseconds(struct timeval time) { return time.tv_sec * 1e6 + time.tv_usec; }

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e6 + time.tv_nsec / 1e3;
}

static int ascending(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

/* Sorts the times; the one in the middle. */
static double middle(double *times, int count)
{
    qsort(times, (size_t)count, sizeof *times, ascending);
    return times[count / 2];
}

/* Waits for one child; its CPU time, or -1 if there is none. */
static double reap(pid_t pid, int *status)
{
    struct rusage usage;
    while (wait4(pid, status, 0, &usage) < 0) {
        if (errno != EINTR)
            return -1;
    }
    return microseconds(usage.ru_utime) + microseconds(usage.ru_stime);
}

/* Launches once; with a negative round only to warm up. */
static void launch(struct command *command, int round)
{
    int status = 0;
    pid_t pid;
    double begun = now();
    if (posix_spawn(&pid, command->argv[0], &quiet, NULL, command->argv, environ) != 0) {
        fprintf(stderr, "cannot start %s\n", command->argv[0]);
        exit(1);
    }
    double cpu = reap(pid, &status), wall = now() - begun;
    /* What the command left running has come to us; it is not in its time, but in the cost. */
    for (double more; (more = reap(-1, NULL)) >= 0;)
        cpu += more;
    double gone = now() - begun;
    if (round < 0)
        return;
    command->wall[round] = wall;
    command->gone[round] = gone;
    command->cpu += cpu;
    command->failures += status != 0;
}

static int read_commands(int rounds)
{
    char *line = NULL;
    size_t room = 0;
    int count = 0;
    while (count < COMMANDS_MAX && getline(&line, &room, stdin) > 0) {
        struct command *command = &commands[count];
        char *rest = strdup(line), *word;
        int arguments = 0;
        rest[strcspn(rest, "\n")] = '\0';
        command->name = strsep(&rest, "\t");
        while (rest != NULL && arguments < ARGUMENTS_MAX - 1 && (word = strsep(&rest, "\t")) != NULL)
            command->argv[arguments++] = word;
        if (arguments == 0)
            continue;
        command->wall = calloc((size_t)rounds, sizeof *command->wall);
        command->gone = calloc((size_t)rounds, sizeof *command->gone);
        count++;
    }
    return count;
}

int main(int argc, char **argv)
{
    int rounds = argc == 2 ? atoi(argv[1]) : 0;
    int count = rounds > 0 ? read_commands(rounds) : 0;
    double wall = 0, gone = 0, cpu = 0;
    if (count == 0) {
        fprintf(stderr, "usage: launchbench ROUNDS < COMMANDS\n");
        return 2;
    }
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    posix_spawn_file_actions_init(&quiet);
    for (int fd = 0; fd < 3; fd++)
        posix_spawn_file_actions_addopen(&quiet, fd, "/dev/null", O_RDWR, 0);
    for (int i = 0; i < count; i++)
        launch(&commands[i], -1);
    for (int round = 0; round < rounds; round++)
        for (int i = 0; i < count; i++)
            launch(&commands[(round + i) % count], round);
    printf("%-16s %9s %9s %9s %9s %9s %9s %9s %6s\n", "", "median", "least", "gone", "cpu", "x wall", "x gone", "x cpu", "failed");
    for (int i = 0; i < count; i++) {
        struct command *command = &commands[i];
        double median = middle(command->wall, rounds), end = middle(command->gone, rounds), mean = command->cpu / rounds;
        if (i == 0) {
            wall = median;
            gone = end;
            cpu = mean;
        }
        printf("%-16s %9.0f %9.0f %9.0f %9.0f %9.2f %9.2f %9.2f %6d\n", command->name, median, command->wall[0], end, mean,
               median / wall, end / gone, cpu > 0 ? mean / cpu : 0, command->failures);
    }
    return 0;
}
