import Bytes
package import Crypto

/// The field in which a front that ends TLS sends a client's certificate (`real_client_cert_header`).
package struct CertificateField: Sendable, Hashable {
  /// How the certificate is written.
  package enum Format: String, Sendable, Hashable, CaseIterable {
    /// Client-Cert and Client-Cert-Chain (RFC 9440): byte sequences of structured fields.
    case rfc9440
    /// Envoy's X-Forwarded-Client-Cert: `Cert` or `Chain` of the last element.
    case xfcc
    /// PEM, percent-encoded: nginx's `$ssl_client_escaped_cert`, X-Amzn-Mtls-Clientcert of AWS.
    case pem
    /// The certificate's DER in Base64: Cf-Client-Cert-Der-Base64 of Cloudflare, `%[ssl_c_der,base64]` of HAProxy.
    case der
  }

  /// As the configuration writes it.
  package let name: String
  package let format: Format

  package init(name: String, format: Format) {
    self.name = name
    self.format = format
  }

  /// The field with the certificates of issuers; nil: the format has no such field.
  package var chainName: String? { format == .rfc9440 ? "\(name)-Chain" : nil }
}

/// Why a field has no certificate that can be judged. The text has nothing of the field's value.
package struct CertificateFieldError: Error, Sendable, Hashable {
  package let reason: String
  init(_ reason: String) { self.reason = reason }
}

extension CertificateField {
  /// The lines `Name: value` by which a front relays these certificates, leaf first; none without a certificate.
  package func lines(relaying certificates: [Certificate]) -> [String] {
    guard let leaf = certificates.first else { return [] }
    let all = ForwardedClientCert.percentEncoded(certificates.map(\.pem).joined())
    switch format {
    case .rfc9440:
      let sequences = certificates.map { ":\(Base64.encode($0.der)):" }
      let rest = sequences.dropFirst().joined(separator: ", ")
      return ["\(name): \(sequences[0])"] + (rest.isEmpty ? [] : ["\(name)-Chain: \(rest)"])
    case .xfcc: return ["\(name): Chain=\"\(all)\""]
    case .pem: return ["\(name): \(all)"]
    case .der: return ["\(name): \(Base64.encode(leaf.der))"]
    }
  }

  /// The largest number of bytes of both values together.
  package static let mostBytes = 64 * 1024
  /// The largest number of certificates.
  package static let mostCertificates = 16

  /// The certificates of a field, leaf first. They are parsed, and nobody has verified them.
  ///
  /// Reads what the formats' authors write, and nothing else: a value that two readers could read differently is an error.
  /// `chain`: the value of the field `chainName`, if there is one.
  package func certificates(
    _ value: UnsafeRawBufferPointer, chain: UnsafeRawBufferPointer?
  ) throws(CertificateFieldError) -> [Certificate] {
    let encodings = try encodings(value, chain: chain)
    var certificates: [Certificate] = []
    for encoding in encodings {
      do throws(CryptoError) { certificates.append(try Certificate(der: encoding)) } catch {
        throw CertificateFieldError("certificate \(certificates.count + 1) of the field can't be parsed")
      }
    }
    return certificates
  }

  /// The certificates as DER, at least one, leaf first.
  private func encodings(
    _ value: UnsafeRawBufferPointer, chain: UnsafeRawBufferPointer?
  ) throws(CertificateFieldError) -> [[UInt8]] {
    guard value.count + (chain?.count ?? 0) <= Self.mostBytes else {
      throw CertificateFieldError("the value is longer than \(Self.mostBytes) bytes")
    }
    let found: [[UInt8]]
    switch format {
    case .rfc9440:
      let leaf = try ByteSequence.read(value[...])
      found = [leaf] + (try chain.map { (chain) throws(CertificateFieldError) in try ByteSequence.list(chain) } ?? [])
    case .xfcc: found = try ForwardedElement.last(of: value).certificates()
    case .pem: found = try EscapedPEM.certificates(value[...])
    case .der: found = [try Self.base64(Array(value))]
    }
    guard !found.isEmpty, found.allSatisfy({ !$0.isEmpty }) else { throw CertificateFieldError("it is empty") }
    guard found.count <= Self.mostCertificates else {
      throw CertificateFieldError("it has more than \(Self.mostCertificates) certificates")
    }
    return found
  }

  fileprivate static func base64(_ text: [UInt8]) throws(CertificateFieldError) -> [UInt8] {
    do throws(Base64.DecodingError) {
      return try text.withUnsafeBytes { (raw) in Result { () throws(Base64.DecodingError) in try Base64.decode(raw) } }
        .get()
    } catch {
      throw CertificateFieldError("it is not Base64 with its padding")
    }
  }
}

/// Byte sequences of structured fields (RFC 8941 §3.3.5), without parameters: RFC 9440 defines none.
private enum ByteSequence {
  static func read(_ text: Slice<UnsafeRawBufferPointer>) throws(CertificateFieldError) -> [UInt8] {
    guard text.count > 2, text.first == 0x3A, text.last == 0x3A else {
      throw CertificateFieldError("it is no byte sequence of RFC 8941: Base64 between colons")
    }
    return try CertificateField.base64(Array(text.dropFirst().dropLast()))
  }

  /// RFC 8941 §4.2.1: members between commas, with whitespace around them.
  static func list(_ text: UnsafeRawBufferPointer) throws(CertificateFieldError) -> [[UInt8]] {
    let members = text.split(
      separator: 0x2C, maxSplits: CertificateField.mostCertificates, omittingEmptySubsequences: false)
    var found: [[UInt8]] = []
    for member in members {
      var trimmed = member
      while let byte = trimmed.first, byte == 0x20 || byte == 0x09 { trimmed.removeFirst() }
      while let byte = trimmed.last, byte == 0x20 || byte == 0x09 { trimmed.removeLast() }
      found.append(try read(trimmed))
    }
    return found
  }
}

/// One or more certificates as PEM (RFC 7468), with percent encoding (RFC 3986 §2.1). `+` stands for itself.
private enum EscapedPEM {
  private static let begin = Array("-----BEGIN CERTIFICATE-----".utf8)
  private static let end = Array("-----END CERTIFICATE-----".utf8)

  static func certificates(_ text: Slice<UnsafeRawBufferPointer>) throws(CertificateFieldError) -> [[UInt8]] {
    var rest = try decoded(text)[...]
    var found: [[UInt8]] = []
    while true {
      rest = rest.drop { isSpace($0) }
      if rest.isEmpty { return found }
      guard rest.starts(with: begin) else { throw CertificateFieldError("it is not PEM of certificates alone") }
      guard found.count < CertificateField.mostCertificates else {
        throw CertificateFieldError("it has more than \(CertificateField.mostCertificates) certificates")
      }
      rest = rest.dropFirst(begin.count)
      let digits = rest.prefix { $0 != 0x2D }
      rest = rest.dropFirst(digits.count)
      guard rest.starts(with: end) else { throw CertificateFieldError("a certificate of its PEM has no end") }
      rest = rest.dropFirst(end.count)
      found.append(try CertificateField.base64(digits.filter { !isSpace($0) }))
    }
  }

  private static func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || (0x09...0x0D).contains(byte) }

  private static func decoded(_ text: Slice<UnsafeRawBufferPointer>) throws(CertificateFieldError) -> [UInt8] {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(text.count)
    var rest = text
    while let byte = rest.popFirst() {
      guard byte == 0x25 else {
        bytes.append(byte)
        continue
      }
      guard let high = rest.popFirst().flatMap({ ASCII.hexValue($0) }),
        let low = rest.popFirst().flatMap({ ASCII.hexValue($0) })
      else {
        throw CertificateFieldError("a % of it is not followed by two hexadecimal digits")
      }
      bytes.append(high << 4 | low)
    }
    return bytes
  }
}

/// An element of X-Forwarded-Client-Cert: what one proxy has said of its own client.
///
/// Elements stand between commas, pairs between semicolons, and a value may be quoted, with `\"` for a quotation mark. The
/// last element is that of the front itself: those before it come from proxies further away, or from a client.
private struct ForwardedElement {
  private var leaf: [UInt8]?
  private var chain: [UInt8]?

  /// The most elements.
  private static let most = 32

  /// Leaf first. Envoy's `Chain` has the leaf too.
  func certificates() throws(CertificateFieldError) -> [[UInt8]] {
    let leaf = try Self.certificates(of: leaf), chain = try Self.certificates(of: chain)
    switch (leaf.first, chain.first) {
    case (nil, nil): throw CertificateFieldError("its last element has neither Cert nor Chain")
    case (nil, _?): return chain
    case (let leaf?, nil): return [leaf]
    case (let leaf?, let first?):
      guard leaf == first else { throw CertificateFieldError("Cert and Chain of its last element differ") }
      return chain
    }
  }

  private static func certificates(of value: [UInt8]?) throws(CertificateFieldError) -> [[UInt8]] {
    guard let value else { return [] }
    let outcome = value.withUnsafeBytes { (raw) in
      Result { () throws(CertificateFieldError) in try EscapedPEM.certificates(raw[...]) }
    }
    let found = try outcome.get()
    guard !found.isEmpty else { throw CertificateFieldError("Cert or Chain of its last element is empty") }
    return found
  }

  /// The last element. Every element is read to its end: a quotation mark that a client has left open must not make the
  /// front's element a part of its own.
  static func last(of text: UnsafeRawBufferPointer) throws(CertificateFieldError) -> ForwardedElement {
    var rest = text[...]
    var element = ForwardedElement()
    var count = 1
    while true {
      let key = try key(&rest)
      let value = try value(&rest)
      try element.take(key, value)
      switch rest.popFirst() {
      case nil: return element
      case 0x3B?: continue
      case 0x2C?:
        count += 1
        guard count <= most else { throw CertificateFieldError("it has more than \(most) elements") }
        element = ForwardedElement()
        while let byte = rest.first, byte == 0x20 || byte == 0x09 { rest.removeFirst() }
      default: throw CertificateFieldError("a text follows a quoted value of it")
      }
    }
  }

  private mutating func take(_ key: [UInt8], _ value: [UInt8]) throws(CertificateFieldError) {
    func isKey(_ name: StaticString) -> Bool { key.elementsEqual(name.withUTF8Buffer { Array($0) }) }
    if isKey("cert") {
      guard leaf == nil else { throw CertificateFieldError("an element of it has two Cert") }
      leaf = value
    } else if isKey("chain") {
      guard chain == nil else { throw CertificateFieldError("an element of it has two Chain") }
      chain = value
    }
  }

  /// In lower case.
  private static func key(_ rest: inout Slice<UnsafeRawBufferPointer>) throws(CertificateFieldError) -> [UInt8] {
    let key = rest.prefix { ASCII.lower($0) &- 0x61 < 26 }.map { ASCII.lower($0) }
    rest = rest.dropFirst(key.count)
    guard !key.isEmpty, rest.popFirst() == 0x3D else { throw CertificateFieldError("a pair of it has no key") }
    return key
  }

  private static func value(_ rest: inout Slice<UnsafeRawBufferPointer>) throws(CertificateFieldError) -> [UInt8] {
    guard rest.first == 0x22 else {
      let value = Array(rest.prefix { $0 != 0x3B && $0 != 0x2C })
      rest = rest.dropFirst(value.count)
      guard !value.contains(0x22) else { throw CertificateFieldError("a value of it has a quotation mark in it") }
      return value
    }
    rest.removeFirst()
    var value: [UInt8] = []
    var backslashes = 0
    while let byte = rest.popFirst() {
      if byte == 0x22 {
        switch backslashes {
        case 0: return value
        case 1: value.removeLast()
        // One reader takes the mark for the end, another for a part of the value.
        default: throw CertificateFieldError("backslashes before a quotation mark of it can be read in two ways")
        }
      }
      backslashes = byte == 0x5C ? backslashes + 1 : 0
      value.append(byte)
    }
    throw CertificateFieldError("a quoted value of it has no end")
  }
}
