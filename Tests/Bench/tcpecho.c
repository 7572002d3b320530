/* Upstream of the TCP workloads: sends back what it receives, over TLS 1.3 or plain TCP.
 *
 *   tcpecho [suite=S] [group=G] [tls=P,CERT,KEY]... [tickets=P,CERT,KEY]... [plain=P]...
 *
 * Listens on each port P of 127.0.0.1, in one thread.  A client of a `tls`
 * port gets no session ticket, so that none of its handshakes is a resumed
 * one; a client of a `tickets` port gets two.  When a client ends its side,
 * what is left is sent back, then the connection is closed.  It reads no more
 * of a client than it could send back to it.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CHUNK = 65536, ALL_AT_ONCE = 256 };
enum { WAITS = -1, ENDED = 0, BROKEN = -2 };

struct place { /* a listening socket, or a connection */
    int fd, listens, shaken;
    SSL_CTX *ctx; /* of a listening socket; NULL is plain TCP */
    SSL *ssl;
    char *left; /* what the socket has not taken yet */
    size_t left_at, left_len;
};

static int ep;
static char chunk[CHUNK];
/* Closed while events of the same epoll_wait may still name them. */
static struct place *closed[ALL_AT_ONCE];
static int closed_n;

static int outcome(struct place *p, int r)
{
    if (r > 0)
        return r;
    if (p->ssl) {
        int error = SSL_get_error(p->ssl, r);
        if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE)
            return WAITS;
        ERR_clear_error();
        return error == SSL_ERROR_ZERO_RETURN ? ENDED : BROKEN;
    }
    if (r < 0)
        return errno == EAGAIN || errno == EINTR ? WAITS : BROKEN;
    return ENDED;
}

static int reads(struct place *p)
{
    return outcome(p, p->ssl ? SSL_read(p->ssl, chunk, sizeof chunk) : (int)recv(p->fd, chunk, sizeof chunk, 0));
}

static int writes(struct place *p, const char *from, size_t length)
{
    int r = p->ssl ? SSL_write(p->ssl, from, length) : (int)send(p->fd, from, length, MSG_NOSIGNAL);
    return outcome(p, r);
}

static void finish(struct place *p, int ended_well)
{
    if (p->ssl) {
        if (ended_well)
            SSL_shutdown(p->ssl);
        SSL_free(p->ssl);
        ERR_clear_error();
    }
    close(p->fd);
    free(p->left);
    p->fd = -1;
    p->left = NULL;
    closed[closed_n++] = p;
}

/* Sends back what is left, then what there is to read, until one of both has to wait. */
static void drive(struct place *p)
{
    if (p->ssl && !p->shaken) {
        int r = outcome(p, SSL_do_handshake(p->ssl));
        if (r == WAITS)
            return;
        if (r <= 0) {
            finish(p, 0);
            return;
        }
        p->shaken = 1;
    }
    for (;;) {
        int r;
        while (p->left_at < p->left_len) {
            r = writes(p, p->left + p->left_at, p->left_len - p->left_at);
            if (r == WAITS)
                return;
            if (r <= 0) {
                finish(p, 0);
                return;
            }
            p->left_at += r;
        }
        free(p->left);
        p->left = NULL;
        p->left_at = p->left_len = 0;

        int got = reads(p);
        if (got == WAITS)
            return;
        if (got <= 0) {
            finish(p, got == ENDED);
            return;
        }
        r = writes(p, chunk, got);
        if (r < 0 && r != WAITS) {
            finish(p, 0);
            return;
        }
        size_t taken = r > 0 ? r : 0;
        if (taken < (size_t)got) {
            p->left_len = got - taken;
            if (!(p->left = malloc(p->left_len))) {
                finish(p, 0);
                return;
            }
            memcpy(p->left, chunk + taken, p->left_len);
        }
    }
}

static void accepts(struct place *listener)
{
    int fd, one = 1;
    while ((fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        struct place *p = calloc(1, sizeof *p);
        struct epoll_event ev = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = p};
        if (!p || (listener->ctx && !(p->ssl = SSL_new(listener->ctx)))) {
            free(p);
            close(fd);
            continue;
        }
        p->fd = fd;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        if (p->ssl) {
            SSL_set_fd(p->ssl, fd);
            SSL_set_accept_state(p->ssl);
        }
        /* The first event comes at once, since the socket takes bytes. */
        epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev);
    }
}

static int stop(const char *what)
{
    fprintf(stderr, "tcpecho: %s: %s\n", what, strerror(errno));
    ERR_print_errors_fp(stderr);
    return 2;
}

int main(int argc, char **argv)
{
    const char *suite = NULL, *group = NULL;
    int i, n;

    signal(SIGPIPE, SIG_IGN);
    ep = epoll_create1(EPOLL_CLOEXEC);
    for (i = 1; i < argc; i++) {
        char *value = strchr(argv[i], '='), *certificate = NULL, *key = NULL;
        if (!value)
            return stop(argv[i]);
        *value++ = 0;
        if (!strcmp(argv[i], "suite")) {
            suite = value;
            continue;
        }
        if (!strcmp(argv[i], "group")) {
            group = value;
            continue;
        }
        int tickets = !strcmp(argv[i], "tickets"), plain = !strcmp(argv[i], "plain"), one = 1;
        if (!tickets && !plain && strcmp(argv[i], "tls"))
            return stop(argv[i]);
        struct place *p = calloc(1, sizeof *p);
        struct sockaddr_in at = {.sin_family = AF_INET};
        struct epoll_event ev = {.events = EPOLLIN, .data.ptr = p};
        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        at.sin_port = htons(atoi(value));
        if (!plain) {
            if (!(certificate = strchr(value, ',')) || !(key = strchr(certificate + 1, ',')))
                return stop(value);
            *certificate++ = *key++ = 0;
            p->ctx = SSL_CTX_new(TLS_server_method());
            SSL_CTX_set_min_proto_version(p->ctx, TLS1_3_VERSION);
            SSL_CTX_set_mode(p->ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                         SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
            SSL_CTX_set_read_ahead(p->ctx, 1); /* one recv for the head and the body of a record */
            SSL_CTX_set_session_cache_mode(p->ctx, SSL_SESS_CACHE_OFF);
            SSL_CTX_set_session_id_context(p->ctx, (const unsigned char *)"tcpecho", 7);
            if (!tickets) {
                SSL_CTX_set_options(p->ctx, SSL_OP_NO_TICKET);
                SSL_CTX_set_num_tickets(p->ctx, 0);
            }
            if (SSL_CTX_use_certificate_chain_file(p->ctx, certificate) != 1 ||
                SSL_CTX_use_PrivateKey_file(p->ctx, key, SSL_FILETYPE_PEM) != 1 ||
                (suite && !SSL_CTX_set_ciphersuites(p->ctx, suite)) ||
                (group && !SSL_CTX_set1_groups_list(p->ctx, group)))
                return stop(certificate);
        }
        p->listens = 1;
        p->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        setsockopt(p->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
        if (bind(p->fd, (void *)&at, sizeof at) < 0 || listen(p->fd, 8192) < 0 ||
            epoll_ctl(ep, EPOLL_CTL_ADD, p->fd, &ev) < 0)
            return stop(value);
    }
    for (;;) {
        struct epoll_event ev[ALL_AT_ONCE];
        n = epoll_wait(ep, ev, ALL_AT_ONCE, -1);
        for (i = 0; i < n; i++) {
            struct place *p = ev[i].data.ptr;
            if (p->listens)
                accepts(p);
            else if (p->fd >= 0)
                drive(p);
        }
        while (closed_n > 0)
            free(closed[--closed_n]);
    }
}
