/*
 * What calls of a program take on Longshore: run under callgrind by scripts/count-calls.sh, which
 * counts the instructions within the functions `counted_`, with all that they call.
 *
 * A child of it sends back what comes, on the same engine. Before a call it sleeps so long that
 * child and engine have nothing left to do, as a rule, so that most calls find the same.
 */
#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { TIMES = 51, BYTES = 64 };

static char bytes[BYTES];

/*
 * A call of `name`, which is counted, and the end of it: callgrind writes down what it has counted
 * after that. ARGUMENTS and VALUES are those of the call, as they are declared and passed on.
 */
#define ALONE __attribute__((noinline, noclone)) static
#define COUNTED(name, call, values, ...)                     \
    ALONE long counted_##name(__VA_ARGS__) { return call; }  \
    /* Functions that are alike would be made one. */        \
    ALONE void end_of_##name(void) { __asm__ volatile("# " #name); } \
    static long name##_counted(__VA_ARGS__) {                \
        long got = counted_##name values;                    \
        end_of_##name();                                     \
        return got;                                          \
    }

COUNTED(send, send(fd, bytes, BYTES, 0), (fd), int fd)
COUNTED(recv, recv(fd, bytes, BYTES, 0), (fd), int fd)
COUNTED(epoll_wait, epoll_wait(epfd, event, 1, 0), (epfd, event), int epfd, struct epoll_event *event)
COUNTED(epoll_ctl_add, epoll_ctl(epfd, EPOLL_CTL_ADD, fd, event), (epfd, fd, event), int epfd, int fd,
        struct epoll_event *event)
COUNTED(epoll_ctl_mod, epoll_ctl(epfd, EPOLL_CTL_MOD, fd, event), (epfd, fd, event), int epfd, int fd,
        struct epoll_event *event)
COUNTED(epoll_ctl_del, epoll_ctl(epfd, EPOLL_CTL_DEL, fd, NULL), (epfd, fd), int epfd, int fd)

static void expect(long got, long expected, const char *what) {
    if (got != expected) {
        perror(what);
        exit(1);
    }
}

static void settle(void) {
    struct timespec time = {.tv_nsec = 2000000};
    nanosleep(&time, NULL);
}

/* Sends back what comes, until nothing does. */
static void echo(int listener) {
    char some[BYTES];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int fd = accept(listener, NULL, NULL);
    for (ssize_t got; (got = recv(fd, some, sizeof some, 0)) > 0;) {
        expect(send(fd, some, got, 0), got, "echo");
    }
    _exit(0);
}

static void one_round(int epfd, int fd) {
    struct epoll_event event = {.events = EPOLLIN};
    expect(epoll_ctl_add_counted(epfd, fd, &event), 0, "EPOLL_CTL_ADD");
    settle();
    expect(send_counted(fd), BYTES, "send");
    settle();
    long got;
    while ((got = epoll_wait_counted(epfd, &event)) == 0) {
        settle();
    }
    expect(got, 1, "epoll_wait");
    expect(recv_counted(fd), BYTES, "recv");
    settle();
    event.events = EPOLLIN | EPOLLRDHUP;
    expect(epoll_ctl_mod_counted(epfd, fd, &event), 0, "EPOLL_CTL_MOD");
    expect(epoll_ctl_del_counted(epfd, fd), 0, "EPOLL_CTL_DEL");
}

int main(int count, char **arguments) {
    if (count != 2) {
        fprintf(stderr, "usage: calls ADDRESS\n");
        return 1;
    }
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(5001)};
    expect(inet_pton(AF_INET, arguments[1], &at.sin_addr), 1, "address");
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    expect(bind(listener, (struct sockaddr *)&at, sizeof at), 0, "bind");
    expect(listen(listener, 1), 0, "listen");
    if (fork() == 0) {
        echo(listener);
    }
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    expect(connect(fd, (struct sockaddr *)&at, sizeof at), 0, "connect");
    int epfd = epoll_create1(0);
    if (epfd < 0) {
        perror("epoll_create1");
        return 1;
    }
    for (int i = 0; i < TIMES; i++) {
        one_round(epfd, fd);
    }
    return 0;
}
