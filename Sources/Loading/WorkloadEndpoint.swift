import Crypto
import Forward
import Glibc
import Language
package import Observability
import TLS
package import Traffic
import Transport

/// Where the SPIFFE agent is: `spiffe_endpoint`, or else SPIFFE_ENDPOINT_SOCKET of the environment
/// (SPIFFE_Workload_Endpoint §4).
package enum WorkloadEndpoint {
  static let variable = "SPIFFE_ENDPOINT_SOCKET"

  /// The path of the agent's socket; nil if the configuration names no `spiffe:`, or if nothing says where the agent is.
  package static func path(of settings: Settings, environment: String? = Self.environment) -> String? {
    guard settings.http.workloadPlace != nil else { return nil }
    return settings.main.workloadEndpoint ?? environment.flatMap { WorkloadSocket.path(in: $0) }
  }

  static var environment: String? { getenv(variable).map { String(cString: $0) } }

  /// What is missing for a configuration that names `spiffe:`. `severity`: a machine that only checks the configuration
  /// may have another environment.
  package static func faults(
    _ settings: Settings, environment: String? = Self.environment, severity: Diagnostic.Severity = .error
  ) -> [Diagnostic] {
    guard let place = settings.http.workloadPlace, path(of: settings, environment: environment) == nil else {
      return []
    }
    let fault =
      environment.map { "\(variable) is \"\($0)\", which is no unix socket" }
      ?? "there is neither spiffe_endpoint nor \(variable) in the environment"
    return [
      Diagnostic(
        severity, at: place, "nothing says where the SPIFFE agent is: \(fault)",
        hint: "spiffe_endpoint unix:/run/spire/agent/public/api.sock; in the main context")
    ]
  }

  /// What `check` says, which asks no agent: the identity belongs to the process that serves.
  package static func note(_ settings: Settings) -> [Diagnostic] {
    guard let place = settings.http.workloadPlace, let path = path(of: settings) else { return [] }
    return [
      Diagnostic(
        .notice, at: place,
        "nothing of spiffe: is verified here: the SPIFFE agent at unix:\(path) gives it to the process that serves",
        hint: "`sallyport health` and `status` tell what a running process has got")
    ]
  }
}

extension HTTPSettings {
  /// Where a configuration first names `spiffe:`; nil if it doesn't.
  var workloadPlace: SourceLocation? {
    for tls in servers.compactMap(\.tls) {
      if let place = tls.workloadReferences.first?.location { return place }
    }
    for (_, location) in everyLocation {
      guard let tls = location.upstreamTLS, tls.usesWorkload else { continue }
      return tls.workloadIdentity?.location ?? tls.location
    }
    return nil
  }
}
