/* The sockets of a case: the one that a call waits on, its far end, and what is used besides. */
#ifndef SCENE_H
#define SCENE_H
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum kind {
  /* A connection on which nothing has come, */
  EMPTY = 1,
  /* one that takes nothing more, */
  FULL = 2,
  /* a listener without connections, */
  LISTENER = 4,
  /* a connected datagram socket on which nothing has come. */
  DATAGRAM = 8,
  STREAM = EMPTY | FULL,
  ANY = EMPTY | FULL | LISTENER | DATAGRAM,
};

static const struct {
  enum kind kind;
  const char *name;
} KINDS[] = {
    {EMPTY, "empty"}, {FULL, "full"}, {LISTENER, "listener"}, {DATAGRAM, "datagram"}};
enum { KIND_COUNT = sizeof KINDS / sizeof *KINDS };

/* More than a connection can hold. */
enum { MUCH = 8 << 20 };

static struct scene {
  enum kind kind;
  /* The socket that is waited on, and its far end if it has one. */
  int fd, peer;
  /* A connection on which three bytes wait. */
  int ready;
  /* Set of `fd`, if the call waits on one. */
  int set;
  int pipe[2];
  int file;
  /* The call that waits is the next. */
  volatile int is_next;
  struct sockaddr_in at;
} scene;

static void __attribute__((noreturn)) give_up(const char *what) {
  perror(what);
  _exit(3);
}

static int must(int result, const char *what) {
  if (result < 0)
    give_up(what);
  return result;
}

static void make_connection(int *one, int *other, int buffer) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t n = sizeof at;
  int listener = must(socket(AF_INET, SOCK_STREAM, 0), "socket");
  if (buffer)
    setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
  must(bind(listener, (void *)&at, n), "bind");
  must(listen(listener, 8), "listen");
  must(getsockname(listener, (void *)&at, &n), "getsockname");
  *one = must(socket(AF_INET, SOCK_STREAM, 0), "socket");
  if (buffer)
    setsockopt(*one, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
  must(connect(*one, (void *)&at, n), "connect");
  *other = must(accept(listener, 0, 0), "accept");
  close(listener);
}

static void sleep_for(long milliseconds) {
  nanosleep(&(struct timespec){milliseconds / 1000, milliseconds % 1000 * 1000000}, 0);
}

/* Sends until nothing more is taken. What the far end has acknowledged, which may take it a fifth
 * of a second, makes room again. */
static void fill(int fd) {
  static char bytes[65536];
  for (int vain = 0; vain < 25; vain++) {
    while (send(fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
      vain = 0;
    sleep_for(10);
  }
}

static void make_scene(enum kind kind) {
  socklen_t n = sizeof scene.at;
  scene.kind = kind;
  scene.peer = scene.set = -1;
  scene.at = (struct sockaddr_in){.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int far;
  make_connection(&scene.ready, &far, 0);
  must(send(far, "abc", 3, 0), "send");
  struct pollfd p = {scene.ready, POLLIN, 0};
  must(poll(&p, 1, 1000) - 1, "what was sent");
  must(pipe(scene.pipe), "pipe");
  scene.file = must(memfd_create("sent", MFD_CLOEXEC), "memfd_create");
  must(ftruncate(scene.file, 100), "ftruncate");
  switch (kind) {
  case LISTENER:
    scene.fd = must(socket(AF_INET, SOCK_STREAM, 0), "socket");
    must(bind(scene.fd, (void *)&scene.at, n), "bind");
    must(listen(scene.fd, 8), "listen");
    must(getsockname(scene.fd, (void *)&scene.at, &n), "getsockname");
    break;
  case DATAGRAM: {
    struct sockaddr_in mine = scene.at;
    scene.fd = must(socket(AF_INET, SOCK_DGRAM, 0), "socket");
    scene.peer = must(socket(AF_INET, SOCK_DGRAM, 0), "socket");
    must(bind(scene.fd, (void *)&scene.at, n), "bind");
    must(bind(scene.peer, (void *)&mine, n), "bind");
    must(getsockname(scene.fd, (void *)&scene.at, &n), "getsockname");
    must(getsockname(scene.peer, (void *)&mine, &n), "getsockname");
    must(connect(scene.fd, (void *)&mine, n), "connect");
    must(connect(scene.peer, (void *)&scene.at, n), "connect");
    break;
  }
  default:
    make_connection(&scene.fd, &scene.peer, kind == FULL ? 32768 : 0);
    if (kind == FULL)
      fill(scene.fd);
  }
}

/* What the far end has been sent is read, until nothing has come for a while. */
static void drain(int fd) {
  static char bytes[65536];
  for (int vain = 0; vain < 20; vain++) {
    while (recv(fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
      vain = 0;
    sleep_for(1);
  }
}

#endif
