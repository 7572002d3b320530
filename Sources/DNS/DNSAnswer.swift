public import Transport

/// What is asked about a name.
public struct DNSQuestion: Sendable, Hashable {
  public enum Kind: Sendable, Hashable {
    /// Records A and AAAA, as far as the policy allows.
    case addresses
    /// Records SRV (RFC 2782).
    case services
  }
  public var name: DNSName
  public var kind: Kind

  public init(_ name: DNSName, _ kind: Kind) {
    self.name = name
    self.kind = kind
  }
}

/// One SRV record (RFC 2782).
public struct ServiceRecord: Sendable, Hashable {
  public var priority: UInt16
  public var weight: UInt16
  public var port: UInt16
  public var target: DNSName
}

/// The records of an answer.
public struct DNSRecords: Sendable, Hashable {
  /// IPv4 before IPv6, each in the order of the answer; the port is 0.
  public var addresses: [SocketAddress] = []
  public var services: [ServiceRecord] = []
  /// Seconds: the least of all records that led here.
  public var ttl: UInt32 = 0
}

/// Why a name has no records, with nginx's numbers and words.
public enum DNSFailure: Error, Sendable, Hashable, CustomStringConvertible {
  /// A code of the server other than 0 and 3 (RFC 1035 §4.1.1).
  case refusal(code: UInt8)
  /// The name doesn't exist, or has no record of this kind.
  case notFound
  /// The answer can't be read.
  case malformed
  /// The text can't be a name of DNS; nobody was asked.
  case invalidName
  /// No server has answered in time.
  case timedOut
  /// Too many names, or too many who wait for one.
  case crowded

  /// Whether DNS itself says that there are no records. Otherwise, the records may still be as they were.
  public var isDefinite: Bool { self == .notFound || self == .refusal(code: 1) }

  /// As in nginx's log: `3: Host not found`.
  public var description: String {
    switch self {
    case .refusal(1), .malformed, .invalidName: "1: Format error"
    case .refusal(2): "2: Server failure"
    case .notFound: "3: Host not found"
    case .refusal(4): "4: Unimplemented"
    case .refusal(5): "5: Operation refused"
    case .refusal(let code): "\(code): Unknown error"
    case .timedOut: "110: Operation timed out"
    case .crowded: "too many names are being looked up"
    }
  }
}

public typealias DNSResult = Result<DNSRecords, DNSFailure>

/// How the answers of a `resolver` are used.
public struct DNSPolicy: Sendable, Hashable {
  public enum Families: Sendable, Hashable { case both, ipv4, ipv6 }
  public var families = Families.both
  /// Seconds for which an answer counts, in place of its TTL (`valid=`).
  public var valid: Int?
  public init() {}

  /// Seconds for which a result counts. A TTL is at least a second, so that the requests of one moment share a
  /// question, and at most a day. What a server says of a missing name counts for 5 seconds; no answer, for one.
  public func seconds(of result: DNSResult) -> Int {
    switch result {
    case .success(let records): valid ?? Int(min(max(records.ttl, 1), 86_400))
    case .failure(.notFound): 5
    case .failure: 1
    }
  }
}
