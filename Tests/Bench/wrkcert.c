/* Preloaded into wrk: gives it a TLS client certificate.
 *
 * wrk has no option for one.  This wraps SSL_CTX_new and, on each context,
 * loads WRKCERT_CHAIN (PEM chain) and WRKCERT_KEY (PEM key), and fixes TLS 1.3
 * with the cipher suite and group that every generator of the bench uses.
 * It ends the process when something cannot be loaded: a run without the
 * certificate must never look like a run with it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>

static void die(const char *what)
{
    fprintf(stderr, "wrkcert: %s\n", what);
    _Exit(97);
}

SSL_CTX *SSL_CTX_new(const SSL_METHOD *method)
{
    SSL_CTX *(*real)(const SSL_METHOD *) =
        (SSL_CTX * (*)(const SSL_METHOD *)) dlsym(RTLD_NEXT, "SSL_CTX_new");
    const char *chain = getenv("WRKCERT_CHAIN"), *key = getenv("WRKCERT_KEY");
    const char *suite = getenv("WRKCERT_SUITE"), *group = getenv("WRKCERT_GROUP");
    SSL_CTX *ctx;

    if (!real || !(ctx = real(method)))
        die("no SSL_CTX_new");
    if (chain && SSL_CTX_use_certificate_chain_file(ctx, chain) != 1)
        die("cannot load WRKCERT_CHAIN");
    if (key && SSL_CTX_use_PrivateKey_file(ctx, key, SSL_FILETYPE_PEM) != 1)
        die("cannot load WRKCERT_KEY");
    if (!SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION))
        die("no TLS 1.3");
    if (suite && !SSL_CTX_set_ciphersuites(ctx, suite))
        die("bad WRKCERT_SUITE");
    if (group && !SSL_CTX_set1_groups_list(ctx, group))
        die("bad WRKCERT_GROUP");
    SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE |
                              SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    return ctx;
}
