import Bytes
package import Crypto
import Features
import Forward
import Glibc
package import Observability
import SPIFFE
package import TLS
package import Traffic

/// Returns what stands in for that by which a server block judges clients.
package typealias TrustReplacement = (ServerTLSMaterial) throws(TLSSettingsError) -> ServerTLSMaterial

/// Loads and checks every certificate, key, CA, password and pin file that a configuration names.
///
/// One pass loads everything before anything starts: a start or reload has all material, or reports all faults. A file
/// that can't be loaded is an error and never weakens a check. Reads files, so never use it on an event loop.
package struct KeyMaterial {
  package struct Server {
    package var material: ServerTLSMaterial
    package var context: ServerTLSContext
    /// Of the context's candidate; nil: it has none.
    var candidate: ServerTLSMaterial?
  }

  package struct Upstream {
    package var material: UpstreamTLSMaterial
    package var context: UpstreamTLSContext
  }

  /// By index in `HTTPSettings.servers`; nil for a server that judges no clients and shows no certificate, or with a fault that is among the diagnostics.
  package private(set) var servers: [Server?] = []
  package private(set) var upstreams: [UpstreamTLSSettings: Upstream] = [:]
  /// In the order of the configuration's servers. If one is an error, nothing may be started.
  package private(set) var diagnostics: [Diagnostic] = []
  /// Keyed by certificate.
  package private(set) var staples: [Certificate: Staple] = [:]
  /// Keyed by the file that holds the CRLs.
  package private(set) var revocations: [MaterialReference: [RevocationList]] = [:]
  /// The revocation lists that are fetched.
  package private(set) var fetched: [FetchedSource] = []
  /// What features have loaded.
  package private(set) var parts = GenerationParts()
  /// The files of states that have no pairs.
  private(set) var damagedStates: [String] = []
  /// The units that keep their former content, because their files can't be loaded.
  private(set) var stale: [StaleMaterial] = []
  private(set) var units = MaterialUnits()
  /// Of the SPIFFE agent's message; nil: none has come.
  let workloadDigest: [UInt8]?

  /// `former`: the material in use until now. An expired CRL does not replace a valid one of it. Its staples serve
  /// until new responses arrive. What it keeps for `ssl_reload off` is not loaded again. A unit of it whose files can't be
  /// loaded any more keeps its content. `seen`: the files as they were before. `replacing`: puts other objects in the place
  /// of those by which clients are judged, for trials; a server block for which it can't is refused. nil: they stay.
  package init(
    loading http: HTTPSettings, keeping former: FormerMaterial = FormerMaterial(),
    seeing seen: FileStates = FileStates(of: []), sharing shared: SharedState, replacing: TrustReplacement? = nil
  ) {
    var loader = MaterialLoader(
      http.fileUses, keeping: former, seeing: seen, noticing: http.clientLimits.expiryNotice,
      from: shared.materialSources)
    workloadDigest = loader.workloadState.material?.digest
    let sessions = SessionStore(limit: Self.sessionLimit(http))
    for server in http.servers {
      servers.append(
        server.clientPolicy.flatMap { Self.load($0, of: server, sessions: sessions, shared, replacing, &loader) })
      server.root.visitNested { location in
        guard let tls = location.upstreamTLS, upstreams[tls] == nil else { return }
        upstreams[tls] = Self.load(tls, &loader)
      }
    }
    for tls in http.features.upstreamTLS(http) where upstreams[tls] == nil { upstreams[tls] = Self.load(tls, &loader) }
    parts = shared.features.load(http, sharing: shared, &loader)
    damagedStates = loader.damagedStates
    diagnostics = loader.judged
    stale = loader.everyStale
    units = loader.units
    revocations = loader.revocations
    fetched = Array(loader.fetched.values)
    staples = loader.staples
  }

  /// Returns the faults of the files that a refused configuration names, except at places that have an error already.
  /// Makes no contexts: their errors would only repeat what the configuration lacks.
  package static func faults(
    in draft: HTTPSettings?, besides told: [Diagnostic], sharing shared: SharedState
  ) -> [Diagnostic] {
    guard let http = draft else { return [] }
    var loader = MaterialLoader(http.fileUses, noticing: http.clientLimits.expiryNotice, from: shared.materialSources)
    for server in http.servers {
      for tls in [server.clientPolicy, server.clientPolicy?.candidate?.settings].compactMap({ $0 }) {
        _ = material(tls, shared, &loader)
      }
      server.root.visitNested { if let tls = $0.upstreamTLS { _ = material(tls, &loader) } }
    }
    _ = shared.features.load(http, sharing: shared, &loader)
    let places = Set(told.filter { $0.severity == .error }.map(\.location))
    return loader.judged.filter { !places.contains($0.location) }
  }

  // MARK: Clients

  /// One store serves all servers: a session's context tells it apart from sessions under another policy.
  private static func sessionLimit(_ http: HTTPSettings) -> Int {
    http.servers.compactMap { $0.tls?.sessionCache.sessions }.max() ?? SessionStore.standardLimit
  }

  private static func material(
    _ tls: ServerTLSSettings, _ shared: SharedState, _ loader: inout MaterialLoader
  ) -> ServerTLSMaterial? {
    var parts = Parts()
    var absence: String?
    let certificates = tls.certificates.filter { !$0.certificate.isOfWorkload }.compactMap { source -> CertifiedKey? in
      let path = "\(source.certificate)"
      let isUnkept = source.isAwaited && loader.heldCertificate(at: path) != nil
      if source.isAwaited, !isUnkept, access(path, F_OK) != 0, errno == ENOENT {
        absence = "there is no certificate yet: \"\(source.certificate)\" is missing"
        loader.report(
          Diagnostic(
            .notice, at: source.certificate.location,
            "there is no certificate yet: handshakes are refused until the first one is issued",
            hint: "sallyport acme status; and the error log tell how that goes"))
        return nil
      }
      let told = loader.diagnostics.count
      let pair = loader.pair(source, passwordFile: tls.passwordFile)
      if pair == nil, source.isAwaited, AwaitedCertificate.isReadable(path) {
        absence = "there is no certificate: \"\(source.certificate)\" is damaged"
        loader.warnOfDamaged(source.certificate, since: told)
        return nil
      }
      return parts.expect(pair)
    }
    let workload = parts.expect(
      loader.workload(
        identity: tls.workloadIdentity, trust: tls.workloadTrust, at: tls.workloadReferences.first?.location))
    let fileOfCAs = tls.clientCertificate.flatMap { $0.isOfWorkload ? nil : $0 }
    let clientCAs = fileOfCAs.flatMap {
      parts.expect(loader.authorities($0, passwordFile: tls.passwordFile))
    }
    let trustedCAs = tls.trustedCertificate.flatMap {
      parts.expect(loader.authorities($0, passwordFile: tls.passwordFile))
    }
    let clientPins = tls.clientPins.flatMap { parts.expect(loader.clientPins($0, passwordFile: tls.passwordFile)) }
    if [.on, .optional].contains(tls.verification), let file = fileOfCAs ?? tls.trustedCertificate {
      loader.warnOfMissingRoot((clientCAs ?? []) + (trustedCAs ?? []), file)
    }
    let authorities = (clientCAs ?? []) + (trustedCAs ?? [])
    if let file = fileOfCAs ?? tls.trustedCertificate { loader.warnOfLoneLeaves(authorities, file) }
    let fetched = loader.fetchedRevocations(tls.revocationFetch, of: authorities)
    let revocations = parts.expect(loader.revocations(tls.revocationLists, of: authorities, besides: fetched))
    let ticketKeys = parts.expect(loader.ticketKeys(tls.ticketKeys))
    let dhParameters = tls.dhParameters.flatMap { parts.expect(loader.dhParameters($0)) }
    // As in nginx, a server block of which handshakes choose certificates staples none.
    let stapled = tls.namedCertificates.isEmpty ? certificates : []
    let staples = parts.expect(
      loader.staples(tls.stapling, stapled, issuers: (trustedCAs ?? []) + (clientCAs ?? [])))
    guard parts.areWhole else { return nil }
    var material = ServerTLSMaterial(
      certificates: certificates + [workload?.identity].compactMap { $0 }, clientCAs: clientCAs ?? [],
      trustedCAs: trustedCAs ?? [],
      revocations: revocations ?? [], ticketKeys: ticketKeys ?? [])
    material.clientPins = clientPins
    material.ticketRing = tls.ticketStore.map { shared.ticketRings.ring(of: $0) }
    material.staples = staples ?? []
    material.absence = absence
    material.dhParameters = dhParameters
    material.store = loader.certificateStore(tls, shared)
    if let fileOfCAs { loader.warnOfNames(material, fileOfCAs) }
    loader.look(forClientsOf: tls, material)
    material.bundles = workload?.bundles
    material.workload = workload?.term ?? .unneeded
    return material
  }

  private static func load(
    _ tls: ServerTLSSettings, of server: ServerSettings, sessions: SessionStore, _ shared: SharedState,
    _ replacing: TrustReplacement?, _ loader: inout MaterialLoader
  ) -> Server? {
    let answers = loader.statusAnswers[tls.clientStatus]
    // What judges beside has to be there as what decides.
    let candidate = tls.candidate.flatMap {
      load($0.settings, of: server, sessions: sessions, shared, replacing, &loader)
    }
    func make(_ loaded: ServerTLSMaterial, _ loader: inout MaterialLoader) -> Server? {
      if tls.candidate != nil, candidate == nil { return nil }
      return attempt(at: server.location, &loader) { () throws(TLSSettingsError) in
        let material = try replacing.map { (replace) throws(TLSSettingsError) in try replace(loaded) } ?? loaded
        return Server(
          material: material,
          context: try ServerTLSContext(
            settings: tls, material: material, sessions: tls.resumesSessions ? sessions : nil, ocsp: shared.ocsp,
            answers: answers, points: shared.points, candidate: candidate?.context),
          candidate: candidate?.material)
      }
    }
    let told = loader.diagnostics.count, kept = loader.kept(tls)
    let files = UnitFiles(.certificate, tls.certificates.map(\.certificate) + tls.workloadReferences)
    if kept == nil { _ = loader.begin(files) }
    let fresh = kept ?? material(tls, shared, &loader)
    var loaded = fresh.flatMap { make($0, &loader) }
    if loaded == nil, !tls.workloadReferences.isEmpty {
      // The former one could have trust that the SPIFFE agent has taken away.
      loaded = fresh.flatMap { fresh in
        var refusing = fresh
        refusing.certificates = []
        refusing.workload = .missing(reason: loader.diagnostics[told...].last?.message ?? "OpenSSL refuses it")
        return make(refusing, &loader)
      }
      if loaded != nil { loader.keep(files, .kept, since: told, hasChanged: true) }
    } else if loaded == nil, let former = loader.inUse(tls) {
      // Of good files, OpenSSL refuses certificates, such as one with a weak key. The block's lists and CAs count all the
      // same.
      let mixed = fresh.map { fresh in
        var mixed = fresh
        (mixed.certificates, mixed.staples, mixed.absence) = (former.certificates, former.staples, former.absence)
        return mixed
      }
      loaded = mixed.flatMap { make($0, &loader) } ?? make(former, &loader)
      if loaded != nil { loader.keep(files, .kept, since: told, hasChanged: true) }
    }
    loader.statusAnswers[tls.clientStatus] = loaded?.context.statusAnswers
    if let context = loaded?.context, server.tls != nil, !tls.rejectsHandshake {
      loader.warn(of: context.weaknesses, at: server.location)
    }
    return loaded
  }

  // MARK: Upstreams

  private static func material(_ tls: UpstreamTLSSettings, _ loader: inout MaterialLoader) -> UpstreamTLSMaterial? {
    var parts = Parts()
    let policy = parts.expect(policy(tls, &loader))
    let workload = parts.expect(
      loader.workload(identity: tls.workloadIdentity, trust: tls.trust.bundles, at: tls.location))
    let identity =
      tls.workloadIdentity == nil
      ? tls.certificate.flatMap { source in
        let pair = parts.expect(loader.pair(source, passwordFile: tls.passwordFile))
        if let pair { loader.warnOfPurpose(pair.certificate, source.certificate) }
        return pair
      } : workload?.identity
    guard let policy, parts.areWhole else { return nil }
    return UpstreamTLSMaterial(policy: policy, identity: identity, workload: workload?.term ?? .unneeded)
  }

  /// Loads the terms with everything that they name; nil when any part can't be loaded.
  private static func policy(_ tls: UpstreamTLSSettings, _ loader: inout MaterialLoader) -> TrustPolicy? {
    switch tls.trust {
    case .anybody: return .anybody
    case .workload(let trust, let ids):
      return loader.workload(identity: nil, trust: trust, at: tls.location)?.bundles.map { .workload($0, ids: ids) }
    case .verified(let named, let checksName):
      return anchors(named, nil, tls, &loader).map { .verified($0, checksName: checksName) }
    case .pinned(let spelt, let named, let checksName, let reportsOnly):
      // Loads both even if one fails, to report all faults.
      let pins = loader.pins(spelt, passwordFile: tls.passwordFile)
      let anchors = anchors(named, pins, tls, &loader)
      guard let pins, let anchors else { return nil }
      return .pinned(pins, anchors, checksName: checksName, reportsOnly: reportsOnly)
    case .pinnedLeaf(let spelt, let named, let checksName):
      let pins = loader.pins(spelt, passwordFile: tls.passwordFile)
      guard let named else { return pins.map { .pinnedLeaf($0, nil, checksName: checksName) } }
      guard let anchors = anchors(named, pins, tls, &loader), let pins else { return nil }
      return .pinnedLeaf(pins, anchors, checksName: checksName)
    }
  }

  private static func load(_ tls: UpstreamTLSSettings, _ loader: inout MaterialLoader) -> Upstream? {
    func make(_ material: UpstreamTLSMaterial, _ loader: inout MaterialLoader) -> Upstream? {
      attempt(at: tls.location, &loader) { () throws(TLSSettingsError) in
        Upstream(material: material, context: try UpstreamTLSContext(settings: tls, material: material))
      }
    }
    let told = loader.diagnostics.count, kept = loader.kept(tls)
    let files = UnitFiles(.certificate, [tls.certificate?.certificate, tls.trust.anchors?.file].compactMap { $0 })
    if kept == nil { _ = loader.begin(files) }
    let fresh = kept ?? material(tls, &loader)
    var loaded = fresh.flatMap { make($0, &loader) }
    if loaded != nil {
      // Nothing has to stay.
    } else if tls.usesWorkload {
      loaded = fresh.flatMap { fresh in
        let reason = loader.diagnostics[told...].last?.message ?? "OpenSSL refuses it"
        return make(
          UpstreamTLSMaterial(policy: fresh.policy, identity: nil, workload: .missing(reason: reason)), &loader)
      }
    } else if let former = loader.inUse(tls) {
      let mixed = fresh.map { UpstreamTLSMaterial(policy: $0.policy, identity: former.identity) }
      loaded = mixed.flatMap { make($0, &loader) } ?? make(former, &loader)
    }
    if loaded != nil { loader.keep(files, .kept, since: told, hasChanged: true) }
    if let context = loaded?.context { loader.warn(of: context.weaknesses, at: tls.location) }
    return loaded
  }

  /// Loads one policy alone, or reports what is wrong with it.
  package static func loadOne(_ tls: UpstreamTLSSettings) -> (loaded: Upstream?, diagnostics: [Diagnostic]) {
    var loader = MaterialLoader(tls.fileUses, from: MaterialSources())
    let loaded = load(tls, &loader)
    return (loaded, loader.diagnostics)
  }

  /// Makes the anchors from the named file, the system, or both. Never falls back to the system's if a file can't be
  /// read. `pins`: their certificates may be anchors too, and the CRLs apply to them.
  private static func anchors(
    _ settings: AnchorSettings, _ pins: PinSet?, _ tls: UpstreamTLSSettings, _ loader: inout MaterialLoader
  ) -> TrustAnchors? {
    var certificates: [Certificate] = []
    if let file = settings.file {
      guard let loaded = loader.authorities(file, passwordFile: tls.passwordFile) else { return nil }
      certificates = loaded
      if !settings.includesSystem { loader.warnOfMissingRoot(loaded, file) }
    }
    let system = settings.includesSystem ? try? TrustAnchors.system.get() : nil
    let pinned = pins?.certificates ?? []
    guard let revocations = loader.revocations(tls.revocationLists, of: certificates + pinned, andSystem: system)
    else { return nil }
    let source: TrustAnchors.Source =
      switch (settings.file != nil, settings.includesSystem) {
      case (false, true): .system
      case (true, true): .certificatesAndSystem(certificates)
      case (_, false): .certificates(certificates)
      }
    // Lists that none of the CAs has signed don't count, and never mean that nothing is checked.
    let needsLists = !tls.revocationLists.isEmpty
    do throws(OpenSSLError) {
      // The system's anchors alone are loaded once and shared.
      return source == .system && !needsLists
        ? try TrustAnchors.system.get()
        : try TrustAnchors(source, revocations: revocations, needsLists: needsLists)
    } catch {
      loader.report(Diagnostic(.error, at: tls.location, "the trust anchors can't be taken: \(error)"))
      return nil
    }
  }

  private static func attempt<Made>(
    at location: SourceLocation?, _ loader: inout MaterialLoader, _ make: () throws(TLSSettingsError) -> Made
  ) -> Made? {
    do throws(TLSSettingsError) {
      return try make()
    } catch {
      var diagnostic = error.diagnostic
      diagnostic.location = diagnostic.location ?? location
      loader.report(diagnostic)
      return nil
    }
  }
}

/// Records whether every part that the settings require was loaded.
private struct Parts {
  private(set) var areWhole = true

  mutating func expect<Part>(_ part: Part?) -> Part? {
    if part == nil { areWhole = false }
    return part
  }
}

extension FormerMaterial {
  package init(_ material: KeyMaterial, files: FileStates = FileStates(of: [])) {
    self.init()
    isOfSameConfiguration = true
    self.files = files
    units = material.units
    stale = material.stale
    revocations = material.revocations
    fetched = material.fetched
    staples = material.staples
    for context in material.servers.compactMap({ $0?.context }) {
      statusAnswers[context.settings.clientStatus] = context.statusAnswers
    }
    for server in material.servers.compactMap({ $0 }) {
      servers[server.context.settings] = server.material
      if let candidate = server.context.candidate { servers[candidate.settings] = server.candidate }
    }
    upstreams = material.upstreams.mapValues(\.material)
    workloadDigest = material.workloadDigest
  }
}
