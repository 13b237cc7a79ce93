/* The steps of a case, from its seed: most of them fit what the socket at their place ought to
 * be by then, and some do not. Nothing here looks at a socket: what a step does is the same
 * whether others are taken or not. */
#ifndef GENERATE_H
#define GENERATE_H
#include "case.h"

static uint64_t random_state;

/* SplitMix64. */
static uint32_t draw(void) {
  uint64_t z = random_state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return (z ^ z >> 31) >> 32;
}

/* What ought to be at a place. */
enum guess { NOTHING, NEW, BOUND, LISTENS, CONNECTED, UDP, GUESSES };

struct weight {
  enum op op;
  int weight;
};

enum { MOST_WEIGHTS = 32 };

/* How often which step is taken with what is guessed. */
static const struct weight WEIGHTS[GUESSES][MOST_WEIGHTS] = {
    [NOTHING] = {{SOCKET, 12}, {SEND, 1}, {GETOPT, 1}, {ASK_SET, 2}, {RENEW_SET, 1}},
    [NEW] = {{BIND, 16}, {LISTEN, 6}, {CONNECT, 12}, {ACCEPT, 1}, {SEND, 1}, {SENDTO, 1},
             {RECV, 1}, {SHUTDOWN, 2}, {CLOSE, 1}, {DUP, 1}, {GETOPT, 3}, {SETOPT, 8},
             {NAME, 2}, {PEER, 1}, {IOCTL, 1}, {FCNTL, 1}, {ASK, 2}, {BUFFER, 1},
             {CHANGE_SET, 6}, {ASK_SET, 4}},
    [BOUND] = {{BIND, 3}, {LISTEN, 12}, {CONNECT, 14}, {ACCEPT, 1}, {SEND, 1}, {RECV, 1},
               {SHUTDOWN, 3}, {CLOSE, 3}, {DUP, 1}, {GETOPT, 2}, {SETOPT, 5}, {NAME, 3},
               {PEER, 1}, {IOCTL, 1}, {FCNTL, 1}, {ASK, 2}, {BUFFER, 1},
             {CHANGE_SET, 6}, {ASK_SET, 4}},
    [LISTENS] = {{BIND, 1}, {LISTEN, 3}, {CONNECT, 3}, {ACCEPT, 16}, {SEND, 1}, {RECV, 1},
                 {SHUTDOWN, 4}, {CLOSE, 3}, {DUP, 1}, {GETOPT, 3}, {SETOPT, 4}, {NAME, 2},
                 {PEER, 1}, {IOCTL, 1}, {FCNTL, 1}, {ASK, 2}, {BUFFER, 1},
             {CHANGE_SET, 6}, {ASK_SET, 4}},
    [CONNECTED] = {{BIND, 1}, {LISTEN, 1}, {CONNECT, 3}, {ACCEPT, 1}, {SEND, 12}, {SENDTO, 2},
                   {SENDMSG, 4}, {WRITE, 4}, {RECV, 12}, {RECVFROM, 2}, {RECVMSG, 5}, {READ, 3},
                   {SHUTDOWN, 5}, {CLOSE, 4}, {DUP, 2}, {GETOPT, 4}, {SETOPT, 5}, {NAME, 1},
                   {PEER, 2}, {IOCTL, 6}, {FCNTL, 1}, {SENDFILE, 2}, {SENDMMSG, 2}, {RECVMMSG, 2},
                   {SPLICE_IN, 3}, {SPLICE_OUT, 3}, {ASK, 2}, {BUFFER, 1},
             {CHANGE_SET, 6}, {ASK_SET, 4}},
    [UDP] = {{BIND, 6}, {LISTEN, 1}, {CONNECT, 10}, {ACCEPT, 1}, {SEND, 6}, {SENDTO, 12},
             {SENDMSG, 6}, {WRITE, 3}, {RECV, 6}, {RECVFROM, 6}, {RECVMSG, 8}, {READ, 2},
             {SHUTDOWN, 4}, {CLOSE, 3}, {DUP, 1}, {GETOPT, 4}, {SETOPT, 8}, {NAME, 3}, {PEER, 2},
             {IOCTL, 4}, {FCNTL, 1}, {SENDFILE, 1}, {SENDMMSG, 5}, {RECVMMSG, 5}, {ASK, 2},
             {BUFFER, 2}, {CHANGE_SET, 5}, {ASK_SET, 3}},
};

static enum op weighted(const struct weight *weights, size_t n) {
  int all = 0;
  for (size_t i = 0; i < n; i++)
    all += weights[i].weight;
  int at = draw() % all;
  while (at >= weights->weight)
    at -= weights++->weight;
  return weights->op;
}

static struct step *put(struct step *to, enum op op, int a, int b) {
  to->op = op, to->a = a, to->b = b;
  to->by = ITSELF;
  for (int i = 0; i < DRAWS; i++)
    to->draw[i] = draw();
  return to;
}

/* What will be at the place of a socket that is made, by the draw that says its kind. */
static enum guess guess_made(const struct step *s) {
  return s->draw[0] % 8 < 5 ? NEW : UDP;
}

/* What there ought to be after a step. */
static void guess_on(enum guess *guesses, const struct step *s) {
  enum guess *a = &guesses[s->a], *b = &guesses[s->b];
  if (s->by == A_CHILD && (s->op == SOCKET || s->op == ACCEPT || s->op == DUP || s->op == CLOSE))
    return;
  switch (s->op) {
  case SOCKET:
    *a = guess_made(s);
    break;
  case BIND:
    *a = *a == NEW ? BOUND : *a;
    break;
  case LISTEN:
    *a = *a == NEW || *a == BOUND ? LISTENS : *a;
    break;
  case CONNECT:
    *a = *a == NEW || *a == BOUND ? CONNECTED : *a;
    break;
  case ACCEPT:
    *b = *a == LISTENS ? CONNECTED : *b;
    break;
  case SHUTDOWN:
    *a = *a == LISTENS ? BOUND : *a;
    break;
  case CLOSE:
    *a = NOTHING;
    break;
  case DUP:
    *b = *a;
    break;
  default:
    break;
  }
}

/* A connection from one place to another, by a listener at a third. Its draws are such
 * that it is made, unless something stands in its way. */
static int put_connection(struct step *to, int room, int listener, int from, int at) {
  static const enum op OPS[] = {SOCKET, BIND, LISTEN, SOCKET, CONNECT, ACCEPT};
  int n = sizeof OPS / sizeof *OPS;
  if (room < n)
    return 0;
  uint32_t family = draw() % 4;
  for (int i = 0; i < n; i++) {
    put(to + i, OPS[i], i < 3 || i == 5 ? listener : from, i == 5 ? at : listener);
    to[i].draw[0] = i == 0 || i == 3 ? 8 * family : 0;
  }
  return n;
}

static void generate(uint64_t seed, struct step *steps) {
  enum guess guesses[PLACES] = {NOTHING};
  random_state = seed;
  draw();
  for (int i = 0; i < STEPS;) {
    int a = draw() % PLACES, b = draw() % PLACES, made = 0;
    /* Where there is something more often than where there is nothing. */
    if (guesses[a] == NOTHING)
      a = draw() % PLACES;
    if (draw() % (i ? 24 : 2) == 0)
      made = put_connection(steps + i, STEPS - i, a, b, draw() % PLACES);
    if (!made) {
      enum guess g = draw() % 20 ? guesses[a] : draw() % GUESSES;
      put(steps + i, weighted(WEIGHTS[g], MOST_WEIGHTS), a, b);
      steps[i].by = draw() % 40 == 0 ? A_CHILD : draw() % 40 == 0 ? A_THREAD : ITSELF;
      /* An instance that a child has inherited is its own. */
      if (steps[i].by == A_CHILD && steps[i].op >= CHANGE_SET)
        steps[i].by = ITSELF;
      /* Of what nobody has bound yet, its process alone knows what was set or shut down. */
      if (steps[i].by == A_CHILD && (steps[i].op == SETOPT || steps[i].op == SHUTDOWN))
        steps[i].by = ITSELF;
      made = 1;
    }
    for (int end = i + made; i < end; i++)
      guess_on(guesses, &steps[i]);
  }
}

#endif
