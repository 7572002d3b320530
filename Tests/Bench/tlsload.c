/* mTLS load generator: handshakes, resumed handshakes, idle connections.
 *
 *   tlsload MODE port=P chain=PEM key=PEM [suite=S] [group=G] [path=/x]
 *           [conns=16] [seconds=4] [count=N] [names=N] [echo=BYTES]
 *   MODE: handshake | resume | idle | silent | echo
 *
 * Talk with the bench: it prints "ready", waits for a line on stdin, then
 * works and prints one JSON line.  In idle mode it prints the JSON line when
 * all connections are open, waits for another line, checks that none has been
 * dropped, and prints a second JSON line.
 * handshake/resume: `conns` slots; each connects, handshakes, sends one GET
 * with "Connection: close", reads to the end, closes, starts again.  Every
 * connection that was started is finished and counted, so that the proxy's
 * CPU time over the run belongs to exactly `completed` connections.
 * silent: as idle, with connections that never send a byte.
 * echo=BYTES: an exchange is not a GET.  So many bytes are sent, and the same
 * must come back: each exchange has other bytes.  handshake/resume: the
 * client says then that it ends, and waits until the other side has ended.
 * idle: at the end, each connection echoes once more.
 * echo: `conns` connections, which are open and have echoed once before it
 * prints "ready"; each echoes again and again for `seconds`.  Every echo that
 * was started is finished and counted.  It waits for another line before it
 * ends, so that nothing is closed while the bench reads the CPU time.
 * names=N: connections take turns with the server names h0.test to hN-1.test.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { HANDSHAKE, SENDING, READING, ECHOING, ENDING, IDLE, CLOSED };
enum { OFFSETS = 4096, PART = 65536 }; /* of the bytes of echoes; what is written before reading again */

struct conn {
    int fd, state;
    SSL *ssl;
    SSL_SESSION *ticket; /* newest ticket this slot got */
    char head[2048];     /* start of the response */
    size_t got;
    double t0;
    char request[512];
    size_t request_len;
    const char *bytes; /* of this echo */
    size_t sent;
};

static SSL_CTX *ctx;
static int ep, keepalive, resume, silent, echoes, port = 0;
static size_t echo;
static char *echo_bytes;
static double echo_until;
static unsigned long echo_number;
static const char *path = "/tiny";
static long names, next_name, opened_before;
static long completed, resumed, errors, unclean, active, tickets;
static char first_error[256];
static float *lat;
static long lat_cap, lat_n;
static char session_info[128];

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static int on_ticket(SSL *ssl, SSL_SESSION *s)
{
    struct conn *c = SSL_get_app_data(ssl);
    if (c->ticket)
        SSL_SESSION_free(c->ticket);
    c->ticket = s; /* we keep the reference */
    tickets++;
    return 1;
}

static void fail(const char *what)
{
    errors++;
    if (!first_error[0]) {
        char buf[160] = "";
        unsigned long e = ERR_peek_last_error();
        if (e)
            ERR_error_string_n(e, buf, sizeof buf);
        snprintf(first_error, sizeof first_error, "%s errno=%d %s", what, errno, buf);
        for (char *p = first_error; *p; p++)
            if (*p == '"' || *p == '\\' || *p < ' ')
                *p = ' ';
    }
    ERR_clear_error();
}

static void finish(struct conn *c)
{
    struct linger hard = {1, 0}; /* no TIME_WAIT: ports must not run out */
    if (c->ssl) { /* without this OpenSSL would mark the slot's ticket as not resumable */
        SSL_set_shutdown(c->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
        SSL_free(c->ssl);
    }
    if (c->fd >= 0) {
        setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
        close(c->fd);
    }
    c->ssl = NULL;
    c->fd = -1;
    c->state = CLOSED;
    active--;
}

static void drive(struct conn *c);

/* Writes the request and returns the server name. */
static const char *prepare(struct conn *c)
{
    static char name[64] = "front.test";
    char host[80];

    snprintf(host, sizeof host, "127.0.0.1:%d", port);
    if (names) {
        snprintf(name, sizeof name, "h%ld.test", next_name++ % names);
        snprintf(host, sizeof host, "%s", name);
    }
    c->request_len = snprintf(c->request, sizeof c->request, "GET %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", path, host,
                              keepalive ? "" : "Connection: close\r\n");
    return name;
}

static void start(struct conn *c)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct epoll_event ev = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = c};
    int one = 1;

    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    active++;
    c->got = 0;
    c->ssl = NULL;
    c->t0 = now();
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (keepalive && opened_before >= 20000) { /* an address has some 28,000 ports for one server */
        struct sockaddr_in own = {.sin_family = AF_INET};
        own.sin_addr.s_addr = htonl(INADDR_LOOPBACK + opened_before / 20000);
        setsockopt(c->fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one);
        if (bind(c->fd, (void *)&own, sizeof own) < 0)
            fail("bind");
    }
    opened_before++;
    if (c->fd < 0 || connect(c->fd, (void *)&a, sizeof a) < 0) {
        fail("connect");
        finish(c);
        return;
    }
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    fcntl(c->fd, F_SETFL, O_NONBLOCK);
    if (silent) {
        c->state = IDLE;
        completed++;
        active--;
        epoll_ctl(ep, EPOLL_CTL_ADD, c->fd, &ev);
        return;
    }
    c->ssl = SSL_new(ctx);
    SSL_set_app_data(c->ssl, c);
    SSL_set_fd(c->ssl, c->fd);
    SSL_set_tlsext_host_name(c->ssl, prepare(c));
    SSL_set_connect_state(c->ssl);
    if (resume && c->ticket)
        SSL_set_session(c->ssl, c->ticket);
    c->state = HANDSHAKE;
    epoll_ctl(ep, EPOLL_CTL_ADD, c->fd, &ev);
    drive(c);
}

static void counted(struct conn *c)
{
    completed++;
    if (SSL_session_reused(c->ssl))
        resumed++;
    if (!session_info[0]) {
        int nid = SSL_get_negotiated_group(c->ssl) & 0xffff;
        snprintf(session_info, sizeof session_info, "%s %s group %s", SSL_get_version(c->ssl),
                 SSL_get_cipher_name(c->ssl), OBJ_nid2sn(nid) ? OBJ_nid2sn(nid) : "?");
    }
    if (lat_n == lat_cap)
        lat = realloc(lat, (lat_cap = lat_cap ? lat_cap * 2 : 65536) * sizeof *lat);
    lat[lat_n++] = now() - c->t0;
}

/* End of one exchange: the status of HTTP must be 2xx. */
static void answered(struct conn *c)
{
    c->head[c->got < sizeof c->head ? c->got : sizeof c->head - 1] = 0;
    if (!echo && strncmp(c->head, "HTTP/1.1 2", 10)) {
        errno = 0;
        fail(c->got ? "status not 2xx" : "no response");
        finish(c);
        return;
    }
    counted(c);
    if (keepalive) {
        c->state = IDLE;
        active--;
    } else
        finish(c);
}

/* Keep-alive only: whole response received? */
static int whole(struct conn *c)
{
    char *end, *len;
    if (c->got >= sizeof c->head)
        return 1; /* longer than anything we ask for */
    c->head[c->got] = 0;
    if (!(end = strstr(c->head, "\r\n\r\n")))
        return 0;
    len = strcasestr(c->head, "\r\ncontent-length:");
    return c->got >= (size_t)(end + 4 - c->head) + (len ? atol(len + 17) : 0);
}

static void begin_echo(struct conn *c)
{
    c->bytes = echo_bytes + (echo_number++ * 61) % OFFSETS;
    c->sent = c->got = 0;
    c->state = ECHOING;
}

/* What SSL_read or SSL_write made of it: more than 0, or 0 if it has to wait. */
static int moved(struct conn *c, int r, const char *what)
{
    if (r > 0)
        return r;
    int error = SSL_get_error(c->ssl, r);
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE)
        return 0;
    if (error == SSL_ERROR_ZERO_RETURN)
        errno = 0;
    fail(what);
    finish(c);
    return -1;
}

/* Writes and reads until both have to wait. */
static void exchange(struct conn *c)
{
    static char part[PART];
    int fresh = c->sent == 0;

    for (;;) {
        int wrote = 0, got;
        if (c->sent < echo) {
            size_t most = echo - c->sent < PART ? echo - c->sent : PART;
            if ((wrote = moved(c, SSL_write(c->ssl, c->bytes + c->sent, most), "write")) < 0)
                return;
            c->sent += wrote;
            if (fresh && c->sent == echo)
                return; /* nothing can have come back yet: the next event tells */
        }
        fresh = 0;
        if ((got = moved(c, SSL_read(c->ssl, part, sizeof part), "closed before the end of an echo")) < 0)
            return;
        if (c->got + got > c->sent || memcmp(part, c->bytes + c->got, got)) {
            errno = 0;
            fail("other bytes came back than were sent");
            finish(c);
            return;
        }
        c->got += got;
        if (c->got < echo) {
            if (got == 0 && (wrote == 0 || c->sent == echo))
                return;
            continue;
        }
        if (!echoes && !keepalive) {
            c->state = ENDING;
            SSL_shutdown(c->ssl);
            return;
        }
        if (!echoes) {
            answered(c);
            return;
        }
        counted(c);
        if (now() >= echo_until) {
            c->state = IDLE;
            active--;
            return;
        }
        c->t0 = now();
        begin_echo(c);
        fresh = 1;
    }
}

/* After an echo: until the other side has ended, too. */
static void await_end(struct conn *c)
{
    char rest;
    int r = SSL_read(c->ssl, &rest, 1);
    if (r > 0) {
        errno = 0;
        fail("more bytes came back than were sent");
        finish(c);
        return;
    }
    r = SSL_get_error(c->ssl, r);
    if (r == SSL_ERROR_WANT_READ || r == SSL_ERROR_WANT_WRITE)
        return;
    if (r != SSL_ERROR_ZERO_RETURN) {
        unclean++; /* closed without close_notify */
        ERR_clear_error();
    }
    answered(c);
}

static void drive(struct conn *c)
{
    char skip[16384];
    int r;

    if (c->state == HANDSHAKE) {
        r = SSL_do_handshake(c->ssl);
        if (r != 1) {
            r = SSL_get_error(c->ssl, r);
            if (r == SSL_ERROR_WANT_READ || r == SSL_ERROR_WANT_WRITE)
                return;
            fail("handshake");
            finish(c);
            return;
        }
        c->state = SENDING;
        if (echo)
            begin_echo(c);
    }
    if (c->state == ECHOING)
        exchange(c);
    if (c->state == ENDING)
        await_end(c);
    if (c->state == SENDING) {
        r = SSL_write(c->ssl, c->request, c->request_len);
        if (r <= 0) {
            r = SSL_get_error(c->ssl, r);
            if (r == SSL_ERROR_WANT_READ || r == SSL_ERROR_WANT_WRITE)
                return;
            fail("write");
            finish(c);
            return;
        }
        c->state = READING;
    }
    while (c->state == READING) {
        int room = c->got < sizeof c->head;
        r = room ? SSL_read(c->ssl, c->head + c->got, sizeof c->head - c->got)
                 : SSL_read(c->ssl, skip, sizeof skip);
        if (r > 0) {
            if (room)
                c->got += r;
            if (keepalive && whole(c))
                answered(c);
            continue;
        }
        r = SSL_get_error(c->ssl, r);
        if (r == SSL_ERROR_WANT_READ || r == SSL_ERROR_WANT_WRITE)
            return;
        if (r != SSL_ERROR_ZERO_RETURN) {
            if (keepalive || !c->got) {
                fail("read");
                finish(c);
                return;
            }
            unclean++; /* closed without close_notify, after a response */
            ERR_clear_error();
        }
        answered(c);
    }
}

static void poll_once(void)
{
    struct epoll_event ev[256];
    int n = epoll_wait(ep, ev, 256, 20000);
    if (n == 0) {
        errno = ETIMEDOUT;
        fail("no progress for 20 s");
        active = 0;
        return;
    }
    for (int i = 0; i < n; i++) {
        struct conn *c = ev[i].data.ptr;
        if (c->state < IDLE)
            drive(c);
    }
}

static int by_value(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static void report(double seconds)
{
    struct rusage u;
    double cpu;
    getrusage(RUSAGE_SELF, &u);
    cpu = u.ru_utime.tv_sec + u.ru_stime.tv_sec + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
    qsort(lat, lat_n, sizeof *lat, by_value);
    printf("{\"completed\":%ld,\"resumed\":%ld,\"errors\":%ld,\"unclean\":%ld,\"tickets\":%ld,"
           "\"seconds\":%.6f,\"cpu_s\":%.6f,\"p50_us\":%.1f,\"p99_us\":%.1f,"
           "\"session\":\"%s\",\"first_error\":\"%s\"}\n",
           completed, resumed, errors, unclean, tickets, seconds, cpu,
           lat_n ? lat[lat_n / 2] * 1e6 : 0, lat_n ? lat[lat_n * 99 / 100] * 1e6 : 0,
           session_info, first_error);
    fflush(stdout);
}

static void wait_line(void)
{
    char line[64];
    if (!fgets(line, sizeof line, stdin))
        exit(1); /* the bench has gone */
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "", *chain = NULL, *key = NULL, *suite = NULL,
               *group = NULL;
    long conns = 16, count = 0, opened = 0, i;
    double seconds = 4, t0, end;
    struct conn *slot;

    for (i = 2; i < argc; i++) {
        char *v = strchr(argv[i], '=');
        if (!v)
            return fprintf(stderr, "tlsload: bad argument %s\n", argv[i]), 2;
        *v++ = 0;
        if (!strcmp(argv[i], "port")) port = atoi(v);
        else if (!strcmp(argv[i], "chain")) chain = v;
        else if (!strcmp(argv[i], "key")) key = v;
        else if (!strcmp(argv[i], "suite")) suite = v;
        else if (!strcmp(argv[i], "group")) group = v;
        else if (!strcmp(argv[i], "path")) path = v;
        else if (!strcmp(argv[i], "conns")) conns = atol(v);
        else if (!strcmp(argv[i], "seconds")) seconds = atof(v);
        else if (!strcmp(argv[i], "count")) count = atol(v);
        else if (!strcmp(argv[i], "names")) names = atol(v);
        else if (!strcmp(argv[i], "echo")) echo = atol(v);
        else return fprintf(stderr, "tlsload: unknown %s\n", argv[i]), 2;
    }
    silent = !strcmp(mode, "silent");
    keepalive = silent || !strcmp(mode, "idle");
    resume = !strcmp(mode, "resume");
    echoes = !strcmp(mode, "echo");
    if (!port || (echoes && !echo) || (!keepalive && !resume && !echoes && strcmp(mode, "handshake")))
        return fprintf(stderr, "usage: tlsload handshake|resume|idle|silent|echo port=P ...\n"), 2;

    signal(SIGPIPE, SIG_IGN);
    ctx = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION);
    SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS);
    if ((chain && SSL_CTX_use_certificate_chain_file(ctx, chain) != 1) ||
        (key && SSL_CTX_use_PrivateKey_file(ctx, key, SSL_FILETYPE_PEM) != 1) ||
        (suite && !SSL_CTX_set_ciphersuites(ctx, suite)) ||
        (group && !SSL_CTX_set1_groups_list(ctx, group))) {
        ERR_print_errors_fp(stderr);
        return 2;
    }
    if (resume) {
        SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
        SSL_CTX_sess_set_new_cb(ctx, on_ticket);
    }
    if (echo) {
        unsigned int noise = 1;
        SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
        SSL_CTX_set_read_ahead(ctx, 1); /* one recv for the head and the body of a record */
        if (!(echo_bytes = malloc(echo + OFFSETS)))
            return 2;
        for (size_t at = 0; at < echo + OFFSETS; at++)
            echo_bytes[at] = (noise = noise * 1664525 + 1013904223) >> 24;
    }
    ep = epoll_create1(0);
    slot = calloc(keepalive ? count : conns, sizeof *slot);
    for (i = 0; i < (keepalive ? count : conns); i++)
        slot[i].fd = -1, slot[i].state = CLOSED;

    if (resume) { /* one full handshake per slot, to get its first ticket */
        for (i = 0; i < conns; i++)
            start(&slot[i]);
        while (active > 0)
            poll_once();
        completed = resumed = unclean = tickets = lat_n = 0;
        for (i = 0; i < conns; i++)
            if (!slot[i].ticket) {
                errno = 0;
                fail("no session ticket");
                break;
            }
        session_info[0] = 0;
    }
    if (echoes) {
        for (i = 0; i < conns && !errors; i++)
            start(&slot[i]);
        while (active > 0 && !errors)
            poll_once();
        completed = resumed = lat_n = 0;
        if (errors) { /* the bench reads why in answer to its line */
            puts("ready");
            fflush(stdout);
            wait_line();
            report(0);
            return 1;
        }
    }
    puts("ready");
    fflush(stdout);
    wait_line();
    t0 = now();
    end = t0 + seconds;

    if (echoes) {
        echo_until = end;
        active = conns;
        for (i = 0; i < conns; i++) {
            slot[i].t0 = now();
            begin_echo(&slot[i]);
            drive(&slot[i]);
        }
        while (active > 0 && !errors)
            poll_once();
        report(now() - t0);
        wait_line();
        return errors != 0;
    }
    if (keepalive) {
        while (opened < count || active > 0) {
            while (opened < count && active < conns && !errors)
                start(&slot[opened++]);
            if (errors)
                break;
            if (active > 0)
                poll_once();
        }
        report(now() - t0);
        wait_line();
        for (i = 0; i < opened; i++) {
            char b[4096];
            if (silent) {
                if (recv(slot[i].fd, b, sizeof b, MSG_DONTWAIT) >= 0 || errno != EAGAIN)
                    fail("silent connection dropped");
                continue;
            }
            int r = slot[i].ssl ? SSL_read(slot[i].ssl, b, sizeof b) : 0;
            if (!slot[i].ssl || SSL_get_error(slot[i].ssl, r) != SSL_ERROR_WANT_READ) {
                errno = 0;
                fail("connection dropped while idle");
            } else if (echo) {
                active++;
                begin_echo(&slot[i]);
                drive(&slot[i]);
                while (active > 0)
                    poll_once();
            }
        }
        report(now() - t0);
        return errors != 0;
    }
    for (;;) {
        int open_more = now() < end && errors == 0;
        if (!open_more && active <= 0)
            break;
        if (open_more)
            for (i = 0; i < conns; i++)
                if (slot[i].state == CLOSED)
                    start(&slot[i]);
        if (active > 0)
            poll_once();
    }
    report(now() - t0);
    return errors != 0;
}
