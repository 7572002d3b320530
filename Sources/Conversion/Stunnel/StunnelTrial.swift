package import Language

extension StunnelConversion {
  /// stunnel's configuration with stand-ins.
  package static func trial(
    _ text: String, file: String, files: SourceFiles, in place: StandIns.Place, log: String
  ) -> Trial {
    let old = StunnelFile(text, file: file, files: files)
    var trial = Trial(place)
    for line in ["foreground = yes", "pid =", "syslog = no", "output = \(place.folder)/\(log).log"] {
      trial.add(line, nil)
    }
    for service in old.services { write(service, &trial) }
    return trial
  }

  private static func write(_ service: StunnelFile.Service, _ trial: inout Trial) {
    let defaults = service.defaults.filter { StunnelWords.isOfServices($0.name) }
    let all = defaults + service.options
    func last(_ name: String) -> String? { all.last { $0.name == name }?.value }
    func isOn(_ name: String) -> Bool { last(name)?.lowercased() == "yes" }
    for name in ["exec", "capath", "crlpath", "psksecrets", "ocsp"] where last(name) != nil {
      return trial.omit(service.head, "\(name) has no stand-in")
    }
    let kind = last("protocol")?.lowercased()
    let negotiation = StunnelWords.negotiations[kind ?? ""] ?? nil
    // A server of mail behind a service of stunnel's greets in clear, which no stand-in does.
    guard kind == nil || kind == "proxy" || negotiation != nil && (isOn("client") || kind == "pgsql") else {
      return trial.omit(service.head, "what is said before TLS (protocol = \(kind ?? "")) has no stand-in")
    }
    let terms = StunnelTerms(options: Dictionary(grouping: all, by: \.name))
    let authorities = last("cafile").map { trial.standIns.file(.authorities, $0) }
    if terms.verifiesPeer, let authorities { trial.standIns.listing.insert(authorities.index) }
    var handshake: StandIns.Handshake?
    if isOn("client") {
      let names = all.filter { ["checkhost", "sni"].contains($0.name) }.map(\.value)
      let hosts = all.filter { $0.name == "connect" }.compactMap { Endpoint($0.value)?.host }
      handshake = StandIns.Handshake(
        names: (names + hosts).filter { !$0.isEmpty },
        authorities: terms.verifiesChain || terms.verifiesPeer ? authorities?.index : nil, isListed: terms.verifiesPeer)
    }
    trial.add("[\(service.name)]", service.head)
    for option in all {
      var value = option.value
      switch option.name {
      case "accept": value = trial.standIns.listener(value).map { "127.0.0.1:\($0)" } ?? ""
      case "connect":
        var target = StandIns.Target(
          address: value, isHTTP: false, handshake: handshake, takesProxyProtocol: kind == "proxy" && !isOn("client"))
        if isOn("client") { target.starttls = negotiation }
        value = trial.standIns.target(target).map { "127.0.0.1:\($0)" } ?? ""
      case "cert", "key": value = trial.standIns.file(.certificate, last("cert") ?? value).path
      case "cafile": value = authorities?.path ?? ""
      case "crlfile":
        guard let authorities else { continue }
        value = trial.standIns.file(.revocations(authorities: authorities.index), value).path
      default: break
      }
      trial.add("\(option.name) = \(value)", option.line)
    }
  }
}
