import Configuration
import Features
import Forward
import Loading
import Observability
package import TLS
import Traffic
import Upstream

/// The TLS upstreams of a whole configuration, for `sallyport probe --config FILE`: each server once for each policy
/// and name by which some location judges it.
package struct ProbePlan {
  /// One server to look at.
  package struct Entry {
    package let server: ProbePolicy.Server
    package let policy: Result<ProbePolicy, ProbePolicy.Refused>
    /// The value of Host: the group, or the server as `proxy_pass` spells it.
    package let authority: String
    /// The name that its certificate must have.
    package let name: String
    /// What is said inside TLS.
    package let speech: ProbeSpeech
    /// Every location that passes on to the server under this policy.
    package fileprivate(set) var places: [String]
  }

  /// An upstream that only a request decides on.
  package struct Unprobed {
    package let target: String
    package let reason: String
    package let place: String
  }

  package private(set) var entries: [Entry] = []
  package private(set) var unprobed: [Unprobed] = []

  private struct Key: Hashable {
    let address: UpstreamAddress
    let judge: Judge
  }

  private struct Judge: Hashable {
    let authority: String
    let tls: UpstreamTLSSettings
    let name: String
    let speech: ProbeSpeech
    let origin: OriginSettings
  }

  package init(configuration path: String) throws(ProbePolicy.Refused) {
    let read: (settings: Settings, diagnostics: [Diagnostic])
    do throws(Refusal) { read = try Preparation.read(path, sharing: SharedState(features: Features.all)) } catch {
      throw ProbePolicy.Refused(diagnostics: error.diagnostics)
    }
    self.init(read.settings.http)
  }

  init(_ http: HTTPSettings) {
    var known: [Key: Int] = [:]
    var policies: [Judge: Result<ProbePolicy, ProbePolicy.Refused>] = [:]
    for (index, location) in http.everyLocation {
      guard let pass = location[UpstreamPass.self], let tls = pass.trust.tls else { continue }
      let authority = pass.authority(in: http), speech = pass.probeSpeech
      let place = Self.place(of: location, pass, in: http.servers[index])
      if let template = pass.target.upstream.template {
        unprobed.append(
          Unprobed(
            target: "\(pass.scheme.map { _ in "\(speech.scheme)://" } ?? "")\(template.text(http.slotNames))",
            reason: "its address has variables, which only a request has",
            place: place))
        continue
      }
      guard let constant = pass.trust.name.constant else {
        unprobed.append(
          Unprobed(
            target: "\(speech.scheme)://\(authority)",
            reason:
              "its name is \(pass.trust.name.text(http.slotNames)), which only a request has: give --server and --name",
            place: place))
        continue
      }
      let judge = Judge(
        authority: authority, tls: tls, name: UpstreamPass.nameForTLS(constant), speech: speech,
        origin: pass.origin)
      for server in ProbePolicy.servers(of: pass, in: http) {
        let key = Key(address: server.address, judge: judge)
        if let former = known[key] {
          entries[former].places.append(place)
          continue
        }
        let policy = policies[judge] ?? Self.policy(tls, pass, http)
        policies[judge] = policy
        known[key] = entries.count
        entries.append(
          Entry(
            server: server, policy: policy, authority: authority, name: judge.name, speech: speech, places: [place]))
      }
    }
  }

  private static func policy(
    _ tls: UpstreamTLSSettings, _ pass: UpstreamPass, _ http: HTTPSettings
  ) -> Result<ProbePolicy, ProbePolicy.Refused> {
    do throws(ProbePolicy.Refused) { return .success(try ProbePolicy(tls, of: pass, in: http)) } catch {
      return .failure(error)
    }
  }

  private static func place(
    of location: LocationSettings, _ pass: UpstreamPass, in server: ServerSettings
  ) -> String {
    let name = server.primaryName.isEmpty ? "" : "\(server.primaryName) "
    let identity = pass.trust.identity == nil ? "" : " (presents none here: a request chooses the certificate)"
    let level = pass.tcp == nil ? "location \(location.match.asWritten)" : "stream"
    return "\(name)\(level), \(pass.location)\(identity)"
  }
}
