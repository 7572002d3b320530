import Configuration
package import Observability
import Proxy
import TLS
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
    let authority: String
    let tls: UpstreamTLSSettings
    let name: String
  }

  private struct Judge: Hashable {
    let authority: String
    let tls: UpstreamTLSSettings
    let name: String
  }

  package init(configuration path: String) throws(ProbePolicy.Refused) {
    let read: (settings: Settings, diagnostics: [Diagnostic])
    do throws(Refusal) { read = try Preparation.read(path, sharing: SharedState()) } catch {
      throw ProbePolicy.Refused(diagnostics: error.diagnostics)
    }
    self.init(read.settings.http)
  }

  init(_ http: HTTPSettings) {
    var known: [Key: Int] = [:]
    var policies: [Judge: Result<ProbePolicy, ProbePolicy.Refused>] = [:]
    for (index, location) in http.everyLocation {
      guard let pass = location[ProxyPassSettings.self], let tls = pass.tls else { continue }
      let place = Self.place(of: location, pass, in: http.servers[index])
      if let template = pass.target.template {
        unprobed.append(
          Unprobed(
            target: "\(pass.scheme.map { "\($0.rawValue)://" } ?? "")\(template.asWritten)",
            reason: "its address has variables, which only a request has",
            place: place))
        continue
      }
      guard let constant = pass.tlsName.constant else {
        unprobed.append(
          Unprobed(
            target: "https://\(pass.authority)",
            reason: "its name is \(pass.tlsName.asWritten), which only a request has: give --server and --name",
            place: place))
        continue
      }
      if let words = pass.tcp?.negotiationWords {
        unprobed.append(
          Unprobed(
            target: pass.authority, reason: "its TLS begins when it is asked for in the words of \(words)", place: place
          ))
        continue
      }
      let judge = Judge(authority: pass.authority, tls: tls, name: ProxyPassSettings.nameForTLS(constant))
      for server in ProbePolicy.servers(of: pass, in: http) {
        let key = Key(address: server.address, authority: judge.authority, tls: tls, name: judge.name)
        if let former = known[key] {
          entries[former].places.append(place)
          continue
        }
        let policy = policies[judge] ?? Self.policy(tls, pass, http)
        policies[judge] = policy
        known[key] = entries.count
        entries.append(
          Entry(server: server, policy: policy, authority: judge.authority, name: judge.name, places: [place]))
      }
    }
  }

  private static func policy(
    _ tls: UpstreamTLSSettings, _ pass: ProxyPassSettings, _ http: HTTPSettings
  ) -> Result<ProbePolicy, ProbePolicy.Refused> {
    do throws(ProbePolicy.Refused) { return .success(try ProbePolicy(tls, of: pass, in: http)) } catch {
      return .failure(error)
    }
  }

  private static func place(
    of location: LocationSettings, _ pass: ProxyPassSettings, in server: ServerSettings
  ) -> String {
    let name = server.primaryName.isEmpty ? "" : "\(server.primaryName) "
    let identity = pass.identity == nil ? "" : " (presents none here: a request chooses the certificate)"
    let level = server.stream == nil ? "location \(location.match.asWritten), " : ""
    return "\(name)\(level)\(pass.location)\(identity)"
  }
}
