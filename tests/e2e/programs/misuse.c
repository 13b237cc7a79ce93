/* Calls with arguments that make no sense: the errno that Linux gives, in the order in
 * which it looks. */
#include "check.h"
#include "nowhere.h"
#include <netinet/udp.h>

enum { STREAM, DATAGRAM, KINDS };
/* New, bound, listening or connected. */
enum { NEW, BOUND, READY, STATES };

static struct sockaddr_in somewhere(int kind) {
  int far = far_socket(kind == STREAM ? SOCK_STREAM : SOCK_DGRAM);
  SYS(far_bind(far, address(far_ip(), 0)));
  if (kind == STREAM)
    SYS(far_in_kernel() ? syscall(SYS_listen, far, 8) : listen(far, 8));
  return far_name(far); /* it stays */
}

static int in_state(int kind, int state) {
  int fd = SYS(socket(AF_INET, kind == STREAM ? SOCK_STREAM : SOCK_DGRAM, 0));
  if (state != NEW) {
    struct sockaddr_in a = address(my_ip(), 0);
    SYS(bind(fd, A(a)));
  }
  if (state == READY) {
    struct sockaddr_in to = somewhere(kind);
    SYS(connect(fd, A(to)));
  }
  return fd;
}

#define EACH(kind, state, fd)                                                  \
  for (int kind = 0; kind < KINDS; kind++)                                     \
    for (int state = 0, fd = -1; state < STATES && (fd = in_state(kind, state), 1); state++, close(fd))

/* The call on a socket of each kind in each state gives these, in this order; 0 for
 * success. */
#define GIVES(call, ...)                                                       \
  do {                                                                         \
    static const int all_[KINDS * STATES] = {__VA_ARGS__};                     \
    EACH(kind_, state_, fd) {                                                  \
      errno = 0;                                                               \
      int failed_ = (long)(call) == -1, should_ = all_[kind_ * STATES + state_]; \
      if (failed_ != (should_ != 0) || (failed_ && errno != should_))          \
        wrong_ += printf("%s on %s %s socket: %s, not %s\n", #call,            \
                         state_ == NEW ? "a new" : state_ == BOUND ? "a bound" : "a connected", \
                         kind_ == STREAM ? "stream" : "datagram",              \
                         failed_ ? strerrorname_np(errno) : "success",         \
                         should_ ? strerrorname_np(should_) : "success") > 0;  \
    }                                                                          \
  } while (0)

static int wrong_;

static void done(void) {
  if (wrong_)
    FAIL("%d calls differ", wrong_);
}

/* Not known to the compiler. */
static void *volatile nowhere = (void *)8;
static char buf[70000];
static struct sockaddr_storage name;
static socklen_t len;

static socklen_t *of(int n) {
  len = n;
  return &len;
}

static void waiting(void) {
  GIVES(listen(fd, 1), 0, 0, EINVAL, EOPNOTSUPP, EOPNOTSUPP, EOPNOTSUPP);
  GIVES(accept(fd, 0, 0), EINVAL, EINVAL, EINVAL, EOPNOTSUPP, EOPNOTSUPP, EOPNOTSUPP);
  GIVES(accept4(fd, 0, 0, 1 << 30), EINVAL, EINVAL, EINVAL, EINVAL, EINVAL, EINVAL);
  GIVES(shutdown(fd, 3), EINVAL, EINVAL, EINVAL, EINVAL, EINVAL, EINVAL);
  GIVES(shutdown(fd, -1), EINVAL, EINVAL, EINVAL, EINVAL, EINVAL, EINVAL);
  GIVES(shutdown(fd, SHUT_RD), ENOTCONN, ENOTCONN, 0, ENOTCONN, ENOTCONN, 0);
  done();
}

static void names(void) {
  GIVES(getsockname(fd, (void *)&name, of(-1)), EINVAL, EINVAL, EINVAL, EINVAL, EINVAL, EINVAL);
  EACH_NOWHERE(nowhere)
    GIVES(getsockname(fd, (void *)&name, nowhere), EFAULT, EFAULT, EFAULT, EFAULT, EFAULT, EFAULT);
  EACH_NOWHERE(nowhere)
    GIVES(getsockname(fd, nowhere, of(16)), EFAULT, EFAULT, EFAULT, EFAULT, EFAULT, EFAULT);
  EACH_NOWHERE(nowhere)
    GIVES(getsockname(fd, nowhere, of(0)), 0, 0, 0, 0, 0, 0);
  GIVES((getsockname(fd, NULL, of(0)) || len != sizeof(struct sockaddr_in) ? -1 : 0), 0, 0, 0, 0, 0, 0);
  GIVES((getpeername(fd, NULL, of(0)) || len != sizeof(struct sockaddr_in) ? -1 : 0), ENOTCONN, ENOTCONN, 0, ENOTCONN, ENOTCONN, 0);
  GIVES(getpeername(fd, (void *)&name, of(-1)), ENOTCONN, ENOTCONN, EINVAL, ENOTCONN, ENOTCONN, EINVAL);
  EACH_NOWHERE(nowhere)
    GIVES(getpeername(fd, nowhere, of(16)), ENOTCONN, ENOTCONN, EFAULT, ENOTCONN, ENOTCONN, EFAULT);
  done();
}

static void addresses(void) {
  static struct sockaddr_in a, b, c;
  a = address(my_ip(), 0), b = address("198.51.100.9", 0), c = address(far_ip(), 9);
  struct sockaddr_in6 six = {.sin6_family = AF_INET6};
  struct sockaddr_un local = {.sun_family = AF_UNIX, .sun_path = "/nowhere"};
  GIVES(bind(fd, (void *)&a, -1), EINVAL, EINVAL, EINVAL, EINVAL, EINVAL, EINVAL);
  GIVES(bind(fd, (void *)&a, 8), EINVAL, EINVAL, EINVAL, EINVAL, EINVAL, EINVAL);
  GIVES(bind(fd, (void *)&a, 200), EINVAL, EINVAL, EINVAL, EINVAL, EINVAL, EINVAL);
  EACH_NOWHERE(nowhere)
    GIVES(bind(fd, nowhere, 16), EFAULT, EFAULT, EFAULT, EFAULT, EFAULT, EFAULT);
  GIVES(bind(fd, A(local)), EAFNOSUPPORT, EAFNOSUPPORT, EAFNOSUPPORT, EAFNOSUPPORT, EAFNOSUPPORT, EAFNOSUPPORT);
  GIVES(bind(fd, A(six)), EAFNOSUPPORT, EAFNOSUPPORT, EAFNOSUPPORT, EAFNOSUPPORT, EAFNOSUPPORT, EAFNOSUPPORT);
  GIVES(bind(fd, A(b)), EADDRNOTAVAIL, EADDRNOTAVAIL, EADDRNOTAVAIL, EADDRNOTAVAIL, EADDRNOTAVAIL, EADDRNOTAVAIL);
  GIVES(bind(fd, A(a)), 0, EINVAL, EINVAL, 0, EINVAL, EINVAL);
  GIVES(connect(fd, (void *)&c, -1), EINVAL, EINVAL, EINVAL, EINVAL, EINVAL, EINVAL);
  GIVES(connect(fd, (void *)&c, 8), EINVAL, EINVAL, EISCONN, EINVAL, EINVAL, EINVAL);
  GIVES(connect(fd, (void *)&c, 1), EINVAL, EINVAL, EINVAL, EINVAL, EINVAL, EINVAL);
  EACH_NOWHERE(nowhere)
    GIVES(connect(fd, nowhere, 16), EFAULT, EFAULT, EFAULT, EFAULT, EFAULT, EFAULT);
  GIVES(connect(fd, A(local)), EAFNOSUPPORT, EAFNOSUPPORT, EISCONN, EAFNOSUPPORT, EAFNOSUPPORT, EAFNOSUPPORT);
  GIVES(connect(fd, A(six)), EAFNOSUPPORT, EAFNOSUPPORT, EISCONN, EAFNOSUPPORT, EAFNOSUPPORT, EAFNOSUPPORT);
  done();
}

static ssize_t message(int fd, int sends, struct msghdr m, int flags) {
  return sends ? sendmsg(fd, &m, flags | MSG_NOSIGNAL) : recvmsg(fd, &m, flags | MSG_DONTWAIT);
}

static void sending(void) {
  static struct sockaddr_in to, none;
  to = address(far_ip(), 9), none = address(far_ip(), 0);
  enum { QUIET = MSG_NOSIGNAL | MSG_DONTWAIT };
  GIVES(send(fd, "x", 1, QUIET), EPIPE, EPIPE, 0, EDESTADDRREQ, EDESTADDRREQ, 0);
  EACH_NOWHERE(nowhere) if (nowhere != KERNELS)
    GIVES(send(fd, nowhere, 1, QUIET), EPIPE, EPIPE, EFAULT, EDESTADDRREQ, EDESTADDRREQ, EFAULT);
  GIVES(send(fd, "x", 1, QUIET | MSG_OOB), EPIPE, EPIPE, 0, EOPNOTSUPP, EOPNOTSUPP, EOPNOTSUPP);
  GIVES(send(fd, buf, 70000, QUIET | MSG_OOB), EPIPE, EPIPE, 0, EMSGSIZE, EMSGSIZE, EMSGSIZE);
  GIVES(sendto(fd, "x", 1, QUIET, (void *)&to, -1), EINVAL, EINVAL, EINVAL, EINVAL, EINVAL, EINVAL);
  GIVES(sendto(fd, "x", 1, QUIET, (void *)&to, 200), EINVAL, EINVAL, EINVAL, EINVAL, EINVAL, EINVAL);
  GIVES(sendto(fd, "x", 1, QUIET, (void *)&to, 8), EPIPE, EPIPE, 0, EINVAL, EINVAL, EINVAL);
  EACH_NOWHERE(nowhere)
    GIVES(sendto(fd, "x", 1, QUIET, nowhere, 16), EFAULT, EFAULT, EFAULT, EFAULT, EFAULT, EFAULT);
  GIVES(sendto(fd, "x", 1, QUIET, A(none)), EPIPE, EPIPE, 0, EINVAL, EINVAL, EINVAL);
  EACH_NOWHERE(nowhere) if (nowhere != KERNELS)
    GIVES(sendto(fd, nowhere, 1, QUIET, A(to)), EPIPE, EPIPE, EFAULT, EFAULT, EFAULT, EFAULT);
  struct iovec v = {buf, 1}, bad = {buf, -1}, off = {nowhere, 1};
  GIVES(message(fd, 1, (struct msghdr){.msg_iov = &v, .msg_iovlen = 2000}, 0), EMSGSIZE, EMSGSIZE, EMSGSIZE, EMSGSIZE, EMSGSIZE, EMSGSIZE);
  GIVES(message(fd, 1, (struct msghdr){.msg_iov = &bad, .msg_iovlen = 1}, 0), EINVAL, EINVAL, EINVAL, EINVAL, EINVAL, EINVAL);
  EACH_NOWHERE(nowhere)
    GIVES(message(fd, 1, (struct msghdr){.msg_iov = nowhere, .msg_iovlen = 1}, 0), EFAULT, EFAULT, EFAULT, EFAULT, EFAULT, EFAULT);
  GIVES(message(fd, 1, (struct msghdr){.msg_name = &to, .msg_namelen = -1, .msg_iov = &v, .msg_iovlen = 1}, 0), EINVAL, EINVAL, EINVAL, EINVAL, EINVAL, EINVAL);
  GIVES(message(fd, 1, (struct msghdr){.msg_name = &to, .msg_namelen = sizeof to, .msg_iov = &off, .msg_iovlen = 1}, 0), EPIPE, EPIPE, EFAULT, EFAULT, EFAULT, EFAULT);
  EACH_NOWHERE(nowhere)
    GIVES(sendmmsg(fd, nowhere, 1, 0), EFAULT, EFAULT, EFAULT, EFAULT, EFAULT, EFAULT);
  EACH_NOWHERE(nowhere)
    GIVES(sendmmsg(fd, nowhere, 0, 0), 0, 0, 0, 0, 0, 0);
  done();
}

static void receiving(void) {
  enum { NOW = MSG_DONTWAIT };
  GIVES(recv(fd, buf, 1, NOW), ENOTCONN, ENOTCONN, EAGAIN, EAGAIN, EAGAIN, EAGAIN);
  GIVES(recv(fd, buf, 1, NOW | MSG_OOB), EINVAL, EINVAL, EINVAL, EAGAIN, EAGAIN, EAGAIN);
  GIVES(recv(fd, buf, 1, NOW | MSG_ERRQUEUE), EAGAIN, EAGAIN, EAGAIN, EAGAIN, EAGAIN, EAGAIN);
  GIVES(recv(fd, buf, 0, NOW), ENOTCONN, ENOTCONN, EAGAIN, EAGAIN, EAGAIN, EAGAIN);
  GIVES(recv(fd, NULL, 0, NOW), ENOTCONN, ENOTCONN, EAGAIN, EAGAIN, EAGAIN, EAGAIN);
  GIVES(recvfrom(fd, buf, 1, NOW, (void *)&name, of(-1)), ENOTCONN, ENOTCONN, EAGAIN, EAGAIN, EAGAIN, EAGAIN);
  struct iovec v = {buf, 1}, bad = {buf, -1};
  GIVES(message(fd, 0, (struct msghdr){.msg_iov = &v, .msg_iovlen = 2000}, 0), EMSGSIZE, EMSGSIZE, EMSGSIZE, EMSGSIZE, EMSGSIZE, EMSGSIZE);
  GIVES(message(fd, 0, (struct msghdr){.msg_iov = &bad, .msg_iovlen = 1}, 0), EINVAL, EINVAL, EINVAL, EINVAL, EINVAL, EINVAL);
  EACH_NOWHERE(nowhere)
    GIVES(message(fd, 0, (struct msghdr){.msg_iov = nowhere, .msg_iovlen = 1}, 0), EFAULT, EFAULT, EFAULT, EFAULT, EFAULT, EFAULT);
  GIVES(message(fd, 0, (struct msghdr){.msg_name = &name, .msg_namelen = -1, .msg_iov = &v, .msg_iovlen = 1}, 0), EINVAL, EINVAL, EINVAL, EINVAL, EINVAL, EINVAL);
  EACH_NOWHERE(nowhere)
    GIVES(recvmmsg(fd, nowhere, 1, NOW, 0), EFAULT, EFAULT, EFAULT, EFAULT, EFAULT, EFAULT);
  struct timespec never = {0, -1};
  EACH_NOWHERE(nowhere)
    GIVES(recvmmsg(fd, nowhere, 1, NOW, &never), EINVAL, EINVAL, EINVAL, EINVAL, EINVAL, EINVAL);
  done();
}

static void options(void) {
  static int one = 1;
  GIVES(setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, -1), EINVAL, EINVAL, EINVAL, EINVAL, EINVAL, EINVAL);
  GIVES(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &one, -1), EINVAL, EINVAL, EINVAL, EINVAL, EINVAL, EINVAL);
  GIVES(setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, 3), EINVAL, EINVAL, EINVAL, EINVAL, EINVAL, EINVAL);
  EACH_NOWHERE(nowhere)
    GIVES(setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, nowhere, 4), EFAULT, EFAULT, EFAULT, EFAULT, EFAULT, EFAULT);
  GIVES(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, -1), EINVAL, EINVAL, EINVAL, EINVAL, EINVAL, EINVAL);
  GIVES(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, 4), 0, 0, 0, ENOPROTOOPT, ENOPROTOOPT, ENOPROTOOPT);
  GIVES(setsockopt(fd, IPPROTO_UDP, UDP_CORK, &one, 4), ENOPROTOOPT, ENOPROTOOPT, ENOPROTOOPT, 0, 0, 0);
  GIVES(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, 4), ENOPROTOOPT, ENOPROTOOPT, ENOPROTOOPT, ENOPROTOOPT, ENOPROTOOPT, ENOPROTOOPT);
  GIVES(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_TTL, &one, 4), EINVAL, EINVAL, EINVAL, 0, 0, 0);
  GIVES(setsockopt(fd, SOL_SOCKET, SO_TYPE, &one, 4), ENOPROTOOPT, ENOPROTOOPT, ENOPROTOOPT, ENOPROTOOPT, ENOPROTOOPT, ENOPROTOOPT);
  GIVES(getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, of(-1)), EINVAL, EINVAL, EINVAL, EINVAL, EINVAL, EINVAL);
  GIVES(getsockopt(fd, SOL_SOCKET, SO_ERROR, &one, of(-1)), EINVAL, EINVAL, EINVAL, EINVAL, EINVAL, EINVAL);
  EACH_NOWHERE(nowhere)
    GIVES(getsockopt(fd, SOL_SOCKET, SO_ERROR, &one, nowhere), EFAULT, EFAULT, EFAULT, EFAULT, EFAULT, EFAULT);
  EACH_NOWHERE(nowhere)
    GIVES(getsockopt(fd, SOL_SOCKET, SO_ERROR, nowhere, of(4)), EFAULT, EFAULT, EFAULT, EFAULT, EFAULT, EFAULT);
  GIVES(getsockopt(fd, IPPROTO_TCP, TCP_INFO, buf, of(-1)), EINVAL, EINVAL, EINVAL, EOPNOTSUPP, EOPNOTSUPP, EOPNOTSUPP);
  GIVES(getsockopt(fd, IPPROTO_IP, IP_MTU, &one, of(4)), ENOTCONN, ENOTCONN, 0, ENOTCONN, ENOTCONN, 0);
  done();
}

/* What a socket of IPv6 says to becoming one of IPv4. */
static void address_form(void) {
  int four = AF_INET, six = AF_INET6;
  struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_port = htons(9)};
  IS(inet_pton(AF_INET6, getenv("FAR_ADDR6") ? getenv("FAR_ADDR6") : "::1", &to.sin6_addr), 1);
  int fd = SYS(socket(AF_INET6, SOCK_DGRAM, 0));
  FAILS(setsockopt(fd, IPPROTO_IPV6, IPV6_ADDRFORM, &four, sizeof four), ENOTCONN);
  SYS(connect(fd, A(to)));
  FAILS(setsockopt(fd, IPPROTO_IPV6, IPV6_ADDRFORM, &six, sizeof six), EINVAL);
  FAILS(setsockopt(fd, IPPROTO_IPV6, IPV6_ADDRFORM, &four, sizeof four), EADDRNOTAVAIL);
  /* One of IPv4 has no such option. */
  EACH_PAIR(mine, far)
    FAILS(setsockopt(mine, IPPROTO_IPV6, IPV6_ADDRFORM, &four, sizeof four), ENOPROTOOPT);
}

/* Numbers of interfaces that are none. */
static void interfaces_that_are_none(void) {
  enum { BINDTOIFINDEX = 62 /* SO_BINDTOIFINDEX */ };
  int below = -1, one = 1;
  EACH_PAIR(mine, far) {
    FAILS(setsockopt(mine, SOL_SOCKET, BINDTOIFINDEX, &below, sizeof below), EINVAL);
    FAILS(setsockopt(mine, SOL_SOCKET, BINDTOIFINDEX, &one, 1), EINVAL);
    FAILS(setsockopt(mine, SOL_SOCKET, BINDTOIFINDEX, &one, 0), EINVAL);
    IS(option(mine, SOL_SOCKET, BINDTOIFINDEX), 0);
  }
}

/* A set of this descriptor alone. */
static fd_set *only(int fd, fd_set *set) {
  FD_ZERO(set);
  FD_SET(fd, set);
  return set;
}

/* Memory that is not there, in calls that read it, or wait: what it was for is not done. */
static void memory_that_is_not_there(void) {
  static struct pollfd one;
  static struct epoll_event event;
  static struct mmsghdr several;
  static struct iovec part;
  static struct timespec no_time;
  static struct timeval at_once;
  static fd_set set;
  int ep = SYS(epoll_create1(0)), file = SYS(open("/proc/self/exe", O_RDONLY)), pipes[2], unix_ends[2];
  SYS(pipe(pipes));
  SYS(socketpair(AF_UNIX, SOCK_STREAM, 0, unix_ends));
  part = (struct iovec){buf, 1};
  several.msg_hdr = (struct msghdr){.msg_iov = &part, .msg_iovlen = 1};
#define ALL_FAULT EFAULT, EFAULT, EFAULT, EFAULT, EFAULT, EFAULT
  EACH_NOWHERE(nowhere) {
    GIVES(epoll_ctl(ep, EPOLL_CTL_ADD, fd, nowhere), ALL_FAULT);
    GIVES(epoll_ctl(ep, EPOLL_CTL_MOD, fd, nowhere), ALL_FAULT);
    GIVES((epoll_ctl(ep, EPOLL_CTL_ADD, fd, &event), epoll_pwait(ep, &event, 1, 0, nowhere)), ALL_FAULT);
    GIVES((epoll_ctl(ep, EPOLL_CTL_ADD, fd, &event), epoll_pwait2(ep, &event, 1, nowhere, 0)), ALL_FAULT);
    GIVES((one.fd = fd, ppoll(&one, 1, &no_time, nowhere)), ALL_FAULT);
    GIVES(select(fd + 1, only(fd, &set), nowhere, 0, &at_once), ALL_FAULT);
    GIVES(recvmmsg(fd, &several, 1, MSG_DONTWAIT, nowhere), ALL_FAULT);
    GIVES(message(fd, 1, (struct msghdr){.msg_iov = &part, .msg_iovlen = 1, .msg_control = nowhere, .msg_controllen = 32}, 0), ALL_FAULT);
    GIVES(message(unix_ends[0], 1, (struct msghdr){.msg_iov = &part, .msg_iovlen = 1, .msg_control = nowhere, .msg_controllen = 32}, 0), ALL_FAULT);
    GIVES(sendfile(fd, file, nowhere, 1), ALL_FAULT);
    GIVES(ioctl(fd, 0x8912 /* SIOCGIFCONF */, nowhere), ALL_FAULT);
    if (nowhere != KERNELS) {
      GIVES(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, nowhere, 4), EINVAL, EINVAL, EINVAL, EFAULT, EFAULT, EFAULT);
      GIVES(setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, nowhere, 12), EPROTO, EPROTO, EPROTO, EFAULT, EFAULT, EFAULT);
    }
    GIVES(splice(fd, nowhere, pipes[1], 0, 1, 0), ALL_FAULT);
    GIVES(splice(fd, 0, pipes[1], nowhere, 1, 0), ESPIPE, ESPIPE, ESPIPE, ESPIPE, ESPIPE, ESPIPE);
  }
  done();
}

/* What goes beside bytes that are sent on a connection is looked at, too. */
static void beside_a_stream(void) {
  struct iovec part = {"x", 1};
  static union {
    struct cmsghdr head;
    char bytes[200000];
  } beside;
  EACH_PAIR(mine, far) {
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &beside, .msg_controllen = 20};
    for (int way = 0; way < 4; way++) {
      beside.head = (struct cmsghdr){.cmsg_len = 20, .cmsg_level = IPPROTO_IP, .cmsg_type = IP_TTL};
      if (way == 1)
        beside.head.cmsg_len = 100;
      if (way == 2)
        beside.head.cmsg_len = 3;
      if (way == 3)
        beside.head.cmsg_level = SOL_SOCKET, beside.head.cmsg_type = 99;
      if (way == 0)
        IS(sendmsg(mine, &m, 0), 1);
      else
        FAILS(sendmsg(mine, &m, 0), EINVAL);
    }
    m.msg_controllen = sizeof beside;
    FAILS(sendmsg(mine, &m, 0), ENOBUFS);
    m.msg_controllen = -1;
    FAILS(sendmsg(mine, &m, 0), ENOBUFS);
    m.msg_control = 0, m.msg_controllen = 20;
    FAILS(sendmsg(mine, &m, 0), EFAULT);
  }
}

/* Memory that may be read and not written: what a call only reads may be there, and where it wants to
 * write it fails, and takes nothing. */
static void memory_that_is_not_written(void) {
  char *page = page_of(PROT_READ | PROT_WRITE);
  struct sockaddr_in *somebody = (void *)page;
  struct pollfd *polled = (void *)(page + 64);
  struct epoll_event *event = (void *)(page + 128);
  fd_set *selected = (void *)(page + 256);
  struct msghdr *m = (void *)(page + 512);
  struct iovec *part = (void *)(page + 640);
  int *one = (void *)(page + 1024);
  socklen_t *length = (void *)(page + 1028);
  int listener = my_listener(8);
  EACH_PAIR(mine, far) {
    struct sockaddr_in here = name_of(listener);
    SYS(mprotect(page, PAGE_SIZE, PROT_READ | PROT_WRITE));
    *somebody = here, *one = 1, *length = sizeof here;
    *polled = (struct pollfd){mine, POLLOUT, 0};
    *event = (struct epoll_event){.events = EPOLLOUT};
    FD_ZERO(selected);
    FD_SET(mine, selected);
    *part = (struct iovec){page + 2048, 4};
    *m = (struct msghdr){.msg_iov = part, .msg_iovlen = 1};
    memcpy(page + 2048, "read", 4);
    SYS(mprotect(page, PAGE_SIZE, PROT_READ));
    int called = SYS(socket(AF_INET, SOCK_STREAM, 0));
    SYS(setsockopt(called, SOL_SOCKET, SO_KEEPALIVE, one, sizeof *one));
    SYS(connect(called, (struct sockaddr *)somebody, sizeof *somebody));
    IS(send(mine, page + 2048, 4, 0), 4);
    IS(writev(mine, part, 1), 4);
    IS(sendmsg(mine, m, 0), 4);
    SYS(ioctl(mine, FIONBIO, one));
    int ep = SYS(epoll_create1(0));
    SYS(epoll_ctl(ep, EPOLL_CTL_ADD, mine, event));
    char got[16];
    receive_all(far, got, 12);
    OK(memcmp(got, "readreadread", 12) == 0);
    send_all(far, "data", 4);
    OK(ready(mine, POLLIN, 10000));
    FAILS(recv(mine, page, 4, 0), EFAULT);
    FAILS(read(mine, page, 4), EFAULT);
    FAILS(readv(mine, part, 1), EFAULT);
    FAILS(recvmsg(mine, &(struct msghdr){.msg_iov = part, .msg_iovlen = 1}, 0), EFAULT);
    FAILS(getsockname(mine, (struct sockaddr *)somebody, &(socklen_t){16}), EFAULT);
    FAILS(getpeername(mine, (struct sockaddr *)somebody, &(socklen_t){16}), EFAULT);
    FAILS(getsockname(mine, (struct sockaddr *)&here, length), EFAULT);
    FAILS(getsockopt(mine, SOL_SOCKET, SO_TYPE, one, &(socklen_t){4}), EFAULT);
    FAILS(getsockopt(mine, SOL_SOCKET, SO_TYPE, got, length), EFAULT);
    FAILS(ioctl(mine, FIONREAD, one), EFAULT);
    FAILS(poll(polled, 1, 0), EFAULT);
    FAILS(select(mine + 1, NULL, selected, NULL, &(struct timeval){0}), EFAULT);
    FAILS(epoll_wait(ep, event, 1, 0), EFAULT);
    FAILS(accept(listener, (struct sockaddr *)somebody, &(socklen_t){16}), EFAULT);
    receive_all(mine, got, 4);
    OK(memcmp(got, "data", 4) == 0);
    SYS(close(ep)), SYS(close(called));
  }
  SYS(close(listener)), SYS(munmap(page, PAGE_SIZE));
}

/* Nothing is closed by a call that fails. */
static void closing(void) {
  GIVES((close_range(fd, fd, 8) == -1 ? fcntl(fd, F_GETFD) : -1), 0, 0, 0, 0, 0, 0);
  GIVES(close_range(fd, fd, 8), EINVAL, EINVAL, EINVAL, EINVAL, EINVAL, EINVAL);
  GIVES(close_range(fd, fd - 1, 0), EINVAL, EINVAL, EINVAL, EINVAL, EINVAL, EINVAL);
  GIVES((close_range(fd, fd, 0), fcntl(fd, F_GETFD)), EBADF, EBADF, EBADF, EBADF, EBADF, EBADF);
  done();
}

const struct check CHECKS[] = {
    {"waiting", waiting},
    {"names", names},
    {"addresses", addresses},
    {"sending", sending},
    {"receiving", receiving},
    {"options", options},
    {"address_form", address_form},
    {"interfaces_that_are_none", interfaces_that_are_none},
    {"memory_that_is_not_there", memory_that_is_not_there},
    {"memory_that_is_not_written", memory_that_is_not_written},
    {"closing", closing},
    {"beside_a_stream", beside_a_stream},
    {0, 0},
};
