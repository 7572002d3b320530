import Bytes
import Crypto

/// What one message of the Workload API gives a process, parsed and checked as far as one certificate's own words go. The
/// chains of its SVIDs are checked by `TrustBundles`.
///
/// A message counts as a whole or not at all: of one with a fault nothing is used, and the former one stays.
public final class WorkloadMaterial: Sendable {
  /// In the order of the message, at least one. The first is the default identity (SPIFFE_Workload_API §5.3).
  public let svids: [X509SVID]
  public let bundles: [TrustDomain: TrustBundle]
  /// 32 octets, equal for messages with the same certificates and lists: they change nothing.
  package let digest: [UInt8]

  package init(_ message: [UInt8]) throws(WorkloadFault) {
    let response = try X509SVIDResponse(message)
    guard !response.svids.isEmpty else { throw WorkloadFault("no SVID is in it") }
    var svids: [X509SVID] = []
    var bundles: [TrustDomain: [Certificate]] = [:]
    for entry in response.svids {
      let svid = try Self.svid(entry)
      let name = "the bundle of \(svid.id.trustDomain)"
      let authorities = try Self.authorities(entry.bundle, name)
      guard !authorities.isEmpty else { throw WorkloadFault("\(name) is empty") }
      // Several SVIDs of a trust domain come with the same bundle.
      if let other = bundles[svid.id.trustDomain], Set(other) != Set(authorities) {
        throw WorkloadFault("\(name) is there twice, with different authorities")
      }
      guard !svids.contains(where: { $0.id == svid.id }) else { throw WorkloadFault("\(svid.id) is there twice") }
      bundles[svid.id.trustDomain] = authorities
      svids.append(svid)
    }
    let own = Set(bundles.keys)
    for entry in response.federated {
      let domain = try Self.trustDomain(entry.key)
      let authorities = try Self.authorities(entry.bundle, "the bundle of \(domain)")
      // Whoever may write an entry of the map must not speak for the process's own trust domain.
      guard !own.contains(domain) || bundles[domain].map({ Set($0) == Set(authorities) }) == true else {
        throw WorkloadFault("a federated bundle speaks for \(domain), the process's own trust domain")
      }
      guard own.contains(domain) || bundles[domain] == nil else {
        throw WorkloadFault("the bundle of \(domain) is there twice")
      }
      bundles[domain] = authorities
    }
    let lists = try Self.revocations(response.revocationLists, bundles, own)
    self.svids = svids
    self.bundles = bundles.reduce(into: [:]) { all, entry in
      all[entry.key] = TrustBundle(
        trustDomain: entry.key, authorities: entry.value, revocations: lists[entry.key] ?? [])
    }
    digest = Self.digest(svids, self.bundles)
  }

  /// The SVID that a configuration names; nil names the default one.
  package func svid(_ id: SPIFFEID?) -> X509SVID? {
    guard let id else { return svids.first }
    return svids.first { $0.id == id }
  }

  /// Seconds since 1970 at which the last of the identities ends: the bundles are not used beyond it. What only an agent
  /// can renew must not be trusted for ever without one.
  package var end: Int64 { svids.map(\.end).max() ?? .min }

  // MARK: Parts

  private static func svid(_ entry: X509SVIDResponse.SVID) throws(WorkloadFault) -> X509SVID {
    let id: SPIFFEID
    do throws(SPIFFEIDError) { id = try SPIFFEID(entry.id) } catch {
      throw WorkloadFault("an SVID's spiffe_id is no SPIFFE ID: \(error)")
    }
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

  /// Which lists apply to which trust domain: to those with the CA that issued a list, and else to the process's own,
  /// where an intermediate CA may have issued it.
  private static func revocations(
    _ lists: [[UInt8]], _ bundles: [TrustDomain: [Certificate]], _ own: Set<TrustDomain>
  ) throws(WorkloadFault) -> [TrustDomain: [RevocationList]] {
    var found: [TrustDomain: [RevocationList]] = [:]
    for der in lists {
      let list: RevocationList
      do throws(CryptoError) {
        list = try der.withUnsafeBufferPointer { (bytes) throws(CryptoError) in
          try RevocationList(der: UnsafeRawBufferPointer(bytes))
        }
      } catch {
        throw WorkloadFault("a revocation list can't be used")
      }
      let issuers = bundles.filter { entry in entry.value.contains { list.isSigned(by: $0) } }.map(\.key)
      for domain in issuers.isEmpty ? Array(own) : issuers { found[domain, default: []].append(list) }
    }
    return found
  }

  private static func digest(_ svids: [X509SVID], _ bundles: [TrustDomain: TrustBundle]) -> [UInt8] {
    var bytes: [UInt8] = []
    for svid in svids {
      bytes += [1] + svid.pair.certificate.sha256 + svid.pair.chain.flatMap(\.sha256)
    }
    for domain in bundles.keys.sorted() {
      guard let bundle = bundles[domain] else { continue }
      bytes += [2] + Array(domain.name.utf8) + [0] + bundle.digest
    }
    return Digest.of(bytes)
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
