/// Why a text is no SPIFFE ID or trust domain.
public struct SPIFFEIDError: Error, Sendable, Hashable, CustomStringConvertible {
  /// Printable: it has no byte of the text.
  public let reason: String
  public var description: String { reason }
  package init(_ reason: String) { self.reason = reason }
}

/// A trust domain: the namespace of workloads whose identities one authority issues (SPIFFE-ID §2.1).
public struct TrustDomain: Sendable, Hashable, Comparable, CustomStringConvertible {
  /// 1 to 255 bytes of `a-z 0-9 . - _`.
  public let name: String

  /// The longest name (SPIFFE-ID §2.3).
  public static let longest = 255

  init(name bytes: some Collection<UInt8>) throws(SPIFFEIDError) {
    guard !bytes.isEmpty else { throw SPIFFEIDError("it has no trust domain") }
    guard bytes.count <= Self.longest else {
      throw SPIFFEIDError("its trust domain has more than \(Self.longest) bytes")
    }
    guard bytes.allSatisfy(Self.isAllowed) else {
      throw SPIFFEIDError("its trust domain has other characters than a-z, 0-9, \".\", \"-\" and \"_\"")
    }
    name = String(decoding: bytes, as: UTF8.self)
  }

  private static func isAllowed(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"): true
    case UInt8(ascii: "."), UInt8(ascii: "-"), UInt8(ascii: "_"): true
    default: false
    }
  }

  public static func < (one: Self, other: Self) -> Bool { one.name < other.name }
  /// As the ID of the trust domain itself: `spiffe://example.org`.
  public var description: String { "\(SPIFFEID.scheme)\(name)" }
}

/// A SPIFFE ID: `spiffe://example.org/ns/prod/sa/web` (SPIFFE-ID §2). Parsing is strict: two texts that are accepted are
/// the same ID only if they are the same bytes, so that no rule and no upstream can read one in another way.
public struct SPIFFEID: Sendable, Hashable, CustomStringConvertible {
  public let trustDomain: TrustDomain
  /// Empty for the ID of a trust domain itself; else a slash before each segment.
  public let path: String

  static let scheme = "spiffe://"
  /// The longest ID in bytes (SPIFFE-ID §2.3).
  public static let longest = 2048

  public init(parsing text: String) throws(SPIFFEIDError) { try self.init(Array(text.utf8)) }

  /// The bytes of a URI of a certificate.
  public init(_ bytes: [UInt8]) throws(SPIFFEIDError) {
    let (domain, segments) = try Self.parts(of: bytes)
    for segment in segments { try Self.check(segment) }
    trustDomain = try TrustDomain(name: domain)
    path = segments.map { "/\(String(decoding: $0, as: UTF8.self))" }.joined()
  }

  public var description: String { "\(trustDomain)\(path)" }

  /// The trust domain and the segments of the path, neither checked yet.
  static func parts(
    of bytes: [UInt8]
  ) throws(SPIFFEIDError) -> (domain: ArraySlice<UInt8>, segments: [ArraySlice<UInt8>]) {
    guard bytes.count <= longest else { throw SPIFFEIDError("it has more than \(longest) bytes") }
    let scheme = Array(scheme.utf8)
    guard bytes.starts(with: scheme) else { throw SPIFFEIDError("it does not begin with spiffe://") }
    let slash = UInt8(ascii: "/")
    let parts = bytes.dropFirst(scheme.count).split(separator: slash, omittingEmptySubsequences: false)
    return (parts.first ?? [], Array(parts.dropFirst()))
  }

  static func check(_ segment: ArraySlice<UInt8>) throws(SPIFFEIDError) {
    guard !segment.isEmpty else { throw SPIFFEIDError("its path has an empty segment") }
    guard !segment.elementsEqual(".".utf8), !segment.elementsEqual("..".utf8) else {
      throw SPIFFEIDError("its path has a segment of dots")
    }
    guard segment.allSatisfy(isAllowed) else {
      throw SPIFFEIDError("its path has other characters than letters, digits, \".\", \"-\" and \"_\"")
    }
  }

  private static func isAllowed(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"): true
    case UInt8(ascii: "0")...UInt8(ascii: "9"): true
    case UInt8(ascii: "."), UInt8(ascii: "-"), UInt8(ascii: "_"): true
    default: false
    }
  }
}
