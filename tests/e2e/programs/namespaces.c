/* Network namespaces: a socket belongs to the one in which the thread was that made it. In
 * one of their own, where nothing is, programs have no network. */
#include "check.h"
#include <ifaddrs.h>
#include <sched.h>

/* Where the far end listens. */
static struct sockaddr_in there;

/* A stream and a datagram socket that are made here reach the far end. */
static void network(void) {
  int fd = SYS(socket(AF_INET, SOCK_STREAM, 0));
  SYS(connect(fd, A(there)));
  SYS(close(fd));
  fd = SYS(socket(AF_INET, SOCK_DGRAM, 0));
  IS(sendto(fd, "x", 1, 0, A(there)), 1);
  SYS(close(fd));
}

/* They reach nobody here, where there are no addresses but the loopback's. */
static void no_network(void) {
  int fd = SYS(socket(AF_INET, SOCK_STREAM, 0));
  FAILS(connect(fd, A(there)), ENETUNREACH);
  SYS(close(fd));
  fd = SYS(socket(AF_INET, SOCK_DGRAM, 0));
  FAILS(sendto(fd, "x", 1, 0, A(there)), ENETUNREACH);
  SYS(close(fd));
  struct ifaddrs *all;
  SYS(getifaddrs(&all));
  for (struct ifaddrs *i = all; i; i = i->ifa_next)
    OK(!i->ifa_addr || i->ifa_addr->sa_family != AF_INET || !strcmp(i->ifa_name, "lo"));
  freeifaddrs(all);
}

static void ends_well(pid_t child) {
  int status;
  IS(waitpid(child, &status, 0), child);
  IS(status, 0);
}

static void listen_there(void) { there = far_name(far_listener(64)); }

static void child_has_no_network_in_its_own(void) {
  listen_there();
  network();
  pid_t child = SYS(fork());
  if (!child) {
    SYS(unshare(CLONE_NEWNET));
    no_network();
    pid_t grandchild = SYS(fork());
    if (!grandchild) {
      no_network();
      _exit(0);
    }
    ends_well(grandchild);
    _exit(0);
  }
  ends_well(child);
  network();
}

/* The first sockets of a program are made there. */
static void first_socket_is_made_there(void) {
  there = address(far_ip(), 9);
  pid_t child = SYS(fork());
  if (!child) {
    SYS(unshare(CLONE_NEWNET));
    no_network();
    _exit(0);
  }
  ends_well(child);
}

static void sockets_that_were_open_go_on(void) {
  int listener = far_listener(64);
  there = far_name(listener);
  int before = SYS(socket(AF_INET, SOCK_STREAM, 0));
  SYS(connect(before, A(there)));
  int far = far_accept(listener), new = SYS(socket(AF_INET, SOCK_STREAM, 0));
  pid_t child = SYS(fork());
  if (!child) {
    SYS(unshare(CLONE_NEWNET));
    send_all(before, "x", 1);
    SYS(connect(new, A(there)));
    send_all(new, "y", 1);
    no_network();
    _exit(0);
  }
  ends_well(child);
  char c;
  IS(recv(far, &c, 1, MSG_WAITALL), 1);
  IS(c, 'x');
  IS(recv(far_accept(listener), &c, 1, MSG_WAITALL), 1);
  IS(c, 'y');
}

static void *alone(void *nothing) {
  SYS(unshare(CLONE_NEWNET));
  no_network();
  return nothing;
}

static void thread_has_its_own(void) {
  listen_there();
  pthread_t thread;
  IS(pthread_create(&thread, 0, alone, 0), 0);
  IS(pthread_join(thread, 0), 0);
  network();
}

static void network_is_back_at_home(void) {
  listen_there();
  int home = SYS(open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC));
  SYS(unshare(CLONE_NEWNET));
  no_network();
  int away = SYS(open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC));
  for (int i = 0; i < 3; i++) {
    SYS(setns(home, CLONE_NEWNET));
    network();
    SYS(setns(away, i % 2 ? CLONE_NEWNET : 0));
    no_network();
  }
  SYS((syscall)(SYS_setns, home, 0));
  network();
  SYS((syscall)(SYS_unshare, CLONE_NEWNET));
  no_network();
}

static int begin(void *nothing) {
  (void)nothing;
  no_network();
  return 0;
}

static void clone_makes_one(void) {
  listen_there();
  network();
  static char stack[1 << 20] __attribute__((aligned(16)));
  ends_well(SYS(clone(begin, stack + sizeof stack, CLONE_NEWNET | SIGCHLD, 0)));
  pid_t child = SYS((syscall)(SYS_clone, CLONE_NEWNET | SIGCHLD, 0, 0, 0, 0));
  if (!child) {
    no_network();
    _exit(0);
  }
  ends_well(child);
  network();
}

union control {
  struct cmsghdr head;
  char room[CMSG_SPACE(sizeof(int))];
};

static void pass_descriptor(int to, int fd) {
  union control control = {.head = {CMSG_LEN(sizeof fd), SOL_SOCKET, SCM_RIGHTS}};
  memcpy(CMSG_DATA(&control.head), &fd, sizeof fd);
  struct iovec byte = {"d", 1};
  struct msghdr m = {.msg_iov = &byte, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
  IS(sendmsg(to, &m, 0), 1);
  SYS(close(fd));
}

static int received_descriptor(int from) {
  union control control;
  char c;
  struct iovec byte = {&c, 1};
  struct msghdr m = {.msg_iov = &byte, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
  IS(recvmsg(from, &m, 0), 1);
  OK(m.msg_controllen != 0 && control.head.cmsg_type == SCM_RIGHTS);
  int fd;
  memcpy(&fd, CMSG_DATA(&control.head), sizeof fd);
  return fd;
}

/* What is made elsewhere and received here is of there, and the other way round. */
static void received_sockets_stay_where_they_were_made(void) {
  listen_there();
  int unix_pair[2];
  SYS(socketpair(AF_UNIX, SOCK_STREAM, 0, unix_pair));
  pid_t child = SYS(fork());
  if (!child) {
    SYS(unshare(CLONE_NEWNET));
    pass_descriptor(unix_pair[1], SYS(socket(AF_INET, SOCK_STREAM, 0)));
    int homes = received_descriptor(unix_pair[1]);
    SYS(connect(homes, A(there)));
    _exit(0);
  }
  int theirs = received_descriptor(unix_pair[0]);
  FAILS(connect(theirs, A(there)), ENETUNREACH);
  pass_descriptor(unix_pair[0], SYS(socket(AF_INET, SOCK_STREAM, 0)));
  ends_well(child);
}

#define CHECK(name) {#name, name}
const struct check CHECKS[] = {
    CHECK(child_has_no_network_in_its_own),
    CHECK(first_socket_is_made_there),
    CHECK(sockets_that_were_open_go_on),
    CHECK(thread_has_its_own),
    CHECK(network_is_back_at_home),
    CHECK(clone_makes_one),
    CHECK(received_sockets_stay_where_they_were_made),
    {0, 0},
};
