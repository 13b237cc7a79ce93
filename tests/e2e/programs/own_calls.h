/* Put before a program of checks (-include): what it asks the kernel for it asks by system calls
 * of its own, not by libc's functions, as programs of Go, of Rust with rustix and of Zig do. */
#include "check.h"

#define OWN_(number, a, b, c, d, e, f)                                                             \
  raw_syscall(number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

static inline int own_socket(int a, int b, int c) {
  return OWN_(SYS_socket, a, b, c, 0, 0, 0);
}
#define socket own_socket
static inline int own_bind(int a, const struct sockaddr *b, socklen_t c) {
  return OWN_(SYS_bind, a, b, c, 0, 0, 0);
}
#define bind own_bind
static inline int own_listen(int a, int b) {
  return OWN_(SYS_listen, a, b, 0, 0, 0, 0);
}
#define listen own_listen
static inline int own_accept(int a, struct sockaddr *b, socklen_t *c) {
  return OWN_(SYS_accept, a, b, c, 0, 0, 0);
}
#define accept own_accept
static inline int own_accept4(int a, struct sockaddr *b, socklen_t *c, int d) {
  return OWN_(SYS_accept4, a, b, c, d, 0, 0);
}
#define accept4 own_accept4
static inline int own_connect(int a, const struct sockaddr *b, socklen_t c) {
  return OWN_(SYS_connect, a, b, c, 0, 0, 0);
}
#define connect own_connect
static inline int own_shutdown(int a, int b) {
  return OWN_(SYS_shutdown, a, b, 0, 0, 0, 0);
}
#define shutdown own_shutdown
static inline int own_getsockname(int a, struct sockaddr *b, socklen_t *c) {
  return OWN_(SYS_getsockname, a, b, c, 0, 0, 0);
}
#define getsockname own_getsockname
static inline int own_getpeername(int a, struct sockaddr *b, socklen_t *c) {
  return OWN_(SYS_getpeername, a, b, c, 0, 0, 0);
}
#define getpeername own_getpeername
static inline int own_getsockopt(int a, int b, int c, void *d, socklen_t *e) {
  return OWN_(SYS_getsockopt, a, b, c, d, e, 0);
}
#define getsockopt own_getsockopt
static inline int own_setsockopt(int a, int b, int c, const void *d, socklen_t e) {
  return OWN_(SYS_setsockopt, a, b, c, d, e, 0);
}
#define setsockopt own_setsockopt
static inline ssize_t own_send(int a, const void *b, size_t c, int d) {
  return OWN_(SYS_sendto, a, b, c, d, 0, 0);
}
#define send own_send
static inline ssize_t own_recv(int a, void *b, size_t c, int d) {
  return OWN_(SYS_recvfrom, a, b, c, d, 0, 0);
}
#define recv own_recv
static inline ssize_t own_sendto(int a, const void *b, size_t c, int d, const struct sockaddr *e, socklen_t f) {
  return OWN_(SYS_sendto, a, b, c, d, e, f);
}
#define sendto own_sendto
static inline ssize_t own_recvfrom(int a, void *b, size_t c, int d, struct sockaddr *e, socklen_t *f) {
  return OWN_(SYS_recvfrom, a, b, c, d, e, f);
}
#define recvfrom own_recvfrom
static inline ssize_t own_sendmsg(int a, const struct msghdr *b, int c) {
  return OWN_(SYS_sendmsg, a, b, c, 0, 0, 0);
}
#define sendmsg own_sendmsg
static inline ssize_t own_recvmsg(int a, struct msghdr *b, int c) {
  return OWN_(SYS_recvmsg, a, b, c, 0, 0, 0);
}
#define recvmsg own_recvmsg
static inline int own_sendmmsg(int a, struct mmsghdr *b, unsigned c, int d) {
  return OWN_(SYS_sendmmsg, a, b, c, d, 0, 0);
}
#define sendmmsg own_sendmmsg
static inline int own_recvmmsg(int a, struct mmsghdr *b, unsigned c, int d, struct timespec *e) {
  return OWN_(SYS_recvmmsg, a, b, c, d, e, 0);
}
#define recvmmsg own_recvmmsg
static inline ssize_t own_read(int a, void *b, size_t c) {
  return OWN_(SYS_read, a, b, c, 0, 0, 0);
}
#define read own_read
static inline ssize_t own_write(int a, const void *b, size_t c) {
  return OWN_(SYS_write, a, b, c, 0, 0, 0);
}
#define write own_write
static inline ssize_t own_readv(int a, const struct iovec *b, int c) {
  return OWN_(SYS_readv, a, b, c, 0, 0, 0);
}
#define readv own_readv
static inline ssize_t own_writev(int a, const struct iovec *b, int c) {
  return OWN_(SYS_writev, a, b, c, 0, 0, 0);
}
#define writev own_writev
static inline int own_close(int a) {
  return OWN_(SYS_close, a, 0, 0, 0, 0, 0);
}
#define close own_close
static inline int own_dup(int a) {
  return OWN_(SYS_dup, a, 0, 0, 0, 0, 0);
}
#define dup own_dup
static inline int own_dup2(int a, int b) {
  return OWN_(SYS_dup2, a, b, 0, 0, 0, 0);
}
#define dup2 own_dup2
static inline int own_dup3(int a, int b, int c) {
  return OWN_(SYS_dup3, a, b, c, 0, 0, 0);
}
#define dup3 own_dup3
static inline ssize_t own_sendfile(int a, int b, off_t *c, size_t d) {
  return OWN_(SYS_sendfile, a, b, c, d, 0, 0);
}
#define sendfile own_sendfile
static inline ssize_t own_splice(int a, off_t *b, int c, off_t *d, size_t e, unsigned f) {
  return OWN_(SYS_splice, a, b, c, d, e, f);
}
#define splice own_splice
static inline int own_epoll_create1(int a) {
  return OWN_(SYS_epoll_create1, a, 0, 0, 0, 0, 0);
}
#define epoll_create1 own_epoll_create1
static inline int own_epoll_ctl(int a, int b, int c, struct epoll_event *d) {
  return OWN_(SYS_epoll_ctl, a, b, c, d, 0, 0);
}
#define epoll_ctl own_epoll_ctl
static inline int own_epoll_wait(int a, struct epoll_event *b, int c, int d) {
  return OWN_(SYS_epoll_wait, a, b, c, d, 0, 0);
}
#define epoll_wait own_epoll_wait
static inline int own_epoll_pwait(int a, struct epoll_event *b, int c, int d, const sigset_t *e) {
  return OWN_(SYS_epoll_pwait, a, b, c, d, e, 8);
}
#define epoll_pwait own_epoll_pwait
static inline int own_poll(struct pollfd *a, nfds_t b, int c) {
  return OWN_(SYS_poll, a, b, c, 0, 0, 0);
}
#define poll own_poll
static inline pid_t own_fork(void) {
  return OWN_(SYS_fork, 0, 0, 0, 0, 0, 0);
}
#define fork own_fork
static inline int own_sigprocmask(int a, const sigset_t *b, sigset_t *c) {
  return OWN_(SYS_rt_sigprocmask, a, b, c, 8, 0, 0);
}
#define sigprocmask own_sigprocmask
static inline int own_execv(const char *a, char *const *b) {
  return OWN_(SYS_execve, a, b, environ, 0, 0, 0);
}
#define execv own_execv
static inline int own_execve(const char *a, char *const *b, char *const *c) {
  return OWN_(SYS_execve, a, b, c, 0, 0, 0);
}
#define execve own_execve
static inline int own_select(int a, fd_set *b, fd_set *c, fd_set *d, struct timeval *e) {
  return OWN_(SYS_select, a, b, c, d, e, 0);
}
#define select own_select

/* libc keeps from its callers how much of their time is left. */
static inline int own_ppoll(struct pollfd *list, nfds_t count, const struct timespec *limit,
                            const sigset_t *mask) {
  struct timespec copy;
  if (limit)
    copy = *limit;
  return OWN_(SYS_ppoll, list, count, limit ? &copy : 0, mask, 8, 0);
}
#define ppoll own_ppoll
