/* Pointers that a call has to refuse (EFAULT) and not die of. */
#ifndef NOWHERE_H
#define NOWHERE_H
#include "check.h"
#include <sys/mman.h>

enum { PAGE_SIZE = 4096 };

/* A page of so many rights, where the kernel puts none of its own accord; it stays. */
static inline char *page_of(int rights) {
  static char *next = (char *)0x20000000;
  char *page = mmap(next, PAGE_SIZE, rights,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  OK(page == next);
  next += 2 * PAGE_SIZE;
  return page;
}

/* An offset from a null pointer; an address of the kernel's; a page that is kept for nothing; one
 * that is gone; one that was used and is kept for nothing since; one that was used and is gone. */
enum { NOWHERES = 6 };
/* Which Linux refuses before it looks at the socket, in some calls. */
#define KERNELS ((void *)(1UL << 63))

static inline void *nowhere_of(int kind) {
  static void *kept[NOWHERES];
  if (kept[kind])
    return kept[kind];
  if (kind < 2)
    return kept[kind] = kind ? KERNELS : (void *)8;
  char *page = page_of(kind == 2 ? PROT_NONE : PROT_READ | PROT_WRITE);
  if (kind > 3)
    EACH_PAIR(mine, far) {
      IS(send(mine, page, 1, 0), 1);
      receive_all(far, page, 1);
      IS(send(far, page, 1, 0), 1);
      receive_all(mine, page, 1);
    }
  if (kind == 4)
    SYS(mprotect(page, PAGE_SIZE, PROT_NONE));
  if (kind == 3 || kind == 5)
    SYS(munmap(page, PAGE_SIZE));
  return kept[kind] = page;
}

/* The statement that follows with `pointer`, a `void *volatile` of which the compiler knows nothing,
 * at each of them. */
#define EACH_NOWHERE(pointer)                                                  \
  for (int nth_ = 0; nth_ < NOWHERES && (pointer = nowhere_of(nth_), 1); nth_++)

#endif
