/* Sending and receiving. A call that would wait is made so that it does not, unless a time limit
 * ends it. */
#ifndef TRANSFER_H
#define TRANSFER_H
#include "meant.h"

enum { MOST = 70000, VECTORS = 4 };
static unsigned char out[MOST], in[MOST];

/* Bytes that no other step sends. */
static size_t fill(const struct step *s) {
  size_t n = is_stream(s->a) ? (size_t)ONE_OF(s->draw[5], 0, 1, 10, 10, 100, 1000, 4000)
                             : (size_t)ONE_OF(s->draw[5], 0, 1, 10, 10, 100, 1400, 9000);
  if (!is_stream(s->a) && s->draw[6] % 32 == 0)
    n = ONE_OF(s->draw[7], 65507, 65508, 65527, 65528, 66000);
  for (size_t i = 0; i < n; i++)
    out[i] = (s->draw[7] + i) * 2654435761u >> 24;
  return n;
}

/* Whether a socket's send buffer is smaller than Linux's default: a datagram that was begun fills that
 * on Linux, and on Longshore once it leaves. */
static int has_small_send_buffer(int fd) {
  int bytes = 0;
  socklen_t n = sizeof bytes;
  getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, &n);
  return bytes < 212992;
}

static int send_flags(const struct step *s, int fd) {
  int flags = ONE_OF(s->draw[4], 0, 0, 0, 0, MSG_NOSIGNAL, MSG_DONTWAIT, MSG_MORE, MSG_OOB,
                     MSG_EOR, MSG_DONTROUTE, MSG_CONFIRM, MSG_PEEK, MSG_ERRQUEUE);
  /* Of a stream, what is held back leaves with an acknowledgment, of which there are none
   * between two sockets of an engine; of datagrams, a child has no part in what was begun. */
  if (is_stream(s->a) || s->by == A_CHILD || has_small_send_buffer(fd))
    flags &= ~MSG_MORE;
  /* Of what meets an end that is shut down, Linux shows what is urgent there before it resets. */
  if (is_half_closed(s->a))
    flags &= ~MSG_OOB;
  return would_wait(fd, POLLOUT) ? flags | MSG_DONTWAIT : flags;
}

/* Cuts `n` bytes into pieces, some of them empty. */
static int cut(struct iovec *to, unsigned char *bytes, size_t n, uint32_t how) {
  int pieces = how % VECTORS + 1;
  size_t done = 0;
  for (int i = 0; i < pieces; i++) {
    size_t part = i == pieces - 1 ? n - done : (n - done) / (how / VECTORS % 3 + 1);
    to[i] = (struct iovec){bytes + done, part};
    done += part;
  }
  return pieces;
}

static void send_it(const struct step *s, int fd) {
  struct iovec pieces[VECTORS];
  struct sockaddr_storage to;
  size_t n = fill(s);
  int flags = send_flags(s, fd);
  struct msghdr m = {.msg_iov = pieces, .msg_iovlen = cut(pieces, out, n, s->draw[1])};
  static const char *const NAMES[] = {[SEND] = "send", [SENDTO] = "sendto", [SENDMSG] = "sendmsg",
                                      [WRITE] = "write"};
  say("%s(%zu", NAMES[s->op], n);
  if (s->op == SENDTO || (s->op == SENDMSG && s->draw[2] % 2)) {
    m.msg_namelen = make_target(&to, s), m.msg_name = &to;
    if (is_for_peer(s, fd, &to))
      m.msg_namelen = 0, m.msg_name = 0;
    /* What is begun for another than the peer, Linux takes to say where all that follows goes. */
    if (!is_stream(s->a) && m.msg_name && has_peer(fd))
      flags &= ~MSG_MORE;
    say(" to ");
    say_address(&to, m.msg_namelen);
  }
  if (s->op == WRITE && would_wait(fd, POLLOUT)) {
    say(") would wait");
    return;
  }
  if (s->op != WRITE) {
    say(", ");
    say_flags(flags & ~MSG_DONTWAIT);
  }
  say(")");
  ssize_t result;
  switch (s->op) {
  case SEND:
    result = send(fd, out, n, flags);
    break;
  case SENDTO:
    result = sendto(fd, out, n, flags, m.msg_name, m.msg_namelen);
    break;
  case SENDMSG:
    result = sendmsg(fd, &m, flags);
    break;
  default:
    result = s->draw[2] % 2 ? write(fd, out, n) : writev(fd, pieces, m.msg_iovlen);
  }
  say_result(result);
  if (result < 0 && !is_stream(s->a))
    note_socket(s->a, &shared->failed);
  if (result >= 0 && !is_stream(s->a) && flags & MSG_MORE)
    note_socket(s->a, &shared->begun);
}

static void send_file(const struct step *s, int fd) {
  /* A datagram with less than was asked for has an end of its own. */
  off_t from = s->draw[0] % (is_stream(s->a) ? 5000 : 1000);
  size_t n = ONE_OF(s->draw[1], 0, 1, 100, 3000, 9000);
  if (would_wait(fd, POLLOUT)) {
    say("sendfile would wait");
    return;
  }
  say("sendfile(%zu from %lld)", n, (long long)from);
  say_result(sendfile(fd, file_fd, &from, n));
  say(" to %lld", (long long)from);
}

static void say_control(struct msghdr *m) {
  for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
    const unsigned char *data = CMSG_DATA(c);
    size_t n = c->cmsg_len - CMSG_LEN(0);
    say(" cmsg %d/%d/%zu", c->cmsg_level, c->cmsg_type, n);
    int is_time = c->cmsg_level == SOL_SOCKET &&
                  (c->cmsg_type == SO_TIMESTAMP || c->cmsg_type == SO_TIMESTAMPNS);
    /* The original destination has a port, and the port may be anybody's. */
    int is_address = c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_RECVORIGDSTADDR;
    for (size_t i = is_address ? 4 : 0; i < n && !is_time; i++)
      say("%s%02x", i % 4 ? "" : " ", data[i]);
  }
}

static int receive_flags(const struct step *s, int fd) {
  int flags = ONE_OF(s->draw[4], 0, 0, 0, 0, 0, MSG_PEEK, MSG_PEEK, MSG_TRUNC, MSG_DONTWAIT,
                     MSG_WAITALL, MSG_OOB, MSG_ERRQUEUE, MSG_PEEK | MSG_TRUNC,
                     MSG_PEEK | MSG_WAITALL, MSG_CMSG_CLOEXEC, MSG_OOB | MSG_PEEK);
  /* For all of it one would wait that has some. */
  int waits = would_wait(fd, POLLIN) ||
              (flags & MSG_WAITALL && is_stream(s->a) && !has_limit(fd, SO_RCVTIMEO));
  return waits ? flags | MSG_DONTWAIT : flags;
}

static void receive_message(const struct step *s, int fd, size_t n, int flags) {
  struct iovec pieces[VECTORS];
  struct sockaddr_storage from = {0};
  unsigned char control[512];
  struct msghdr m = {.msg_iov = pieces, .msg_iovlen = cut(pieces, in, n, s->draw[1])};
  if (s->draw[2] % 4)
    m.msg_name = &from, m.msg_namelen = sizeof from;
  if (s->draw[3] % 4)
    m.msg_control = control, m.msg_controllen = s->draw[3] % 4 == 1 ? 24 : sizeof control;
  ssize_t got = recvmsg(fd, &m, flags);
  say_result(got);
  if (got < 0)
    return;
  say_bytes(in, (size_t)got < n ? (size_t)got : n);
  if (m.msg_name) {
    say(" from ");
    say_address(&from, m.msg_namelen);
  }
  say(" flags ");
  say_flags(m.msg_flags);
  say_control(&m);
}

static void receive_it(const struct step *s, int fd) {
  struct iovec pieces[VECTORS];
  struct sockaddr_storage from = {0};
  size_t n = ONE_OF(s->draw[5], 0, 1, 5, 10, 100, 1000, 5000, 65536);
  int flags = receive_flags(s, fd);
  static const char *const NAMES[] = {[RECV] = "recv", [RECVFROM] = "recvfrom",
                                      [RECVMSG] = "recvmsg", [READ] = "read"};
  memset(in, 0, n);
  say("%s(%zu", NAMES[s->op], n);
  if (s->op == READ && would_wait(fd, POLLIN)) {
    say(") would wait");
    return;
  }
  if (s->op != READ) {
    say(", ");
    say_flags(flags & ~MSG_DONTWAIT);
  }
  say(")");
  if (s->op == RECVMSG) {
    receive_message(s, fd, n, flags);
    return;
  }
  socklen_t length = sizeof from;
  ssize_t got;
  if (s->op == RECV)
    got = recv(fd, in, n, flags);
  else if (s->op == RECVFROM)
    got = recvfrom(fd, in, n, flags, (void *)&from, &length);
  else if (s->draw[2] % 2)
    got = read(fd, in, n);
  else
    got = readv(fd, pieces, cut(pieces, in, n, s->draw[1]));
  say_result(got);
  if (got < 0)
    return;
  say_bytes(in, (size_t)got < n ? (size_t)got : n);
  if (s->op == RECVFROM) {
    say(" from ");
    say_address(&from, length);
  }
}

#endif
