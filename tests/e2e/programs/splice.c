/* splice from one connection to another, as proxies do: whatever else is done with the pipe
 * between them, what is in it is what was put there. */
#include "check.h"
#include <sys/time.h>

enum { PART = 15000, SOME = 40000, MUCH = 3 * 1000 * 1000, AT_ONCE = 20000 };

/* A read that asks for AT_ONCE has room for it, also after all. */
static unsigned char bytes[MUCH], got[MUCH + AT_ONCE];

/* Two connections and a pipe. */
struct proxy {
  int from, from_far, to, to_far, pipe[2];
};

static struct proxy proxy(int kind) {
  struct proxy p;
  pair(kind, &p.from, &p.from_far);
  pair(!kind, &p.to, &p.to_far);
  SYS(pipe(p.pipe));
  return p;
}

static void end(struct proxy *p) {
  int all[] = {p->from, p->from_far, p->to, p->to_far, p->pipe[0], p->pipe[1]};
  for (int i = 0; i < 6; i++)
    if (all[i] >= 0)
      close(all[i]);
}

#define EACH_PROXY(p)                                                          \
  for (int kind_ = 0; kind_ < 2; kind_++)                                      \
    for (struct proxy p = proxy(kind_); p.from; end(&p), p.from = 0)

/* The far end sends `n` bytes of the pattern from `at` on, and all of them arrive. */
static void arrive(struct proxy *p, size_t at, size_t n) {
  pattern(bytes, n, at);
  send_all(p->from_far, bytes, n);
  for (int queued = 0; queued < (int)n; sleep_ms(1))
    SYS(ioctl(p->from, FIONREAD, &queued));
}

static int in_pipe(struct proxy *p) {
  int n = -1;
  SYS(ioctl(p->pipe[0], FIONREAD, &n));
  return n;
}

/* Puts bytes that have arrived into the pipe. */
static size_t put(struct proxy *p, size_t n) {
  size_t done = 0;
  while (done < n)
    done += SYS(splice(p->from, 0, p->pipe[1], 0, n - done, SPLICE_F_MOVE));
  IS(in_pipe(p), n);
  return n;
}

/* Passes `n` bytes on, and the other far end gets the pattern from `at` on. */
static void pass(struct proxy *p, size_t at, size_t n) {
  for (size_t done = 0; done < n;)
    done += SYS(splice(p->pipe[0], 0, p->to, 0, n - done, SPLICE_F_MOVE));
  receive_all(p->to_far, got, n);
  check_pattern(got, n, at);
}

/* Everything that `from` has received before is written over. */
static void write_over(struct proxy *p) {
  static unsigned char other[SOME];
  for (int i = 0; i < 100; i++) {
    memset(other, i, sizeof other);
    send_all(p->from_far, other, sizeof other);
    receive_all(p->from, got, sizeof other);
    OK(memcmp(got, other, sizeof other) == 0);
  }
}

static void *send_much(void *fd) {
  send_all(*(int *)fd, bytes, MUCH);
  return 0;
}

static void much_passes(void) {
  EACH_PROXY(p) {
    pattern(bytes, MUCH, 0);
    pthread_t sender;
    OK(pthread_create(&sender, 0, send_much, &p.from_far) == 0);
    nonblocking(p.from), nonblocking(p.to), nonblocking(p.to_far);
    size_t in = 0, out = 0, read_ = 0;
    while (read_ < MUCH) {
      int flags = SPLICE_F_MOVE | SPLICE_F_NONBLOCK;
      ssize_t n = in - out < SOME ? splice(p.from, 0, p.pipe[1], 0, 30000 + in % 50000, flags) : -1;
      if (n > 0)
        in += n;
      if (in > out && (n = splice(p.pipe[0], 0, p.to, 0, in - out, flags)) > 0)
        out += n;
      if ((n = read(p.to_far, got + read_, MUCH - read_)) > 0)
        read_ += n;
    }
    check_pattern(got, MUCH, 0);
    IS(in, MUCH);
    pthread_join(sender, 0);
  }
}

static void part_is_read(void) {
  EACH_PROXY(p) {
    arrive(&p, 0, SOME);
    put(&p, SOME);
    OK(ready(p.pipe[0], POLLIN, 0) & POLLIN);
    receive_all(p.pipe[0], got, 1234);
    check_pattern(got, 1234, 0);
    IS(in_pipe(&p), SOME - 1234);
    pass(&p, 1234, 20000);
    write_over(&p);
    receive_all(p.pipe[0], got, 777);
    check_pattern(got, 777, 21234);
    pass(&p, 22011, SOME - 22011);
    IS(in_pipe(&p), 0);
  }
}

static void more_is_written(void) {
  EACH_PROXY(p) {
    arrive(&p, 0, SOME);
    put(&p, SOME);
    receive_all(p.pipe[0], got, 100);
    /* As much as was read. */
    pattern(bytes, 100, SOME);
    send_all(p.pipe[1], bytes, 100);
    IS(in_pipe(&p), SOME);
    write_over(&p);
    pass(&p, 100, SOME);
  }
}

static void more_comes_before_and_behind(void) {
  EACH_PROXY(p) {
    arrive(&p, 0, SOME);
    put(&p, 10000);
    IS(splice(p.from, 0, p.pipe[1], 0, 50, 0), 50);
    IS(splice(p.from, 0, p.pipe[1], 0, 5000, 0), 5000);
    /* Read past the pipe. */
    receive_all(p.from, got, 4000);
    check_pattern(got, 4000, 15050);
    IS(splice(p.from, 0, p.pipe[1], 0, 8000, 0), 8000);
    write_over(&(struct proxy){.from_far = p.to, .from = p.to_far});
    pass(&p, 0, 15050);
    pass(&p, 19050, 8000);
    receive_all(p.from, got, SOME - 27050);
    check_pattern(got, SOME - 27050, 27050);
  }
}

static void one_pipe_for_each_part(void) {
  EACH_PROXY(p) {
    struct proxy other = p;
    SYS(pipe(other.pipe));
    arrive(&p, 0, SOME);
    put(&p, 15000);
    put(&other, 15000);
    pass(&other, 15000, 15000);
    pass(&p, 0, 15000);
    close(other.pipe[0]), close(other.pipe[1]);
  }
}

static void the_source_is_closed(void) {
  for (int how = 0; how < 3; how++)
    EACH_PROXY(p) {
      arrive(&p, 0, SOME);
      put(&p, SOME);
      if (how == 0)
        SYS(close(p.from));
      else if (how == 1)
        SYS(dup2(p.to, p.from)), SYS(close(p.from));
      else
        SYS(shutdown(p.from, SHUT_RDWR)), SYS(close(p.from));
      IS(read(p.from_far, got, 1), 0);
      /* Others use the memory. */
      struct proxy next = {.pipe = {-1, -1}, .to = -1, .to_far = -1};
      pair(0, &next.from, &next.from_far);
      write_over(&next);
      end(&next);
      pass(&p, 0, SOME);
      p.from = dup(0);
    }
}

static void the_source_is_reset(void) {
  EACH_PROXY(p) {
    arrive(&p, 0, SOME);
    put(&p, SOME);
    far_reset(p.from_far);
    p.from_far = -1;
    OK(ready(p.from, POLLIN, 10000));
    pass(&p, 0, SOME);
    FAILS(splice(p.from, 0, p.pipe[1], 0, 100, 0), ECONNRESET);
  }
}

static void the_sink_is_reset(void) {
  SYS(signal(SIGPIPE, SIG_IGN) == SIG_ERR ? -1 : 0);
  EACH_PROXY(p) {
    arrive(&p, 0, SOME);
    put(&p, SOME);
    far_reset(p.to_far);
    p.to_far = -1;
    OK(ready(p.to, POLLIN, 10000));
    FAILS(splice(p.pipe[0], 0, p.to, 0, SOME, 0), ECONNRESET);
    FAILS(splice(p.pipe[0], 0, p.to, 0, SOME, 0), EPIPE);
    IS(in_pipe(&p), SOME);
    receive_all(p.pipe[0], got, SOME);
    check_pattern(got, SOME, 0);
  }
}

static void an_end_of_the_pipe_is_closed(void) {
  EACH_PROXY(p) {
    arrive(&p, 0, 2 * SOME);
    put(&p, SOME);
    SYS(close(p.pipe[1]));
    receive_all(p.from, got, SOME);
    write_over(&p);
    pass(&p, 0, SOME);
    IS(splice(p.pipe[0], 0, p.to, 0, SOME, 0), 0);
    SYS(close(p.pipe[0]));
    /* And one that nobody reads. */
    SYS(pipe(p.pipe));
    arrive(&p, 0, SOME);
    put(&p, SOME);
    SYS(close(p.pipe[0]));
    write_over(&p);
    p.pipe[0] = dup(0);
  }
}

static void it_goes_on_to_another_pipe(void) {
  for (int how = 0; how < 2; how++)
    EACH_PROXY(p) {
      int next[2];
      SYS(pipe(next));
      arrive(&p, 0, SOME);
      put(&p, SOME);
      if (how == 0)
        IS(tee(p.pipe[0], next[1], SOME, 0), SOME);
      else
        IS(splice(p.pipe[0], 0, next[1], 0, SOME, 0), SOME);
      if (how == 0)
        pass(&p, 0, SOME);
      write_over(&p);
      receive_all(next[0], got, SOME);
      check_pattern(got, SOME, 0);
      close(next[0]), close(next[1]);
    }
}

static void a_descriptor_is_duplicated(void) {
  EACH_PROXY(p) {
    arrive(&p, 0, SOME);
    put(&p, SOME);
    int reader = SYS(dup(p.pipe[0])), writer = SYS(fcntl(p.pipe[1], F_DUPFD, 0));
    SYS(close(p.pipe[0])), SYS(close(p.pipe[1]));
    p.pipe[0] = reader, p.pipe[1] = writer;
    write_over(&p);
    pass(&p, 0, 30000);
    arrive(&p, SOME, SOME);
    IS(splice(p.from, 0, writer, 0, 20000, 0), 20000);
    pass(&p, 30000, 30000);
    receive_all(p.from, got, 20000);
    check_pattern(got, 20000, 60000);
  }
}

/* A child reads the pipe after its parent has gone on, or gone. */
static void another_process_has_the_pipe(void) {
  for (int how = 0; how < 4; how++)
    EACH_PROXY(p) {
      int go[2], told[2], passed[2];
      char byte;
      SYS(pipe(go)), SYS(pipe(told));
      SYS(socketpair(AF_UNIX, SOCK_STREAM, 0, passed));
      if (how != 3)
        arrive(&p, 0, SOME), put(&p, SOME);
      pid_t child = SYS(how == 1 ? (int)(syscall)(FORK_BY_NUMBER) : how == 2 ? _Fork() : fork());
      if (child == 0) {
        int reader = p.pipe[0];
        if (how == 3) {
          char room[64] = {0};
          struct iovec part = {&byte, 1};
          struct msghdr m = {
              .msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
          IS(recvmsg(passed[1], &m, 0), 1);
          reader = *(int *)CMSG_DATA(CMSG_FIRSTHDR(&m));
        }
        receive_all(go[0], &byte, 1);
        receive_all(reader, got, SOME);
        check_pattern(got, SOME, 0);
        send_all(told[1], "x", 1);
        _exit(0);
      }
      if (how == 3) {
        SYS(close(p.pipe[0])), SYS(close(p.pipe[1]));
        SYS(pipe(p.pipe));
        arrive(&p, 0, SOME), put(&p, SOME);
        char room[CMSG_SPACE(sizeof(int))] = {0};
        struct iovec part = {"x", 1};
        struct msghdr m = {
            .msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        *c = (struct cmsghdr){
            .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        *(int *)CMSG_DATA(c) = p.pipe[0];
        IS(sendmsg(passed[0], &m, 0), 1);
      }
      write_over(&p);
      send_all(go[1], "x", 1);
      receive_all(told[0], &byte, 1);
      IS(in_pipe(&p), 0);
      IS(waitpid(child, 0, 0), child);
      /* The parent goes on with the same pipe. */
      arrive(&p, 7, SOME);
      put(&p, SOME);
      pass(&p, 7, SOME);
      close(go[0]), close(go[1]), close(told[0]), close(told[1]);
      close(passed[0]), close(passed[1]);
    }
}

/* The next program finds in its inherited pipe what was left there. */
static void the_next_program_has_the_pipe(void) {
  EACH_PROXY(p) {
    int said[2];
    SYS(pipe(said));
    pid_t child = SYS(fork());
    if (child == 0) {
      struct proxy mine = proxy(kind_);
      arrive(&mine, 0, SOME);
      put(&mine, SOME);
      SYS(dup2(mine.pipe[0], 0)), SYS(dup2(said[1], 1));
      SYS(close(mine.pipe[1]));
      execlp("cat", "cat", (char *)0);
      _exit(1);
    }
    SYS(close(said[1]));
    receive_all(said[0], got, SOME);
    check_pattern(got, SOME, 0);
    IS(read(said[0], got, 1), 0);
    IS(waitpid(child, 0, 0), child);
    close(said[0]);
  }
}

/* What a child reads and writes comes behind what its parent has passed on. */
static void a_child_goes_on(void) {
  EACH_PROXY(p) {
    for (size_t round = 0, at = 0; round < 20; round++, at += 3 * PART) {
      arrive(&p, at, 3 * PART);
      for (size_t done = 0; done < PART;) {
        ssize_t n = SYS(splice(p.from, 0, p.pipe[1], 0, PART - done, 0));
        done += n;
        while (n)
          n -= SYS(splice(p.pipe[0], 0, p.to, 0, n, 0));
      }
      pid_t child = SYS(fork());
      if (child == 0) {
        receive_all(p.from, got, PART);
        send_all(p.to, got, PART);
        _exit(0);
      }
      IS(waitpid(child, 0, 0), child);
      receive_all(p.from, got, PART);
      send_all(p.to, got, PART);
      receive_all(p.to_far, got, 3 * PART);
      check_pattern(got, 3 * PART, at);
    }
  }
}

/* A proxy that is killed with bytes in its pipe and under way leaves nothing that is wrong:
 * what arrives is the beginning of what was sent, and both far ends hear of the end. */
static void the_proxy_is_killed(void) {
  for (int round = 0; round < 20; round++)
    EACH_PROXY(p) {
      pattern(bytes, MUCH, 0);
      SYS(signal(SIGPIPE, SIG_IGN) == SIG_ERR ? -1 : 0);
      pid_t child = SYS(fork());
      if (child == 0) {
        SYS(close(p.from_far)), SYS(close(p.to_far));
        SYS(pipe(p.pipe));
        for (;;) {
          ssize_t n = splice(p.from, 0, p.pipe[1], 0, SOME, 0);
          while (n > 0)
            n -= SYS(splice(p.pipe[0], 0, p.to, 0, n, 0));
        }
      }
      SYS(close(p.from)), SYS(close(p.to));
      nonblocking(p.from_far), nonblocking(p.to_far);
      size_t sent = 0, came = 0;
      int killed = 0, ends = 0;
      double start = now();
      while (ends != 3) {
        OK(now() < start + 30);
        ssize_t n = sent < MUCH ? write(p.from_far, bytes + sent, MUCH - sent) : 0;
        if (n > 0)
          sent += n;
        else if (n < 0 && errno != EAGAIN)
          ends |= 1;
        else if (killed && ready(p.from_far, POLLIN, 1))
          ends |= 1;
        n = read(p.to_far, got + came, AT_ONCE);
        if (n > 0)
          came += n;
        else if (n == 0 || errno != EAGAIN)
          ends |= 2;
        if (!killed && came > (size_t)round * 50000) {
          SYS(kill(child, SIGKILL));
          killed = 1;
        }
      }
      OK(killed);
      check_pattern(got, came, 0);
      IS(waitpid(child, 0, 0), child);
      p.from = p.to = dup(0);
    }
}

/* A thread that already waits in the kernel for what comes out of the pipe. */
static void *drain(void *pipe_) {
  int *pipes = pipe_;
  for (size_t done = 0; done < SOME;)
    done += SYS(splice(pipes[0], 0, pipes[3], 0, SOME - done, 0));
  return 0;
}

static void *read_out(void *pipe_) {
  receive_all(((int *)pipe_)[0], got, SOME);
  return 0;
}

static void a_thread_waits_for_it(void) {
  for (int how = 0; how < 2; how++)
    EACH_PROXY(p) {
      int pipes[4] = {p.pipe[0], p.pipe[1]};
      SYS(pipe(pipes + 2));
      pthread_t thread;
      OK(pthread_create(&thread, 0, how ? read_out : drain, pipes) == 0);
      sleep_ms(20);
      arrive(&p, 0, SOME);
      for (size_t done = 0; done < SOME;)
        done += SYS(splice(p.from, 0, p.pipe[1], 0, SOME - done, 0));
      pthread_join(thread, 0);
      if (how == 0)
        receive_all(pipes[2], got, SOME);
      check_pattern(got, SOME, 0);
      close(pipes[2]), close(pipes[3]);
    }
}

/* One thread reads what was left in the pipe while another writes to it. */
static void it_is_read_and_written_at_once(void) {
  enum { TIMES = 100 };
  EACH_PROXY(p) {
    close(p.pipe[0]), close(p.pipe[1]);
    for (int i = 0; i < TIMES; i++) {
      SYS(pipe(p.pipe));
      arrive(&p, 0, SOME);
      put(&p, SOME - 1);
      pthread_t thread;
      OK(pthread_create(&thread, 0, read_out, p.pipe) == 0);
      if (i % 2)
        sched_yield();
      /* What is written comes before or behind what the other has read, never twice. */
      IS(write(p.pipe[1], "", 1), 1);
      pthread_join(thread, 0);
      IS(in_pipe(&p), 0);
      receive_all(p.from, got, 1);
      close(p.pipe[0]), close(p.pipe[1]);
    }
    p.pipe[0] = p.pipe[1] = -1;
  }
}

static void the_pipe_is_full(void) {
  EACH_PROXY(p) {
    arrive(&p, 0, 3 * SOME);
    nonblocking(p.from);
    for (size_t done = 0; done < 3 * SOME;) {
      size_t in = 0;
      for (ssize_t n; (n = splice(p.from, 0, p.pipe[1], 0, SOME, SPLICE_F_NONBLOCK)) > 0;)
        in += n;
      OK(errno == EAGAIN && in > 0);
      IS(in_pipe(&p), in);
      OK(done + in == 3 * SOME || !(ready(p.pipe[1], POLLOUT, 0) & POLLOUT));
      pass(&p, done, in);
      done += in;
    }
    /* A small one. */
    SYS(fcntl(p.pipe[1], F_SETPIPE_SZ, 4096));
    arrive(&p, 5, SOME);
    for (size_t done = 0; done < SOME;) {
      ssize_t n = SYS(splice(p.from, 0, p.pipe[1], 0, SOME - done, SPLICE_F_NONBLOCK));
      IS(in_pipe(&p), n);
      pass(&p, 5 + done, n);
      done += n;
    }
  }
}

/* What is left of a page that was read in part takes a place in the pipe. */
static void a_page_is_read_in_part(void) {
  EACH_PROXY(p) {
    arrive(&p, 0, 3 * SOME);
    put(&p, SOME);
    receive_all(p.pipe[0], got, 4000);
    size_t in = SOME - 4000;
    nonblocking(p.from);
    alarm(10);
    for (ssize_t n; (n = splice(p.from, 0, p.pipe[1], 0, SOME, SPLICE_F_NONBLOCK)) > 0;)
      in += n;
    OK(errno == EAGAIN);
    IS(in_pipe(&p), in);
    pass(&p, 4000, in);
    alarm(0);
  }
}

static void nothing_catches(int signal) { (void)signal; }

/* SPLICE_F_NONBLOCK is about the pipe, and O_NONBLOCK about its own descriptor. */
static void who_waits_for_what(void) {
  struct sigaction catch = {.sa_handler = nothing_catches};
  SYS(sigaction(SIGALRM, &catch, 0));
  struct itimerval soon = {.it_value = {0, 100000}};
  EACH_PROXY(p) {
    SYS(setitimer(ITIMER_REAL, &soon, 0));
    FAILS(splice(p.from, 0, p.pipe[1], 0, SOME, SPLICE_F_NONBLOCK), EINTR);
    FAILS(splice(p.pipe[0], 0, p.to, 0, SOME, SPLICE_F_NONBLOCK), EAGAIN);
    nonblocking(p.from);
    FAILS(splice(p.from, 0, p.pipe[1], 0, SOME, 0), EAGAIN);
    nonblocking(p.pipe[0]);
    FAILS(splice(p.pipe[0], 0, p.to, 0, SOME, 0), EAGAIN);
    nonblocking(p.pipe[1]);
    while (write(p.pipe[1], bytes, 4096) > 0)
      ;
    SYS(shutdown(p.from_far, SHUT_WR));
    OK(ready(p.from, POLLIN, 10000));
    FAILS(splice(p.from, 0, p.pipe[1], 0, SOME, 0), EAGAIN);
    fill(p.to, 60000);
    FAILS(splice(p.pipe[0], 0, p.to, 0, SOME, 0), EAGAIN);
    SYS(fcntl(p.to, F_SETFL, 0));
    SYS(setitimer(ITIMER_REAL, &soon, 0));
    FAILS(splice(p.pipe[0], 0, p.to, 0, SOME, SPLICE_F_NONBLOCK), EINTR);
  }
}

static void *send_some(void *fd) {
  send_all(*(int *)fd, bytes, 4 * SOME);
  return 0;
}

/* With little room in either buffer nothing waits for ever. */
static void buffers_are_small(void) {
  EACH_PROXY(p) {
    set(p.from, SOL_SOCKET, SO_RCVBUF, 8192);
    set(p.to, SOL_SOCKET, SO_SNDBUF, 8192);
    pattern(bytes, 4 * SOME, 0);
    pthread_t sender;
    OK(pthread_create(&sender, 0, send_some, &p.from_far) == 0);
    /* The pipe is filled before it is emptied. */
    for (size_t done = 0; done < 4 * SOME;) {
      size_t in = 0;
      while (in < SOME)
        in += SYS(splice(p.from, 0, p.pipe[1], 0, SOME - in, 0));
      for (size_t out = 0; out < SOME;) {
        ssize_t n = SYS(splice(p.pipe[0], 0, p.to, 0, 3000, 0));
        receive_all(p.to_far, got, n);
        check_pattern(got, n, done + out);
        out += n;
      }
      done += SOME;
    }
    pthread_join(sender, 0);
  }
}

/* Ends, offsets, flags and lengths that are none. */
static void what_cannot_be_spliced(void) {
  EACH_PAIR(mine, far) {
    int pipes[2];
    off_t at = 0;
    SYS(pipe(pipes));
    send_all(far, "bytes", 5);
    OK(ready(mine, POLLIN, 10000) == POLLIN);
    FAILS(splice(mine, 0, pipes[0], 0, 5, 0), EBADF);
    FAILS(splice(pipes[1], 0, mine, 0, 5, 0), EBADF);
    FAILS(splice(mine, 0, pipes[1], &at, 5, 0), ESPIPE);
    FAILS(splice(mine, &at, pipes[1], 0, 5, 0), EINVAL);
    FAILS(splice(pipes[0], &at, mine, 0, 5, 0), ESPIPE);
    FAILS(splice(pipes[0], 0, mine, &at, 5, 0), EINVAL);
    FAILS(splice(mine, 0, pipes[1], 0, 5, 16), EINVAL);
    FAILS(splice(mine, 0, pipes[1], 0, -1, 0), EINVAL);
    IS(splice(mine, 0, pipes[1], 0, 5, 15), 5);
    SYS(close(pipes[0])), SYS(close(pipes[1]));
  }
}

const struct check CHECKS[] = {
    {"much_passes", much_passes},
    {"what_cannot_be_spliced", what_cannot_be_spliced},
    {"part_is_read", part_is_read},
    {"more_is_written", more_is_written},
    {"more_comes_before_and_behind", more_comes_before_and_behind},
    {"one_pipe_for_each_part", one_pipe_for_each_part},
    {"the_source_is_closed", the_source_is_closed},
    {"the_source_is_reset", the_source_is_reset},
    {"the_sink_is_reset", the_sink_is_reset},
    {"an_end_of_the_pipe_is_closed", an_end_of_the_pipe_is_closed},
    {"it_goes_on_to_another_pipe", it_goes_on_to_another_pipe},
    {"a_descriptor_is_duplicated", a_descriptor_is_duplicated},
    {"another_process_has_the_pipe", another_process_has_the_pipe},
    {"the_next_program_has_the_pipe", the_next_program_has_the_pipe},
    {"a_child_goes_on", a_child_goes_on},
    {"the_proxy_is_killed", the_proxy_is_killed},
    {"a_thread_waits_for_it", a_thread_waits_for_it},
    {"it_is_read_and_written_at_once", it_is_read_and_written_at_once},
    {"the_pipe_is_full", the_pipe_is_full},
    {"a_page_is_read_in_part", a_page_is_read_in_part},
    {"who_waits_for_what", who_waits_for_what},
    {"buffers_are_small", buffers_are_small},
    {0, 0},
};
