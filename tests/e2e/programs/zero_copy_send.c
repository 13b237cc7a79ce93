/* Whole pages that are sent, which the program's memory may show from a file of the shim's then:
 * what arrives is what they held when they were sent, whatever the program does with them. */
#include "check.h"
#include <linux/errqueue.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>

pid_t _Fork(void);

enum { PAGE = 4096, PART = 16 * PAGE, MUCH = 6 * 1000 * 1000 };

static unsigned char got[MUCH];

static unsigned char *memory(size_t n) {
  void *at = mmap(0, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  OK(at != MAP_FAILED);
  return memset(at, 0x5a, n);
}

/* How many bytes of this memory are a private mapping of the file that is sent from. */
static size_t shown(const unsigned char *at, size_t n) {
  FILE *maps = fopen("/proc/self/maps", "r");
  OK(maps);
  char line[512], flags[5];
  size_t sum = 0;
  while (fgets(line, sizeof line, maps)) {
    unsigned long from, to, first = (unsigned long)at, last = first + n;
    OK(sscanf(line, "%lx-%lx %4s", &from, &to, flags) == 3);
    if (flags[3] != 'p' || !strstr(line, "memfd:longshore-sent"))
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

static void is_shown(const unsigned char *at, size_t n) {
  if (is_to_be_shown())
    IS(shown(at, n), n);
}

/* The far end receives `n` bytes, those of the pattern from `at` on. */
static void arrives(int far, size_t n, size_t at) {
  receive_all(far, got, n);
  check_pattern(got, n, at);
}

/* The program sends these pages, of the pattern from `at` on, and they are shown. */
static void put_anyhow(int mine, unsigned char *from, size_t n, size_t at) {
  pattern(from, n, at);
  IS(send(mine, from, n, 0), n);
}

/* The engine has 32 files of a session at a time, and those of programs that have ended until
 * nobody has used them for 5 s: one of this process's has a place when this returns. */
static void await_place(void) {
  static int has_place;
  if (has_place || !is_to_be_shown())
    return;
  int mine, far;
  pair(0, &mine, &far);
  unsigned char *from = memory(PAGE);
  for (double end = now() + 15; !has_place && now() < end;) {
    put_anyhow(mine, from, PAGE, 0);
    arrives(far, PAGE, 0);
    has_place = shown(from, PAGE) == PAGE;
  }
  SYS(munmap(from, PAGE));
  SYS(close(mine));
  SYS(close(far));
}

static void put(int mine, unsigned char *from, size_t n, size_t at) {
  await_place();
  put_anyhow(mine, from, n, at);
  is_shown(from, n);
}

static void pages_are_sent_from_where_they_lie(void) {
  EACH_PAIR(mine, far) {
    unsigned char *from = memory(2 * PART);
    put(mine, from, PART, 0);
    check_pattern(from, PART, 0);
    arrives(far, PART, 0);
    for (int i = 0; i < 50; i++) {
      IS(write(mine, from, PART), PART);
      arrives(far, PART, 0);
    }
    is_shown(from, PART);
    put(mine, from + PART, PART, 7);
    arrives(far, PART, 7);
    IS(send(mine, from, 2 * PART, 0), 2 * PART);
    arrives(far, PART, 0);
    arrives(far, PART, 7);
    SYS(munmap(from, 2 * PART));
  }
}

/* The far end reads late: what is under way is what it was when it was sent. */
static void what_is_written_later_is_not_sent(void) {
  EACH_PAIR(mine, far) {
    unsigned char *from = memory(PART);
    for (int i = 0; i < 8; i++)
      put(mine, from, PART, i * 1000);
    memset(from, 0xee, PART);
    for (int i = 0; i < 8; i++)
      arrives(far, PART, i * 1000);
    for (int i = 0; i < PART; i++)
      IS(from[i], 0xee);
    SYS(munmap(from, PART));
  }
}

/* Some pages of what was sent are written to, and it is sent again. */
static void a_part_is_written_to(void) {
  EACH_PAIR(mine, far) {
    unsigned char *from = memory(4 * PART), *should = memory(4 * PART);
    put(mine, from, 4 * PART, 0);
    pattern(should, 4 * PART, 0);
    arrives(far, 4 * PART, 0);
    unsigned seed = 3;
    for (int i = 0; i < 200; i++) {
      for (int n = 0; n < i % 7; n++) {
        seed = seed * 1103515245 + 12345;
        size_t at = (seed >> 8) % (4 * PART);
        from[at] = should[at] = seed >> 4;
      }
      size_t first = i % 3 ? 0 : 1 + seed % PAGE, n = 4 * PART - first - (i % 5 ? 0 : 99);
      IS(send(mine, from + first, n, 0), n);
      receive_all(far, got, n);
      OK(memcmp(got, should + first, n) == 0);
      OK(memcmp(from, should, 4 * PART) == 0);
    }
    SYS(munmap(from, 4 * PART)), SYS(munmap(should, 4 * PART));
  }
}

/* Every other page was written to. */
static void it_is_written_to_here_and_there(void) {
  EACH_PAIR(mine, far) {
    unsigned char *from = memory(8 * PART);
    put(mine, from, 8 * PART, 0);
    arrives(far, 8 * PART, 0);
    for (size_t i = 0; i < 8 * PART; i += 2 * PAGE)
      from[i]++;
    IS(send(mine, from, 8 * PART, 0), 8 * PART);
    receive_all(far, got, 8 * PART);
    OK(memcmp(got, from, 8 * PART) == 0);
    for (size_t i = 0; i < 8 * PART; i += 2 * PAGE)
      got[i]--;
    check_pattern(got, 8 * PART, 0);
    SYS(munmap(from, 8 * PART));
  }
}

static int receiver;
static volatile size_t received_from;

static void *receive_much(void *n) {
  static unsigned char piece[65536];
  for (size_t done = 0; done < (size_t)n;) {
    ssize_t now_ = SYS(read(receiver, piece, sizeof piece));
    OK(now_ > 0);
    check_pattern(piece, now_, received_from + done);
    done += now_;
  }
  return 0;
}

/* Sizes and places that do not fit pages, more than there is room for, new bytes each time. */
static void odd_sizes(void) {
  EACH_PAIR(mine, far) {
    unsigned char *from = memory(20 * PART);
    pid_t child = SYS(fork());
    if (child == 0) {
      receiver = far;
      receive_much((void *)MUCH);
      _exit(0);
    }
    unsigned seed = 7;
    for (size_t done = 0; done < MUCH;) {
      seed = seed * 1103515245 + 12345;
      size_t n = 1 + (seed >> 8) % (19 * PART), at = seed >> 28 ? (seed >> 16) % 8 * PAGE : 77;
      n = n < MUCH - done ? n : MUCH - done;
      pattern(from + at, n, done);
      send_all(mine, from + at, n);
      done += n;
    }
    joined(child);
    SYS(munmap(from, 20 * PART));
  }
}

/* There is not room for all, and the descriptor does not wait. */
static void there_is_little_room(void) {
  EACH_PAIR(mine, far) {
    unsigned char *from = memory(64 * PART);
    set(mine, SOL_SOCKET, SO_SNDBUF, 100000);
    nonblocking(mine);
    pattern(from, 64 * PART, 0);
    size_t sent = 0, arrived = 0;
    while (arrived < 64 * PART) {
      ssize_t n = send(mine, from + sent, 64 * PART - sent, 0);
      OK(n >= 0 || errno == EAGAIN);
      sent += n > 0 ? n : 0;
      if (n > 0 || !ready(far, POLLIN, 5))
        continue;
      n = SYS(recv(far, got, 50000, 0));
      check_pattern(got, n, arrived);
      arrived += n;
    }
    SYS(munmap(from, 64 * PART));
  }
}

/* The same memory again and again, with other bytes: each time they are others'. */
static void one_buffer_for_all(void) {
  EACH_PAIR(mine, far) {
    unsigned char *from = memory(4 * PART);
    for (size_t i = 0; i < 300; i++) {
      size_t n = 1 + i % 4;
      put(mine, from, n * PART, i * 10);
      if (i % 3 == 0)
        memset(from, 0x11, 4 * PART);
      arrives(far, n * PART, i * 10);
    }
    SYS(munmap(from, 4 * PART));
  }
}

/* More memory is sent than can be shown at a time. */
static void very_much_memory(void) {
  enum { EACH = 3 * PART, ALL = 400 };
  int mine, far;
  pair(0, &mine, &far);
  unsigned char *from = memory(ALL * EACH);
  for (size_t i = 0; i < ALL; i++) {
    put(mine, from + i * EACH, EACH, i);
    arrives(far, EACH, i);
  }
  for (size_t i = 0; i < ALL; i++)
    check_pattern(from + i * EACH, EACH, i);
  for (size_t i = 0; i < ALL; i += 3) {
    IS(send(mine, from + i * EACH, EACH, 0), EACH);
    arrives(far, EACH, i);
  }
}

static void two_connections_one_buffer(void) {
  EACH_PAIR(mine, far) {
    int mine2, far2;
    pair(kind_, &mine2, &far2);
    unsigned char *from = memory(PART);
    for (int i = 0; i < 20; i++) {
      put(mine, from, PART, i);
      IS(send(mine2, from, PART, 0), PART);
      memset(from, 0, PART);
      IS(send(mine2, from, PAGE, 0), PAGE);
      arrives(far, PART, i);
      arrives(far2, PART, i);
      receive_all(far2, got, PAGE);
      OK(got[0] == 0 && got[PAGE - 1] == 0);
    }
    close(mine2), close(far2);
    SYS(munmap(from, PART));
  }
}

/* What is under way when a connection is closed, or its program ends, arrives. */
static void the_connection_is_closed(void) {
  EACH_PAIR(mine, far) {
    int mine2, far2;
    unsigned char *from = memory(4 * PART);
    for (int way = 0; way < 3; way++) {
      pair(kind_, &mine2, &far2);
      pid_t child = 0;
      if (way == 2)
        child = SYS(fork());
      if (child == 0) {
        put(mine2, from, 2 * PART, way);
        SYS(close(mine2));
        if (way == 2)
          _exit(0);
        memset(from, 0xee, 2 * PART);
      } else {
        SYS(close(mine2));
        joined(child);
      }
      for (int i = 0; i < 20 && way == 1; i++) {
        put(mine, from + PART, 3 * PART, i);
        arrives(far, 3 * PART, i);
      }
      sleep_ms(way * 20);
      arrives(far2, 2 * PART, way);
      IS(recv(far2, got, 1, 0), 0);
      SYS(close(far2));
    }
    SYS(munmap(from, 4 * PART));
  }
}

static void the_connection_is_reset(void) {
  EACH_PAIR(mine, far) {
    int mine2, far2;
    unsigned char *from = memory(4 * PART);
    for (int i = 0; i < 5; i++) {
      pair(kind_, &mine2, &far2);
      put(mine2, from, 4 * PART, i);
      far_reset(far2);
      OK(ready(mine2, POLLERR | POLLHUP, 2000));
      signal(SIGPIPE, SIG_IGN);
      IS(send(mine2, from, 4 * PART, 0), -1);
      check_pattern(from, 4 * PART, i);
      IS(send(mine, from, 4 * PART, 0), 4 * PART);
      SYS(close(mine2));
      put(mine, from, PART, 50);
      arrives(far, 4 * PART, i);
      arrives(far, PART, 50);
    }
    SYS(munmap(from, 4 * PART));
  }
}

static unsigned char *in_child;
static int go[2], child_sends;

static int look_in_child(void *ignored) {
  (void)ignored;
  char c;
  while (read(go[0], &c, 1) != 1)
    ;
  check_pattern(in_child, PART, 0);
  IS(send(child_sends, in_child, PART, 0), PART);
  memset(in_child, 0x11, PART);
  IS(send(child_sends, in_child, PART, 0), PART);
  _exit(0);
}

/* Parent and child have each their own, however the child is made, and both send. */
static void a_child_has_its_own(void) {
  static char stack[1 << 18] __attribute__((aligned(16)));
  EACH_PAIR(mine, far) {
    for (int way = 0; way < 4; way++) {
      int far2;
      pair(kind_, &child_sends, &far2);
      unsigned char *from = in_child = memory(PART);
      put(mine, from, PART, 0);
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
      arrives(far, PART, 0);
      for (int i = 0; i < 10; i++) {
        put(mine, two, PART, 77 + i);
        put(mine, from, PART, 9 + i);
        arrives(far, PART, 77 + i);
        arrives(far, PART, 9 + i);
      }
      IS(write(go[1], "", 1), 1);
      arrives(far2, PART, 0);
      receive_all(far2, got, PART);
      OK(got[0] == 0x11 && got[PART - 1] == 0x11);
      joined(child);
      check_pattern(from, PART, 18);
      check_pattern(two, PART, 86);
      SYS(close(go[0])), SYS(close(go[1]));
      SYS(close(child_sends)), SYS(close(far2));
      SYS(munmap(from, PART)), SYS(munmap(two, PART));
    }
  }
}

static void memory_is_protected(void) {
  EACH_PAIR(mine, far) {
    unsigned char *from = memory(PART);
    put(mine, from, PART, 0);
    SYS(mprotect(from, PART, PROT_READ));
    IS(send(mine, from, PART, 0), PART);
    SYS(mprotect(from, PART, PROT_NONE));
    arrives(far, PART, 0);
    arrives(far, PART, 0);
    SYS(mprotect(from, PART, PROT_READ));
    check_pattern(from, PART, 0);
    /* It was read-only before it was sent, and stays it. */
    unsigned char *fixed = memory(PART);
    pattern(fixed, PART, 3);
    SYS(mprotect(fixed, PART, PROT_READ));
    IS(send(mine, fixed, PART, 0), PART);
    arrives(far, PART, 3);
    pid_t child = SYS(fork());
    if (child == 0) {
      signal(SIGSEGV, SIG_DFL);
      *(volatile unsigned char *)fixed = 1;
      _exit(0);
    }
    int status;
    IS(waitpid(child, &status, 0), child);
    OK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    SYS(munmap(from, PART)), SYS(munmap(fixed, PART));
  }
}

/* Other memory, also of a file, takes the place of what was sent. */
static void memory_is_unmapped(void) {
  int file = SYS(memfd_create("other", MFD_CLOEXEC));
  SYS(ftruncate(file, 1 << 20));
  int rw = PROT_READ | PROT_WRITE;
  EACH_PAIR(mine, far) {
    unsigned char *from = memory(4 * PART);
    put(mine, from, 4 * PART, 0);
    SYS(munmap(from + PART, PART));
    OK(mmap(from + PART, PART, rw, MAP_PRIVATE | MAP_FIXED, file, PART) == from + PART);
    SYS(munmap(from + 2 * PART, PART));
    OK(mmap(from + 2 * PART, PART, rw, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
       from + 2 * PART);
    arrives(far, 4 * PART, 0);
    IS(send(mine, from, 4 * PART, 0), 4 * PART);
    receive_all(far, got, 4 * PART);
    check_pattern(got, PART, 0);
    for (int i = PART; i < 3 * PART; i++)
      IS(got[i], 0);
    check_pattern(got + 3 * PART, PART, 3 * PART);
    put_anyhow(mine, from, 4 * PART, 5);
    arrives(far, 4 * PART, 5);
    SYS(munmap(from, 4 * PART));
    unsigned char byte;
    IS(pread(file, &byte, 1, PART), 1);
    IS(byte, 0);
  }
}

static void memory_is_moved(void) {
  EACH_PAIR(mine, far) {
    unsigned char *from = memory(2 * PART);
    put(mine, from + PART / 2, PART, 0);
    arrives(far, PART, 0);
    unsigned char *moved = mremap(from, 2 * PART, 8 * PART, MREMAP_MAYMOVE);
    OK(moved != MAP_FAILED);
    check_pattern(moved + PART / 2, PART, 0);
    IS(moved[0], 0x5a);
    IS(moved[2 * PART - 1], 0x5a);
    IS(moved[2 * PART], 0);
    IS(send(mine, moved + PART / 2, PART, 0), PART);
    arrives(far, PART, 0);
    SYS(munmap(moved, 8 * PART));
  }
}

static void memory_is_emptied(void) {
  EACH_PAIR(mine, far) {
    unsigned char *from = memory(4 * PART);
    put(mine, from, 4 * PART, 0);
    from[PART] = 1;
    SYS(madvise(from + PART, PART, MADV_DONTNEED));
    for (int i = 0; i < PART; i++)
      IS(from[PART + i], 0);
    IS(send(mine, from, 4 * PART, 0), 4 * PART);
    arrives(far, 4 * PART, 0);
    receive_all(far, got, 4 * PART);
    check_pattern(got, PART, 0);
    for (int i = 0; i < PART; i++)
      IS(got[PART + i], 0);
    check_pattern(got + 2 * PART, 2 * PART, 2 * PART);
    SYS(munmap(from, 4 * PART));
  }
}

static volatile int over;
static unsigned *counters;
enum { STEP = PAGE / sizeof *counters };

/* Writes to all pages that are sent. */
static void *count(void *turns) {
  for (; !over; ++*(unsigned long *)turns)
    for (int page = 0; page < PART / PAGE; page++)
      __atomic_fetch_add(counters + page * STEP, 1, __ATOMIC_RELAXED);
  return 0;
}

/* No write of another thread's is lost, and what it has written before is sent. */
static void other_threads_write(void) {
  EACH_PAIR(mine, far) {
    unsigned char *from = memory(PART);
    counters = memset(from, 0, PART);
    over = 0;
    unsigned long turns[2] = {0};
    pthread_t writers[2];
    for (int i = 0; i < 2; i++)
      pthread_create(&writers[i], 0, count, &turns[i]);
    unsigned before[PART / PAGE] = {0};
    for (int i = 0; i < 300; i++) {
      unsigned at_least[PART / PAGE];
      for (int page = 0; page < PART / PAGE; page++)
        at_least[page] = __atomic_load_n(counters + page * STEP, __ATOMIC_RELAXED);
      IS(send(mine, from, PART, 0), PART);
      receive_all(far, got, PART);
      for (int page = 0; page < PART / PAGE; page++) {
        unsigned now_ = ((unsigned *)got)[page * STEP];
        OK(now_ >= at_least[page] && now_ >= before[page]);
        before[page] = now_;
      }
    }
    over = 1;
    for (int i = 0; i < 2; i++)
      pthread_join(writers[i], 0);
    for (int page = 0; page < PART / PAGE; page++)
      IS(counters[page * STEP], (unsigned)(turns[0] + turns[1]));
    SYS(munmap(from, PART));
  }
}

static unsigned char *guarded;

/* Protects the second page that is sent, and has the kernel try to write there. */
static void *protect(void *zeros) {
  while (!over) {
    SYS(mprotect(guarded + PAGE, PAGE, PROT_READ));
    FAILS(read(*(int *)zeros, guarded + PAGE, 1), EFAULT);
    SYS(mprotect(guarded + PAGE, PAGE, PROT_READ | PROT_WRITE));
    guarded[PAGE]++;
  }
  return 0;
}

/* What another thread has protected while it was sent is protected. */
static void another_thread_protects(void) {
  int zeros = SYS(open("/dev/zero", O_RDONLY));
  EACH_PAIR(mine, far) {
    guarded = memory(PART);
    over = 0;
    pthread_t other;
    pthread_create(&other, 0, protect, &zeros);
    for (int i = 0; i < 1500; i++) {
      guarded[0] = i;
      IS(send(mine, guarded, 2 * PAGE, 0), 2 * PAGE);
      receive_all(far, got, 2 * PAGE);
      IS(got[0], i & 255);
    }
    over = 1;
    pthread_join(other, 0);
    SYS(munmap(guarded, PART));
  }
  SYS(close(zeros));
}

/* What is mapped elsewhere, too, or written to by another process, is sent as it is. */
static void shared_memory_is_copied(void) {
  EACH_PAIR(mine, far) {
    int file = SYS(memfd_create("shared", MFD_CLOEXEC)), rw = PROT_READ | PROT_WRITE;
    SYS(ftruncate(file, PART));
    unsigned char *from = mmap(0, PART, rw, MAP_SHARED, file, 0);
    unsigned char *again = mmap(0, PART, rw, MAP_SHARED, file, 0);
    OK(from != MAP_FAILED && again != MAP_FAILED);
    for (int i = 0; i < 5; i++) {
      put_anyhow(mine, from, PART, i);
      IS(shown(from, PART), 0);
      check_pattern(again, PART, i);
      arrives(far, PART, i);
      pattern(again, PART, i + 100);
      IS(send(mine, from, PART, 0), PART);
      arrives(far, PART, i + 100);
    }
    SYS(munmap(from, PART)), SYS(munmap(again, PART)), SYS(close(file));
  }
}

/* What was sent is received into, and what was received is sent. */
static void received_into_and_sent(void) {
  EACH_PAIR(mine, far) {
    unsigned char *from = memory(PART);
    for (int i = 0; i < 20; i++) {
      put(mine, from, PART, i);
      pattern(got, PART, i + 500);
      send_all(far, got, PART);
      for (int queued = 0; queued < PART; sleep_ms(1))
        SYS(ioctl(mine, FIONREAD, &queued));
      receive_all(mine, from, PART);
      check_pattern(from, PART, i + 500);
      IS(send(mine, from, PART, 0), PART);
      check_pattern(from, PART, i + 500);
      arrives(far, PART, i);
      arrives(far, PART, i + 500);
      check_pattern(from, PART, i + 500);
    }
    SYS(munmap(from, PART));
  }
}

/* The pages that a pipe has by reference stay what they were. */
static void pages_are_in_a_pipe(void) {
  EACH_PAIR(mine, far) {
    unsigned char *from = memory(PART);
    int ends[2];
    SYS(pipe(ends));
    put(mine, from, PART, 0);
    struct iovec one = {from, 8 * PAGE};
    IS(vmsplice(ends[1], &one, 1, 0), 8 * PAGE);
    arrives(far, PART, 0);
    for (int i = 1; i < 20; i++) {
      int how = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
      OK(mmap(from, PART, PROT_READ | PROT_WRITE, how, -1, 0) == from);
      put(mine, from, PART, i);
      arrives(far, PART, i);
    }
    for (int done = 0; done < 8 * PAGE;)
      done += SYS(read(ends[0], got + done, 8 * PAGE - done));
    check_pattern(got, 8 * PAGE, 0);
    SYS(close(ends[0])), SYS(close(ends[1]));
    SYS(munmap(from, PART));
  }
}

static void other_calls(void) {
  EACH_PAIR(mine, far) {
    unsigned char *from = memory(2 * PART);
    pattern(from, 2 * PART, 0);
    struct iovec two[2] = {{from, PART}, {from + PART, PART}};
    IS(writev(mine, two, 2), 2 * PART);
    arrives(far, 2 * PART, 0);
    struct msghdr m = {.msg_iov = two, .msg_iovlen = 1};
    IS(sendmsg(mine, &m, MSG_MORE), PART);
    IS(sendmsg(mine, &m, MSG_EOR), PART);
    arrives(far, PART, 0);
    arrives(far, PART, 0);
    IS(sendto(mine, from, PART + 100, MSG_DONTWAIT, 0, 0), PART + 100);
    arrives(far, PART + 100, 0);
    /* The whole stack, with what is on it. */
    unsigned char local[2 * PART] __attribute__((aligned(PAGE)));
    put_anyhow(mine, local, PART, 4);
    arrives(far, PART, 4);
    static unsigned char global[2 * PART] __attribute__((aligned(PAGE)));
    put(mine, global, PART, 6);
    arrives(far, PART, 6);
    check_pattern(local, PART, 4);
    SYS(munmap(from, 2 * PART));
  }
}

/* A program may promise to leave the bytes alone until it is told. */
/* The next notice is about the sends from `first` to `last`. It says that one of them was
 * copied only where one was: not where the kernel's own stack decides. */
static void is_told(int mine, unsigned first, unsigned last, int copied) {
  char control[256];
  struct msghdr m = {.msg_control = control, .msg_controllen = sizeof control};
  double end = now() + 2;
  while (recvmsg(mine, &m, MSG_ERRQUEUE) < 0 && now() < end)
    sleep_ms(1);
  struct cmsghdr *c = CMSG_FIRSTHDR(&m);
  OK(c && c->cmsg_level == SOL_IP && c->cmsg_type == IP_RECVERR);
  struct sock_extended_err *e = (void *)CMSG_DATA(c);
  IS(e->ee_origin, SO_EE_ORIGIN_ZEROCOPY);
  IS(e->ee_info, first);
  IS(e->ee_data, last);
  if (is_to_be_shown())
    IS(e->ee_code, copied ? SO_EE_CODE_ZEROCOPY_COPIED : 0);
}

/* Pages are copied when they come to be shown, and not when they are sent again as they are. */
static void with_notices(void) {
  EACH_PAIR(mine, far) {
    unsigned char *from = memory(PART);
    await_place();
    set(mine, SOL_SOCKET, SO_ZEROCOPY, 1);
    pattern(from, PART, 0);
    for (unsigned i = 0; i < 5; i++) {
      IS(send(mine, from, PART, MSG_ZEROCOPY), PART);
      arrives(far, PART, 0);
      is_told(mine, i, i, i == 0);
    }
    from[PART / 2] ^= 1;
    IS(send(mine, from, PART, MSG_ZEROCOPY), PART);
    receive_all(far, got, PART);
    is_told(mine, 5, 5, 1);
    from[PART / 2] ^= 1;
    if (is_to_be_shown()) {
      /* One notice of a send that was copied, and one that was not. */
      for (int i = 0; i < 2; i++) {
        IS(send(mine, from, PART, MSG_ZEROCOPY), PART);
        arrives(far, PART, 0);
      }
      is_told(mine, 6, 7, 1);
      /* Part of the last page, which is shown. */
      IS(send(mine, from, PART - 100, MSG_ZEROCOPY), PART - 100);
      arrives(far, PART - 100, 0);
      is_told(mine, 8, 8, 0);
      /* What is less than a page is copied. */
      IS(send(mine, from, 100, MSG_ZEROCOPY), 100);
      arrives(far, 100, 0);
      is_told(mine, 9, 9, 1);
    }
    SYS(munmap(from, PART));
  }
}

/* A process that may not make files as long as that sends all the same. */
static void files_are_limited(void) {
  struct rlimit none = {PAGE, PAGE};
  SYS(setrlimit(RLIMIT_FSIZE, &none));
  EACH_PAIR(mine, far) {
    unsigned char *from = memory(PART);
    for (int i = 0; i < 5; i++) {
      put_anyhow(mine, from, PART, i);
      arrives(far, PART, i);
    }
    IS(shown(from, PART), 0);
    SYS(munmap(from, PART));
  }
}

/* Memory is as other memory under a filter of system calls, too. */
static void a_filter_comes(void) {
  int mine, far;
  pair(0, &mine, &far);
  unsigned char *from = memory(2 * PART);
  put(mine, from, 2 * PART, 0);
  arrives(far, 2 * PART, 0);
  struct sock_filter all[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  struct sock_fprog filter = {1, all};
  SYS(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
  SYS(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0));
  IS(shown(from, 2 * PART), 0);
  IS(send(mine, from, 2 * PART, 0), 2 * PART);
  arrives(far, 2 * PART, 0);
  SYS(madvise(from, PART, MADV_DONTNEED));
  for (int i = 0; i < PART; i++)
    IS(from[i], 0);
  check_pattern(from + PART, PART, PART);
}

const struct check CHECKS[] = {
    {"pages_are_sent_from_where_they_lie", pages_are_sent_from_where_they_lie},
    {"what_is_written_later_is_not_sent", what_is_written_later_is_not_sent},
    {"a_part_is_written_to", a_part_is_written_to},
    {"it_is_written_to_here_and_there", it_is_written_to_here_and_there},
    {"odd_sizes", odd_sizes},
    {"there_is_little_room", there_is_little_room},
    {"one_buffer_for_all", one_buffer_for_all},
    {"very_much_memory", very_much_memory},
    {"two_connections_one_buffer", two_connections_one_buffer},
    {"the_connection_is_closed", the_connection_is_closed},
    {"the_connection_is_reset", the_connection_is_reset},
    {"a_child_has_its_own", a_child_has_its_own},
    {"memory_is_protected", memory_is_protected},
    {"memory_is_unmapped", memory_is_unmapped},
    {"memory_is_moved", memory_is_moved},
    {"memory_is_emptied", memory_is_emptied},
    {"other_threads_write", other_threads_write},
    {"another_thread_protects", another_thread_protects},
    {"shared_memory_is_copied", shared_memory_is_copied},
    {"received_into_and_sent", received_into_and_sent},
    {"pages_are_in_a_pipe", pages_are_in_a_pipe},
    {"other_calls", other_calls},
    {"with_notices", with_notices},
    {"files_are_limited", files_are_limited},
    {"a_filter_comes", a_filter_comes},
    {0, 0},
};
