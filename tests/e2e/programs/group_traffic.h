/* Datagrams to a group, from the far end to mine: for checks that define GROUP. */
#ifndef GROUP_TRAFFIC_H
#define GROUP_TRAFFIC_H
#include "check.h"

static int udp(void) { return SYS(socket(AF_INET, SOCK_DGRAM, 0)); }

/* One of mine on a port of all addresses. */
static int on_all(struct sockaddr_in *at) {
  int fd = udp();
  struct sockaddr_in a = address("0.0.0.0", 0);
  SYS(bind(fd, A(a)));
  *at = name_of(fd);
  return fd;
}

/* One of the far end that sends to groups by its interface. */
static int far_sender(void) {
  int fd = far_socket(SOCK_DGRAM);
  SYS(far_bind(fd, address(far_ip(), 0)));
  struct in_addr by = address(far_ip(), 0).sin_addr;
  SYS(far_in_kernel() ? syscall(SYS_setsockopt, fd, IPPROTO_IP, IP_MULTICAST_IF, &by, sizeof by)
                      : setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &by, sizeof by));
  return fd;
}

static void far_says(int fd, const char *text, struct sockaddr_in to) {
  ssize_t n = strlen(text);
  IS(far_in_kernel() ? syscall(SYS_sendto, fd, text, n, 0, &to, sizeof to)
                     : sendto(fd, text, n, 0, A(to)),
     n);
}

static void hears(int fd, const char *text) {
  char buf[64];
  IS(ready(fd, POLLIN, 10000), POLLIN);
  IS(recv(fd, buf, sizeof buf, 0), strlen(text));
  OK(memcmp(buf, text, strlen(text)) == 0);
}

static void hears_nothing(int fd) {
  char c;
  sleep_ms(100);
  FAILS(recv(fd, &c, 1, MSG_DONTWAIT), EAGAIN);
}

/* The group, at the port of a socket. */
static struct sockaddr_in in_group(struct sockaddr_in at) {
  return address(GROUP, ntohs(at.sin_port));
}
#endif
