/* The two ends of a network bench.
 *
 *   netbench serve PORT             answers GET /N with N bytes, on 127.0.0.1, until it is ended
 *   netbench bulk PORT BYTES        one GET of BYTES; prints bytes a second
 *   netbench fresh PORT COUNT       COUNT times a new connection and one small GET; prints the median in microseconds
 *   netbench kept PORT COUNT        COUNT small GETs on one connection; prints the median in microseconds
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BLOCK = 1 << 20 };
static char block[BLOCK];

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static int all(int fd, const char *from, size_t length) {
    while (length > 0) {
        ssize_t done = write(fd, from, length);
        if (done <= 0) return -1;
        from += done;
        length -= (size_t)done;
    }
    return 0;
}

/* Reads up to the end of a head; what follows it is moved to the front. Returns how much that is, or -1. */
static ssize_t head(int fd, char *room, size_t size, size_t have, char *copy) {
    for (;;) {
        room[have] = 0;
        char *end = strstr(room, "\r\n\r\n");
        if (end) {
            size_t used = (size_t)(end - room) + 4;
            memcpy(copy, room, used);
            copy[used] = 0;
            memmove(room, room + used, have - used);
            return (ssize_t)(have - used);
        }
        if (have + 1 >= size) return -1;
        ssize_t got = read(fd, room + have, size - have - 1);
        if (got <= 0) return -1;
        have += (size_t)got;
    }
}

static void *answer(void *given) {
    int fd = (int)(long)given, one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    char room[8192], request[8192], reply[256];
    ssize_t have = 0;
    while ((have = head(fd, room, sizeof room, (size_t)have, request)) >= 0) {
        unsigned long long size = strncmp(request, "GET /", 5) ? 0 : strtoull(request + 5, NULL, 10);
        int length = snprintf(reply, sizeof reply, "HTTP/1.1 200 OK\r\nContent-Length: %llu\r\n\r\n", size);
        if (size < 128) {
            memset(reply + length, 'x', (size_t)size);
            if (all(fd, reply, (size_t)length + (size_t)size)) break;
            continue;
        }
        if (all(fd, reply, (size_t)length)) break;
        while (size > 0) {
            size_t part = size < BLOCK ? (size_t)size : BLOCK;
            if (all(fd, block, part)) goto end;
            size -= part;
        }
    }
end:
    close(fd);
    return NULL;
}

static struct sockaddr_in place(const char *port) {
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(port)) };
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static void serve(const char *port) {
    struct sockaddr_in address = place(port);
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) || listen(fd, 512)) fail("listen");
    puts("ready");
    fflush(stdout);
    for (;;) {
        int client = accept(fd, NULL, NULL);
        pthread_t thread;
        if (client >= 0 && pthread_create(&thread, NULL, answer, (void *)(long)client) == 0) pthread_detach(thread);
    }
}

static int reach(const char *port) {
    struct sockaddr_in address = place(port);
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    if (connect(fd, (struct sockaddr *)&address, sizeof address)) fail("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void get(int fd, const char *port, unsigned long long size) {
    static char room[BLOCK], reply[BLOCK];
    char request[128];
    int length = snprintf(request, sizeof request, "GET /%llu HTTP/1.1\r\nHost: 127.0.0.1:%s\r\n\r\n", size, port);
    if (all(fd, request, (size_t)length)) fail("ask");
    ssize_t have = head(fd, room, 8192, 0, reply);
    if (have < 0) fail("answer");
    if (strncmp(reply, "HTTP/1.1 200", 12)) {
        fputs(reply, stderr);
        exit(1);
    }
    unsigned long long left = size - (unsigned long long)have;
    while (left > 0) {
        ssize_t got = read(fd, room, left < BLOCK ? (size_t)left : BLOCK);
        if (got <= 0) fail("body");
        left -= (unsigned long long)got;
    }
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int count, char **words) {
    signal(SIGPIPE, SIG_IGN);
    if (count == 3 && !strcmp(words[1], "serve")) serve(words[2]);
    if (count != 4) return 2;
    const char *port = words[2];
    unsigned long long number = strtoull(words[3], NULL, 10);
    if (!strcmp(words[1], "bulk")) {
        int fd = reach(port);
        double begun = now();
        get(fd, port, number);
        printf("%.0f\n", (double)number / (now() - begun));
        return 0;
    }
    int kept = !strcmp(words[1], "kept"), fd = kept ? reach(port) : -1;
    double *times = calloc(number, sizeof *times);
    for (unsigned long long i = 0; i < number; i++) {
        double begun = now();
        if (!kept) fd = reach(port);
        get(fd, port, 2);
        times[i] = (now() - begun) * 1e6;
        if (!kept) close(fd);
    }
    qsort(times, number, sizeof *times, compare);
    printf("%.1f\n", times[number / 2]);
    return 0;
}
