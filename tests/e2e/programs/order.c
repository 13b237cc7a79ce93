/* Which error a datagram is refused with, of several that there would be: the one that Linux looks
 * at first. What goes by IPv4 is measured before anybody looks where to, by IPv6 after all else. */
#include "check.h"
#include <netinet/ip.h>

enum { SHORT = 1, MOST4 = 65507, MOST6 = 65527, SHORT_ENOUGH = 65535, LONG = 66000 };

static char bytes[LONG];

/* Sends `n` bytes; as a message, beside which something is said that no level takes. */
static ssize_t sends(int fd, size_t n, int flags, const void *to, socklen_t len) {
  return sendto(fd, bytes, n, flags, to, len);
}

static ssize_t with_bad_control(int fd, size_t n, int flags, const void *to, socklen_t len) {
  char control[CMSG_SPACE(sizeof(int))] = {0};
  struct iovec v = {bytes, n};
  struct msghdr m = {.msg_name = (void *)to, .msg_namelen = len, .msg_iov = &v, .msg_iovlen = 1,
                     .msg_control = control, .msg_controllen = sizeof control};
  struct cmsghdr *h = CMSG_FIRSTHDR(&m);
  h->cmsg_level = SOL_SOCKET, h->cmsg_type = 9999, h->cmsg_len = CMSG_LEN(sizeof(int));
  return sendmsg(fd, &m, flags);
}

/* Its bytes are nowhere. */
static ssize_t of_nothing(int fd, size_t n, int flags, const void *to, socklen_t len) {
  void *volatile nowhere = (void *)8;
  return sendto(fd, nowhere, n, flags, to, len);
}

static struct sockaddr_in6 six(const char *ip, int port) {
  struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
  if (inet_pton(AF_INET6, ip, &a.sin6_addr) != 1)
    FAIL("bad address %s", ip);
  return a;
}

static struct sockaddr_in6 far6(int port) {
  return six(getenv("FAR_ADDR6") ? getenv("FAR_ADDR6") : "::1", port);
}

static int ours(int domain) { return SYS(socket(domain, SOCK_DGRAM, 0)); }

static void of_another_family(void) {
  struct sockaddr_in6 to = far6(9);
  /* New, bound by what has failed, and with a peer. */
  for (int round = 0; round < 3; round++) {
    static int fd = -1;
    if (round == 0)
      fd = ours(AF_INET);
    if (round == 2) {
      struct sockaddr_in peer = address(far_ip(), 9);
      SYS(connect(fd, A(peer)));
    }
    FAILS(sends(fd, LONG, 0, &to, sizeof to), EMSGSIZE);
    FAILS(sends(fd, LONG, MSG_OOB, &to, sizeof to), EMSGSIZE);
    FAILS(sends(fd, SHORT, MSG_OOB, &to, sizeof to), EOPNOTSUPP);
    FAILS(sends(fd, SHORT, 0, &to, sizeof to), EAFNOSUPPORT);
    FAILS(sends(fd, SHORT_ENOUGH, 0, &to, sizeof to), EAFNOSUPPORT);
    FAILS(with_bad_control(fd, SHORT, 0, &to, sizeof to), EAFNOSUPPORT);
    to.sin6_port = 0;
    FAILS(sends(fd, SHORT, 0, &to, sizeof to), EAFNOSUPPORT);
    to.sin6_port = htons(9);
    FAILS(of_nothing(fd, SHORT, 0, &to, sizeof to), EAFNOSUPPORT);
    FAILS(of_nothing(fd, LONG, 0, &to, sizeof to), EMSGSIZE);
  }
}

static void nowhere_to(void) {
  int four = ours(AF_INET), fd6 = ours(AF_INET6);
  struct sockaddr_in a = address(my_ip(), 0);
  SYS(bind(four, A(a)));
  FAILS(sends(four, LONG, 0, 0, 0), EMSGSIZE);
  FAILS(sends(four, SHORT, MSG_OOB, 0, 0), EOPNOTSUPP);
  FAILS(sends(four, SHORT_ENOUGH, 0, 0, 0), EDESTADDRREQ);
  FAILS(with_bad_control(four, SHORT, 0, 0, 0), EDESTADDRREQ);
  FAILS(of_nothing(four, SHORT, 0, 0, 0), EDESTADDRREQ);
  struct sockaddr_in6 b = six(getenv("ADDR6") ? getenv("ADDR6") : "::1", 0);
  SYS(bind(fd6, A(b)));
  FAILS(sends(fd6, LONG, 0, 0, 0), EDESTADDRREQ);
  FAILS(sends(fd6, SHORT, MSG_OOB, 0, 0), EDESTADDRREQ);
  FAILS(with_bad_control(fd6, SHORT, 0, 0, 0), EDESTADDRREQ);
}

static void port_zero(void) {
  int four = ours(AF_INET), fd6 = ours(AF_INET6);
  struct sockaddr_in a = address(far_ip(), 0);
  FAILS(sends(four, LONG, 0, &a, sizeof a), EMSGSIZE);
  FAILS(sends(four, SHORT_ENOUGH, 0, &a, sizeof a), EINVAL);
  FAILS(sends(four, SHORT, MSG_OOB, &a, sizeof a), EOPNOTSUPP);
  FAILS(of_nothing(four, SHORT, 0, &a, sizeof a), EINVAL);
  struct sockaddr_in6 b = far6(0);
  FAILS(sends(fd6, LONG, 0, &b, sizeof b), EINVAL);
  FAILS(sends(fd6, SHORT, MSG_OOB, &b, sizeof b), EINVAL);
}

/* What is said beside a datagram comes before how long it is, where that is looked at last. */
static void beside_what_is_too_long(void) {
  int four = ours(AF_INET), fd6 = ours(AF_INET6);
  struct sockaddr_in a = address(far_ip(), 9);
  struct sockaddr_in6 b = far6(9);
  FAILS(with_bad_control(four, LONG, 0, &a, sizeof a), EMSGSIZE);
  FAILS(with_bad_control(four, SHORT, MSG_OOB, &a, sizeof a), EOPNOTSUPP);
  FAILS(with_bad_control(four, MOST4 + 1, 0, &a, sizeof a), EINVAL);
  FAILS(sends(four, MOST4 + 1, 0, &a, sizeof a), EMSGSIZE);
  FAILS(with_bad_control(fd6, LONG, 0, &b, sizeof b), EINVAL);
  FAILS(with_bad_control(fd6, MOST6 + 1, 0, &b, sizeof b), EINVAL);
  FAILS(sends(fd6, MOST6 + 1, 0, &b, sizeof b), EMSGSIZE);
  FAILS(sends(fd6, LONG, 0, &b, sizeof b), EMSGSIZE);
  FAILS(of_nothing(four, SHORT, 0, &a, sizeof a), EFAULT);
}

static void to_everybody(void) {
  int fd = ours(AF_INET);
  struct sockaddr_in all = address("255.255.255.255", 9);
  FAILS(sends(fd, LONG, 0, &all, sizeof all), EMSGSIZE);
  FAILS(sends(fd, SHORT, MSG_OOB, &all, sizeof all), EOPNOTSUPP);
  FAILS(with_bad_control(fd, SHORT, 0, &all, sizeof all), EINVAL);
  FAILS(sends(fd, MOST4 + 1, 0, &all, sizeof all), EACCES);
  FAILS(sends(fd, SHORT, 0, &all, sizeof all), EACCES);
  struct sockaddr_in name = name_of(fd);
  OK(name.sin_port != 0);
}

/* What is added to a datagram that was begun is measured, and nothing else of it is looked at. */
static void to_what_was_begun(void) {
  int fd = ours(AF_INET), far = far_socket(SOCK_DGRAM);
  SYS(far_bind(far, address(far_ip(), 0)));
  struct sockaddr_in a = far_name(far);
  IS(sends(fd, 3, MSG_MORE, &a, sizeof a), 3);
  FAILS(sends(fd, LONG, 0, &a, sizeof a), EMSGSIZE);
  FAILS(sends(fd, SHORT, MSG_OOB, &a, sizeof a), EOPNOTSUPP);
  IS(with_bad_control(fd, 3, MSG_MORE, &a, sizeof a), 3);
  IS(sends(fd, 3, 0, 0, 0), 3);
  char buf[16];
  IS(far_in_kernel() ? syscall(SYS_recvfrom, far, buf, sizeof buf, 0, 0, 0)
                     : recv(far, buf, sizeof buf, 0), 9);
}

/* What goes by IPv4 goes on so, whatever address of IPv6 is named. */
static void to_what_was_begun_by_ipv4(void) {
  int fd = ours(AF_INET6), far = far_socket(SOCK_DGRAM);
  SYS(far_bind(far, address(far_ip(), 0)));
  struct sockaddr_in a = far_name(far);
  struct sockaddr_in6 to = six("::ffff:0.0.0.0", ntohs(a.sin_port)), other = far6(9);
  memcpy(&to.sin6_addr.s6_addr[12], &a.sin_addr, 4);
  IS(sends(fd, 3, MSG_MORE, &to, sizeof to), 3);
  FAILS(sends(fd, LONG, 0, &other, sizeof other), EMSGSIZE);
  FAILS(sends(fd, SHORT, MSG_OOB, &other, sizeof other), EOPNOTSUPP);
  IS(sends(fd, 3, 0, &other, sizeof other), 3);
  char buf[16];
  IS(far_in_kernel() ? syscall(SYS_recvfrom, far, buf, sizeof buf, 0, 0, 0)
                     : recv(far, buf, sizeof buf, 0), 6);
}

const struct check CHECKS[] = {
    {"of_another_family", of_another_family},
    {"nowhere_to", nowhere_to},
    {"port_zero", port_zero},
    {"beside_what_is_too_long", beside_what_is_too_long},
    {"to_everybody", to_everybody},
    {"to_what_was_begun", to_what_was_begun},
    {"to_what_was_begun_by_ipv4", to_what_was_begun_by_ipv4},
    {0, 0},
};
