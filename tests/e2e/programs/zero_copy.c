/* What is received into whole pages, which a program may see where it was placed: its memory
 * is what it would be after a copy, whatever the program does with it then. */
#include "check.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>

pid_t _Fork(void);

enum { PAGE = 4096, PART = 16 * PAGE, MUCH = 6 * 1000 * 1000 };

static unsigned char bytes[MUCH], other[PART];

/* Each check receives parts of many pages at once. */
__attribute__((constructor)) static void receive_much(void) { receive_buffer = 4 << 20; }

static unsigned char *memory(size_t n) {
  void *at = mmap(0, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  OK(at != MAP_FAILED);
  return memset(at, 0x5a, n);
}

/* How many bytes of this memory are a private mapping of the engine's. */
static size_t shown(const unsigned char *at, size_t n) {
  FILE *maps = fopen("/proc/self/maps", "r");
  OK(maps);
  char line[512], flags[5];
  size_t sum = 0;
  while (fgets(line, sizeof line, maps)) {
    unsigned long from, to, first = (unsigned long)at, last = first + n;
    OK(sscanf(line, "%lx-%lx %4s", &from, &to, flags) == 3);
    if (flags[3] != 'p' || !strstr(line, "memfd:longshore"))
      continue;
    from = from < first ? first : from;
    to = to > last ? last : to;
    sum += from < to ? to - from : 0;
  }
  fclose(maps);
  return sum;
}

/* Where the engine is under test, and not both ends are its own, it is shown. */
static int is_to_be_shown(void) { return on_longshore() && far_in_kernel(); }

/* The far end sends `n` bytes of the pattern from `at` on, and all of them arrive. */
static void arrive(int mine, int far, size_t at, size_t n) {
  pattern(bytes, n, at);
  send_all(far, bytes, n);
  for (int queued = 0; queued < (int)n; sleep_ms(1))
    SYS(ioctl(mine, FIONREAD, &queued));
}

/* As `arrive`, and they are received into `to` by few calls. */
static void get_anyhow(int mine, int far, unsigned char *to, size_t at, size_t n) {
  for (size_t done = 0, part; done < n; done += part) {
    part = n - done < PART ? n - done : PART;
    arrive(mine, far, at + done, part);
    IS(recv(mine, to + done, part, 0), part);
  }
  check_pattern(to, n, at);
}

/* As `get_anyhow`, and the pages are shown. */
static void get(int mine, int far, unsigned char *to, size_t at, size_t n) {
  get_anyhow(mine, far, to, at, n);
  if (is_to_be_shown())
    IS(shown(to, n), n);
}

/* Everything that was received before is written over, by this connection and by others. */
static void write_over(int mine, int far) {
  static unsigned char got[PART];
  for (int i = 0; i < 60; i++) {
    int m = mine, f = far;
    if (i % 4 == 3)
      pair(i & 1, &m, &f);
    memset(other, 0x80 | i, sizeof other);
    send_all(f, other, sizeof other);
    receive_all(m, got + 1, sizeof got - 1);
    receive_all(m, got, 1);
    OK(got[0] == other[0] && memcmp(got + 1, other, sizeof got - 1) == 0);
    if (i % 4 == 3)
      close(m), close(f);
  }
}

static void *send_much(void *fd) {
  send_all(*(int *)fd, bytes, MUCH);
  return 0;
}

static void pages_are_shown(void) {
  EACH_PAIR(mine, far) {
    unsigned char *to = memory(4 * PART);
    get(mine, far, to, 0, PART);
    get(mine, far, to, PART, PART);
    get(mine, far, to + PART, 2 * PART, 2 * PART);
    write_over(mine, far);
    check_pattern(to, PART, PART);
    check_pattern(to + PART, 2 * PART, 2 * PART);
    SYS(munmap(to, 4 * PART));
  }
}

static void what_is_written_to_them_stays(void) {
  EACH_PAIR(mine, far) {
    unsigned char *to = memory(PART);
    get(mine, far, to, 0, PART);
    for (int i = 0; i < PART; i += PAGE / 2)
      to[i] = 0xee;
    write_over(mine, far);
    for (int i = 0; i < PART; i += PAGE / 2) {
      IS(to[i], 0xee);
      check_pattern(to + i + 1, PAGE / 2 - 1, i + 1);
    }
    SYS(munmap(to, PART));
  }
}

/* One buffer for all, as most programs have it; each part is looked at when it is there. */
static void one_buffer_again_and_again(void) {
  EACH_PAIR(mine, far) {
    unsigned char *to = memory(2 * PART);
    pattern(bytes, MUCH, 0);
    pthread_t sender;
    pthread_create(&sender, 0, send_much, &far);
    for (size_t done = 0; done < MUCH;) {
      ssize_t n = SYS(recv(mine, to, 2 * PART, 0));
      OK(n > 0);
      check_pattern(to, n, done);
      done += n;
    }
    pthread_join(sender, 0);
    SYS(munmap(to, 2 * PART));
  }
}

/* More than the receive buffer has room for is seen at once, and all of it stays. */
static void much_is_seen_at_once(void) {
  EACH_PAIR(mine, far) {
    size_t room = (MUCH + 2 * PAGE) / PAGE * PAGE;
    unsigned char *to = memory(room);
    pattern(bytes, MUCH, 0);
    pthread_t sender;
    pthread_create(&sender, 0, send_much, &far);
    for (size_t done = 0; done < MUCH;) {
      size_t page = done / PAGE * PAGE;
      ssize_t n = SYS(recv(mine, to + done, page == done ? MUCH - done : page + PAGE - done, 0));
      OK(n > 0);
      done += n;
    }
    pthread_join(sender, 0);
    check_pattern(to, MUCH, 0);
    write_over(mine, far);
    check_pattern(to, MUCH, 0);
    SYS(munmap(to, room));
  }
}

/* Sizes and places that do not fit pages. */
static void odd_sizes(void) {
  EACH_PAIR(mine, far) {
    unsigned char *to = memory(4 * PART);
    pattern(bytes, MUCH, 0);
    pthread_t sender;
    pthread_create(&sender, 0, send_much, &far);
    unsigned seed = 7;
    for (size_t done = 0; done < MUCH;) {
      seed = seed * 1103515245 + 12345;
      size_t want = 1 + (seed >> 8) % (3 * PART), at = seed >> 28 ? (seed >> 16) % 8 * PAGE : 77;
      memset(to + at + want, 0xa5, 64);
      ssize_t n = SYS(recv(mine, to + at, want, 0));
      OK(n > 0);
      check_pattern(to + at, n, done);
      for (int i = 0; i < 64; i++)
        IS(to[at + want + i], 0xa5);
      done += n;
    }
    pthread_join(sender, 0);
    SYS(munmap(to, 4 * PART));
  }
}

/* What lies behind what a call has received, in the same buffer, is as it was. */
static void part_of_a_buffer_is_received_anew(void) {
  EACH_PAIR(mine, far) {
    unsigned char *to = memory(4 * PART);
    get(mine, far, to, 0, 4 * PART);
    get(mine, far, to + PART, 4 * PART, PART);
    get(mine, far, to, 5 * PART, PAGE);
    write_over(mine, far);
    check_pattern(to, PAGE, 5 * PART);
    check_pattern(to + PAGE, PART - PAGE, PAGE);
    check_pattern(to + PART, PART, 4 * PART);
    check_pattern(to + 2 * PART, 2 * PART, 2 * PART);
    SYS(munmap(to, 4 * PART));
  }
}

static void two_connections_one_buffer(void) {
  EACH_PAIR(mine, far) {
    int mine2, far2;
    pair(kind_, &mine2, &far2);
    unsigned char *to = memory(PART);
    for (int i = 0; i < 40; i++)
      get(i & 1 ? mine2 : mine, i & 1 ? far2 : far, to, i * 100, PART);
    write_over(mine, far);
    check_pattern(to, PART, 39 * 100);
    close(mine2), close(far2);
    SYS(munmap(to, PART));
  }
}

static void the_connection_is_closed(void) {
  EACH_PAIR(mine, far) {
    int mine2, far2;
    pair(kind_, &mine2, &far2);
    unsigned char *to = memory(2 * PART);
    get(mine2, far2, to, 0, PART);
    SYS(close(mine2)), SYS(close(far2));
    pair(kind_, &mine2, &far2);
    get(mine2, far2, to + PART, PART, PART);
    far_reset(far2);
    OK(ready(mine2, POLLIN, 2000));
    SYS(close(mine2));
    write_over(mine, far);
    check_pattern(to, 2 * PART, 0);
    SYS(munmap(to, 2 * PART));
  }
}

static unsigned char *in_child;
static int go[2];

static int look_in_child(void *ignored) {
  (void)ignored;
  char c;
  while (read(go[0], &c, 1) != 1)
    ;
  for (size_t i = 0; i < PART; i++)
    if (in_child[i] != bytes[i])
      _exit(1);
  memset(in_child, 0x11, PART);
  _exit(0);
}

/* Parent and child have each their own, however the child is made. */
static void a_child_has_its_own(void) {
  static char stack[1 << 18] __attribute__((aligned(16)));
  EACH_PAIR(mine, far) {
    for (int way = 0; way < 4; way++) {
      close(mine), close(far);
      pair(kind_, &mine, &far);
      unsigned char *to = in_child = memory(PART);
      get(mine, far, to, 0, PART);
      SYS(pipe(go));
      pid_t child;
      switch (way) {
      case 0: child = fork(); break;
      case 1: child = _Fork(); break;
      case 2: child = (syscall)(SYS_clone, SIGCHLD, 0, 0, 0, 0); break;
      default: child = clone(look_in_child, stack + sizeof stack, SIGCHLD, 0); break;
      }
      if (child == 0)
        look_in_child(0);
      SYS(child);
      unsigned char *two = memory(PART);
      get_anyhow(mine, far, two, 77, PART);
      get_anyhow(mine, far, to, 9, PART);
      write_over(mine, far);
      pattern(bytes, PART, 0);
      IS(write(go[1], "", 1), 1);
      int status;
      IS(waitpid(child, &status, 0), child);
      IS(status, 0);
      check_pattern(to, PART, 9);
      check_pattern(two, PART, 77);
      SYS(close(go[0])), SYS(close(go[1]));
      SYS(munmap(to, PART)), SYS(munmap(two, PART));
    }
  }
}

static void memory_is_protected(void) {
  EACH_PAIR(mine, far) {
    int mine2, far2;
    for (int how = 0; how < 2; how++) {
      pair(kind_, &mine2, &far2);
      unsigned char *to = memory(PART);
      get(mine2, far2, to, 0, PART);
      SYS(mprotect(to, PART / 2, how ? PROT_NONE : PROT_READ));
      SYS(close(mine2)), SYS(close(far2));
      write_over(mine, far);
      SYS(mprotect(to, PART, PROT_READ | PROT_WRITE));
      check_pattern(to, PART, 0);
      SYS(munmap(to, PART));
    }
  }
}

static void memory_is_unmapped(void) {
  EACH_PAIR(mine, far) {
    unsigned char *to = memory(4 * PART);
    get(mine, far, to, 0, 4 * PART);
    SYS(munmap(to + PART, PART));
    /* Somebody else's memory is there now. */
    int flags = MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED;
    OK(mmap(to + PART, PART, PROT_READ, flags, -1, 0) == to + PART);
    get(mine, far, to + 2 * PART, 4 * PART, PART);
    get(mine, far, to + 2 * PART, 5 * PART, PART);
    write_over(mine, far);
    check_pattern(to, PART, 0);
    SYS(close(SYS(dup(mine))));
    unsigned char resident[PART / PAGE];
    SYS(mincore(to + PART, PART, resident));
    for (int i = 0; i < PART / PAGE; i++)
      IS(resident[i] & 1, 0);
    for (int i = 0; i < PART; i++)
      IS(to[PART + i], 0);
    check_pattern(to + 2 * PART, PART, 5 * PART);
    check_pattern(to + 3 * PART, PART, 3 * PART);
    SYS(munmap(to, 4 * PART));
  }
}

static void a_part_is_unmapped(void) {
  EACH_PAIR(mine, far) {
    unsigned char *to = memory(PART);
    get(mine, far, to, 0, PART);
    SYS(munmap(to, PART / 4));
    SYS(munmap(to + PART / 2, PART / 4));
    SYS(close(SYS(dup(mine))));
    write_over(mine, far);
    check_pattern(to + PART / 4, PART / 4, PART / 4);
    check_pattern(to + PART / 4 * 3, PART / 4, PART / 4 * 3);
    SYS(munmap(to, PART));
  }
}

/* Memory is as other memory under a filter of system calls, too. */
static void a_filter_comes(void) {
  int mine, far;
  pair(0, &mine, &far);
  unsigned char *to = memory(2 * PART);
  get(mine, far, to, 0, 2 * PART);
  struct sock_filter all[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  struct sock_fprog filter = {1, all};
  SYS(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
  SYS(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0));
  unsigned char *other_to = memory(PART);
  get_anyhow(mine, far, other_to, 2 * PART, PART);
  check_pattern(to, 2 * PART, 0);
  SYS(madvise(to, PART, MADV_DONTNEED));
  for (int i = 0; i < PART; i++)
    IS(to[i], 0);
  check_pattern(to + PART, PART, PART);
}

static void memory_is_moved(void) {
  EACH_PAIR(mine, far) {
    unsigned char *to = memory(2 * PART);
    get(mine, far, to + PART / 2, 0, PART);
    unsigned char *moved = mremap(to, 2 * PART, 8 * PART, MREMAP_MAYMOVE);
    OK(moved != MAP_FAILED);
    get(mine, far, moved + 4 * PART, PART, PART);
    write_over(mine, far);
    check_pattern(moved + PART / 2, PART, 0);
    check_pattern(moved + 4 * PART, PART, PART);
    IS(moved[0], 0x5a);
    IS(moved[2 * PART - 1], 0x5a);
    IS(moved[2 * PART], 0);
    SYS(munmap(moved, 8 * PART));
    void *block = 0;
    IS(posix_memalign(&block, PAGE, 64 * PART), 0);
    get(mine, far, block, 0, PART);
    unsigned char *grown = realloc(block, 256 * PART);
    OK(grown);
    write_over(mine, far);
    check_pattern(grown, PART, 0);
    free(grown);
  }
}

static void memory_is_emptied(void) {
  EACH_PAIR(mine, far) {
    unsigned char *to = memory(4 * PART);
    get(mine, far, to, 0, 4 * PART);
    to[PART] = 1;
    SYS(madvise(to + PART, PART, MADV_DONTNEED));
    for (int i = 0; i < PART; i++)
      IS(to[PART + i], 0);
    SYS(madvise(to + 2 * PART, PAGE, MADV_FREE));
    write_over(mine, far);
    for (int i = 1; i < PAGE; i++)
      OK(to[2 * PART] == 0 ? to[2 * PART + i] == 0 : 1);
    check_pattern(to, PART, 0);
    check_pattern(to + 3 * PART, PART, 3 * PART);
    for (int i = 0; i < PART; i++)
      IS(to[PART + i], 0);
    get(mine, far, to + PART, 0, PART);
    SYS(munmap(to, 4 * PART));
  }
}

static volatile int over;
static unsigned *counters;
static unsigned long turns;

/* Writes to a page before and a page behind what is received into. */
static void *count(void *ignored) {
  (void)ignored;
  for (; !over; turns++) {
    counters[0]++;
    counters[(PAGE + PART) / sizeof *counters]++;
  }
  return 0;
}

static void another_thread_writes_beside(void) {
  EACH_PAIR(mine, far) {
    unsigned char *all = memory(PART + 2 * PAGE);
    counters = memset(all, 0, PART + 2 * PAGE);
    over = 0, turns = 0;
    pthread_t writer;
    pthread_create(&writer, 0, count, 0);
    for (int i = 0; i < 200; i++)
      get(mine, far, all + PAGE, i, PART);
    over = 1;
    pthread_join(writer, 0);
    IS(counters[0], (unsigned)turns);
    IS(counters[(PAGE + PART) / sizeof *counters], (unsigned)turns);
    SYS(munmap(all, PART + 2 * PAGE));
  }
}

/* What is mapped elsewhere, too, is written to. */
static void shared_memory_is_copied_to(void) {
  EACH_PAIR(mine, far) {
    int file = SYS(memfd_create("shared", MFD_CLOEXEC)), how = PROT_READ | PROT_WRITE;
    SYS(ftruncate(file, PART));
    unsigned char *to = mmap(0, PART, how, MAP_SHARED, file, 0);
    unsigned char *again = mmap(0, PART, how, MAP_SHARED, file, 0);
    OK(to != MAP_FAILED && again != MAP_FAILED);
    get_anyhow(mine, far, to, 0, PART);
    IS(shown(to, PART), 0);
    check_pattern(again, PART, 0);
    SYS(munmap(to, PART)), SYS(munmap(again, PART)), SYS(close(file));
  }
}

static void other_calls(void) {
  EACH_PAIR(mine, far) {
    unsigned char *to = memory(PART);
    arrive(mine, far, 0, PART);
    IS(recv(mine, to, PART, MSG_PEEK), PART);
    IS(shown(to, PART), 0);
    struct iovec one = {to, PART};
    IS(readv(mine, &one, 1), PART);
    check_pattern(to, PART, 0);
    arrive(mine, far, 5, PART);
    struct msghdr m = {.msg_iov = &one, .msg_iovlen = 1};
    IS(recvmsg(mine, &m, 0), PART);
    check_pattern(to, PART, 5);
    arrive(mine, far, 6, PART / 2);
    pid_t child = SYS(fork());
    if (child == 0) {
      sleep_ms(50);
      pattern(bytes, PART / 2, 6 + PART / 2);
      send_all(far, bytes, PART / 2);
      _exit(0);
    }
    IS(recv(mine, to, PART, MSG_WAITALL), PART);
    check_pattern(to, PART, 6);
    IS(waitpid(child, 0, 0), child);
    static unsigned char global[2 * PART] __attribute__((aligned(PAGE)));
    get(mine, far, global, 8, PART);
    unsigned char local[2 * PART] __attribute__((aligned(PAGE)));
    arrive(mine, far, 9, PART);
    IS(recv(mine, local, PART, 0), PART);
    write_over(mine, far);
    check_pattern(global, PART, 8);
    check_pattern(local, PART, 9);
    SYS(munmap(to, PART));
  }
}

const struct check CHECKS[] = {
    {"pages_are_shown", pages_are_shown},
    {"what_is_written_to_them_stays", what_is_written_to_them_stays},
    {"one_buffer_again_and_again", one_buffer_again_and_again},
    {"much_is_seen_at_once", much_is_seen_at_once},
    {"odd_sizes", odd_sizes},
    {"part_of_a_buffer_is_received_anew", part_of_a_buffer_is_received_anew},
    {"two_connections_one_buffer", two_connections_one_buffer},
    {"the_connection_is_closed", the_connection_is_closed},
    {"a_child_has_its_own", a_child_has_its_own},
    {"memory_is_protected", memory_is_protected},
    {"memory_is_unmapped", memory_is_unmapped},
    {"a_part_is_unmapped", a_part_is_unmapped},
    {"a_filter_comes", a_filter_comes},
    {"memory_is_moved", memory_is_moved},
    {"memory_is_emptied", memory_is_emptied},
    {"another_thread_writes_beside", another_thread_writes_beside},
    {"shared_memory_is_copied_to", shared_memory_is_copied_to},
    {"other_calls", other_calls},
    {0, 0},
};
