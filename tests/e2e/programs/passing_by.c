/* A library whose sockets are made by what it finds in libc, to be loaded in the ways that
 * look past what was preloaded. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

/* 0 if a socket at this address gets what it sends to itself, or why not. */
int reaches_itself(const char *ip) {
  struct sockaddr_in a = {.sin_family = AF_INET};
  socklen_t n = sizeof a;
  struct timeval limit = {.tv_sec = 10};
  char c = 0;
  inet_pton(AF_INET, ip, &a.sin_addr);
  int fd = socket(AF_INET, SOCK_DGRAM, 0);
  if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) < 0 ||
      bind(fd, (struct sockaddr *)&a, n) < 0 || getsockname(fd, (struct sockaddr *)&a, &n) < 0 ||
      sendto(fd, "x", 1, 0, (struct sockaddr *)&a, n) < 0 || recv(fd, &c, 1, 0) < 0 ||
      close(fd) < 0)
    return errno;
  return c == 'x' ? 0 : EBADMSG;
}
