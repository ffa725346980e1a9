/*
 * Tells which instructions of a program are executed, in the order in which each is first met.
 *
 *   firsttouch PROGRAM ARGUMENTS…
 *
 * Follows PROGRAM and the processes it forks, step by step, until they execute something else or end, and prints the
 * offsets of the instructions in PROGRAM's image, one a line in hexadecimal. Takes about a minute for a launch.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum { IMAGE_MAX = 64 << 20, STEPS_MAX = 50 * 1000 * 1000 };

static unsigned char met[IMAGE_MAX];

/* Where the image of a process that has just been started lies. */
static unsigned long base_of(pid_t pid, const char *program)
{
    char name[64], line[4096];
    unsigned long base = 0;
    snprintf(name, sizeof name, "/proc/%d/maps", pid);
    FILE *maps = fopen(name, "r");
    while (maps && !base && fgets(line, sizeof line, maps)) {
        if (strstr(line, program))
            base = strtoul(line, NULL, 16);
    }
    if (maps)
        fclose(maps);
    return base;
}

static void note(pid_t pid, unsigned long base)
{
    struct user_regs_struct registers;
    struct iovec place = {&registers, sizeof registers};
    if (ptrace(PTRACE_GETREGSET, pid, NT_PRSTATUS, &place) < 0)
        return;
    unsigned long at = registers.rip - base;
    if (at < IMAGE_MAX && !met[at]) {
        met[at] = 1;
        printf("%lx\n", at);
    }
}

static void become(char **argv)
{
    int nothing = open("/dev/null", O_RDWR);
    dup2(nothing, 0);
    dup2(nothing, 1);
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    raise(SIGSTOP);
    execv(argv[0], argv);
    _exit(127);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: firsttouch PROGRAM ARGUMENTS...\n");
        return 2;
    }
    pid_t first = fork();
    if (first == 0)
        become(argv + 1);
    long options = PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
    int status;
    waitpid(first, &status, 0);
    ptrace(PTRACE_SETOPTIONS, first, NULL, options);
    ptrace(PTRACE_CONT, first, NULL, NULL);
    waitpid(first, &status, 0);
    unsigned long base = base_of(first, argv[1]);
    if (!base) {
        fprintf(stderr, "firsttouch: %s did not start\n", argv[1]);
        return 1;
    }
    ptrace(PTRACE_SINGLESTEP, first, NULL, NULL);
    int ended = 1;
    for (long step = 0; step < STEPS_MAX; step++) {
        pid_t pid = waitpid(-1, &status, __WALL);
        if (pid < 0)
            break;
        if (!WIFSTOPPED(status)) {
            if (pid == first)
                ended = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
            continue;
        }
        int signal = WSTOPSIG(status), event = status >> 16;
        if (event == PTRACE_EVENT_EXEC) {
            ptrace(PTRACE_DETACH, pid, NULL, NULL);
            continue;
        }
        if (signal == SIGTRAP && !event)
            note(pid, base);
        long passed = signal == SIGTRAP || signal == SIGSTOP ? 0 : signal;
        ptrace(PTRACE_SINGLESTEP, pid, NULL, passed);
    }
    return ended;
}
