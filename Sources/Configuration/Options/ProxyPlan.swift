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
  let certificate: ProxyValue
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
  let logLevel: String
  let user: ProxyValue?

  /// Whether TLS is spoken to the upstream. An option that only TLS can heed says so too.
  var isTLS: Bool {
    targets.first?.0.isTLS ?? false
      || isTCP
        && (!pins.isEmpty || upstreamCA != nil || hasUpstreamName || upstreamCert != nil || upstreamNegotiation != nil)
  }

  private let hasUpstreamName: Bool

  init(_ options: ProxyOptions, hasIPv6: Bool) throws(ProxyOptionFaults) {
    var faults: [ProxyOptionFault] = []
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
    hasUpstreamName = options.one(.upstreamName) != nil
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
    user = options.one(.user)
    let certificate = options.one(.cert)
    let hosts = Set(targets.map(\.0.host))
    let name = options.one(.upstreamName) ?? targets.first.map { ProxyValue(.to, $0.0.host, origin: $0.1.origin) }
    for option in [ProxyOption.listen, .to] where options[option].isEmpty {
      faults.append(Self.missing(option, isTCP: isTCP))
    }
    if certificate == nil { faults.append(Self.missing(.cert)) }
    faults += Self.textFaults(options)
    faults += Self.negotiationFaults(negotiation, upstreamNegotiation, isTCP: isTCP)
    faults += Self.clientFaults(options, verification) + Self.upstreamFaults(options, targets, hosts)
    guard faults.isEmpty, let certificate, let name else { throw ProxyOptionFaults(faults) }
    self.certificate = certificate
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
      .cert, .key, .passwordFile, .clientCA, .clientPin, .crl, .pin, .upstreamCA, .upstreamCert, .upstreamKey, .user,
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

  private static func clientFaults(_ options: ProxyOptions, _ verification: Verification) -> [ProxyOptionFault] {
    var faults: [ProxyOptionFault] = []
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
    _ options: ProxyOptions, _ targets: [(ProxyTarget, ProxyValue)], _ hosts: Set<String>
  ) -> [ProxyOptionFault] {
    var faults: [ProxyOptionFault] = []
    if let first = targets.first {
      let isTCP = options.one(.tcp)?.text == "on"
      let trusts = [ProxyOption.pin, .upstreamCA, .upstreamName, .upstreamCert, .upstreamKey]
      let isTLS = first.0.isTLS || isTCP && (trusts + [.upstreamStartTLS]).contains { options.one($0) != nil }
      if let other = targets.first(where: { $0.0.isTLS != first.0.isTLS }) {
        faults.append(refused(other.1, ProxyOptionFault("all servers must have the same scheme as \(first.1.text)")))
      } else if isTLS {
        if hosts.count > 1, options.one(.upstreamName) == nil {
          faults.append(
            ProxyOptionFault(
              "--upstream-name is missing: the servers of \(first.1.origin) have different names",
              hint: "give the one name that all their certificates have"))
        }
      } else {
        for option in trusts {
          guard let value = options.one(option) else { continue }
          faults.append(
            ProxyOptionFault("\(value.origin) needs an upstream with TLS", hint: "\(first.1.origin) https://HOST:PORT"))
        }
      }
    }
    if let key = options.one(.upstreamKey), options.one(.upstreamCert) == nil {
      faults.append(ProxyOptionFault("\(key.origin) is the key of --upstream-cert, which is missing"))
    }
    return faults
  }

  private static func missing(_ option: ProxyOption, isTCP: Bool = false) -> ProxyOptionFault {
    let what =
      switch option {
      case .listen: "where to listen, such as \(isTCP ? ":5433" : ":8443")"
      case .to: "the upstream, such as \(isTCP ? "db.internal:5432" : "https://10.0.0.5:8443")"
      default: "the server's certificate"
      }
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
