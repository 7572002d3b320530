import Configuration
import Crypto
import Glibc
import Observability
import Proxy
import TLS
import Transport

extension Supervisor {
  /// What this process tells about itself. The listener for these questions adds what the workers say.
  var healthAnswer: HealthAnswer {
    var answer = HealthAnswer()
    answer.version = "\(Product.version)"
    answer.configuration = source.phrase
    answer.generation = current.generation.number
    answer.listeners = listeners
    let presented = PresentedCertificates(current.generation)
    answer.certificates = presented.first(HealthAnswer.maximumCertificates)
    answer.certificateCount = presented.all.count
    return answer
  }

  private var listeners: [HealthAnswer.Listener] {
    guard let sockets else { return [] }
    let http = current.settings.http
    return zip(http.listeners, sockets.boundAddresses).flatMap { listener, addresses in
      let refuses =
        http.servers.indices.contains(listener.defaultServer)
        && http.servers[listener.defaultServer].tls?.rejectsHandshake == true
      let opening: HealthAnswer.Opening = !listener.isTLS ? .plain : refuses ? .refusingTLS : .tls
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

  /// Those that are not valid yet come first, then in the order of their ends; an end that can't be read counts as past.
  func first(_ count: Int, now: Int64 = Int64(time(nil))) -> [HealthAnswer.Validity] {
    func key(_ validity: HealthAnswer.Validity) -> Int64 {
      (validity.notBefore ?? .max) > now ? .min : validity.notAfter ?? .min
    }
    return Array(all.sorted { (key($0), $0.file) < (key($1), $1.file) }.prefix(count))
  }

  private static func validity(_ certificate: Certificate, _ file: String) -> HealthAnswer.Validity {
    HealthAnswer.Validity(
      notBefore: certificate.notBefore.seconds, notAfter: certificate.notAfter.seconds, file: file)
  }
}
