/* A program that sends by a ring of io_uring where it gets one from liburing, and by a plain
 * call where not, over a connection to itself at the address that is its argument. Says
 * which, and what has arrived. With LOADED it looks liburing up, instead of being linked with it. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#ifdef LOADED
static int queue_init(unsigned entries, struct io_uring *ring, unsigned flags) {
  void *library = dlopen("liburing.so.2", RTLD_NOW | RTLD_LOCAL);
  /* It calls none of the others. */
  int (*init)(unsigned, struct io_uring *, struct io_uring_params *) =
      library ? dlsym(library, "io_uring_queue_init_params") : 0;
  if (!init)
    exit(2);
  struct io_uring_params p = {.flags = flags};
  return init(entries, ring, &p);
}
/* It is enough to have one. */
static int by_ring(struct io_uring *ring, int fd, const char *text) {
  (void)ring;
  return send(fd, text, strlen(text), 0);
}
#else
static int queue_init(unsigned entries, struct io_uring *ring, unsigned flags) {
  struct io_uring_params p = {0}, q = {0};
  int made = io_uring_queue_init(entries, ring, flags);
  struct io_uring other;
  int by_params = io_uring_queue_init_params(entries, &other, &p);
  int set_up = io_uring_setup(entries, &q);
  if ((made < 0) != (by_params < 0) || (made < 0) != (set_up < 0))
    exit(3);
  if (made < 0 && (by_params != made || set_up != made))
    exit(4);
  return made;
}
static int by_ring(struct io_uring *ring, int fd, const char *text) {
  struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
  io_uring_prep_send(sqe, fd, text, strlen(text), 0);
  struct io_uring_cqe *cqe;
  if (io_uring_submit(ring) != 1 || io_uring_wait_cqe(ring, &cqe))
    exit(5);
  return cqe->res;
}
#endif

int main(int argc, char **argv) {
  struct sockaddr_in at = {.sin_family = AF_INET};
  socklen_t len = sizeof at;
  if (argc < 2 || !inet_pton(AF_INET, argv[1], &at.sin_addr))
    return 1;
  int listener = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0);
  if (bind(listener, (void *)&at, sizeof at) || listen(listener, 1) ||
      getsockname(listener, (void *)&at, &len) || connect(fd, (void *)&at, sizeof at))
    return perror("connect"), 1;
  int far = accept(listener, 0, 0);
  struct io_uring ring;
  int made = queue_init(4, &ring, 0);
  const char *how = "by a ring";
  int sent;
  if (made < 0) {
    how = made == -ENOSYS ? "plainly" : strerror(-made);
    sent = send(fd, "hello", 5, 0);
  } else {
    sent = by_ring(&ring, fd, "hello");
  }
  char got[6] = "";
  if (sent != 5)
    return printf("%s: %s\n", how, strerror(sent < 0 ? -sent : 0)), 0;
  if (recv(far, got, 5, MSG_WAITALL) != 5)
    return perror("recv"), 1;
  printf("%s: %s\n", how, got);
  return 0;
}
