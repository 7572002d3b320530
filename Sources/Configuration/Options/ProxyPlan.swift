import Features
import Forward
import Negotiation
import Observability
import Traffic
import Transport

/// The options of `sallyport proxy`, judged together: what must stand there stands there, and nothing contradicts.
struct ProxyPlan {
  enum Verification: String, CaseIterable { case on, optional, off }

  /// Whether connections of any protocol are passed, and not requests of HTTP.
  let isTCP: Bool
  /// How clients ask for TLS, and how upstreams are asked for it; nil: it begins at once.
  let negotiation: (kind: NegotiatedProtocol, value: ProxyValue)?
  let upstreamNegotiation: (kind: NegotiatedProtocol, value: ProxyValue)?
  let listeners: [(ListenAddress, ProxyValue)]
  let healthListeners: [(ListenAddress, ProxyValue)]
  let targets: [(ProxyTarget, ProxyValue)]
  let allow: [([String], ProxyValue)]
  let deny: [([String], ProxyValue)]
  /// nil: clients come in clear, from this machine or from where `--listen-anywhere` lets them in.
  let certificate: ProxyValue?
  /// Whether clients of other machines may come in clear.
  let listensAnywhere: Bool
  let key: ProxyValue?
  let passwordFile: ProxyValue?
  let clientCA: ProxyValue?
  let clientPins: [ProxyValue]
  let revocations: [ProxyValue]
  let verification: Verification
  let verify: ProxyValue?
  let pins: [ProxyValue]
  let upstreamCA: ProxyValue?
  /// The name to send to upstreams and to expect in their certificates.
  let upstreamName: ProxyValue
  let upstreamCert: ProxyValue?
  let upstreamKey: ProxyValue?
  /// The SPIFFE IDs that an upstream may have.
  let upstreamIDs: [ProxyValue]
  let spiffeEndpoint: ProxyValue?
  /// The proxy through which connections to the upstream go, and the file of its user.
  let via: ProxyValue?
  let viaUserFile: ProxyValue?
  let logLevel: String
  let user: ProxyValue?

  /// Whether TLS is spoken to the upstream.
  let isTLS: Bool

  /// Whether all servers of the upstream get TLS. An option that only TLS can heed says so too, with `--tcp`.
  private static func isTLS(_ options: ProxyOptions, _ targets: [(ProxyTarget, ProxyValue)], isTCP: Bool) -> Bool {
    targets.first?.0.isTLS ?? false
      || isTCP && (optionsOfTrust + [.upstreamStartTLS]).contains { options.one($0) != nil }
  }

  /// The options that say whom the upstream is, or who sallyport is towards it.
  private static let optionsOfTrust: [ProxyOption] = [
    .pin, .upstreamCA, .upstreamName, .upstreamCert, .upstreamKey, .upstreamID,
  ]

  init(_ given: ProxyOptions, hasIPv6: Bool) throws(ProxyOptionFaults) {
    var faults: [ProxyOptionFault] = []
    let options = given.inWordsOfBothSides(&faults)
    (verification, logLevel) = Self.words(options, &faults)
    verify = options.one(.verify)
    let listeners = Self.parsed(options[.listen], &faults) { (text) throws(ProxyOptionFault) in
      try ListenOption.addresses(text, hasIPv6: hasIPv6)
    }
    let healthListeners = Self.parsed(options[.healthListen], &faults) { (text) throws(ProxyOptionFault) in
      try ListenOption.addresses(text, hasIPv6: hasIPv6, onLoopback: true)
    }
    isTCP = Self.isOn(.tcp, options, &faults)
    let isTCP = isTCP
    let targets = Self.parsed(options[.to], &faults) { (text) throws(ProxyOptionFault) in
      [try isTCP ? ProxyTarget(ofTCP: text) : ProxyTarget(text)]
    }
    negotiation = Self.negotiation(.starttls, options, &faults)
    upstreamNegotiation = Self.negotiation(.upstreamStartTLS, options, &faults)
    listensAnywhere = Self.isOn(.listenAnywhere, options, &faults)
    isTLS = Self.isTLS(options, targets, isTCP: isTCP)
    self.listeners = listeners
    self.healthListeners = healthListeners
    self.targets = targets
    allow = options[.allow].map { (ProxyRule.words($0.text), $0) }
    deny = options[.deny].map { (ProxyRule.words($0.text), $0) }
    key = options.one(.key)
    passwordFile = options.one(.passwordFile)
    clientCA = options.one(.clientCA)
    clientPins = options[.clientPin]
    revocations = options[.crl]
    pins = options[.pin]
    upstreamCA = options.one(.upstreamCA)
    upstreamCert = options.one(.upstreamCert)
    upstreamKey = options.one(.upstreamKey)
    upstreamIDs = options[.upstreamID]
    spiffeEndpoint = options.one(.spiffeEndpoint)
    via = options.one(.via)
    viaUserFile = options.one(.viaUserFile)
    user = options.one(.user)
    certificate = options.one(.cert)
    let hosts = Set(targets.map(\.0.host))
    let name = options.one(.upstreamName) ?? targets.first.map { ProxyValue(.to, $0.0.host, origin: $0.1.origin) }
    for option in [ProxyOption.listen, .to] where options[option].isEmpty {
      faults.append(Self.missing(option, isTCP: isTCP))
    }
    faults += Self.textFaults(options)
    faults += Self.negotiationFaults(negotiation, upstreamNegotiation, isTCP: isTCP)
    faults += Self.upstreamFaults(options, targets, hosts, isTLS: isTLS)
    if certificate == nil {
      faults += Self.clearFaults(options, listeners, targets, anywhere: listensAnywhere, isTLS: isTLS)
    } else {
      faults += Self.clientFaults(options, verification)
    }
    guard faults.isEmpty, let name else { throw ProxyOptionFaults(faults) }
    upstreamName = name
  }

  private static func words(
    _ options: ProxyOptions, _ faults: inout [ProxyOptionFault]
  ) -> (Verification, String) {
    var verification = Verification.on
    if let value = options.one(.verify) {
      if let known = Verification(rawValue: value.text) {
        verification = known
      } else {
        faults.append(refused(value, ProxyOptionFault("it must be on, optional or off")))
      }
    }
    var level = "notice"
    if let value = options.one(.logLevel) {
      if LogLevel(name: value.text) == nil {
        let names = LogLevel.allCases.map(\.name).joined(separator: ", ")
        faults.append(refused(value, ProxyOptionFault("it must be one of \(names)")))
      } else {
        level = value.text
      }
    }
    return (verification, level)
  }

  private static func isOn(_ option: ProxyOption, _ options: ProxyOptions, _ faults: inout [ProxyOptionFault]) -> Bool {
    guard let value = options.one(option) else { return false }
    if value.text != "on", value.text != "off" {
      faults.append(refused(value, ProxyOptionFault("it must be on or off")))
    }
    return value.text == "on"
  }

  private static func negotiation(
    _ option: ProxyOption, _ options: ProxyOptions, _ faults: inout [ProxyOptionFault]
  ) -> (kind: NegotiatedProtocol, value: ProxyValue)? {
    guard let value = options.one(option) else { return nil }
    if let kind = NegotiatedProtocol(rawValue: value.text) { return (kind, value) }
    let names = NegotiatedProtocol.allCases.map(\.rawValue).joined(separator: ", ")
    faults.append(refused(value, ProxyOptionFault("it must be one of \(names)")))
    return nil
  }

  private static func negotiationFaults(
    _ clients: (kind: NegotiatedProtocol, value: ProxyValue)?,
    _ upstream: (kind: NegotiatedProtocol, value: ProxyValue)?,
    isTCP: Bool
  ) -> [ProxyOptionFault] {
    if !isTCP {
      return [clients, upstream].compactMap { $0?.value }.map {
        ProxyOptionFault("\($0.origin) needs --tcp", hint: "clients and servers of HTTP begin with TLS at once")
      }
    }
    guard let clients, let upstream, clients.kind != upstream.kind else { return [] }
    return [
      ProxyOptionFault(
        "\(upstream.value.origin) is \(upstream.kind.rawValue), and \(clients.value.origin) is \(clients.kind.rawValue)",
        hint: "a connection has one protocol")
    ]
  }

  /// A `$` would begin a variable in some of these places, and a client chooses the values of many variables.
  private static func textFaults(_ options: ProxyOptions) -> [ProxyOptionFault] {
    let constants: [ProxyOption] = [
      .cert, .key, .passwordFile, .clientCA, .clientPin, .crl, .pin, .upstreamCA, .upstreamCert, .upstreamKey,
      .upstreamID, .spiffeEndpoint, .via, .viaUserFile, .user,
    ]
    var faults: [ProxyOptionFault] = []
    for value in constants.flatMap({ options[$0] }) where value.text.contains("$") {
      faults.append(refused(value, ProxyOptionFault("it must not contain \"$\"", hint: "rename the file")))
    }
    if let name = options.one(.upstreamName), SocketAddress(literal: name.text, port: 0) == nil,
      !Authority.isHost(name.text)
    {
      faults.append(refused(name, ProxyOptionFault("it must be a host name or an IP address")))
    }
    return faults
  }

  // MARK: Options that belong together

  /// What a proxy without a certificate must not do: verify clients that have no TLS, let other machines use its
  /// identity unasked, or send what it got in clear on in clear.
  private static func clearFaults(
    _ options: ProxyOptions, _ listeners: [(ListenAddress, ProxyValue)], _ targets: [(ProxyTarget, ProxyValue)],
    anywhere: Bool, isTLS: Bool
  ) -> [ProxyOptionFault] {
    var faults: [ProxyOptionFault] = []
    for option in [ProxyOption.key, .clientCA, .clientPin, .verify, .crl, .allow, .deny] {
      guard let value = options.one(option) else { continue }
      faults.append(
        option == .key
          ? ProxyOptionFault(
            "\(value.origin) is the key of --cert, which is missing",
            hint: "the key of a certificate that the upstream asks for is --client-key")
          : ProxyOptionFault(
            "\(value.origin) judges certificates of clients, who come in clear without --cert",
            hint: "give --cert, the server's certificate, or leave \(value.origin) out"))
    }
    for (address, value) in listeners where !anywhere && !address.isOfThisMachine {
      let refusal = ProxyOptionFault(
        "without --cert everybody who reaches it would use the upstream, in clear",
        hint:
          "listen on 127.0.0.1:PORT, [::1]:PORT or unix:/PATH; --cert verifies clients; --listen-anywhere lets everybody in, if that is meant"
      )
      let told = refused(value, refusal)
      if !faults.contains(told) { faults.append(told) }
    }
    if let target = targets.first, !isTLS {
      let isTCP = options.one(.tcp)?.text == "on"
      let secure = target.0.server
      faults.append(
        refused(
          target.1,
          ProxyOptionFault(
            "without --cert the upstream must have TLS: bytes would come in clear and go on in clear",
            hint: "\(target.1.origin) \(isTCP ? "tls" : "https")://\(secure); or --cert, to verify clients")))
    }
    if let file = options.one(.passwordFile), options.one(.upstreamCert) == nil {
      faults.append(ProxyOptionFault("\(file.origin) opens the key of --client-cert, which is missing"))
    }
    return faults
  }

  private static func clientFaults(_ options: ProxyOptions, _ verification: Verification) -> [ProxyOptionFault] {
    var faults: [ProxyOptionFault] = []
    if let anywhere = options.one(.listenAnywhere) {
      faults.append(
        ProxyOptionFault(
          "\(anywhere.origin) belongs to a proxy without --cert, whose clients come in clear",
          hint: "leave it out: --listen alone says where clients with TLS connect"))
    }
    if verification == .off {
      for option in [ProxyOption.clientCA, .clientPin, .crl, .allow, .deny] {
        guard let value = options.one(option) else { continue }
        faults.append(
          ProxyOptionFault(
            "\(value.origin) judges clients, and \(origin(options, .verify)) is off", hint: "leave one out"))
      }
    } else if options.one(.clientCA) == nil {
      if options.one(.clientPin) == nil {
        faults.append(
          ProxyOptionFault(
            "--client-ca is missing: the file of the CAs whose clients may connect",
            hint:
              "--client-pin does without a CA; --verify off lets everybody in, if that is meant; --demo-ca makes a CA for a trial"
          ))
      } else if let list = options.one(.crl) {
        faults.append(ProxyOptionFault("\(list.origin) needs --client-ca: a pin alone has no CA that revokes"))
      }
    }
    return faults
  }

  private static func upstreamFaults(
    _ options: ProxyOptions, _ targets: [(ProxyTarget, ProxyValue)], _ hosts: Set<String>, isTLS: Bool
  ) -> [ProxyOptionFault] {
    var faults: [ProxyOptionFault] = []
    if let first = targets.first {
      if let other = targets.first(where: { $0.0.isTLS != first.0.isTLS }) {
        faults.append(refused(other.1, ProxyOptionFault("all servers must have the same scheme as \(first.1.text)")))
      } else if isTLS {
        if hosts.count > 1, options.one(.upstreamName) == nil, options.one(.upstreamID) == nil {
          faults.append(
            ProxyOptionFault(
              "--upstream-name is missing: the servers of \(first.1.origin) have different names",
              hint: "give the one name that all their certificates have"))
        }
      } else {
        for option in optionsOfTrust {
          guard let value = options.one(option) else { continue }
          faults.append(
            ProxyOptionFault("\(value.origin) needs an upstream with TLS", hint: "\(first.1.origin) https://HOST:PORT"))
        }
      }
    }
    if let key = options.one(.upstreamKey), options.one(.upstreamCert) == nil {
      let certificate = options.isOfClientSide ? ProxyOption.clientCert : .upstreamCert
      faults.append(ProxyOptionFault("\(key.origin) is the key of \(certificate.spelling), which is missing"))
    }
    if let file = options.one(.viaUserFile), options.one(.via) == nil {
      faults.append(ProxyOptionFault("\(file.origin) is the file of the user of --via, which is missing"))
    }
    faults += workloadFaults(options)
    return faults
  }

  /// Names mean nothing for an upstream that is known by a SPIFFE ID, and pins change with each renewal.
  private static func workloadFaults(_ options: ProxyOptions) -> [ProxyOptionFault] {
    var faults: [ProxyOptionFault] = []
    if let id = options.one(.upstreamID) {
      for option in [ProxyOption.pin, .upstreamName] {
        guard let other = options.one(option) else { continue }
        faults.append(
          ProxyOptionFault(
            "\(other.origin) beside \(id.origin)", hint: "the ID says who the upstream is: leave one out"))
      }
      if let authority = options.one(.upstreamCA), !authority.text.hasPrefix("spiffe:") {
        faults.append(
          ProxyOptionFault(
            "\(authority.origin) beside \(id.origin)", hint: "the SPIFFE agent vouches for an ID: leave one out"))
      }
    } else if let authority = options.one(.upstreamCA), authority.text.hasPrefix("spiffe:") {
      faults.append(
        ProxyOptionFault(
          "--upstream-id is missing: \(authority.origin) \"\(authority.text)\" vouches for many",
          hint: "such as spiffe://example.org/ns/prod/sa/app"))
    }
    let takers = [ProxyOption.cert, .clientCA, .upstreamCert, .upstreamCA]
    if let endpoint = options.one(.spiffeEndpoint), options.one(.upstreamID) == nil,
      !takers.contains(where: { options.one($0)?.text.hasPrefix("spiffe:") == true })
    {
      faults.append(
        ProxyOptionFault(
          "\(endpoint.origin) is the socket of an agent that nothing is taken from",
          hint: "spiffe: in place of a file, or --upstream-id"))
    }
    return faults
  }

  private static func missing(_ option: ProxyOption, isTCP: Bool = false) -> ProxyOptionFault {
    let what =
      option == .listen
      ? "where to listen, such as \(isTCP ? ":5433" : ":8443")"
      : "the upstream, such as \(isTCP ? "db.internal:5432" : "https://10.0.0.5:8443")"
    return ProxyOptionFault("\(option.spelling) is missing: \(what)", hint: "or set \(option.variable)")
  }

  private static func origin(_ options: ProxyOptions, _ option: ProxyOption) -> String {
    options.one(option)?.origin ?? option.spelling
  }

  private static func refused(_ value: ProxyValue, _ fault: ProxyOptionFault) -> ProxyOptionFault {
    ProxyOptionFault("\(value.origin) \"\(value.text)\": \(fault.text)", hint: fault.hint)
  }

  /// Each value with what it stands for. A value that can't be parsed becomes a fault.
  private static func parsed<Parsed>(
    _ values: [ProxyValue], _ faults: inout [ProxyOptionFault], _ parse: (String) throws(ProxyOptionFault) -> [Parsed]
  ) -> [(Parsed, ProxyValue)] {
    var found: [(Parsed, ProxyValue)] = []
    for value in values {
      do throws(ProxyOptionFault) {
        found += try parse(value.text).map { ($0, value) }
      } catch {
        faults.append(refused(value, error))
      }
    }
    return found
  }
}
