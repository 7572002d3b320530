import Bytes
import COpenSSL
import Testing

@testable import TLS

@Suite struct `The key schedule of TLS 1.3` {
  @Test(arguments: ["SHA2-256", "SHA256", "SHA2-384", "SHA384"])
  func `derives what OpenSSL's own derives`(digest: String) throws {
    let theirs = try Derivation.openSSL(), size = digest.hasSuffix("256") ? 32 : 48
    let secret = (0..<size).map { UInt8(truncatingIfNeeded: $0 * 7 + 1) }, hash = secret.map { ~$0 }
    for (label, data, count) in [
      ("key", nil, 16), ("key", nil, 32), ("iv", nil, 12), ("finished", nil, size), ("c hs traffic", hash, size),
      ("res master", hash, size), ("resumption", [0, 0, 0, 0, 0, 0, 0, 1], size), ("", [], 1),
      ("exporter", hash, size + 1), ("exporter", hash, 255 * size), (String(repeating: "x", count: 249), hash, 7),
      ("long", [UInt8](repeating: 9, count: 64), size),
    ] as [(String, [UInt8]?, Int)] {
      let arguments = Arguments.expand(digest, key: secret, label: label, data: data)
      #expect(Derivation.own.derive(count, arguments) == theirs.derive(count, arguments), "\(label) \(count)")
      #expect(Derivation.own.derive(count, arguments) != nil, "\(label) \(count)")
    }
    // The early secret with and without a session, the handshake's and the main secret, a hybrid group's long secret.
    for (key, salt) in [(nil, nil), (secret, nil), (secret, hash), (nil, hash), (secret + hash + secret, hash)] {
      let arguments = Arguments.extract(digest, key: key, salt: salt)
      #expect(Derivation.own.derive(size, arguments) == theirs.derive(size, arguments))
      #expect(Derivation.own.derive(size, arguments) != nil)
    }
  }

  @Test func `derives what RFC 8448 section 3 derives`() throws {
    let early = try #require(Derivation.own.derive(32, .extract("SHA2-256", key: nil, salt: nil)))
    #expect(Hex.encode(early) == "33ad0a1c607ec03b09e6cd9893680ce210adf300aa1f2660e1b22e10f170f92a")
    let shared = try Hex.decode("8bd4054fb55b9d63fdfbacf9f04b9f0d35e6d63f537563efd46272900f89492d")
    let handshake = try #require(Derivation.own.derive(32, .extract("SHA2-256", key: shared, salt: early)))
    #expect(Hex.encode(handshake) == "1dc826e93606aa6fdc0aadc12f741b01046aa6b99f691ed221a9f0ca043fbeac")
    let main = try #require(Derivation.own.derive(32, .extract("SHA2-256", key: nil, salt: handshake)))
    #expect(Hex.encode(main) == "18df06843d13a08bf2a449844c5f8a478001bc4d4c627984d5a41da8d0402919")
  }

  @Test func `refuses what it would have to guess`() {
    let secret = [UInt8](repeating: 1, count: 32)
    let whole = Arguments.expand("SHA2-256", key: secret, label: "key", data: nil)
    for name in ["mode", "digest", "key"] { #expect(Derivation.own.derive(16, whole.without(name)) == nil, "\(name)") }
    #expect(Derivation.own.derive(16, .expand("SHA2-512", key: secret, label: "key", data: nil)) == nil)
    #expect(Derivation.own.derive(255 * 32 + 1, whole) == nil)
    #expect(Derivation.own.derive(31, .extract("SHA2-256", key: nil, salt: secret)) == nil)
    let long = String(repeating: "x", count: 250), much = [UInt8](repeating: 9, count: 65)
    #expect(Derivation.own.derive(16, .expand("SHA2-256", key: secret, label: long, data: nil)) == nil)
    #expect(Derivation.own.derive(16, .expand("SHA2-256", key: secret, label: "key", data: much)) == nil)
    #expect(Derivation.own.derive(16, whole.with(mode: 0)) == nil)
    #expect(!Derivation.own.canSetBeforehand(whole))
  }

  @Test func `is what handshakes use`() throws {
    let context = try #require(HandshakeAlgorithms.context)
    let kept = try #require(OSSL_PROVIDER_try_load(context, "handshake", 1))
    defer { OSSL_PROVIDER_unload(kept) }
    #expect(Derivation.functions(of: kept) == KeySchedule.functions)
  }
}

/// Arguments of a derivation, as libssl gives them.
private struct Arguments {
  private var list: [(name: String, type: UInt32, bytes: [UInt8])]

  static func expand(_ digest: String, key: [UInt8], label: String, data: [UInt8]?) -> Self {
    Self(mode: 2, digest, label: label, [("key", key), ("data", data)])
  }

  static func extract(_ digest: String, key: [UInt8]?, salt: [UInt8]?) -> Self {
    Self(mode: 1, digest, label: "derived", [("key", key), ("salt", salt)])
  }

  private init(mode: CInt, _ digest: String, label: String, _ octets: [(String, [UInt8]?)]) {
    list = [
      ("mode", UInt32(OSSL_PARAM_INTEGER), withUnsafeBytes(of: mode) { [UInt8]($0) }),
      // OpenSSL's strings have a NUL behind their end.
      ("digest", UInt32(OSSL_PARAM_UTF8_STRING), [UInt8](digest.utf8)),
    ]
    for (name, bytes) in octets + [("prefix", [UInt8]("tls13 ".utf8)), ("label", [UInt8](label.utf8))] {
      guard let bytes else { continue }
      list.append((name, UInt32(OSSL_PARAM_OCTET_STRING), bytes))
    }
  }

  func without(_ name: String) -> Self {
    var copy = self
    copy.list.removeAll { $0.name == name }
    return copy
  }

  func with(mode: CInt) -> Self {
    var copy = self
    copy.list[0].bytes = withUnsafeBytes(of: mode) { [UInt8]($0) }
    return copy
  }

  func use<Result>(_ body: (UnsafePointer<OSSL_PARAM>) -> Result) -> Result {
    var parameters: [OSSL_PARAM] = []
    var pieces: [UnsafeMutableBufferPointer<UInt8>] = []
    defer { for piece in pieces { piece.deallocate() } }
    func copy(_ bytes: [UInt8]) -> UnsafeMutablePointer<UInt8>? {
      let piece = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: bytes.count + 1)
      _ = piece.initialize(from: bytes + [0])
      pieces.append(piece)
      return piece.baseAddress
    }
    for (name, type, bytes) in list {
      let key = copy([UInt8](name.utf8)).map { UnsafeRawPointer($0).assumingMemoryBound(to: CChar.self) }
      parameters.append(
        OSSL_PARAM(key: key, data_type: type, data: copy(bytes), data_size: bytes.count, return_size: 0))
    }
    parameters.append(OSSL_PARAM())
    return parameters.withUnsafeBufferPointer { $0.baseAddress.map(body) } ?? body([OSSL_PARAM()])
  }
}

/// An implementation of TLS13-KDF.
private struct Derivation {
  private typealias Make = @convention(c) (UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer?
  private typealias Free = @convention(c) (UnsafeMutableRawPointer?) -> Void
  private typealias Set = @convention(c) (UnsafeMutableRawPointer?, UnsafePointer<OSSL_PARAM>?) -> CInt
  private typealias Derive =
    @convention(c) (UnsafeMutableRawPointer?, UnsafeMutablePointer<UInt8>?, Int, UnsafePointer<OSSL_PARAM>?) -> CInt

  private let functions: UnsafePointer<OSSL_DISPATCH>
  private let provider: OpaquePointer?

  static var own: Self { Self(functions: KeySchedule.functions, provider: nil) }

  static func openSSL() throws -> Self {
    let provider = try #require(OSSL_PROVIDER_try_load(nil, "default", 1))
    return Self(functions: try #require(functions(of: provider)), provider: provider)
  }

  static func functions(of provider: OpaquePointer) -> UnsafePointer<OSSL_DISPATCH>? {
    var mustAskAgain: CInt = 0
    var next = OSSL_PROVIDER_query_operation(provider, OSSL_OP_KDF, &mustAskAgain)
    while let entry = next?.pointee, let names = entry.algorithm_names {
      if String(cString: names) == "TLS13-KDF" { return entry.implementation }
      next = next?.advanced(by: 1)
    }
    return nil
  }

  private func function<Function>(_ number: CInt, as type: Function.Type) -> Function? {
    var next = functions
    while next.pointee.function_id != 0 {
      if next.pointee.function_id == number { return next.pointee.function.map { unsafeBitCast($0, to: type) } }
      next += 1
    }
    return nil
  }

  private func withContext<Result>(_ body: (UnsafeMutableRawPointer?) -> Result) -> Result {
    let context = function(OSSL_FUNC_KDF_NEWCTX, as: Make.self)?(
      provider.flatMap { OSSL_PROVIDER_get0_provider_ctx($0) })
    defer { function(OSSL_FUNC_KDF_FREECTX, as: Free.self)?(context) }
    return body(context)
  }

  func derive(_ count: Int, _ arguments: Arguments) -> [UInt8]? {
    var out = [UInt8](repeating: 0xAA, count: count)
    let isDone = withContext { context in
      arguments.use { list in
        out.withUnsafeMutableBufferPointer {
          function(OSSL_FUNC_KDF_DERIVE, as: Derive.self)?(context, $0.baseAddress, count, list)
        }
      }
    }
    ERR_clear_error()
    return isDone == 1 ? out : nil
  }

  func canSetBeforehand(_ arguments: Arguments) -> Bool {
    withContext { context in
      arguments.use { function(OSSL_FUNC_KDF_SET_CTX_PARAMS, as: Set.self)?(context, $0) == 1 }
    }
  }
}
