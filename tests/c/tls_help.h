/* A certificate for tests, which is its own authority: made when it is needed first, in a folder that goes at
 * the end. */
#ifndef TLS_HELP_H
#define TLS_HELP_H

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

static char tls_folder[] = P_tmpdir "/paddle-tls-XXXXXX", tls_files[2][64];

static inline void tls_help_make(void)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = X509_new();
    assert_non_null(mkdtemp(tls_folder));
    X509_set_version(cert, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
    X509_gmtime_adj(X509_getm_notBefore(cert), -3600);
    X509_gmtime_adj(X509_getm_notAfter(cert), 24 * 3600);
    X509_set_pubkey(cert, key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_ASC, (const uint8_t *)"test", -1,
                               -1, 0);
    X509_set_issuer_name(cert, X509_get_subject_name(cert));
    X509_EXTENSION *names =
        X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, "IP:127.0.0.1,IP:::1,DNS:localhost");
    X509_add_ext(cert, names, -1);
    X509_EXTENSION_free(names);
    assert_true(X509_sign(cert, key, EVP_sha256()) > 0);
    for (int i = 0; i < 2; i++) {
        snprintf(tls_files[i], sizeof tls_files[i], "%s/%s", tls_folder, i ? "key" : "cert");
        FILE *file = fopen(tls_files[i], "w");
        assert_non_null(file);
        if (i)
            PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL);
        else
            PEM_write_X509(file, cert);
        fclose(file);
    }
    X509_free(cert);
    EVP_PKEY_free(key);
}

static inline void tls_help_use(int on)
{
    if (on && !tls_files[0][0]) tls_help_make();
    if (on) {
        setenv("PADDLE_PS_TLS_CERT", tls_files[0], 1);
        setenv("PADDLE_PS_TLS_KEY", tls_files[1], 1);
        setenv("PADDLE_PS_TLS_CA", tls_files[0], 1);
        return;
    }
    unsetenv("PADDLE_PS_TLS_CERT");
    unsetenv("PADDLE_PS_TLS_KEY");
    unsetenv("PADDLE_PS_TLS_CA");
}

static inline void tls_help_end(void)
{
    if (!tls_files[0][0]) return;
    remove(tls_files[0]);
    remove(tls_files[1]);
    remove(tls_folder);
}

#endif
