/// Which workloads a rule means: a SPIFFE ID whose segments may be `*` for one segment, and whose last may be `**` for one
/// or more. The trust domain is always literal, because it selects the bundle that verifies the peer.
public struct SPIFFEIDPattern: Sendable, Hashable, CustomStringConvertible {
  private enum Segment: Sendable, Hashable {
    case literal(String)
    case one
    case rest
  }

  public let trustDomain: TrustDomain
  private let segments: [Segment]
  /// As the configuration has it.
  public let description: String

  public init(parsing text: String) throws(SPIFFEIDError) {
    let (domain, parts) = try SPIFFEID.parts(of: Array(text.utf8))
    trustDomain = try TrustDomain(name: domain)
    guard !parts.isEmpty else { throw SPIFFEIDError("it names a trust domain, not its workloads") }
    var segments: [Segment] = []
    for (place, part) in parts.enumerated() {
      if part.elementsEqual("*".utf8) {
        segments.append(.one)
      } else if part.elementsEqual("**".utf8) {
        guard place == parts.count - 1 else { throw SPIFFEIDError("\"**\" stands before its last segment") }
        segments.append(.rest)
      } else {
        try SPIFFEID.check(part)
        segments.append(.literal(String(decoding: part, as: UTF8.self)))
      }
    }
    self.segments = segments
    description = text
  }

  public func matches(_ id: SPIFFEID) -> Bool {
    guard id.trustDomain == trustDomain else { return false }
    let parts = id.path.split(separator: "/")
    for (place, segment) in segments.enumerated() {
      switch segment {
      case .rest: return parts.count > place
      case .one: if place >= parts.count { return false }
      case .literal(let text): if place >= parts.count || parts[place] != text { return false }
      }
    }
    return parts.count == segments.count
  }
}
