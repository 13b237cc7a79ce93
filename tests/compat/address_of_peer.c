/* Between libuv's tests and uv_ip4_addr, uv_ip6_addr: where the test says loopback and
 * COMPAT_PEER is set, that address is meant. So a test whose server is a process of its
 * own runs on two hosts. Linked with --wrap; see longshore_compat/libuv.py. */

#include <stdlib.h>
#include <string.h>
#include <uv.h>

int __real_uv_ip4_addr(const char *ip, int port, struct sockaddr_in *address);
int __real_uv_ip6_addr(const char *ip, int port, struct sockaddr_in6 *address);

static const char *meant(const char *ip, const char *loopback, const char *variable) {
    const char *peer = getenv(variable);
    return peer != NULL && strcmp(ip, loopback) == 0 ? peer : ip;
}

int __wrap_uv_ip4_addr(const char *ip, int port, struct sockaddr_in *address) {
    return __real_uv_ip4_addr(meant(ip, "127.0.0.1", "COMPAT_PEER"), port, address);
}

int __wrap_uv_ip6_addr(const char *ip, int port, struct sockaddr_in6 *address) {
    return __real_uv_ip6_addr(meant(ip, "::1", "COMPAT_PEER6"), port, address);
}
