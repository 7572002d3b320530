import Configuration
import Crypto
import Features
import Forward
import Glibc
import Language
import Loading
import Observability
import SPIFFE
import TLS
import Traffic
import Transport

extension Supervisor {
  /// What this process tells about itself. The listener for these questions adds what the workers say.
  var healthAnswer: HealthAnswer {
    var answer = HealthAnswer()
    answer.version = "\(Product.version)"
    answer.configuration = source.phrase
    answer.generation = current.generation.number
    answer.reload = results.result
    answer.reopening = reopening
    answer.sources = current.settings.sources
    answer.listeners = listeners
    answer.mark = shared.healthMark
    let presented = PresentedCertificates(current.generation)
    answer.certificates = HealthAnswer.Validity.first(HealthAnswer.maximumCertificates, of: presented.all)
    answer.certificateCount = presented.all.count
    let trusted = TrustedMaterial(current.generation)
    answer.authorities = HealthAnswer.Validity.first(HealthAnswer.maximumCertificates, of: trusted.authorities)
    answer.lists = Array(trusted.lists.prefix(HealthAnswer.maximumLists))
    let now = Int64(time(nil))
    let renewals = shared.troubledRenewals(current.generation, at: now)
    answer.troubles = (renewals + fleet.metrics.process.troubles(at: now)).map {
      HealthAnswer.Trouble(isServing: $0.isServing, text: $0.words)
    }
    let identity = shared.workload.current
    answer.workloadProblem = identity.endpoint == nil ? nil : identity.problem(at: now)
    answer.stores = shared.storeStates(of: current.settings.http).map {
      HealthAnswer.Store(isGood: $0.isGood, text: $0.text)
    }
    answer.files =
      current.stale.map { HealthAnswer.FileState(isStale: $0.state == .changed, text: $0.words) }
      + current.files.forbidden.map {
        HealthAnswer.FileState(isStale: false, text: WatchedFiles.words(ofForbidden: $0))
      }
    answer.faults = (shared.ongoing.current + fleet.metrics.process.losingLogs).map {
      HealthAnswer.Fault(kind: $0.kind.rawValue, text: $0.words, isFatal: $0.isFatal)
    }
    answer.faults += shared.refusals(current.generation, at: now).map {
      HealthAnswer.Fault(kind: HealthAnswer.Fault.refusals, text: $0)
    }
    answer.faults += fleet.metrics.all.compactMap(\.shortage).map {
      HealthAnswer.Fault(kind: HealthAnswer.Fault.connections, text: $0, isFatal: true)
    }
    answer.faults += shared.downGroups(current.generation).map {
      HealthAnswer.Fault(kind: HealthAnswer.Fault.upstream, text: $0.words, isFatal: $0.isFatal)
    }
    answer.notice = current.settings.http.clientLimits.expiryNotice
    return answer
  }

  private var listeners: [HealthAnswer.Listener] {
    guard let sockets else { return [] }
    let http = current.settings.http
    return zip(http.listeners, sockets.boundAddresses).flatMap { listener, addresses in
      let refuses =
        http.servers.indices.contains(listener.defaultServer)
        && http.servers[listener.defaultServer].tls?.rejectsHandshake == true
      let asked =
        http.servers.indices.contains(listener.defaultServer)
        ? http.servers[listener.defaultServer].stream?.negotiation : nil
      let opening: HealthAnswer.Opening =
        !listener.isTLS ? .plain : refuses ? .refusingTLS : asked.map { .init($0) } ?? .tls
      return addresses.map {
        HealthAnswer.Listener(opening: opening, expectsHeader: listener.expectsProxyHeader, address: $0.description)
      }
    }
  }
}

/// The certificates that a generation presents, to clients and to upstreams, each once.
struct PresentedCertificates {
  private(set) var all: [HealthAnswer.Validity] = []

  init(_ generation: Generation) {
    var seen: Set<Certificate> = []
    for context in generation.serverContexts.compactMap({ $0 }) {
      for (source, certificate) in zip(context.settings.certificates, context.certificates) {
        if seen.insert(certificate).inserted { all.append(Self.validity(certificate, source.certificate.description)) }
      }
    }
    for context in generation.upstreamContexts.values {
      guard let certificate = context.presented, let source = context.settings.certificate,
        seen.insert(certificate).inserted
      else { continue }
      all.append(Self.validity(certificate, source.certificate.description))
    }
  }

  fileprivate static func validity(_ certificate: Certificate, _ file: String) -> HealthAnswer.Validity {
    HealthAnswer.Validity(
      notBefore: certificate.notBefore.seconds, notAfter: certificate.notAfter.seconds, file: file)
  }
}

/// What a generation verifies others by: the CAs and the revocation lists of its files, each once.
struct TrustedMaterial {
  private(set) var authorities: [HealthAnswer.Validity] = []
  /// Those that end first come first.
  private(set) var lists: [HealthAnswer.List] = []

  init(_ generation: Generation) {
    var seen: Set<Certificate> = []
    var found: Set<HealthAnswer.List> = []
    func note(_ certificates: [Certificate], _ revocations: [RevocationList]) {
      for certificate in certificates where seen.insert(certificate).inserted {
        authorities.append(PresentedCertificates.validity(certificate, certificate.subject.rfc2253))
      }
      for list in revocations {
        found.insert(HealthAnswer.List(update: list.thisUpdate, end: list.nextUpdate, issuer: list.issuer))
      }
    }
    for context in generation.serverContexts.compactMap({ $0 }) { note(context.authorities, context.revocations) }
    for context in generation.upstreamContexts.values { note(context.authorities, context.revocations) }
    lists = found.sorted { ($0.end ?? .max, $0.issuer, $0.update) < ($1.end ?? .max, $1.issuer, $1.update) }
  }
}

extension HealthAnswer.Validity {
  /// Those that are not valid yet come first, then in the order of their ends; an end that can't be read counts as past.
  static func first(_ count: Int, of all: [Self], now: Int64 = Int64(time(nil))) -> [Self] {
    func key(_ validity: Self) -> Int64 { (validity.notBefore ?? .max) > now ? .min : validity.notAfter ?? .min }
    return Array(all.sorted { (key($0), $0.file) < (key($1), $1.file) }.prefix(count))
  }
}
