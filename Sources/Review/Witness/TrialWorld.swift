import Configuration
package import Crypto
import Features
package import Language
import Loading
package import Observability
package import SPIFFE
import TLS
package import Traffic
import Transport

/// The objects that serve a configuration, with clients that exist in memory only: what a persona gets is what the daemon
/// would do with it.
///
/// The handshake is stood in for (`TLSStream.rehearse`), and so are the CAs, lists and pins by which clients are judged
/// (`StandIns`), because nobody but their owners can issue by them. A client whose certificate is at hand in a file is judged
/// by the files themselves. All else is the code that serves. No listener is bound, no name is looked up, no log is opened,
/// no upstream and no SPIFFE agent is contacted.
///
/// Not for several threads at once.
package final class TrialWorld {
  /// Why there is no world.
  package struct Refusal: Error, Sendable {
    package let text: String
    package let diagnostics: [Diagnostic]
  }

  /// A CA by which clients can be minted.
  package struct Authority: Sendable {
    /// The file as the configuration names it, or the SPIFFE ID of a trust domain.
    package let file: String
    /// That whose SVIDs it issues; nil: its CA is one of a file.
    package let trustDomain: TrustDomain?
    /// The stand-in, whose names are those of the CA.
    package let certificate: Certificate
    /// The server blocks that trust it, by their places in `http.servers`.
    package fileprivate(set) var servers: Set<Int>
    fileprivate let spki: [UInt8]

    package var subject: String { certificate.subject.rfc2253 }

    /// The CA of a trust domain issues SVIDs alone: a client that says no ID gets one that rules hardly name.
    fileprivate func identified(_ persona: Persona) -> Persona {
      guard let trustDomain, !persona.saysURI else { return persona }
      var other = persona
      other.alternativeNames.append(.uri("\(trustDomain)\(StandIns.workloadPath)"))
      return other
    }
  }

  /// What a world is made of.
  private struct Origin {
    let source: ConfigurationSource
    let files: SourceFiles
    let domains: Set<TrustDomain>
  }

  /// The live objects under one trust.
  private struct Serving {
    let material: KeyMaterial
    let stage: RequestExplanation.Stage
  }

  package let http: HTTPSettings
  /// Those that the configuration was read from.
  let statements: [Directive]
  package private(set) var authorities: [Authority] = []
  /// How many attempts have been made.
  package private(set) var attempts = 0
  /// What the configuration pins of clients, as it would be written.
  package var pins: [String] { standIns.pins.map(\.spelling) }
  private let origin: Origin
  private let standIns: StandIns
  private let shared: SharedState
  private let trace = ExplainTrace(takingLimitsAsKept: true)
  /// By which any client can be minted.
  private let serving: Serving
  /// The files' own trust, for clients whose certificates are at hand. Nothing proves that they have the keys.
  private lazy var genuine: Result<Serving, Refusal> = Result { () throws(Refusal) in
    try Self.serving(http, shared, trace, "the configuration", replacing: nil)
  }
  private var minted: [MintKey: [Certificate]?] = [:]
  private var outcomes: [Attempt: Outcome] = [:]
  /// The world with a statement that this one lacks, and the only server block that the statement decides on; nil: it may
  /// decide on each attempt.
  private var former: (world: TrialWorld, server: Int)?

  private struct MintKey: Hashable {
    let persona: Persona
    let server: Int?
  }

  /// `domains`: trust domains that clients come from, besides those that the configuration names.
  package convenience init(
    _ source: ConfigurationSource, files: SourceFiles = .disk, domains: Set<TrustDomain> = []
  ) throws(Refusal) {
    try self.init(Origin(source: source, files: files, domains: domains), beside: nil) { $0 }
  }

  /// That of the same configuration without one statement. `server`: the block that the statement stands in; nil: none.
  convenience init(_ other: TrialWorld, without place: SourceLocation, in server: SourceLocation?) throws(Refusal) {
    try self.init(other.origin, beside: other.standIns) { Self.without(place, $0) }
    let isSame =
      pins == other.pins && http.listeners.map(\.servers) == other.http.listeners.map(\.servers)
      && http.listeners.map(\.defaultServer) == other.http.listeners.map(\.defaultServer)
      && authorities.map(\.file) == other.authorities.map(\.file)
      && authorities.map(\.spki) == other.authorities.map(\.spki)
    guard isSame, let index = http.servers.firstIndex(where: { $0.location == server }) else { return }
    former = (other, index)
  }

  /// Whether the lines of a server block may have a say in an attempt: the listener's default has one before a name is known.
  private func comes(_ attempt: Attempt, to server: Int) -> Bool {
    guard http.listeners.indices.contains(attempt.listener) else { return true }
    let listener = http.listeners[attempt.listener]
    guard listener.kind == .http, listener.defaultServer != server,
      !(attempt.persona.fields + attempt.fields).contains(where: { $0.lowercased().hasPrefix("host:") }),
      let place = place(
        of: serving.stage.live.listeners[attempt.listener], Array(attempt.host.lowercased().utf8)), place != server
    else { return true }
    guard listener.isTLS else { return false }
    return self.server(of: attempt).map { $0 == server } ?? true
  }

  private static func without(_ place: SourceLocation, _ lines: [Directive]) -> [Directive] {
    lines.compactMap { line in
      if line.location == place { return nil }
      guard let block = line.block else { return line }
      var other = line
      other.block = without(place, block)
      return other
    }
  }

  /// `edit`: changes the statements before they are read.
  private init(
    _ origin: Origin, beside other: StandIns?, editing edit: ([Directive]) -> [Directive]
  ) throws(Refusal) {
    self.origin = origin
    let source = origin.source
    var statements: [Directive] = []
    let (loaded, _, found) = Configuration.read(source, files: origin.files, looksUpNames: false) { lines in
      statements = edit(lines)
      return statements
    }
    self.statements = statements
    guard let settings = loaded else {
      throw Refusal(text: "configuration \(source.phrase) is not valid", diagnostics: found)
    }
    http = settings.http
    shared = SharedState(features: Features.all)
    do throws(OpenSSLError) {
      standIns = if let other { StandIns(beside: other) } else { try StandIns() }
      let agent = try standIns.workload(for: http, besides: origin.domains)
      shared.workload.update { $0.material = agent }
    } catch {
      throw Refusal(text: "no key can be made: \(error)", diagnostics: [])
    }
    serving = try Self.serving(http, shared, trace, source.phrase) {
      [standIns] (material) throws(TLSSettingsError) in try standIns.replace(material)
    }
    for index in http.servers.indices { noteAuthorities(of: index) }
  }

  private static func serving(
    _ http: HTTPSettings, _ shared: SharedState, _ trace: ExplainTrace, _ name: String, replacing: TrustReplacement?
  ) throws(Refusal) -> Serving {
    let material = KeyMaterial(loading: http, sharing: shared, replacing: replacing)
    let errors = material.diagnostics.filter { $0.severity == .error }
    guard errors.isEmpty else {
      throw Refusal(text: "the files of configuration \(name) can't be loaded", diagnostics: errors)
    }
    // Names stand for an address on which no machine listens (RFC 1112 §4).
    let nobody = Resolver(pool: shared.pool) { _, port in [.ipv4(address: 0xF000_0001, port: port)] }
    let generation = Generation(
      number: 1, http: http, serverContexts: material.servers.map { $0?.context },
      upstreamContexts: material.upstreams.mapValues(\.context),
      groups: Resolution.resolve(http.groups, by: nobody).groups, errorLog: ErrorLog([]), errorLogs: [:],
      accessLogs: [:], hosts: HostResolution(http, former: nil, by: nobody).found, parts: material.parts)
    do throws(RequestExplanation.Refusal) {
      return Serving(material: material, stage: try RequestExplanation.Stage(generation, sharing: shared, trace))
    } catch {
      throw Refusal(text: error.text, diagnostics: [])
    }
  }

  private func noteAuthorities(of index: Int) {
    guard let policy = http.servers[index].clientPolicy, let loaded = material(of: index) else { return }
    for (reference, certificates) in [
      (policy.clientCertificate, loaded.clientCAs), (policy.trustedCertificate, loaded.trustedCAs),
    ] {
      guard let reference else { continue }
      for certificate in certificates { note(certificate, "\(reference)", nil, of: index) }
    }
    for (domain, anchors) in loaded.bundles?.anchors.sorted(by: { $0.key < $1.key }) ?? [] {
      for certificate in anchors.certificates { note(certificate, "\(domain)", domain, of: index) }
    }
  }

  private func note(_ certificate: Certificate, _ file: String, _ domain: TrustDomain?, of index: Int) {
    let spki = certificate.spkiSHA256
    let known = authorities.firstIndex {
      $0.file == file && $0.spki == spki && $0.certificate.subjectOctets == certificate.subjectOctets
    }
    if let known {
      authorities[known].servers.insert(index)
    } else {
      authorities.append(
        Authority(file: file, trustDomain: domain, certificate: certificate, servers: [index], spki: spki))
    }
  }

  // MARK: Names

  /// The CAs that a name means: that of their file, with or without its folder, or of their subject. One that issues by
  /// another one of the file comes before that.
  package func authorities(named name: String) -> [Int] {
    let found = authorities.indices.filter { index in
      let authority = authorities[index]
      return authority.file == name || authority.file.split(separator: "/").last.map(String.init) == name
        || authority.subject == name
    }
    return found.sorted { rank(authorities[$0]) < rank(authorities[$1]) }
  }

  /// What a client shows, for people.
  func words(of persona: Persona) -> String {
    let issuer: String
    switch persona.issuer {
    case .nobody: return "without a certificate"
    case .file: return "with the given certificate"
    case .pin(let index): return "with the certificate of the pin \(pins.indices.contains(index) ? pins[index] : "?")"
    case .stranger: issuer = "a CA that nobody knows"
    case .trusted: issuer = "the CA that the server block trusts"
    case .authority(let index):
      guard authorities.indices.contains(index) else { return "with a certificate \(persona.names)" }
      let file = authorities[index].file
      issuer = authorities.count { $0.file == file } > 1 ? "\(authorities[index].subject) (\(file))" : file
    }
    return "with a certificate \(persona.names) of \(issuer)\(persona.fault.map { ", \($0.rawValue)" } ?? "")"
  }

  /// 0: a CA that has issued no other CA, 1: another CA, 2: no CA, or that of a trust domain which nothing names.
  private func rank(_ authority: Authority) -> Int {
    let certificate = authority.certificate
    guard certificate.mayIssue, authority.trustDomain != StandIns.otherDomain || authority.trustDomain == nil else {
      return 2
    }
    return authorities.contains { $0.certificate != certificate && certificate.signed($0.certificate) } ? 1 : 0
  }

  /// As `check --diff` compares it with the world of another configuration that has the same stand-ins.
  var compared: ComparedConfiguration { ComparedConfiguration(http: http, material: serving.material) }

  /// Whether a server block has a revocation list, by which a certificate can be revoked.
  package func revokes(_ server: Int?) -> Bool { server.flatMap(material(of:))?.revocations.isEmpty == false }

  private func material(of server: Int) -> ServerTLSMaterial? {
    serving.material.servers.indices.contains(server) ? serving.material.servers[server]?.material : nil
  }

  /// Whether the SPIFFE agent says whom a server block trusts.
  private func usesWorkload(_ index: Int?) -> Bool {
    index.flatMap { http.servers[$0].clientPolicy?.workloadTrust } != nil
  }

  // MARK: Minting

  /// The certificates that a persona shows to a server block, leaf first; none for a client without one. Returns nil if they
  /// can't be made. `server`: by its place in `http.servers`; nil: none is chosen.
  package func certificates(of persona: Persona, for server: Int?) -> [Certificate]? {
    switch persona.issuer {
    case .nobody: return []
    case .file(let certificates): return certificates
    case .trusted, .authority, .pin, .stranger: break
    }
    let key = MintKey(persona: persona, server: persona.issuer == .trusted ? server : nil)
    if let known = minted[key] { return known }
    let made = try? mint(persona, for: server)
    minted[key] = .some(made)
    return made
  }

  private func mint(_ persona: Persona, for server: Int?) throws(OpenSSLError) -> [Certificate] {
    switch persona.issuer {
    case .nobody, .file: return []
    case .stranger: return try mint(persona, by: standIns.strangeAuthority, key(of: persona))
    case .authority(let index):
      guard authorities.indices.contains(index) else { throw OpenSSLError(description: "there is no such CA") }
      return try mint(persona, by: authorities[index], key(of: persona))
    case .trusted:
      let trusted = authorities(of: server).filter { $0.certificate.mayIssue }, domain = persona.workload?.trustDomain
      guard
        let first = trusted.first(where: { $0.trustDomain != nil && $0.trustDomain == domain })
          ?? trusted.min(by: { rank($0) < rank($1) })
      else { return try mint(persona, by: standIns.strangeAuthority, key(of: persona)) }
      return try mint(persona, by: first, key(of: persona))
    case .pin(let index):
      guard standIns.pins.indices.contains(index) else { throw OpenSSLError(description: "there is no such pin") }
      let pin = standIns.pins[index]
      if pin.isWhole { return [pin.pair.certificate] + chain(above: pin.pair.certificate) }
      guard let issuer = authorities(of: server).first(where: { $0.certificate.mayIssue }) else {
        return [try builder(persona).selfSigned(key: pin.pair.key).certificate]
      }
      return try mint(persona, by: issuer, pin.pair.key)
    }
  }

  private func authorities(of server: Int?) -> [Authority] {
    server.map { index in authorities.filter { $0.servers.contains(index) } } ?? []
  }

  private func key(of persona: Persona) throws(OpenSSLError) -> PrivateKey {
    guard let key = standIns.clientKey(isWeak: persona.fault == .weakKey) else {
      throw OpenSSLError(description: "OpenSSL makes no weak key")
    }
    return key
  }

  private func mint(
    _ persona: Persona, by authority: Authority, _ key: PrivateKey
  ) throws(OpenSSLError) -> [Certificate] {
    let certificate = authority.certificate
    // Of clients, a certificate that may issue nothing lets only itself in.
    guard certificate.mayIssue else { return [certificate] }
    guard let pair = standIns.pair(of: certificate) else {
      throw OpenSSLError(description: "the key of \(certificate.subject) is not at hand")
    }
    return try mint(authority.identified(persona), by: pair, key)
  }

  private func mint(
    _ persona: Persona, by authority: CertifiedKey, _ key: PrivateKey
  ) throws(OpenSSLError) -> [Certificate] {
    let leaf = try builder(persona).fit(for: authority).signed(by: authority, key: key).certificate
    return [leaf] + (authority.certificate.endsChain ? [] : [authority.certificate])
      + chain(above: authority.certificate)
  }

  /// The intermediate CAs above a certificate, which a client would send.
  private func chain(above certificate: Certificate) -> [Certificate] {
    var chain: [Certificate] = []
    var last = certificate
    while !last.endsChain, chain.count < 16,
      let next = authorities.first(where: { $0.certificate != last && $0.certificate.signed(last) })?.certificate,
      !next.endsChain
    {
      chain.append(next)
      last = next
    }
    return chain
  }

  private func builder(_ persona: Persona) -> CertificateBuilder {
    var builder = CertificateBuilder(
      commonName: "", .leaf([persona.fault == .wrongPurpose ? .serverAuth : .clientAuth]),
      names: persona.alternativeNames)
    // A certificate has the most general part first.
    builder.subject = persona.subject.reversed().map { (.named($0.type), $0.value) }
    builder.serial = persona.fault == .revoked ? StandIns.revokedSerial : persona.serial
    let day: Int64 = 86_400
    switch persona.fault {
    case .expired: (builder.notBefore, builder.notAfter) = (builder.notBefore - 30 * day, builder.notBefore - day)
    case .notYetValid: (builder.notBefore, builder.notAfter) = (builder.notAfter, builder.notAfter + day)
    case .revoked, .wrongPurpose, .weakKey, nil: break
    }
    return builder
  }

  // MARK: Trials

  /// What becomes of an attempt. Any number of attempts may follow each other: none changes what becomes of another.
  package func run(_ attempt: Attempt) -> Outcome {
    guard http.listeners.indices.contains(attempt.listener) else { return .unknown("there is no such listener") }
    let listener = http.listeners[attempt.listener]
    let port: UInt16 = if case .socket(let address) = listener.address { address.port ?? 0 } else { 0 }
    var request =
      listener.kind == .stream
      ? ExplainedRequest(connectionTo: attempt.host, port: port, client: attempt.client)
      : ExplainedRequest(
        method: attempt.method, usesTLS: listener.isTLS, host: attempt.host, port: port, target: attempt.target,
        client: attempt.client)
    request.listener = attempt.listener
    request.serverName = attempt.serverName
    request.version = attempt.version
    request.fields = attempt.persona.fields + attempt.fields
    request.proxied = attempt.proxied
    if let relayed = attempt.relayed {
      guard let lines = fields(relaying: relayed, attempt) else {
        return .unknown("no certificate can be made of \(relayed.name)")
      }
      request.fields += lines
    }
    var serving = serving
    if attempt.persona.isOfFile || attempt.relayed?.isOfFile == true {
      do throws(Refusal) { serving = try genuine.get() } catch { return .unknown(error.text) }
    }
    if listener.isTLS {
      let server = server(of: attempt)
      if usesWorkload(server), attempt.persona.isOfFile {
        return .unknown("the SPIFFE agent says whom this server block trusts")
      }
      guard let certificates = certificates(of: attempt.persona, for: server) else {
        return .unknown("no certificate can be made of \(attempt.persona.name)")
      }
      request.certificates = certificates
    }
    _ = trace.take()
    attempts += 1
    do throws(RequestExplanation.Refusal) { try RequestExplanation(request, on: serving.stage).run() } catch {
      return .unknown(error.text)
    }
    return Outcome(trace.take())
  }

  /// What becomes of an attempt, without its report. One that was made before isn't made again, whatever its client is called.
  func outcome(of attempt: Attempt) -> Outcome {
    if let former, !comes(attempt, to: former.server) {
      attempts += 1
      return former.world.outcome(of: attempt)
    }
    var key = attempt
    key.persona.name = ""
    key.isPlain = true
    if let known = outcomes[key] {
      attempts += 1
      return known
    }
    let outcome = run(attempt).withoutTrace
    // The words of it name the client.
    if !outcome.isUnknown { outcomes[key] = outcome }
    return outcome
  }

  /// The fields by which a front relays the certificate of a client; none where no front is believed.
  private func fields(relaying persona: Persona, _ attempt: Attempt) -> [String]? {
    guard let server = place(of: serving.stage.live.listeners[attempt.listener], Array(attempt.host.lowercased().utf8)),
      let fronts = http.servers[server].root.ways.fronts
    else { return [] }
    return certificates(of: persona, for: server).map { fronts.lines($0) }
  }

  /// The server block of a Host, by its place in `http.servers`; nil: nobody can say.
  private func place(of servers: VirtualServers, _ host: [UInt8]) -> Int? {
    let server: LiveServer? =
      switch servers.find(host) {
      case .found(let found): found.server
      case .default: servers.fallback
      case .undecided: nil
      }
    return http.servers.firstIndex { $0 === server?.settings }
  }

  /// The server block that the handshake of an attempt chooses, by its place in `http.servers`.
  package func server(of attempt: Attempt) -> Int? {
    let listeners = serving.stage.live.listeners
    guard listeners.indices.contains(attempt.listener),
      let context = listeners[attempt.listener].choose(Array(attempt.serverName.lowercased().utf8))
    else { return nil }
    return serving.material.servers.firstIndex { $0?.context === context }
  }
}

extension RequestExplanation.Refusal {
  var text: String {
    switch self {
    case .noListener(let text), .malformed(let text), .system(let text): text
    }
  }
}
