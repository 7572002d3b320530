extension StandIns {
  /// The configuration of the servers behind both programs: ours answers for each of them with its number and the fields
  /// that it got. `certificate`: the file with certificate and key of a target. `preamble`: lines of the main context.
  package func targetConfiguration(
    telling fields: [String], preamble: [String], certificate: (_ target: Int) -> String
  ) -> String {
    var http: [String] = [], stream: [String] = []
    let told = fields.map { name in
      let variable = String(name.lowercased().map { $0 == "-" ? "_" : $0 })
      return "field \(name)=$http_\(variable)\\n"
    }.joined()
    for (index, target) in targets.enumerated() {
      var listen = "listen 127.0.0.1:\(place.targets[index])"
      if target.handshake != nil { listen += " ssl" }
      if target.takesProxyProtocol { listen += " proxy_protocol" }
      var lines = ["server {", "  \(listen);"]
      if target.handshake != nil {
        let file = certificate(index)
        lines += ["  ssl_certificate \(file);", "  ssl_certificate_key \(file);"]
      }
      if let kind = target.starttls { lines.append("  starttls \(kind);") }
      if target.isHTTP {
        let text = "\(Sight.greeting)\(index)\\n\(told)"
        http += lines + ["  location / { return 200 \"\(text)\"; }", "}"]
      } else {
        stream += lines + ["  return \"\(Sight.greeting)\(index)\\n\";", "}"]
      }
    }
    var text = preamble + ["events { worker_connections 512; }"]
    if !http.isEmpty { text += ["http {", "access_log off;"] + http + ["}"] }
    if !stream.isEmpty { text += ["stream {"] + stream + ["}"] }
    return text.joined(separator: "\n") + "\n"
  }
}
