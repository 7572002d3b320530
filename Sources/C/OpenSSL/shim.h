// OpenSSL 3, and the macros of it that we use as static-inline twins (Swift can't see function-like macros).
#pragma once
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/asn1.h>
#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/conf.h>
#include <openssl/core_dispatch.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/encoder.h>
#include <openssl/decoder.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/obj_mac.h>
#include <openssl/ocsp.h>
#include <openssl/pem.h>
#include <openssl/pkcs12.h>
#include <openssl/provider.h>
#include <openssl/rand.h>
#include <openssl/rsa.h>
#include <openssl/ssl.h>
#include <openssl/store.h>
#include <openssl/ui.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>
#include <string.h>

// SSL_CTX
static inline long copenssl_ctx_set_mode(SSL_CTX *ctx, long mode) { return SSL_CTX_set_mode(ctx, mode); }
static inline int copenssl_ctx_set_min_proto(SSL_CTX *ctx, int version) { return (int)SSL_CTX_set_min_proto_version(ctx, version); }
static inline int copenssl_ctx_set_max_proto(SSL_CTX *ctx, int version) { return (int)SSL_CTX_set_max_proto_version(ctx, version); }
static inline long copenssl_ctx_get_min_proto(SSL_CTX *ctx) { return SSL_CTX_get_min_proto_version(ctx); }
static inline long copenssl_ctx_get_max_proto(SSL_CTX *ctx) { return SSL_CTX_get_max_proto_version(ctx); }
static inline long copenssl_ctx_set_session_cache_mode(SSL_CTX *ctx, long mode) { return SSL_CTX_set_session_cache_mode(ctx, mode); }
static inline long copenssl_ctx_sess_set_cache_size(SSL_CTX *ctx, long size) { return SSL_CTX_sess_set_cache_size(ctx, size); }
static inline int copenssl_ctx_set1_groups_list(SSL_CTX *ctx, const char *list) { return (int)SSL_CTX_set1_groups_list(ctx, (char *)list); }
static inline int copenssl_ctx_set_dh_auto(SSL_CTX *ctx) { return (int)SSL_CTX_set_dh_auto(ctx, 1); }
static inline void copenssl_ctx_set_read_ahead(SSL_CTX *ctx, int on) { SSL_CTX_set_read_ahead(ctx, on); }
static inline int copenssl_ctx_add1_chain_cert(SSL_CTX *ctx, X509 *cert) { return (int)SSL_CTX_add1_chain_cert(ctx, cert); }
static inline int copenssl_ctx_set0_chain(SSL_CTX *ctx) { return (int)SSL_CTX_set0_chain(ctx, NULL); }
static inline int copenssl_add1_chain_cert(SSL *ssl, X509 *cert) { return (int)SSL_add1_chain_cert(ssl, cert); }
static inline int copenssl_set0_chain(SSL *ssl) { return (int)SSL_set0_chain(ssl, NULL); }
static inline int copenssl_ctx_set1_verify_store(SSL_CTX *ctx, X509_STORE *store) { return (int)SSL_CTX_set1_verify_cert_store(ctx, store); }
static inline int copenssl_ctx_set_tlsext_servername_callback(SSL_CTX *ctx, int (*cb)(SSL *, int *, void *)) { return (int)SSL_CTX_set_tlsext_servername_callback(ctx, cb); }
static inline int copenssl_ctx_set_num_tickets(SSL_CTX *ctx, size_t n) { return SSL_CTX_set_num_tickets(ctx, n); }
static inline long copenssl_ctx_set_max_send_fragment(SSL_CTX *ctx, long n) { return SSL_CTX_set_max_send_fragment(ctx, n); }
static inline int copenssl_ctx_use_cert(SSL_CTX *ctx, X509 *cert) { return SSL_CTX_use_certificate(ctx, cert); }

// Certificate compression (RFC 8879), from OpenSSL 3.2 on. A binary that was built with an older one finds it in a newer one.
extern int SSL_CTX_compress_certs(SSL_CTX *ctx, int alg) __attribute__((weak));
extern int SSL_CTX_set1_cert_comp_preference(SSL_CTX *ctx, int *algs, size_t len) __attribute__((weak));
static inline int copenssl_ctx_can_compress_certs(SSL_CTX *ctx) {
  int known[] = {1, 2, 3}; // TLSEXT_comp_cert_zlib, _brotli, _zstd
  return SSL_CTX_compress_certs && SSL_CTX_set1_cert_comp_preference && SSL_CTX_set1_cert_comp_preference(ctx, known, 3);
}
static inline int copenssl_ctx_compress_certs(SSL_CTX *ctx) { return SSL_CTX_compress_certs ? SSL_CTX_compress_certs(ctx, 0) : 0; }

// SSL
static inline int copenssl_set_tlsext_host_name(SSL *ssl, const char *name) { return (int)SSL_set_tlsext_host_name(ssl, name); }
static inline long copenssl_set_mode(SSL *ssl, long mode) { return SSL_set_mode(ssl, mode); }
static inline int copenssl_get_peer_signature_nid(SSL *ssl, int *nid) { return SSL_get_peer_signature_nid(ssl, nid); }
static inline int copenssl_get_signature_nid(SSL *ssl, int *nid) { return SSL_get_signature_nid(ssl, nid); }
static inline int copenssl_get_negotiated_group(SSL *ssl) { return (int)SSL_get_negotiated_group(ssl); }
static inline int copenssl_get1_groups(SSL *ssl, int *groups) { return (int)SSL_get1_groups(ssl, groups); }
static inline X509 *copenssl_get0_peer_certificate(const SSL *ssl) { return SSL_get0_peer_certificate(ssl); }
static inline long copenssl_session_reused(SSL *ssl) { return SSL_session_reused(ssl); }

// BIO
static inline void copenssl_bio_set_retry_read(BIO *bio) { BIO_clear_retry_flags(bio); BIO_set_retry_read(bio); }
static inline void copenssl_bio_set_retry_write(BIO *bio) { BIO_clear_retry_flags(bio); BIO_set_retry_write(bio); }
static inline void copenssl_bio_clear_retry(BIO *bio) { BIO_clear_retry_flags(bio); }
static inline long copenssl_bio_get_mem_data(BIO *bio, char **data) { return BIO_get_mem_data(bio, data); }
static inline int copenssl_bio_ctrl_flush(void) { return BIO_CTRL_FLUSH; }
static inline int copenssl_bio_ctrl_eof(void) { return BIO_CTRL_EOF; }
static inline long copenssl_bio_pending(BIO *bio) { return BIO_pending(bio); }

// ERR
static inline int copenssl_err_lib(unsigned long code) { return ERR_GET_LIB(code); }
/// Each library numbers its reasons itself. Gives -1 for an error of another library than this one.
static inline int copenssl_err_reason(unsigned long code, int library) {
  return ERR_GET_LIB(code) == library ? ERR_GET_REASON(code) : -1;
}
/// A reason that means the same in every library (ERR_R_…); else -1.
static inline int copenssl_err_common_reason(unsigned long code) {
  return !ERR_SYSTEM_ERROR(code) && (ERR_GET_RFLAGS(code) & ERR_RFLAG_COMMON) ? ERR_GET_REASON(code) : -1;
}

// Stacks: Swift sees neither the typed macros nor the inline functions behind them reliably.
static inline int copenssl_sk_X509_num(const STACK_OF(X509) *sk) { return sk ? sk_X509_num(sk) : 0; }
static inline X509 *copenssl_sk_X509_value(const STACK_OF(X509) *sk, int i) { return sk_X509_value(sk, i); }
static inline X509 *copenssl_sk_X509_set(STACK_OF(X509) *sk, int i, X509 *certificate) { return sk_X509_set(sk, i, certificate); }
static inline STACK_OF(X509) *copenssl_sk_X509_new(void) { return sk_X509_new_null(); }
static inline int copenssl_sk_X509_push(STACK_OF(X509) *sk, X509 *cert) { return sk_X509_push(sk, cert); }
static inline void copenssl_sk_X509_free(STACK_OF(X509) *sk) { sk_X509_free(sk); }
static inline void copenssl_sk_X509_pop_free(STACK_OF(X509) *sk) { sk_X509_pop_free(sk, X509_free); }
static inline STACK_OF(X509_NAME) *copenssl_sk_X509_NAME_new(void) { return sk_X509_NAME_new_null(); }
static inline int copenssl_sk_X509_NAME_push(STACK_OF(X509_NAME) *sk, X509_NAME *name) { return sk_X509_NAME_push(sk, name); }
static inline int copenssl_sk_GENERAL_NAME_num(const GENERAL_NAMES *sk) { return sk ? sk_GENERAL_NAME_num(sk) : 0; }
static inline GENERAL_NAME *copenssl_sk_GENERAL_NAME_value(const GENERAL_NAMES *sk, int i) { return sk_GENERAL_NAME_value(sk, i); }
static inline int copenssl_sk_SSL_CIPHER_num(const STACK_OF(SSL_CIPHER) *sk) { return sk ? sk_SSL_CIPHER_num(sk) : 0; }
static inline const SSL_CIPHER *copenssl_sk_SSL_CIPHER_value(const STACK_OF(SSL_CIPHER) *sk, int i) { return sk_SSL_CIPHER_value(sk, i); }
static inline STACK_OF(X509) *copenssl_general_stack_x509(const void *p) { return (STACK_OF(X509) *)p; }

// GENERAL_NAME is a C union behind an anonymous member.
static inline int copenssl_general_name_type(const GENERAL_NAME *name) { return name->type; }
static inline const ASN1_STRING *copenssl_general_name_string(const GENERAL_NAME *name) {
  switch (name->type) {
  case GEN_EMAIL: case GEN_DNS: case GEN_URI: return name->d.ia5;
  case GEN_IPADD: return name->d.ip;
  default: return NULL;
  }
}

// EVP
static inline EVP_PKEY *copenssl_ec_generate(const char *curve) { return EVP_EC_gen(curve); }
static inline EVP_PKEY *copenssl_rsa_generate(unsigned int bits) { return EVP_RSA_gen(bits); }
static inline EVP_PKEY *copenssl_generate(const char *algorithm) { return EVP_PKEY_Q_keygen(NULL, NULL, algorithm); }

// Objects at rest (Crypto): macros and typed stacks behind certificates, PEM and PKCS#12.
static inline void copenssl_free(void *p) { OPENSSL_free(p); }
static inline void copenssl_clear_free(void *p, size_t count) { OPENSSL_clear_free(p, count); }
static inline X509 *copenssl_sk_X509_shift(STACK_OF(X509) *sk) { return sk ? sk_X509_shift(sk) : NULL; }
static inline GENERAL_NAMES *copenssl_sk_GENERAL_NAME_new(void) { return sk_GENERAL_NAME_new_null(); }
static inline int copenssl_sk_GENERAL_NAME_push(GENERAL_NAMES *sk, GENERAL_NAME *name) { return sk_GENERAL_NAME_push(sk, name); }
static inline void copenssl_sk_GENERAL_NAME_pop_free(GENERAL_NAMES *sk) { sk_GENERAL_NAME_pop_free(sk, GENERAL_NAME_free); }
static inline int copenssl_pem_no_start_line(unsigned long code) { return ERR_GET_LIB(code) == ERR_LIB_PEM && ERR_GET_REASON(code) == PEM_R_NO_START_LINE; }
static inline int copenssl_pkcs12_mac_failure(unsigned long code) { return ERR_GET_LIB(code) == ERR_LIB_PKCS12 && ERR_GET_REASON(code) == PKCS12_R_MAC_VERIFY_FAILURE; }
static inline int copenssl_unsupported_algorithm(unsigned long code) {
  return (ERR_GET_LIB(code) == ERR_LIB_EVP && (ERR_GET_REASON(code) == ERR_R_UNSUPPORTED || ERR_GET_REASON(code) == EVP_R_UNSUPPORTED_ALGORITHM || ERR_GET_REASON(code) == EVP_R_UNKNOWN_PBE_ALGORITHM));
}
static inline unsigned long copenssl_xn_flag_rfc2253(void) { return XN_FLAG_RFC2253; }

static inline int copenssl_set_min_proto(SSL *ssl, int version) { return (int)SSL_set_min_proto_version(ssl, version); }
static inline int copenssl_set_max_proto(SSL *ssl, int version) { return (int)SSL_set_max_proto_version(ssl, version); }

// Options are 64-bit macros that Swift does not import.
static const uint64_t COPENSSL_OP_NO_COMPRESSION = SSL_OP_NO_COMPRESSION;
static const uint64_t COPENSSL_OP_NO_RENEGOTIATION = SSL_OP_NO_RENEGOTIATION;
static const uint64_t COPENSSL_OP_NO_TICKET = SSL_OP_NO_TICKET;
static const uint64_t COPENSSL_OP_NO_ANTI_REPLAY = SSL_OP_NO_ANTI_REPLAY;
static const uint64_t COPENSSL_OP_CIPHER_SERVER_PREFERENCE = SSL_OP_CIPHER_SERVER_PREFERENCE;
static const uint64_t COPENSSL_OP_NO_TLSv1 = SSL_OP_NO_TLSv1;
static const uint64_t COPENSSL_OP_NO_TLSv1_1 = SSL_OP_NO_TLSv1_1;
static const uint64_t COPENSSL_OP_NO_TLSv1_2 = SSL_OP_NO_TLSv1_2;
static const uint64_t COPENSSL_OP_NO_TLSv1_3 = SSL_OP_NO_TLSv1_3;

// Strings and times of ASN.1. Their structure is OpenSSL's own from version 4 on, so Swift has only raw pointers to them.
static inline size_t copenssl_string_count(const void *string) { int count = ASN1_STRING_length(string); return count > 0 ? (size_t)count : 0; }
static inline const unsigned char *copenssl_string_bytes(const void *string) { return ASN1_STRING_get0_data(string); }
static inline int copenssl_integer_is_negative(const void *integer) { return (ASN1_STRING_type(integer) & V_ASN1_NEG) != 0; }
/// Copies the octets. Returns 0 when memory is short.
static inline int copenssl_general_name_set(GENERAL_NAME *name, int type, const unsigned char *bytes, int count) {
  ASN1_STRING *string = ASN1_STRING_type_new(type == GEN_IPADD ? V_ASN1_OCTET_STRING : V_ASN1_IA5STRING);
  if (!string || !ASN1_STRING_set(string, bytes, count)) {
    ASN1_STRING_free(string);
    return 0;
  }
  GENERAL_NAME_set0_value(name, type, string);
  return 1;
}
static inline void copenssl_integer_free(void *integer) { ASN1_INTEGER_free(integer); }
static inline int copenssl_time_print(BIO *bio, const void *time) { return ASN1_TIME_print(bio, time); }
static inline int copenssl_time_to_tm(const void *time, struct tm *parts) { return ASN1_TIME_to_tm(time, parts); }
static inline int copenssl_crl_set_times(X509_CRL *crl, time_t made, time_t end) {
  ASN1_TIME *first = ASN1_TIME_set(NULL, made), *last = ASN1_TIME_set(NULL, end);
  int done = first && last && X509_CRL_set1_lastUpdate(crl, first) && X509_CRL_set1_nextUpdate(crl, last);
  ASN1_TIME_free(first);
  ASN1_TIME_free(last);
  return done;
}
/// For tests of what must be refused: octets that need not be a time.
static inline int copenssl_crl_set_raw_end(X509_CRL *crl, const unsigned char *bytes, int count) {
  return ASN1_STRING_set((ASN1_STRING *)X509_CRL_get0_nextUpdate(crl), bytes, count);
}
static inline int copenssl_revoked_set_date(X509_REVOKED *entry, time_t seconds) {
  ASN1_TIME *date = ASN1_TIME_set(NULL, seconds);
  int done = date && X509_REVOKED_set_revocationDate(entry, date);
  ASN1_TIME_free(date);
  return done;
}
static inline int copenssl_ocsp_find(OCSP_BASICRESP *response, OCSP_CERTID *id, int *status, const void **begin, const void **end) {
  int reason = -1;
  ASN1_GENERALIZEDTIME *revoked = NULL, *first = NULL, *last = NULL;
  int found = OCSP_resp_find_status(response, id, status, &reason, &revoked, &first, &last);
  *begin = first;
  *end = last;
  return found;
}
static inline int copenssl_ocsp_add(
    OCSP_BASICRESP *response, OCSP_CERTID *id, int status, time_t revoked, time_t begin, time_t end) {
  ASN1_TIME *date = ASN1_TIME_set(NULL, revoked), *first = ASN1_TIME_set(NULL, begin), *last = ASN1_TIME_set(NULL, end);
  int reason = OCSP_REVOKED_STATUS_KEYCOMPROMISE;
  int done = date && first && last && OCSP_basic_add1_status(response, id, status, reason, date, first, last) != NULL;
  ASN1_TIME_free(date);
  ASN1_TIME_free(first);
  ASN1_TIME_free(last);
  return done;
}
static inline int copenssl_ocsp_is_current(const void *begin, const void *end, long tolerance, long most) {
  return OCSP_check_validity((ASN1_GENERALIZEDTIME *)begin, (ASN1_GENERALIZEDTIME *)end, tolerance, most);
}

// Revocation lists (RFC 5280 §5).
static inline int copenssl_idp_is_of_leaves(const ISSUING_DIST_POINT *idp) { return idp->onlyuser > 0; }
static inline int copenssl_idp_is_of_authorities(const ISSUING_DIST_POINT *idp) { return idp->onlyCA > 0; }
static inline int copenssl_idp_is_of_attributes(const ISSUING_DIST_POINT *idp) { return idp->onlyattr > 0; }
static inline int copenssl_idp_is_of_reasons(const ISSUING_DIST_POINT *idp) { return idp->onlysomereasons != NULL; }
static inline int copenssl_idp_has_point(const ISSUING_DIST_POINT *idp) { return idp->distpoint != NULL; }
/// The full names of the distribution point; NULL for one that is named relative to the issuer.
static inline GENERAL_NAMES *copenssl_idp_names(const ISSUING_DIST_POINT *idp) {
  return idp->distpoint && idp->distpoint->type == 0 ? idp->distpoint->name.fullname : NULL;
}
static inline int copenssl_store_index(CRYPTO_EX_free *done) {
  return CRYPTO_get_ex_new_index(CRYPTO_EX_INDEX_X509_STORE, 0, NULL, NULL, NULL, done);
}
static inline int copenssl_sk_X509_CRL_num(const STACK_OF(X509_CRL) *sk) { return sk ? sk_X509_CRL_num(sk) : 0; }
static inline X509_CRL *copenssl_sk_X509_CRL_value(const STACK_OF(X509_CRL) *sk, int i) { return sk_X509_CRL_value(sk, i); }
static inline void copenssl_sk_SSL_CIPHER_free(STACK_OF(SSL_CIPHER) *sk) { sk_SSL_CIPHER_free(sk); }
static inline void copenssl_sk_X509_CRL_remove(STACK_OF(X509_CRL) *sk, int i) { X509_CRL_free(sk_X509_CRL_delete(sk, i)); }
static inline int copenssl_idp_is_indirect(const ISSUING_DIST_POINT *idp) { return idp->indirectCRL > 0; }
static inline int copenssl_sk_X509_REVOKED_num(X509_CRL *crl) {
  STACK_OF(X509_REVOKED) *revoked = X509_CRL_get_REVOKED(crl);
  return revoked ? sk_X509_REVOKED_num(revoked) : 0;
}
static inline X509_REVOKED *copenssl_sk_X509_REVOKED_value(X509_CRL *crl, int i) {
  return sk_X509_REVOKED_value(X509_CRL_get_REVOKED(crl), i);
}

// Session tickets sealed with keys of our own (RFC 5077 §4's construction).
typedef int (*copenssl_ticket_key_cb)(SSL *, unsigned char *, unsigned char *, EVP_CIPHER_CTX *, EVP_MAC_CTX *, int);
static inline int copenssl_ctx_set_ticket_key_cb(SSL_CTX *ctx, copenssl_ticket_key_cb callback) {
  return (int)SSL_CTX_set_tlsext_ticket_key_evp_cb(ctx, callback);
}
static inline int copenssl_mac_use_hmac_sha256(EVP_MAC_CTX *mac, const unsigned char *key, size_t count) {
  OSSL_PARAM parameters[3] = {
    OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, (void *)key, count),
    OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, "SHA256", 0),
    OSSL_PARAM_construct_end(),
  };
  return EVP_MAC_CTX_set_params(mac, parameters);
}

// HMAC of messages (RFC 2104).
static inline int copenssl_mac_init(EVP_MAC_CTX *mac, const unsigned char *key, size_t count, const char *digest) {
  OSSL_PARAM parameters[2] = {
    OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, (char *)digest, 0),
    OSSL_PARAM_construct_end(),
  };
  return EVP_MAC_init(mac, key, count, parameters);
}

// OCSP (RFC 6960), over OpenSSL's own HTTP client.
#include <openssl/http.h>
static inline long copenssl_ctx_set_status_cb(SSL_CTX *ctx, int (*callback)(SSL *, void *)) {
  return SSL_CTX_set_tlsext_status_cb(ctx, callback);
}
static inline long copenssl_ctx_set_status_arg(SSL_CTX *ctx, void *argument) {
  return SSL_CTX_set_tlsext_status_arg(ctx, argument);
}
/// Takes `bytes`, of OPENSSL_malloc, over.
static inline long copenssl_set_status_response(SSL *ssl, unsigned char *bytes, int count) {
  return SSL_set_tlsext_status_ocsp_resp(ssl, bytes, count);
}
static inline unsigned char *copenssl_malloc(size_t count) { return (unsigned char *)OPENSSL_malloc(count); }
static inline int copenssl_sk_STRING_num(const STACK_OF(OPENSSL_STRING) *sk) { return sk ? sk_OPENSSL_STRING_num(sk) : 0; }
static inline const char *copenssl_sk_STRING_value(const STACK_OF(OPENSSL_STRING) *sk, int i) { return sk_OPENSSL_STRING_value(sk, i); }
static inline long copenssl_bio_mem_data_of(BIO *bio, const unsigned char **data) { return BIO_get_mem_data(bio, (char **)data); }

// What a probe looks at.
static inline void copenssl_set_msg_callback_arg(SSL *ssl, void *arg) { SSL_set_msg_callback_arg(ssl, arg); }
static inline long copenssl_set_status_type_ocsp(SSL *ssl) { return SSL_set_tlsext_status_type(ssl, TLSEXT_STATUSTYPE_ocsp); }
static inline long copenssl_get_status_response(SSL *ssl, const unsigned char **bytes) { return SSL_get_tlsext_status_ocsp_resp(ssl, bytes); }
static inline int copenssl_sk_X509_NAME_num(const STACK_OF(X509_NAME) *sk) { return sk ? sk_X509_NAME_num(sk) : 0; }
static inline X509_NAME *copenssl_sk_X509_NAME_value(const STACK_OF(X509_NAME) *sk, int i) { return sk_X509_NAME_value(sk, i); }
static inline int copenssl_get_peer_signature_type_nid(const SSL *ssl, int *nid) { return SSL_get_peer_signature_type_nid(ssl, nid); }

// PKCS#11's engine (docs/decisions/0013), where this OpenSSL still has engines.
#ifndef OPENSSL_NO_ENGINE
#include <openssl/engine.h>
static inline ENGINE *copenssl_engine(const char *name) { return ENGINE_by_id(name); }
static inline void copenssl_engine_free(ENGINE *engine) { ENGINE_free(engine); }
static inline int copenssl_engine_init(ENGINE *engine) { return ENGINE_init(engine); }
static inline void copenssl_engine_finish(ENGINE *engine) { ENGINE_finish(engine); }
static inline int copenssl_engine_say(ENGINE *engine, const char *command, const char *value) { return ENGINE_ctrl_cmd_string(engine, command, value, 1); }
static inline EVP_PKEY *copenssl_engine_key(ENGINE *engine, const char *name, UI_METHOD *asking) { return ENGINE_load_private_key(engine, name, asking, NULL); }
#else
static inline ENGINE *copenssl_engine(const char *name) { return NULL; }
static inline void copenssl_engine_free(ENGINE *engine) {}
static inline int copenssl_engine_init(ENGINE *engine) { return 0; }
static inline void copenssl_engine_finish(ENGINE *engine) {}
static inline int copenssl_engine_say(ENGINE *engine, const char *command, const char *value) { return 0; }
static inline EVP_PKEY *copenssl_engine_key(ENGINE *engine, const char *name, UI_METHOD *asking) { return NULL; }
#endif
/// CKR_PIN_INCORRECT, _INVALID, _LEN_RANGE, _EXPIRED, _LOCKED, as the engine reports them.
static inline int copenssl_pin_was_refused(unsigned long code) {
  const char *library = ERR_lib_error_string(code);
  return library && strcmp(library, "PKCS#11 module") == 0 && ERR_GET_REASON(code) >= 0xA0 && ERR_GET_REASON(code) <= 0xA4;
}

// Certificates in PKCS#7.
static inline PKCS7 *copenssl_pkcs7_for_certificates(void) {
  PKCS7 *bag = PKCS7_new();
  if (bag && PKCS7_set_type(bag, NID_pkcs7_signed)) {
    bag->d.sign->contents->type = OBJ_nid2obj(NID_pkcs7_data);
    return bag;
  }
  PKCS7_free(bag);
  return NULL;
}

// ssl_dhparam.
static inline EVP_PKEY *copenssl_read_parameters(BIO *bio) { return PEM_read_bio_Parameters(bio, NULL); }

// What `ca inspect` and `ca sign` read of certificates and requests.
static inline int copenssl_sk_ASN1_OBJECT_num(const EXTENDED_KEY_USAGE *sk) { return sk ? sk_ASN1_OBJECT_num(sk) : 0; }
static inline ASN1_OBJECT *copenssl_sk_ASN1_OBJECT_value(const EXTENDED_KEY_USAGE *sk, int i) { return sk_ASN1_OBJECT_value(sk, i); }
static inline int copenssl_sk_DIST_POINT_num(const CRL_DIST_POINTS *sk) { return sk ? sk_DIST_POINT_num(sk) : 0; }
/// The full names of a distribution point; NULL for one that is named relative to the issuer.
static inline GENERAL_NAMES *copenssl_dist_point_names(const CRL_DIST_POINTS *sk, int i) {
  DIST_POINT *point = sk_DIST_POINT_value(sk, i);
  return point && point->distpoint && point->distpoint->type == 0 ? point->distpoint->name.fullname : NULL;
}
/// Whether the point's list is the issuer's own, for all reasons.
static inline int copenssl_dist_point_is_whole(const CRL_DIST_POINTS *sk, int i) {
  DIST_POINT *point = sk_DIST_POINT_value(sk, i);
  return point && !point->reasons && !point->CRLissuer;
}
static inline int copenssl_sk_X509_EXTENSION_num(const STACK_OF(X509_EXTENSION) *sk) { return sk ? sk_X509_EXTENSION_num(sk) : 0; }
static inline X509_EXTENSION *copenssl_sk_X509_EXTENSION_value(const STACK_OF(X509_EXTENSION) *sk, int i) { return sk_X509_EXTENSION_value(sk, i); }
static inline void copenssl_sk_X509_EXTENSION_pop_free(STACK_OF(X509_EXTENSION) *sk) { sk_X509_EXTENSION_pop_free(sk, X509_EXTENSION_free); }
/// Adds the names to a request. Returns 0 when memory is short.
static inline int copenssl_req_add_names(X509_REQ *request, GENERAL_NAMES *names) {
  STACK_OF(X509_EXTENSION) *list = NULL;
  int done = X509V3_add1_i2d(&list, NID_subject_alt_name, names, 0, X509V3_ADD_DEFAULT) == 1
    && X509_REQ_add_extensions(request, list) == 1;
  sk_X509_EXTENSION_pop_free(list, X509_EXTENSION_free);
  return done;
}
/// Adds a critical extension with these octets under an identifier in dotted form. Returns 0 when memory is short.
static inline int copenssl_add_extension(X509 *certificate, const char *identifier, const unsigned char *bytes, int count) {
  ASN1_OBJECT *object = OBJ_txt2obj(identifier, 1);
  ASN1_OCTET_STRING *octets = ASN1_OCTET_STRING_new();
  X509_EXTENSION *extension = NULL;
  if (object && octets && ASN1_OCTET_STRING_set(octets, bytes, count) == 1) {
    extension = X509_EXTENSION_create_by_OBJ(NULL, object, 1, octets);
  }
  int done = extension && X509_add_ext(certificate, extension, -1) == 1;
  X509_EXTENSION_free(extension);
  ASN1_OCTET_STRING_free(octets);
  ASN1_OBJECT_free(object);
  return done;
}
/// The key identifier of the issuer's key; NULL where the certificate has none.
static inline const void *copenssl_authority_key(X509 *certificate) { return X509_get0_authority_key_id(certificate); }
static inline void *copenssl_extension_value(const STACK_OF(X509_EXTENSION) *sk, int nid, int *critical) { return X509V3_get_d2i(sk, nid, critical, NULL); }
