package import Traffic
package import Forward

extension HealthCheckSettings {
  package func policy(_ loaded: GenerationParts) -> [PassPolicyLine] { [PassPolicyLine("health", inWords)] }

  private var inWords: String {
    let question =
      switch kind {
      case .http(let target, let match):
        "GET \(String(decoding: target, as: UTF8.self))\(match == nil ? "" : ", judged by a match block")"
      case .grpc(let service, let status):
        "gRPC health of \(service.isEmpty ? "the server" : service)\(status.map { ", or status \($0)" } ?? "")"
      case .tcp(let match):
        "a connection"
          + (match.map { $0.expected == nil ? ", and bytes" : ", and an answer that a match block judges" } ?? "")
      }
    let place = port.map { " at port \($0)" } ?? ""
    let start = isMandatory ? ", down until the first pass" : ""
    return
      "\(question)\(place), every \(Self.time(interval)); down after failures: \(fails), up after passes: \(passes)\(start)"
  }

  private static func time(_ milliseconds: Int) -> String {
    milliseconds % 1000 == 0 ? "\(milliseconds / 1000) s" : "\(milliseconds) ms"
  }
}
