import COpenSSL
import Glibc

/// The key schedule of TLS 1.3 (RFC 8446 §7.1), as TLS13-KDF of the library context of handshakes.
///
/// A handshake derives some 20 secrets. OpenSSL's own TLS13-KDF copies its arguments to the heap, fetches the digest by name
/// and makes a context for HMAC, for each of them: three quarters of what a derivation costs. This one calls OpenSSL's SHA-2
/// directly, on the stack. docs/decisions/0067.
enum KeySchedule {
  /// The algorithm's functions: provider-kdf(7).
  // Written here only, and never freed: OpenSSL keeps the pointer.
  nonisolated(unsafe) static let functions: UnsafePointer<OSSL_DISPATCH> = {
    // A derivation brings all that it needs, so that its context holds nothing. OpenSSL only compares it with NULL.
    let makeContext: @convention(c) (UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? = { _ in
      UnsafeMutableRawPointer(mutating: KeySchedule.functions)
    }
    let endContext: @convention(c) (UnsafeMutableRawPointer?) -> Void = { _ in }
    // Arguments that would be set beforehand must not be missed silently.
    let setArguments: @convention(c) (UnsafeMutableRawPointer?, UnsafePointer<OSSL_PARAM>?) -> CInt = { _, list in
      list?.pointee.key == nil ? 1 : 0
    }
    let derive:
      @convention(c) (UnsafeMutableRawPointer?, UnsafeMutablePointer<UInt8>?, Int, UnsafePointer<OSSL_PARAM>?) -> CInt =
        {
          _, out, count, list in
          guard let list, let derivation = SecretDerivation(list) else { return 0 }
          return derivation.write(to: UnsafeMutableBufferPointer(start: out, count: count)) ? 1 : 0
        }
    let table = UnsafeMutablePointer<OSSL_DISPATCH>.allocate(capacity: 6)
    let entries = [
      (OSSL_FUNC_KDF_NEWCTX, unsafeBitCast(makeContext, to: (@convention(c) () -> Void).self)),
      (OSSL_FUNC_KDF_FREECTX, unsafeBitCast(endContext, to: (@convention(c) () -> Void).self)),
      (OSSL_FUNC_KDF_RESET, unsafeBitCast(endContext, to: (@convention(c) () -> Void).self)),
      (OSSL_FUNC_KDF_SET_CTX_PARAMS, unsafeBitCast(setArguments, to: (@convention(c) () -> Void).self)),
      (OSSL_FUNC_KDF_DERIVE, unsafeBitCast(derive, to: (@convention(c) () -> Void).self)),
    ]
    for (place, (number, function)) in entries.enumerated() {
      table[place] = OSSL_DISPATCH(function_id: number, function: function)
    }
    table[entries.count] = OSSL_DISPATCH(function_id: 0, function: nil)
    return UnsafePointer(table)
  }()
}

/// One derivation, with the arguments that libssl gives it. They are borrowed from the call.
private struct SecretDerivation {
  /// EVP_KDF_HKDF_MODE_EXTRACT_ONLY and EVP_KDF_HKDF_MODE_EXPAND_ONLY of openssl/kdf.h.
  private enum Mode: CInt { case extract = 1, expand }
  private enum Hash { case sha256, sha384 }

  private let mode: Mode, hash: Hash
  /// nil: as many zeros as the hash has octets.
  private var key: UnsafeRawBufferPointer?
  /// The former secret; nil for the first one.
  private var salt: UnsafeRawBufferPointer?
  private var prefix = UnsafeRawBufferPointer(start: nil, count: 0),
    label = UnsafeRawBufferPointer(start: nil, count: 0)
  private var data = UnsafeRawBufferPointer(start: nil, count: 0)

  /// Returns nil for arguments that TLS 1.3 doesn't give.
  init?(_ list: UnsafePointer<OSSL_PARAM>) {
    var mode: Mode?, hash: Hash?
    var next = list
    while let name = next.pointee.key {
      let value = UnsafeRawBufferPointer(start: next.pointee.data, count: next.pointee.data_size)
      // Each name has its own beginning, but for those that begin with "d" and "p".
      switch UInt8(bitPattern: name.pointee) {
      case UInt8(ascii: "m") where strcmp(name, OSSL_KDF_PARAM_MODE) == 0:
        mode = Self.mode(next.pointee)
      case UInt8(ascii: "d") where strcmp(name, OSSL_KDF_PARAM_DIGEST) == 0:
        hash = Self.hash(next.pointee.data)
      case UInt8(ascii: "d") where strcmp(name, OSSL_KDF_PARAM_DATA) == 0: data = value
      case UInt8(ascii: "k") where strcmp(name, OSSL_KDF_PARAM_KEY) == 0: key = value
      case UInt8(ascii: "s") where strcmp(name, OSSL_KDF_PARAM_SALT) == 0: salt = value
      case UInt8(ascii: "p") where strcmp(name, OSSL_KDF_PARAM_PREFIX) == 0: prefix = value
      case UInt8(ascii: "l") where strcmp(name, OSSL_KDF_PARAM_LABEL) == 0: label = value
      default: break
      }
      next += 1
    }
    guard let mode, let hash, prefix.count + label.count <= HKDFLabel.mostOfName, data.count <= HKDFLabel.mostOfData,
      mode == .extract || key != nil
    else { return nil }
    (self.mode, self.hash) = (mode, hash)
  }

  private static func mode(_ parameter: OSSL_PARAM) -> Mode? {
    guard parameter.data_type == OSSL_PARAM_INTEGER, parameter.data_size == MemoryLayout<CInt>.size else { return nil }
    return parameter.data.flatMap { Mode(rawValue: $0.loadUnaligned(as: CInt.self)) }
  }

  /// The hashes of TLS 1.3's cipher suites (RFC 8446 appendix B.4).
  private static func hash(_ name: UnsafeMutableRawPointer?) -> Hash? {
    guard let name = name?.assumingMemoryBound(to: CChar.self) else { return nil }
    if strcmp(name, "SHA2-256") == 0 || strcmp(name, "SHA256") == 0 { return .sha256 }
    if strcmp(name, "SHA2-384") == 0 || strcmp(name, "SHA384") == 0 { return .sha384 }
    return nil
  }

  func write(to out: UnsafeMutableBufferPointer<UInt8>) -> Bool {
    switch hash {
    case .sha256: write(to: out, by: SHA256State.self)
    case .sha384: write(to: out, by: SHA384State.self)
    }
  }

  private func write<State: HashState>(to out: UnsafeMutableBufferPointer<UInt8>, by state: State.Type) -> Bool {
    switch mode {
    case .expand:
      guard let key else { return false }
      return HKDFLabel.expand(key, prefix, label, data, to: out, by: state)
    case .extract:
      guard out.count == State.count else { return false }
      return withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 3 * State.count) { space in
        space.initialize(repeating: 0)
        defer { OPENSSL_cleanse(space.baseAddress, space.count) }
        let zeros = UnsafeRawBufferPointer(UnsafeMutableBufferPointer(rebasing: space[..<State.count]))
        let former = UnsafeMutableBufferPointer(rebasing: space[State.count..<2 * State.count])
        let empty = UnsafeMutableBufferPointer(rebasing: space[2 * State.count..<3 * State.count])
        if let salt {
          State.write(to: empty) { _ in }
          let nothing = UnsafeRawBufferPointer(empty)
          guard HKDFLabel.expand(salt, prefix, label, nothing, to: former, by: state) else { return false }
        }
        HMAC.write(to: out, key: UnsafeRawBufferPointer(former), message: key ?? zeros, by: state)
        return true
      }
    }
  }
}

/// HKDF-Expand-Label (RFC 8446 §7.1).
private enum HKDFLabel {
  /// Its length is one octet.
  static let mostOfName = 255
  /// It is a hash.
  static let mostOfData = Int(EVP_MAX_MD_SIZE)

  /// Returns false for more octets than HKDF gives (RFC 5869 §2.3).
  static func expand<State: HashState>(
    _ secret: UnsafeRawBufferPointer, _ prefix: UnsafeRawBufferPointer, _ label: UnsafeRawBufferPointer,
    _ data: UnsafeRawBufferPointer, to out: UnsafeMutableBufferPointer<UInt8>, by state: State.Type
  ) -> Bool {
    guard out.count <= 255 * State.count else { return false }
    let capacity = State.count + 2 + 1 + mostOfName + 1 + mostOfData + 1
    return withUnsafeTemporaryAllocation(byteCount: capacity, alignment: 1) { space in
      // The former block, HkdfLabel, and the block's number.
      let former = UnsafeMutableRawBufferPointer(rebasing: space[..<State.count])
      var end = State.count
      func append(_ byte: Int) {
        space[end] = UInt8(truncatingIfNeeded: byte)
        end += 1
      }
      func append(_ bytes: UnsafeRawBufferPointer) {
        UnsafeMutableRawBufferPointer(rebasing: space[end...]).copyMemory(from: bytes)
        end += bytes.count
      }
      append(out.count >> 8)
      append(out.count)
      append(prefix.count + label.count)
      append(prefix)
      append(label)
      append(data.count)
      append(data)
      let block = former.bindMemory(to: UInt8.self)
      defer { OPENSSL_cleanse(former.baseAddress, former.count) }
      var start = State.count, done = 0
      while done < out.count {
        space[end] = UInt8(truncatingIfNeeded: done / State.count + 1)
        HMAC.write(to: block, key: secret, message: UnsafeRawBufferPointer(rebasing: space[start...end]), by: state)
        let count = min(State.count, out.count - done)
        UnsafeMutableRawBufferPointer(rebasing: UnsafeMutableRawBufferPointer(out)[done...]).copyMemory(
          from: UnsafeRawBufferPointer(rebasing: former[..<count]))
        done += count
        start = 0
      }
      return true
    }
  }
}

/// HMAC (RFC 2104) without an allocation.
private enum HMAC {
  /// `out` has as many octets as the hash.
  static func write<State: HashState>(
    to out: UnsafeMutableBufferPointer<UInt8>, key: UnsafeRawBufferPointer, message: UnsafeRawBufferPointer,
    by state: State.Type
  ) {
    withUnsafeTemporaryAllocation(of: UInt8.self, capacity: State.blockCount) { pad in
      pad.initialize(repeating: 0)
      defer { OPENSSL_cleanse(pad.baseAddress, pad.count) }
      if key.count > State.blockCount {
        State.write(to: pad) { $0.add(key) }
      } else {
        UnsafeMutableRawBufferPointer(pad).copyMemory(from: key)
      }
      for place in pad.indices { pad[place] ^= 0x36 }
      State.write(to: out) {
        $0.add(UnsafeRawBufferPointer(pad))
        $0.add(message)
      }
      for place in pad.indices { pad[place] ^= 0x36 ^ 0x5C }
      State.write(to: out) {
        $0.add(UnsafeRawBufferPointer(pad))
        $0.add(UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(out)[..<State.count]))
      }
    }
  }
}

/// A hash of OpenSSL on the stack.
private protocol HashState {
  static var count: Int { get }
  static var blockCount: Int { get }
  init()
  mutating func add(_ bytes: UnsafeRawBufferPointer)
  mutating func finish(_ out: UnsafeMutablePointer<UInt8>)
}

extension HashState {
  /// Writes the hash of what `fill` adds to the beginning of `out`. The state may hold parts of a key, so it is cleared.
  @inline(__always)
  static func write(to out: UnsafeMutableBufferPointer<UInt8>, _ fill: (inout Self) -> Void) {
    var state = Self()
    fill(&state)
    if let start = out.baseAddress, out.count >= count { state.finish(start) }
    withUnsafeMutableBytes(of: &state) { OPENSSL_cleanse($0.baseAddress, $0.count) }
  }
}

private struct SHA256State: HashState {
  static let count = Int(SHA256_DIGEST_LENGTH), blockCount = Int(SHA256_CBLOCK)
  private var state = SHA256_CTX()
  init() { SHA256_Init(&state) }
  mutating func add(_ bytes: UnsafeRawBufferPointer) { SHA256_Update(&state, bytes.baseAddress, bytes.count) }
  mutating func finish(_ out: UnsafeMutablePointer<UInt8>) { SHA256_Final(out, &state) }
}

private struct SHA384State: HashState {
  static let count = Int(SHA384_DIGEST_LENGTH), blockCount = Int(SHA512_CBLOCK)
  private var state = SHA512_CTX()
  init() { SHA384_Init(&state) }
  mutating func add(_ bytes: UnsafeRawBufferPointer) { SHA384_Update(&state, bytes.baseAddress, bytes.count) }
  mutating func finish(_ out: UnsafeMutablePointer<UInt8>) { SHA384_Final(out, &state) }
}
