/* Several messages in a call, and bytes that go through a pipe. */
#ifndef TRANSFER_MANY_H
#define TRANSFER_MANY_H
#include "transfer.h"

enum { MESSAGES = 3, LONGEST = 1000 };

/* As many messages as a step draws, with as many bytes each, some of them in empty pieces. */
static int make_messages(const struct step *s, struct mmsghdr *m, struct iovec pieces[][VECTORS],
                         unsigned char *bytes, size_t each) {
  int count = s->draw[6] % MESSAGES + 1;
  memset(m, 0, MESSAGES * sizeof *m);
  for (int i = 0; i < count; i++) {
    m[i].msg_hdr.msg_iov = pieces[i];
    m[i].msg_hdr.msg_iovlen = cut(pieces[i], bytes + i * LONGEST, each, s->draw[1] + i);
  }
  return count;
}

static void send_many(const struct step *s, int fd) {
  struct mmsghdr m[MESSAGES];
  struct iovec pieces[MESSAGES][VECTORS];
  struct sockaddr_storage to;
  size_t n = ONE_OF(s->draw[5], 0, 1, 10, 10, 100, LONGEST);
  int flags = send_flags(s, fd) & ~(MSG_MORE | MSG_OOB);
  fill(s);
  int count = make_messages(s, m, pieces, out, n);
  /* The first is answered by a reset, before or after the second. */
  if (is_half_closed(s->a))
    count = 1;
  socklen_t length = make_target(&to, s);
  int is_to = s->draw[2] % 2 && !is_for_peer(s, fd, &to);
  if (is_for_nobody(s, fd, is_to ? &to : 0))
    count = 1;
  say("sendmmsg(%d of %zu", count, n);
  if (is_to) {
    for (int i = 0; i < count; i++)
      m[i].msg_hdr.msg_name = &to, m[i].msg_hdr.msg_namelen = length;
    say(" to ");
    say_address(&to, length);
  }
  say(", ");
  say_flags(flags & ~MSG_DONTWAIT);
  say(")");
  int result = sendmmsg(fd, m, count, flags);
  say_result(result);
  for (int i = 0; i < result; i++)
    say(" %u", m[i].msg_len);
  if (result < 0 && !is_stream(s->a))
    note_socket(s->a, &shared->failed);
}

static void receive_many(const struct step *s, int fd) {
  struct mmsghdr m[MESSAGES];
  struct iovec pieces[MESSAGES][VECTORS];
  struct sockaddr_storage from[MESSAGES] = {0};
  size_t n = ONE_OF(s->draw[5], 0, 1, 10, 100, LONGEST, LONGEST);
  int flags = ONE_OF(s->draw[4], 0, 0, MSG_WAITFORONE, MSG_PEEK, MSG_TRUNC);
  /* Without one of these it would wait for the second. */
  if (!(flags & MSG_WAITFORONE) || would_wait(fd, POLLIN))
    flags = (flags & ~MSG_WAITFORONE) | MSG_DONTWAIT;
  memset(in, 0, sizeof in);
  int count = make_messages(s, m, pieces, in, n);
  for (int i = 0; i < count; i++)
    m[i].msg_hdr.msg_name = &from[i], m[i].msg_hdr.msg_namelen = sizeof from[i];
  say("recvmmsg(%d of %zu, %#x)", count, n, flags);
  int result = recvmmsg(fd, m, count, flags, 0);
  say_result(result);
  for (int i = 0; i < result; i++) {
    say_bytes(in + i * LONGEST, m[i].msg_len < n ? m[i].msg_len : n);
    say(" from ");
    say_address(&from[i], m[i].msg_hdr.msg_namelen);
    say(" flags ");
    say_flags(m[i].msg_hdr.msg_flags);
  }
}

/* Puts `n` bytes into a pipe: by a write, from memory that stays the program's, or by way of
 * another pipe. */
static void fill_pipe(int pipe_fd, size_t n, uint32_t how) {
  struct iovec piece = {.iov_len = n};
  int other[2];
  ssize_t done = -1;
  switch (how % 4) {
  case 0:
    /* Nothing else is ever put there: what has received it may still have it. */
    piece.iov_base = mmap(0, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (piece.iov_base == MAP_FAILED)
      exit(1);
    memcpy(piece.iov_base, out, n);
    say("vmsplice, ");
    done = vmsplice(pipe_fd, &piece, 1, 0);
    break;
  case 1:
    say("tee, ");
    if (pipe(other) == 0 && write(other[1], out, n) == (ssize_t)n)
      done = tee(other[0], pipe_fd, n, 0);
    close(other[0]);
    close(other[1]);
    break;
  default:
    done = write(pipe_fd, out, n);
  }
  if (done != (ssize_t)n)
    say("a pipe is full ");
}

/* From a pipe to the socket. */
static void splice_in(const struct step *s, int fd) {
  size_t n = ONE_OF(s->draw[5], 1, 10, 100, 3000);
  int pipes[2];
  if (!is_stream(s->a) || would_wait(fd, POLLOUT) || pipe(pipes)) {
    say("splice left out");
    return;
  }
  fill(s);
  fill_pipe(pipes[1], n, s->draw[2]);
  say("splice(%zu to it)", n);
  say_result(splice(pipes[0], 0, fd, 0, n, s->draw[1] % 2 ? SPLICE_F_NONBLOCK : 0));
  int left = 0;
  ioctl(pipes[0], FIONREAD, &left);
  say(" left %d", left);
  close(pipes[0]);
  close(pipes[1]);
}

/* From the socket to a pipe. */
static void splice_out(const struct step *s, int fd) {
  size_t n = ONE_OF(s->draw[5], 1, 10, 100, 3000, 10000);
  int pipes[2];
  if (!is_stream(s->a) || would_wait(fd, POLLIN) || pipe(pipes)) {
    say("splice left out");
    return;
  }
  say("splice(%zu from it)", n);
  ssize_t got = splice(fd, 0, pipes[1], 0, n, s->draw[1] % 2 ? SPLICE_F_NONBLOCK : 0);
  say_result(got);
  int other[2];
  if (got > 0 && s->draw[2] % 3 == 0 && pipe(other) == 0) {
    /* Also seen through another pipe, and still in this one. */
    ssize_t seen = tee(pipes[0], other[1], n, SPLICE_F_NONBLOCK);
    say(" tee %zd", seen);
    if (seen > 0 && read(other[0], in, sizeof in) == seen)
      say_bytes(in, seen);
    close(other[0]);
    close(other[1]);
  }
  if (got > 0 && read(pipes[0], in, sizeof in) == got)
    say_bytes(in, got);
  close(pipes[0]);
  close(pipes[1]);
}

#endif
