package import Bytes

/// One message of FetchX509SVID as it is on the wire (SPIFFE_Workload_API §5.1). Counts and sizes are bounded; nothing of
/// it is judged yet.
package struct X509SVIDResponse: Sendable {
  package struct SVID: Sendable {
    package var id: [UInt8] = []
    /// The certificate and its intermediates, DER after DER.
    package var chain: [UInt8] = []
    /// PKCS#8.
    package var key = SecretBytes([])
    /// The authorities of its trust domain, DER after DER.
    package var bundle: [UInt8] = []
    package var hint: [UInt8] = []
  }

  package private(set) var svids: [SVID] = []
  package private(set) var revocationLists: [[UInt8]] = []
  /// In the order of the wire: the key, the ID of a trust domain, and DER after DER.
  package private(set) var federated: [(key: [UInt8], bundle: [UInt8])] = []

  /// What a message may hold. A workload has few identities; a mesh of a thousand trust domains is not known.
  package enum Limits {
    package static let svids = 64
    package static let revocationLists = 64
    package static let federated = 1024
    package static let certificatesOfBundle = 256
    package static let certificatesOfChain = 16
    package static let hint = 1024
  }

  package init(_ message: [UInt8]) throws(WorkloadFault) {
    var reader = ProtobufReader(message[...])
    while let (number, value) = try reader.next(known: 1...3) {
      switch number {
      case 1:
        guard svids.count < Limits.svids else { throw WorkloadFault("more than \(Limits.svids) SVIDs") }
        svids.append(try Self.svid(value))
      case 2:
        guard revocationLists.count < Limits.revocationLists else {
          throw WorkloadFault("more than \(Limits.revocationLists) revocation lists")
        }
        revocationLists.append(Array(value))
      case 3:
        guard federated.count < Limits.federated else {
          throw WorkloadFault("more than \(Limits.federated) federated bundles")
        }
        federated.append(try Self.entry(value))
      default: break
      }
    }
  }

  private static func svid(_ bytes: ArraySlice<UInt8>) throws(WorkloadFault) -> SVID {
    var svid = SVID()
    var reader = ProtobufReader(bytes)
    while let (number, value) = try reader.next(known: 1...5) {
      // Of several values, the last one counts, as protobuf demands.
      switch number {
      case 1: svid.id = Array(value)
      case 2: svid.chain = Array(value)
      case 3: svid.key = value.withUnsafeBytes { SecretBytes(copying: $0) }
      case 4: svid.bundle = Array(value)
      case 5: svid.hint = Array(value)
      default: break
      }
    }
    guard svid.id.count <= SPIFFEID.longest else { throw WorkloadFault("an ID of more than \(SPIFFEID.longest) bytes") }
    guard svid.hint.count <= Limits.hint else { throw WorkloadFault("a hint of more than \(Limits.hint) bytes") }
    return svid
  }

  private static func entry(_ bytes: ArraySlice<UInt8>) throws(WorkloadFault) -> (key: [UInt8], bundle: [UInt8]) {
    var entry: (key: [UInt8], bundle: [UInt8]) = ([], [])
    var reader = ProtobufReader(bytes)
    while let (number, value) = try reader.next(known: 1...2) {
      switch number {
      case 1: entry.key = Array(value)
      case 2: entry.bundle = Array(value)
      default: break
      }
    }
    guard entry.key.count <= SPIFFEID.longest else {
      throw WorkloadFault("an ID of more than \(SPIFFEID.longest) bytes")
    }
    return entry
  }
}

/// Certificates that follow each other without a separator.
package enum ConcatenatedDER {
  /// Cuts the bytes into the encodings of ASN.1 SEQUENCEs, with definite lengths as DER has them (X.690 §10.1).
  package static func split(
    _ bytes: [UInt8], limit: Int, of what: String
  ) throws(WorkloadFault) -> [ArraySlice<UInt8>] {
    var parts: [ArraySlice<UInt8>] = []
    var rest = bytes[...]
    while !rest.isEmpty {
      guard parts.count < limit else { throw WorkloadFault("\(what) has more than \(limit) certificates") }
      guard let count = length(of: rest), count <= rest.count else {
        throw WorkloadFault("\(what) is no sequence of DER certificates")
      }
      parts.append(rest.prefix(count))
      rest = rest.dropFirst(count)
    }
    return parts
  }

  /// The bytes of the first element, its head included; nil if it is no SEQUENCE of at most 16 MiB.
  private static func length(of bytes: ArraySlice<UInt8>) -> Int? {
    var rest = bytes
    guard rest.popFirst() == 0x30, let first = rest.popFirst() else { return nil }
    if first < 0x80 { return 2 + Int(first) }
    let digits = Int(first & 0x7F)
    guard (1...3).contains(digits), rest.count >= digits else { return nil }
    return 2 + digits + rest.prefix(digits).reduce(0) { $0 << 8 | Int($1) }
  }
}
