/* A case: a sequence of socket calls that a seed stands for, and what is known of its
 * sockets while it runs. */
#ifndef CASE_H
#define CASE_H
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum op {
  SOCKET, BIND, LISTEN, CONNECT, ACCEPT, SEND, SENDTO, SENDMSG, WRITE, RECV,
  RECVFROM, RECVMSG, READ, SHUTDOWN, CLOSE, DUP, GETOPT, SETOPT, NAME, PEER,
  IOCTL, FCNTL, SENDFILE, SENDMMSG, RECVMMSG, SPLICE_IN, SPLICE_OUT, ASK, BUFFER,
  CHANGE_SET, ASK_SET, RENEW_SET
};

/* Which thread or process takes a step. */
enum by { ITSELF, A_THREAD, A_CHILD };

/* Numbers that a step may use, each for what it likes: a step draws all of them, so that
 * the others stay as they are when one is left out. */
enum { DRAWS = 8 };

struct step {
  enum op op;
  enum by by;
  int a, b; /* places */
  uint32_t draw[DRAWS];
};

enum { STEPS = 40, PLACES = 6, SETS = 2, FIXED_PORTS = 4, LINE = 4096, PORTS = 256 };

/* One of the descriptors of the case. */
struct place {
  int fd; /* -1: none */
  int domain, type;
  /* What poll told after the last step, and how many bytes were there. */
  struct seen {
    int events, held;
  } seen;
};

/* What the process of a case shares with the children that take steps for it. */
struct shared {
  char line[LINE]; /* what is to be said of the step */
  size_t length;
  uint16_t automatic[PORTS]; /* ports that nobody has chosen, in order of first sight */
  int automatics;
  /* Streams of IPv6 that were to reach an address of IPv4; streams that were shut down without a
   * connection; datagram sockets of which a send has failed; those that have begun a datagram;
   * listeners that were shut down or disconnected. By the kernel's socket, which stays the same. */
  struct sockets {
    ino_t of[STEPS];
    int count;
  } mapped, shut, failed, begun, listened;
  volatile int is_taken, may_end; /* the step of a child; the child */
};

static struct place places[PLACES];
static struct shared *shared;
static int first_fixed_port;
/* Epoll instances in which all sockets are, level-triggered and edge-triggered. */
static int epoll_fd = -1, edge_fd = -1;
/* Those that steps put sockets into. */
static int sets[SETS];
static int file_fd = -1;
static volatile sig_atomic_t broken_pipes;

/* One of the choices, which are numbers. */
#define ONE_OF(draw, ...)                                                      \
  ((const int[]){__VA_ARGS__}[(draw) %                                         \
                              (sizeof((const int[]){__VA_ARGS__}) / sizeof(int))])

#endif
