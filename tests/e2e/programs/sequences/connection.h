/* What may be done to a connection, at the end that is looked at afterwards or at the other. */

static void do_send(void) { say_result(send(scene.other, "bytes", BYTES, MSG_NOSIGNAL)); }
static void do_urgent(void) { say_result(send(scene.other, "u", 1, MSG_OOB | MSG_NOSIGNAL)); }
static void do_shut_write(void) { say_result(shutdown(scene.other, SHUT_WR)); }
static void do_shut_read(void) { say_result(shutdown(scene.other, SHUT_RD)); }
static void do_read(void) {
  char buf[20];
  say_result(recv(scene.other, buf, sizeof buf, MSG_DONTWAIT));
}
static void do_disconnect(void) { disconnect(scene.other); }
static void do_close(void) {
  close(scene.other);
  scene.other = -1;
}
static void do_reset(void) {
  close_hard(scene.other);
  scene.other = -1;
}

static void do_our_send(void) {
  say_result(send(scene.fd, "unread", 6, MSG_DONTWAIT | MSG_NOSIGNAL));
}
static void do_our_urgent(void) {
  say_result(send(scene.fd, "u", 1, MSG_OOB | MSG_DONTWAIT | MSG_NOSIGNAL));
}
static void do_our_shut_write(void) { say_result(shutdown(scene.fd, SHUT_WR)); }
static void do_our_shut_read(void) { say_result(shutdown(scene.fd, SHUT_RD)); }
static void do_our_read(void) {
  char buf[3];
  say_result(recv(scene.fd, buf, sizeof buf, MSG_DONTWAIT));
}
static void do_inline(void) { set(SOL_SOCKET, SO_OOBINLINE, 1); }

static const struct operation connection_operations[] = {
    {"send", do_send, OTHER},
    {"urgent", do_urgent, OTHER},
    {"shut W", do_shut_write, OTHER},
    {"shut R", do_shut_read, OTHER},
    {"read", do_read, OTHER},
    {"disconnect", do_disconnect, OTHER},
    {"close", do_close, ENDS_OTHER},
    {"reset", do_reset, ENDS_OTHER},
    {"we send", do_our_send, ANY},
    {"we send urgent", do_our_urgent, ANY},
    {"we shut W", do_our_shut_write, ANY},
    {"we shut R", do_our_shut_read, ANY},
    {"we read", do_our_read, ANY},
    {"in line", do_inline, ANY},
    no_operation,
};
