import Bytes
package import Crypto
import Glibc

/// What the messages of the Workload API give a process, parsed, checked, and each part by its own rule.
///
/// A message that can't be read, or the first one if any part of it has a fault, gives nothing. Of a later one, each bundle,
/// the revocation lists and each identity count by themselves: a part with a fault keeps what it was before and is among
/// `faults`, and stops no other part. So trust that a message takes away ends with that message.
public final class WorkloadMaterial: Sendable {
  /// What there is of an identity.
  package enum Found: Sendable {
    case usable(X509SVID)
    case unusable(reason: String)
    case unknown
  }

  /// Those that can be used, in the order of the message.
  public let svids: [X509SVID]
  /// Why others can't be used. Nothing takes their place.
  private let unusable: [SPIFFEID: String]
  /// The default identity (SPIFFE_Workload_API §5.3), usable or not.
  private let first: SPIFFEID
  public let bundles: [TrustDomain: TrustBundle]
  /// What of the message has no effect, for people.
  public let faults: [String]
  /// Seconds since 1970 at which the last of the identities ends: the bundles are not used beyond it. What only an agent
  /// can renew must not be trusted for ever without one.
  package let end: Int64
  /// 32 octets, equal for messages with the same certificates and lists: they change nothing.
  package let digest: [UInt8]

  /// `former`: what the same agent gave before. `now`: seconds since 1970. `verify`: says why an identity is none of a
  /// bundle; nil if it is one.
  package init(
    _ message: [UInt8], after former: WorkloadMaterial? = nil, now: Int64 = Int64(time(nil)),
    verify: (X509SVID, TrustBundle) -> WorkloadFault? = { _, _ in nil }
  ) throws(WorkloadFault) {
    let response = try X509SVIDResponse(message)
    var parts = Parts(former)
    let entries = try Self.entries(response)
    guard let first = entries.first else { throw WorkloadFault("no SVID is in it") }
    let authorities = try parts.bundles(entries, response.federated)
    let lists = try parts.revocations(response.revocationLists, authorities, Set(entries.map(\.id.trustDomain)), now)
    let bundles = authorities.reduce(into: [:]) { all, entry in
      all[entry.key] = TrustBundle(
        trustDomain: entry.key, authorities: entry.value, revocations: lists[entry.key] ?? [])
    }
    let found = try parts.identities(entries, now) { svid in
      guard let bundle = bundles[svid.id.trustDomain] else {
        return WorkloadFault("there is no bundle of \(svid.id.trustDomain)")
      }
      return verify(svid, bundle)
    }
    (svids, unusable, end) = (found.usable, found.unusable, found.end)
    self.first = first.id
    self.bundles = bundles
    faults = parts.faults
    digest = Self.digest(svids, found.unusable, bundles)
  }

  /// What an agent would send that has these identities, the default one first, and these authorities; nil without an
  /// identity.
  package init?(
    identities: [(id: SPIFFEID, pair: CertifiedKey)], authorities: [TrustDomain: [Certificate]]
  ) {
    guard let first = identities.first else { return nil }
    self.first = first.id
    svids = identities.map { X509SVID(id: $0.id, pair: $0.pair, hint: "") }
    bundles = authorities.reduce(into: [:]) { all, entry in
      all[entry.key] = TrustBundle(trustDomain: entry.key, authorities: entry.value, revocations: [])
    }
    (unusable, faults) = ([:], [])
    end = svids.map(\.end).max() ?? .min
    digest = Self.digest(svids, unusable, bundles)
  }

  /// The SVID that a configuration names; nil names the default one.
  package func find(_ id: SPIFFEID?) -> Found {
    let id = id ?? first
    if let svid = svids.first(where: { $0.id == id }) { return .usable(svid) }
    return unusable[id].map { .unusable(reason: $0) } ?? .unknown
  }

  /// The IDs of the message that can be used.
  package var ids: String { svids.map(\.id.description).joined(separator: ", ") }

  /// Why an identity can't be used; nil if all can.
  var unusableReason: String? { unusable.sorted { $0.key.description < $1.key.description }.first?.value }

  /// Takes the identities' IDs, without which nobody knows whose the other parts are.
  private static func entries(_ response: X509SVIDResponse) throws(WorkloadFault) -> [Entry] {
    var entries: [Entry] = []
    for svid in response.svids {
      let id: SPIFFEID
      do throws(SPIFFEIDError) { id = try SPIFFEID(svid.id) } catch {
        throw WorkloadFault("an SVID's spiffe_id is no SPIFFE ID: \(error)")
      }
      guard !entries.contains(where: { $0.id == id }) else { throw WorkloadFault("\(id) is there twice") }
      entries.append(Entry(id: id, svid: svid))
    }
    return entries
  }

  fileprivate struct Entry {
    let id: SPIFFEID
    let svid: X509SVIDResponse.SVID
  }

  private static func digest(
    _ svids: [X509SVID], _ unusable: [SPIFFEID: String], _ bundles: [TrustDomain: TrustBundle]
  ) -> [UInt8] {
    var bytes: [UInt8] = []
    for svid in svids {
      bytes += [1] + svid.pair.certificate.sha256 + svid.pair.chain.flatMap(\.sha256)
    }
    for domain in bundles.keys.sorted() {
      guard let bundle = bundles[domain] else { continue }
      bytes += [2] + Array(domain.name.utf8) + [0] + bundle.digest
    }
    for line in unusable.map({ "\($0.key) \($0.value)" }).sorted() { bytes += [6] + Array(line.utf8) + [0] }
    return Digest.of(bytes)
  }
}

/// Takes the parts of a message, each with what it was before at hand.
private struct Parts {
  let former: WorkloadMaterial?
  private(set) var faults: [String] = []

  init(_ former: WorkloadMaterial?) { self.former = former }

  /// A fault of a first message is one of the whole: there is nothing to keep.
  private mutating func note(_ fault: WorkloadFault, _ consequence: String) throws(WorkloadFault) {
    guard former != nil else { throw fault }
    faults.append("\(fault.reason): \(consequence)")
  }

  // MARK: Bundles

  mutating func bundles(
    _ entries: [WorkloadMaterial.Entry], _ federated: [(key: [UInt8], bundle: [UInt8])]
  ) throws(WorkloadFault) -> [TrustDomain: [Certificate]] {
    var bundles: [TrustDomain: [Certificate]] = [:]
    var faulty: Set<TrustDomain> = []
    for entry in entries {
      let domain = entry.id.trustDomain, name = "the bundle of \(domain)"
      guard !faulty.contains(domain) else { continue }
      do throws(WorkloadFault) {
        let authorities = try Self.authorities(entry.svid.bundle, name)
        guard !authorities.isEmpty else { throw WorkloadFault("\(name) is empty") }
        // Several SVIDs of a trust domain come with the same bundle.
        if let other = bundles[domain], Set(other) != Set(authorities) {
          throw WorkloadFault("\(name) is there twice, with different authorities")
        }
        bundles[domain] = authorities
      } catch {
        faulty.insert(domain)
        bundles[domain] = try kept(domain, error)
      }
    }
    let own = Set(entries.map(\.id.trustDomain))
    for entry in federated {
      let domain: TrustDomain
      do throws(WorkloadFault) { domain = try Self.trustDomain(entry.key) } catch {
        try note(error, "it lets nobody in")
        continue
      }
      guard !faulty.contains(domain) else { continue }
      do throws(WorkloadFault) {
        let authorities = try Self.authorities(entry.bundle, "the bundle of \(domain)")
        // Whoever may write an entry of the map must not speak for the process's own trust domain.
        guard !own.contains(domain) else {
          if bundles[domain].map({ Set($0) == Set(authorities) }) == true { continue }
          try note(
            WorkloadFault("a federated bundle speaks for \(domain), the process's own trust domain"),
            "it lets nobody in")
          continue
        }
        guard bundles[domain] == nil else { throw WorkloadFault("the bundle of \(domain) is there twice") }
        bundles[domain] = authorities
      } catch {
        guard !own.contains(domain) else {
          try note(error, "it lets nobody in")
          continue
        }
        faulty.insert(domain)
        bundles[domain] = try kept(domain, error)
      }
    }
    return bundles
  }

  private mutating func kept(_ domain: TrustDomain, _ fault: WorkloadFault) throws(WorkloadFault) -> [Certificate]? {
    let authorities = former?.bundles[domain]?.authorities
    try note(fault, authorities == nil ? "it lets nobody in" : "the bundle that was in use stays")
    return authorities
  }

  // MARK: Identities

  /// `verify`: says why an identity can't be used with the bundles of this message. `end`: the latest of the message's
  /// identities, usable or not.
  mutating func identities(
    _ entries: [WorkloadMaterial.Entry], _ now: Int64, _ verify: (X509SVID) -> WorkloadFault?
  ) throws(WorkloadFault) -> (usable: [X509SVID], unusable: [SPIFFEID: String], end: Int64) {
    var usable: [X509SVID] = []
    var unusable: [SPIFFEID: String] = [:]
    var ends: [Int64] = []
    for entry in entries {
      let id = entry.id
      let former = former?.svids.first { $0.id == id && $0.end > now && verify($0) == nil }
      let svid: X509SVID
      do throws(WorkloadFault) {
        svid = try Self.svid(entry)
        ends.append(svid.end)
        if let fault = verify(svid) { throw fault }
      } catch {
        try note(error, former == nil ? "handshakes that need this identity are refused" : "the former one stays")
        if let former { usable.append(former) } else { unusable[id] = error.reason }
        continue
      }
      if svid.end <= now, let former {
        try note(WorkloadFault("the certificate of \(id) has ended already"), "the former one stays")
        usable.append(former)
      } else {
        usable.append(svid)
      }
    }
    return (usable, unusable, (ends + usable.map(\.end)).max() ?? .min)
  }

  private static func svid(_ entry: WorkloadMaterial.Entry) throws(WorkloadFault) -> X509SVID {
    let (id, entry) = (entry.id, entry.svid)
    let chain = try certificates(entry.chain, X509SVIDResponse.Limits.certificatesOfChain, "the chain of \(id)")
    guard let leaf = chain.first else { throw WorkloadFault("the chain of \(id) is empty") }
    let shown: SPIFFEID
    do throws(WorkloadFault) { shown = try SVIDRule.id(of: leaf) } catch {
      throw WorkloadFault("the certificate of \(id) can't be used: \(error)")
    }
    guard shown == id else { throw WorkloadFault("the certificate of \(id) is for \(shown)") }
    guard leaf.notAfter != .unreadable else { throw WorkloadFault("the end of the certificate of \(id) can't be read") }
    let key: PrivateKey
    do throws(CryptoError) {
      key = try entry.key.withUnsafeBytes { (raw) throws(CryptoError) in try PrivateKey(der: raw) }
    } catch {
      throw WorkloadFault("the key of \(id) is no PKCS#8")
    }
    guard let pair = CertifiedKey(certificate: leaf, chain: Array(chain.dropFirst()), key: key) else {
      throw WorkloadFault("the key of \(id) does not belong to its certificate")
    }
    return X509SVID(id: id, pair: pair, hint: String(decoding: entry.hint, as: UTF8.self))
  }

  private static func trustDomain(_ key: [UInt8]) throws(WorkloadFault) -> TrustDomain {
    do throws(SPIFFEIDError) {
      let id = try SPIFFEID(key)
      guard id.path.isEmpty else { throw SPIFFEIDError("it has a path") }
      return id.trustDomain
    } catch {
      throw WorkloadFault("the key of a federated bundle is no trust domain: \(error)")
    }
  }

  private static func authorities(_ bytes: [UInt8], _ what: String) throws(WorkloadFault) -> [Certificate] {
    let all = try certificates(bytes, X509SVIDResponse.Limits.certificatesOfBundle, what)
    // A leaf among the authorities would be trusted as itself.
    guard let other = all.first(where: { !$0.usage.maySignCertificates }) else { return all }
    throw WorkloadFault("\(what) has a certificate that is no CA: \(other.subject)")
  }

  private static func certificates(
    _ bytes: [UInt8], _ limit: Int, _ what: String
  ) throws(WorkloadFault) -> [Certificate] {
    var all: [Certificate] = []
    for part in try ConcatenatedDER.split(bytes, limit: limit, of: what) {
      do throws(CryptoError) { all.append(try Certificate(der: Array(part))) } catch {
        throw WorkloadFault("\(what) has a certificate that can't be read")
      }
    }
    return all
  }

  // MARK: Revocation lists

  /// Which lists apply to which trust domain: to those with the CA that issued a list, and else to the process's own,
  /// where an intermediate CA may have issued it. As of files, an ended list or one with a smaller number doesn't replace
  /// the one that was in use.
  mutating func revocations(
    _ lists: [[UInt8]], _ bundles: [TrustDomain: [Certificate]], _ own: Set<TrustDomain>, _ now: Int64
  ) throws(WorkloadFault) -> [TrustDomain: [RevocationList]] {
    var found: [TrustDomain: [RevocationList]] = [:]
    var isWhole = true
    for der in lists {
      let list: RevocationList
      do throws(CryptoError) {
        list = try der.withUnsafeBufferPointer { (bytes) throws(CryptoError) in
          try RevocationList(der: UnsafeRawBufferPointer(bytes))
        }
      } catch {
        isWhole = false
        try note(WorkloadFault("a revocation list can't be used: \(error)"), "the lists that were in use stay")
        continue
      }
      let issuers = bundles.filter { entry in entry.value.contains { list.isSigned(by: $0) } }.map(\.key)
      for domain in issuers.isEmpty ? Array(own) : issuers { found[domain, default: []].append(list) }
    }
    for (domain, authorities) in bundles {
      let fresh = found[domain] ?? [], before = former?.bundles[domain], old = before?.revocations ?? []
      // Of a list that can't be read, nobody knows the issuer.
      let missing =
        isWhole
        ? [] : old.filter { list in !fresh.contains { $0.isOfIssuer(of: list) && $0.scope == list.scope } }
      let signers = authorities + (before?.authorities ?? [])
      let all = RevocationList.taking(fresh, after: old, among: signers, now: now).lists + missing
      found[domain] = all.isEmpty ? nil : RevocationList.deciding(all, among: signers, now: now)
    }
    return found
  }
}

extension X509SVID {
  /// Seconds since 1970 at which the first certificate of its chain ends. Parsing refuses a leaf whose end can't be read.
  package var end: Int64 {
    ([pair.certificate] + pair.chain).compactMap { $0.notAfter.seconds }.min() ?? .min
  }
}

extension TrustBundle {
  /// Equal for the same authorities and lists in any order.
  package var digest: [UInt8] {
    func sorted(_ digests: [[UInt8]]) -> [UInt8] {
      digests.sorted { $0.lexicographicallyPrecedes($1) }.flatMap { $0 }
    }
    return Digest.of([3] + sorted(authorities.map(\.sha256)) + [4] + sorted(revocations.map(\.sha256)))
  }
}
