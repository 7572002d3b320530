import Bytes
import COpenSSL
import Synchronization

/// Loads a private key of a PKCS#11 token through a provider or OpenSSL's pkcs11 engine: docs/decisions/0013.
///
/// The first such key loads the engine, which then stays loaded. `load` releases its own references to the engine
/// before it returns; the key holds one as long as it exists. Nothing prompts at a terminal.
enum TokenKey {
  enum Way {
    case engine
    /// pkcs11-provider, which openssl.cnf names.
    case provider
  }

  /// A prompt that always fails. The engine keeps it, so it is never freed.
  // Nothing writes to it after this; OpenSSL only reads it.
  nonisolated(unsafe) private static let asksNobody = UI_UTIL_wrap_read_pem_callback({ _, _, _, _ in -1 }, 0)

  /// `identifier`: an RFC 7512 URI, or an older spelling of the engine's. The PIN is the URI's, else the first pass
  /// phrase. Blocks, with a token for a long time.
  static func load(
    _ identifier: String, by way: Way, passwords: [SecretBytes], _ tokens: TokenRefusals
  ) throws(CryptoError) -> PrivateKey {
    let saysPIN = identifier.contains("pin-value=") || identifier.contains("pin-source=")
    guard saysPIN || passwords.first?.isEmpty == false else {
      throw .token(
        "no PIN for the token was given",
        hint:
          "the first line of ssl_password_file (proxy_ssl_password_file) is the PIN; or say pin-source=FILE in the URI")
    }
    let pin = saysPIN ? nil : passwords.first
    let attempt = digest(identifier, pin)
    return try tokens.digests.withLock { (refusals) throws(CryptoError) in
      guard !refusals.contains(attempt) else {
        throw .token(
          way == .provider
            ? "the provider of PKCS#11 gave no such private key, or its token has refused this PIN before, and is not asked again"
            : "the token has refused this PIN before, and is not asked again",
          hint: "a token locks itself after some wrong PINs; correct it, and start anew if it stands in a pin-source")
      }
      if way == .provider {
        do throws(CryptoError) { return try StoredKey.load(identifier, password: pin) } catch {
          // The provider doesn't tell a wrong PIN from a missing key, and a token locks itself after some wrong PINs.
          refusals.insert(attempt)
          throw .token(
            "the provider of PKCS#11 gives no such private key: no token has it, or its token refuses the PIN",
            hint: "compare with `openssl storeutl -keys`; the same is not asked again before a new start")
        }
      }
      guard let engine = copenssl_engine("pkcs11") else {
        throw .token(
          "OpenSSL has neither a provider nor an engine for PKCS#11 here (\(OpenSSLError.drain()))",
          hint: "install libengine-pkcs11-openssl; or pkcs11-provider, and name it in openssl.cnf (OPENSSL_CONF)")
      }
      defer { copenssl_engine_free(engine) }
      do throws(OpenSSLError) {
        return PrivateKey(owning: try ask(engine, identifier, pin))
      } catch {
        guard error.saysPINWasRefused else {
          throw .token(
            "no such private key in any token (\(error))",
            hint: "PKCS11_MODULE_PATH names the token's module; without it p11-kit does (p11-kit list-modules)")
        }
        refusals.insert(attempt)
        throw .token(
          "the token refuses the PIN (\(error))",
          hint: "it locks itself after some wrong ones; a file with the PIN of a pin-source has no end of line")
      }
    }
  }

  /// Returns one reference, which the caller owns.
  private static func ask(
    _ engine: OpaquePointer, _ identifier: String, _ pin: SecretBytes?
  ) throws(OpenSSLError) -> OpaquePointer {
    guard copenssl_engine_init(engine) == 1 else { throw OpenSSLError.drain() }
    defer { copenssl_engine_finish(engine) }
    // Otherwise the engine would write to stderr what sallyport logs.
    _ = copenssl_engine_say(engine, "QUIET", nil)
    // The engine keeps the last PIN. Setting it each time never sends one token another's PIN; afterwards it is
    // overwritten.
    tell(engine, pin)
    defer { tell(engine, nil) }
    guard let key = copenssl_engine_key(engine, identifier, asksNobody) else { throw OpenSSLError.drain() }
    OpenSSLError.discard()
    return key
  }

  private static func tell(_ engine: OpaquePointer, _ pin: SecretBytes?) {
    let text = terminated(pin)
    text.withUnsafeBytes { _ = copenssl_engine_say(engine, "PIN", $0.baseAddress?.assumingMemoryBound(to: CChar.self)) }
  }

  /// Returns the PIN as a C string; empty without a PIN.
  private static func terminated(_ pin: SecretBytes?) -> SecretBytes {
    SecretBytes(capacity: (pin?.count ?? 0) + 1) { room in
      room.initializeMemory(as: UInt8.self, repeating: 0)
      pin?.withUnsafeBytes { room.copyMemory(from: $0) }
      return room.count
    }
  }

  private static func digest(_ identifier: String, _ pin: SecretBytes?) -> [UInt8] {
    let name = Array(identifier.utf8) + [0]
    let all = SecretBytes(capacity: name.count + (pin?.count ?? 0)) { room in
      room.copyBytes(from: name)
      pin?.withUnsafeBytes { UnsafeMutableRawBufferPointer(rebasing: room[name.count...]).copyMemory(from: $0) }
      return room.count
    }
    return all.withUnsafeBytes { Digest.of($0) }
  }
}

/// Remembers the PINs that tokens refused. A token counts wrong PINs and locks itself, and refused files are tried
/// again.
///
/// A process has only one of these. OpenSSL's engine keeps the last PIN that it got, so each key is loaded under this
/// lock.
package final class TokenRefusals: Sendable {
  /// Digests of key name and PIN.
  let digests = Mutex<Set<[UInt8]>>([])

  package init() {}
}

extension OpenSSLError {
  fileprivate var saysPINWasRefused: Bool { codes.contains { copenssl_pin_was_refused($0) != 0 } }
}
