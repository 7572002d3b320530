import COpenSSL

/// What a process says to OpenSSL before anything else does.
public enum OpenSSLStart {
  /// Call it once, first of all.
  public static func prepare() {
    // At the end of a process the kernel takes back all there is. OpenSSL's own cleaning takes away what the module of a token,
    // such as SoftHSM, then still uses: the process would end by SIGSEGV, and what it printed would be lost.
    OPENSSL_init_crypto(UInt64(OPENSSL_INIT_NO_ATEXIT), nil)
    // Nobody sits at the terminal of a service, and a provider must not ask there for a PIN.
    UI_set_default_method(UI_null())
  }
}
