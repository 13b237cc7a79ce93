/* A process that has locked itself into a filter of system calls (seccomp), or has little
 * address space, goes on with the sockets that it has. */
#include "check.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>

/* What a filter permits that was written for a program which reads, writes and
 * waits; everything else is death. */
static const int PERMITTED[] = {
#ifdef SYS_poll
    SYS_poll,         SYS_epoll_wait,
#else
    SYS_epoll_pwait,
#endif
    SYS_read,         SYS_write,         SYS_close,
    SYS_ppoll,        SYS_futex,         SYS_clock_gettime,
    SYS_nanosleep,    SYS_clock_nanosleep, SYS_getpid,  SYS_gettid,
    SYS_getrandom,    SYS_brk,           SYS_mmap,      SYS_munmap,
    SYS_mremap,       SYS_mprotect,      SYS_madvise,   SYS_rt_sigprocmask,
    SYS_rt_sigreturn, SYS_exit,          SYS_exit_group,
};

enum { COUNT = sizeof PERMITTED / sizeof *PERMITTED };

static struct sock_fprog program(void) {
  static struct sock_filter code[COUNT + 3];
  code[0] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                         offsetof(struct seccomp_data, nr));
  for (int i = 0; i < COUNT; i++)
    code[i + 1] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
                                               PERMITTED[i], COUNT - i, 0);
  code[COUNT + 1] =
      (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
  code[COUNT + 2] =
      (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  return (struct sock_fprog){.len = COUNT + 3, .filter = code};
}

/* No more descriptors either: poll() takes at most one then. */
static void confine(void) {
  struct rlimit one = {1, 1};
  struct sock_fprog p = program();
  SYS(setrlimit(RLIMIT_NOFILE, &one));
  SYS(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
  SYS(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p, 0, 0));
}

/* The block that follows is a confined child's, with its end of a connection. */
#define CONFINED_CHILD(child) if (!((child) = SYS(fork())))

static void reads_and_writes(void) {
  EACH_PAIR(mine, far) {
    char buf[8];
    pid_t child;
    CONFINED_CHILD(child) {
      confine();
      receive_all(mine, buf, 4);
      send_all(mine, "done", 4);
      receive_all(mine, buf, 4);
      SYS(close(mine));
      _exit(0);
    }
    sleep_ms(100);
    send_all(far, "work", 4);
    receive_all(far, buf, 4);
    send_all(far, "end.", 4);
    joined(child);
    /* What it did not confine goes on. */
    send_all(mine, "more", 4);
    receive_all(far, buf, 4);
  }
}

/* A program of one thread needs no futex, and its filter may not have it. */
static void without_futex(void) {
  EACH_PAIR(mine, far) {
    char buf[8];
    pid_t child;
    CONFINED_CHILD(child) {
      struct sock_fprog p = program();
      for (int i = 0; i < COUNT; i++)
        if (p.filter[i + 1].k == SYS_futex)
          p.filter[i + 1].k = SYS_read;
      SYS(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
      SYS(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p, 0, 0));
      receive_all(mine, buf, 4);
      send_all(mine, "done", 4);
      receive_all(mine, buf, 4);
      /* What else it forbids is forbidden. */
      (void)!syscall(SYS_getppid);
      _exit(0);
    }
    sleep_ms(100);
    send_all(far, "work", 4);
    receive_all(far, buf, 4);
    sleep_ms(100);
    send_all(far, "end.", 4);
    int status;
    IS(waitpid(child, &status, 0), child);
    OK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
  }
}

static void many_bytes(void) {
  enum { N = 8 << 20 };
  EACH_PAIR(mine, far) {
    pid_t child;
    CONFINED_CHILD(child) {
      static unsigned char piece[65536];
      confine();
      for (size_t at = 0; at < N; at += sizeof piece) {
        pattern(piece, sizeof piece, at);
        send_all(mine, piece, sizeof piece);
      }
      _exit(0);
    }
    SYS(close(mine));
    mine = -1;
    receive_pattern(far, N);
    joined(child);
  }
}

static void polls(void) {
  EACH_PAIR(mine, far) {
    pid_t child;
    int up[2];
    SYS(pipe(up));
    nonblocking(mine);
    CONFINED_CHILD(child) {
      char buf[8];
      confine();
      FAILS(read(mine, buf, 4), EAGAIN);
      IS(ready(mine, POLLIN, 50), 0);
      IS(write(up[1], "w", 1), 1);
      IS(ready(mine, POLLIN, 5000), POLLIN);
      receive_all(mine, buf, 4);
      IS(ready(mine, POLLIN | POLLOUT, 5000), POLLOUT);
      _exit(0);
    }
    char c;
    receive_all(up[0], &c, 1);
    send_all(far, "work", 4);
    joined(child);
    close(up[0]), close(up[1]);
  }
}

static void keeps_to_a_time_limit(void) {
  EACH_PAIR(mine, far) {
    pid_t child;
    struct timeval limit = {0, 100000};
    SYS(setsockopt(mine, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
    CONFINED_CHILD(child) {
      char c;
      confine();
      double start = now();
      FAILS(read(mine, &c, 1), EAGAIN);
      OK(now() - start >= 0.09 && now() - start < 5);
      _exit(0);
    }
    joined(child);
  }
}

static void waits_in_epoll(void) {
  EACH_PAIR(mine, far) {
    pid_t child;
    int up[2];
    SYS(pipe(up));
    CONFINED_CHILD(child) {
      char buf[8];
      struct epoll_event e = {.events = EPOLLIN, .data.fd = mine};
      int ep = SYS(epoll_create1(0));
      SYS(epoll_ctl(ep, EPOLL_CTL_ADD, mine, &e));
      confine();
      IS(epoll_wait(ep, &e, 1, 50), 0);
      IS(write(up[1], "w", 1), 1);
      IS(epoll_wait(ep, &e, 1, 5000), 1);
      IS(e.data.fd, mine);
      receive_all(mine, buf, 4);
      _exit(0);
    }
    char c;
    receive_all(up[0], &c, 1);
    send_all(far, "work", 4);
    joined(child);
    close(up[0]), close(up[1]);
  }
}

static void by_number(void) {
  EACH_PAIR(mine, far) {
    pid_t child;
    CONFINED_CHILD(child) {
      char buf[8];
      struct sock_fprog p = program();
      SYS(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
      SYS((syscall)(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &p));
      receive_all(mine, buf, 4);
      _exit(0);
    }
    sleep_ms(50);
    send_all(far, "work", 4);
    joined(child);
  }
}

static void a_refused_filter_changes_nothing(void) {
  FAILS(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, 0, 0, 0), EFAULT);
  EACH_PAIR(mine, far) {
    char buf[8];
    struct epoll_event e = {.events = EPOLLIN, .data.fd = mine};
    int ep = SYS(epoll_create1(0));
    SYS(epoll_ctl(ep, EPOLL_CTL_ADD, mine, &e));
    send_all(far, "work", 4);
    IS(epoll_wait(ep, &e, 1, 5000), 1);
    receive_all(mine, buf, 4);
    SYS(close(ep));
  }
}

/* What is shared with an engine is not the program's own memory. */
static void limited_address_space(void) {
  struct rlimit small = {300 << 20, 300 << 20}, now = {0, 0};
  SYS(setrlimit(RLIMIT_AS, &small));
  SYS(getrlimit(RLIMIT_AS, &now));
  OK(now.rlim_cur == small.rlim_cur && now.rlim_max == small.rlim_max);
  SYS(prlimit(getpid(), RLIMIT_AS, 0, &now));
  OK(now.rlim_cur == small.rlim_cur && now.rlim_max == small.rlim_max);
  OK(mmap(0, 200 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
  OK(mmap(0, 200 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED);
  for (int kind = 0; kind < 2; kind++) {
    int mine, far;
    char x;
    pair(kind, &mine, &far);
    send_all(mine, "x", 1);
    IS(read(far, &x, 1), 1);
  }
  /* Nor that of a program that is executed. */
  long limit = 0;
  FILE *said = popen("ulimit -v", "r");
  OK(said && fscanf(said, "%ld", &limit) == 1);
  IS(pclose(said), 0);
  IS(limit, 300 << 10);
}

const struct check CHECKS[] = {
    {"reads_and_writes", reads_and_writes},
    {"without_futex", without_futex},
    {"many_bytes", many_bytes},
    {"polls", polls},
    {"keeps_to_a_time_limit", keeps_to_a_time_limit},
    {"waits_in_epoll", waits_in_epoll},
    {"by_number", by_number},
    {"a_refused_filter_changes_nothing", a_refused_filter_changes_nothing},
    {"limited_address_space", limited_address_space},
    {0, 0},
};
