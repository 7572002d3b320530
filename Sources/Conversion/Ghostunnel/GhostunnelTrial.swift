extension GhostunnelConversion {
  /// Flags with stand-ins, one on each line; the first line is the command.
  package static func trial(_ words: [OldLine], in place: StandIns.Place) -> Trial {
    let old = GhostunnelFlags(words)
    var trial = Trial(place)
    guard let mode = old.mode else { return trial }
    func value(_ name: String) -> String? { old.flags[name]?.last?.value }
    for name in [
      "use-workload-api", "use-workload-api-addr", "auto-acme-cert", "pkcs11-module", "keychain-identity",
      "proxy",
    ]
    where value(name) != nil {
      trial.omit(mode.line, "--\(name) has no stand-in")
      return trial
    }
    trial.add(mode.mode.rawValue, mode.line)
    let authorities = value("cacert").map { trial.standIns.file(.authorities, $0) }
    let host = value("override-server-name") ?? value("target").flatMap { Endpoint($0)?.host } ?? "localhost"
    let certificate = value("keystore") ?? value("cert") ?? ""
    for flag in old.flags.values.joined().sorted(by: { ($0.line.number, $0.name) < ($1.line.number, $1.name) }) {
      var text = flag.value
      switch flag.name {
      case "listen": text = trial.standIns.listener(text).map { "127.0.0.1:\($0)" } ?? ""
      case "target":
        let handshake =
          mode.mode == .client
          ? StandIns.Handshake(
            names: [host] + (old.flags["verify-dns"] ?? []).map(\.value), authorities: authorities?.index) : nil
        let target = StandIns.Target(
          address: text, isHTTP: false, handshake: handshake,
          takesProxyProtocol: old.flags["proxy-protocol"] != nil || old.flags["proxy-protocol-mode"] != nil)
        text = trial.standIns.target(target).map { "127.0.0.1:\($0)" } ?? ""
      case "keystore", "cert", "key": text = trial.standIns.file(.certificate, certificate).path
      case "cacert": text = authorities?.path ?? ""
      case "storepass", "status", "syslog", "metrics-graphite", "metrics-url", "enable-pprof", "enable-shutdown":
        continue
      default: break
      }
      trial.add(text.isEmpty ? "--\(flag.name)" : "--\(flag.name)=\(text)", flag.line)
    }
    if mode.mode == .client, value("override-server-name") == nil {
      trial.add("--override-server-name=\(host)", mode.line)
    }
    return trial
  }
}
