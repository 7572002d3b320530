import ACME
package import Bytes
package import Crypto
import Glibc
package import Observability
package import SPIFFE
package import TLS

/// Loads files, and collects what is wrong. A certificate, key or CA is read once, however many directives name it.
///
/// Each directive that names a faulty file gets its own diagnostic, so such a file is read for each of them. A result of
/// nil means that the diagnostics already have the reason.
package struct MaterialLoader {
  /// A unit at one place of the configuration.
  private struct Placed<Unit: Hashable>: Hashable {
    var unit: Unit
    var place: SourceLocation?
  }

  private var passwords: [Placed<MaterialReference>: [SecretBytes]] = [:]
  private var pairs: [Placed<TLSUnit.Pair>: CertifiedKey?] = [:]
  private var authorities: [Placed<TLSUnit.Anchors>: [Certificate]?] = [:]
  package let former: FormerMaterial
  /// The files as they were just before they are loaded.
  package let seen: FileStates
  /// What is loaded, or kept, by unit.
  package var units: MaterialUnits
  /// The units that keep their former content.
  package var stale: [StaleMaterial] = []
  /// The units of this pass, by `UnitFiles.identity`.
  package var tried: Set<[String]> = []
  /// What may be loaded.
  private let declared: DeclaredFiles
  package let expiryNotice: ExpiryNotice
  private let sources: MaterialSources
  /// One message of the SPIFFE agent for all blocks, whatever comes meanwhile.
  package var workloadState: WorkloadIdentity.State { sources.workload }
  package var loadedRevocations: [MaterialReference: LoadedRevocations] = [:]
  /// Keyed by the file that keeps the list.
  package var fetched: [MaterialReference: FetchedSource] = [:]
  /// CRL files of blocks that keep their loaded material.
  package var keptRevocations: Set<MaterialReference> = []
  package var staples: [Certificate: Staple] = [:]
  /// Shared by all servers with equal settings.
  package var statusAnswers: [ClientStatusSettings: ClientStatusAnswers]
  package var diagnostics: [Diagnostic] = []
  /// Files of states that have no pairs: they are set aside when the generation is made.
  package var damagedStates: [String] = []
  /// Why no client can get into a server block, by the place of the file that decides it.
  package var lockouts: [SourceLocation: Diagnostic] = [:]

  /// `uses`: the files of the configuration; no other one is loaded.
  package init(
    _ uses: [FileUse], keeping former: FormerMaterial = FormerMaterial(), seeing seen: FileStates = FileStates(of: []),
    noticing expiryNotice: ExpiryNotice = .standard, from sources: MaterialSources
  ) {
    declared = DeclaredFiles(uses)
    self.former = former
    self.seen = seen
    // Those of blocks with `ssl_reload off` are not loaded again.
    units = former.isOfSameConfiguration ? former.units : MaterialUnits()
    self.expiryNotice = expiryNotice
    self.sources = sources
    statusAnswers = former.statusAnswers
  }

  /// The certificate that the process holds for a file that it could not write; nil: none.
  package func heldCertificate(at path: String) -> CertifiedKey? { sources.held(path) }

  /// Keyed by the file that holds the CRLs.
  package var revocations: [MaterialReference: [RevocationList]] {
    former.revocations.filter { keptRevocations.contains($0.key) }
      .merging(loadedRevocations.mapValues(\.all)) { _, fresh in fresh }
  }

  /// Notes that a unit is loaded in this pass. Returns false, after adding the reason to the diagnostics, if no feature has
  /// declared its files: nobody would watch them, and the sandbox would not let them be read again.
  package mutating func begin(_ files: UnitFiles) -> Bool {
    tried.insert(files.identity)
    guard let stranger = files.paths.first(where: { !declared.has($0) && access($0, F_OK) == 0 }) else { return true }
    report(
      Diagnostic(
        .error, at: nil, "\"\(stranger)\" is named by no directive that sallyport knows to name files",
        hint: "this is a fault of sallyport: report it with the lines that name the file"))
    return false
  }

  /// Adds a diagnostic once, however many servers inherit the faulty setting.
  package mutating func report(_ diagnostic: Diagnostic) {
    if !diagnostics.contains(diagnostic) { diagnostics.append(diagnostic) }
  }

  package mutating func pair(_ source: CertificateSource, passwordFile: MaterialReference?) -> CertifiedKey? {
    let unit = TLSUnit.Pair(source: source, passwords: passwordFile)
    let key = Placed(unit: unit, place: source.certificate.location)
    if let known = pairs[key] { return known }
    let anywhere = Placed(unit: unit, place: nil)
    var pair = pairs[anywhere] ?? nil
    if pair == nil {
      let passwords = passwords(in: passwordFile)
      let files = UnitFiles(.certificate, [source.certificate, source.key].compactMap { $0 })
      pair = self.unit(unit, files) { loader in
        let tokens = loader.sources.tokens
        if source.isAwaited,
          let held = loader.heldCertificate(at: "\(source.certificate)")
        {
          return held
        }
        return loader.attempt { () throws(MaterialError) -> CertifiedKey in
          if source.isAwaited { return try AwaitedCertificate.load(source.certificate, passwords: passwords, tokens) }
          return try CertifiedKey.load(
            certificate: source.certificate, key: source.key, passwords: passwords, tokens: tokens)
        }
      }
    }
    pairs[key] = .some(pair)
    if pair != nil { pairs[anywhere] = .some(pair) }
    if let pair { warnOfValidity(pair.certificate, source.certificate) }
    return pair
  }

  /// Turns the errors since that count of diagnostics into warnings of a certificate that the process gets anew by
  /// itself.
  package mutating func warnOfDamaged(_ file: MaterialReference, since told: Int) {
    for index in diagnostics.indices.dropFirst(told) where diagnostics[index].severity == .error {
      let fault = diagnostics[index]
      diagnostics[index] = Diagnostic(
        .warning, at: fault.location, "the certificate in \"\(file)\" is damaged: \(fault.message)",
        hint: "a new one is ordered; handshakes are refused until it is issued")
    }
  }

  package mutating func authorities(_ file: MaterialReference, passwordFile: MaterialReference?) -> [Certificate]? {
    let unit = TLSUnit.Anchors(file: file, passwords: passwordFile)
    let key = Placed(unit: unit, place: file.location)
    if let known = authorities[key] { return known }
    let anywhere = Placed(unit: unit, place: nil)
    var loaded = authorities[anywhere] ?? nil
    if loaded == nil {
      let passwords = passwords(in: passwordFile)
      loaded = self.unit(unit, UnitFiles(.anchors, file)) { loader in
        loader.attempt { () throws(MaterialError) in try Certificate.loadAll(file, passwords: passwords) }
      }
    }
    authorities[key] = .some(loaded)
    if loaded != nil { authorities[anywhere] = .some(loaded) }
    for certificate in loaded ?? [] {
      warnOfValidity(certificate, file)
      warnOfLeaf(certificate, among: loaded ?? [], file)
    }
    return loaded
  }

  /// Warns of a certificate that is no CA, unless the file has its CA too (fullchain.pem). A self-signed one verifies
  /// itself.
  private mutating func warnOfLeaf(
    _ certificate: Certificate, among others: [Certificate], _ file: MaterialReference
  ) {
    guard !certificate.mayIssue, !certificate.endsChain else { return }
    if others.contains(where: { $0.mayIssue && $0.issued(certificate) }) { return }
    report(
      Diagnostic(
        .warning, at: file.location,
        "\"\(file)\" holds the certificate of \(certificate.subject), which is no CA: no certificate verifies by it",
        hint: "name the certificate of the CA that issued it: \(certificate.issuer)"))
  }

  /// Warns of CAs of which none is a root: as in nginx, a chain ends at a root alone.
  package mutating func warnOfMissingRoot(_ authorities: [Certificate], _ file: MaterialReference) {
    guard let last = authorities.last(where: \.mayIssue), !authorities.contains(where: \.endsChain) else { return }
    report(
      Diagnostic(
        .warning, at: file.location,
        "\"\(file)\" holds no root, only intermediate CAs: no certificate verifies by them",
        hint: "add the root: the certificate of \(last.issuer)"))
  }

  /// Warns of clients' trust anchors that may issue nothing.
  package mutating func warnOfLoneLeaves(_ authorities: [Certificate], _ file: MaterialReference) {
    for leaf in authorities where !leaf.mayIssue && leaf.endsChain {
      report(
        Diagnostic(
          .warning, at: file.location,
          "\"\(file)\" holds the self-signed certificate of \(leaf.subject), which is no CA (basicConstraints): of all clients "
            + "only itself gets in",
          hint: "if that is meant, pin it (ssl_client_pin); else name the certificate of a CA"))
    }
  }

  /// The diagnostics. Where no client can get in, the warning of the reason says that it is one.
  package var judged: [Diagnostic] {
    var open = lockouts
    let all = diagnostics.map { diagnostic in
      guard let place = diagnostic.location, diagnostic.severity == .warning, open.removeValue(forKey: place) != nil
      else {
        return diagnostic
      }
      return diagnostic.ofLockout
    }
    return all + open.values.sorted { $0.description < $1.description }
  }

  /// Warns of names of CAs that clients may not read.
  package mutating func warnOfNames(_ material: ServerTLSMaterial, _ file: MaterialReference) {
    // More than the limit is an error of the context.
    guard (ServerTLSMaterial.namesWarning...ServerTLSMaterial.namesLimit).contains(material.namesSize) else { return }
    report(
      Diagnostic(
        .warning, at: file.location,
        "\"\(file)\": the names of its CAs take \(material.namesSize) bytes of each handshake; clients of Java refuse more than 32 KiB",
        hint: "name the CAs in ssl_trusted_certificate, whose names are not sent"))
  }

  /// Warns of algorithms that the settings allow.
  package mutating func warn(of weaknesses: [AlgorithmWeakness], at place: SourceLocation?) {
    for weakness in weaknesses {
      report(Diagnostic(.warning, at: place, weakness.words, hint: weakness.advice))
    }
  }

  package mutating func dhParameters(_ file: MaterialReference) -> DHParameters? {
    unit(TLSUnit.Parameters(file: file), .dhParameters, file) { () throws(MaterialError) in try DHParameters.load(file)
    }
  }

  package mutating func ticketKeys(_ files: [MaterialReference]) -> [TicketKey]? {
    let keys = files.compactMap { file in
      unit(TLSUnit.Ticket(file: file), .ticketKey, file) { () throws(MaterialError) in
        let bytes = try file.read(expecting: .ticketKey)
        guard let key = TicketKey(bytes) else {
          throw MaterialError(
            culprit: file.description, location: file.location,
            message: "\"\(file)\" has \(bytes.count) bytes; expected 48 or 80",
            hint: "make one: openssl rand 80 > ticket.key; chmod 600 ticket.key")
        }
        return key
      }
    }
    return keys.count == files.count ? keys : nil
  }

  /// Loads the pins of a list. A pin may be a file, even a PKCS#12 file. Tries all of them, to report all faults at
  /// once.
  package mutating func pins(_ settings: PinSettings, passwordFile: MaterialReference?) -> PinSet? {
    pins(settings, passwordFile: passwordFile, of: .upstreams) { loader, parsed, source in
      if settings.mode == .certificate { loader.warnOfIssuers(among: parsed, source) }
    }
  }

  /// Loads the pins of clients. A certificate that is pinned by its file ends, unlike a key.
  package mutating func clientPins(_ settings: PinSettings, passwordFile: MaterialReference?) -> PinSet? {
    pins(settings, passwordFile: passwordFile, of: .clients) { loader, parsed, source in
      guard settings.mode == .certificate else { return }
      for case .certificate(let certificate) in parsed.map(\.target) {
        loader.warnOfValidity(certificate, source.spelling, source.location)
      }
    }
  }

  /// Whom pins concern.
  private enum Pinned {
    case upstreams, clients

    func unfit(_ pin: Pin, _ mode: PinningMode) -> String {
      switch self {
      case .upstreams: "\(pin) is not of the kind that \"proxy_ssl_pinning \(mode.rawValue)\" compares"
      case .clients: "\(pin) is not of the kind that \"ssl_client_pinning \(mode.rawValue)\" compares"
      }
    }
  }

  /// `look`: gets the pins of each argument.
  private mutating func pins(
    _ settings: PinSettings, passwordFile: MaterialReference?, of pinned: Pinned,
    look: (inout MaterialLoader, [Pin], PinSource) -> Void
  ) -> PinSet? {
    let passwords = passwords(in: passwordFile)
    var pins: [Pin] = []
    var isWhole = true
    for source in settings.sources {
      let parsed = self.pins(in: source, settings.mode, pinned, passwordFile, passwords)
      guard let parsed else {
        isWhole = false
        continue
      }
      pins += parsed
      look(&self, parsed, source)
    }
    guard isWhole, let first = settings.sources.first else { return nil }
    return attempt { () throws(MaterialError) in try Self.pinSet(pins, settings.mode, pinned, first) }
  }

  /// Returns the pins of an argument; nil after adding the reason to the diagnostics.
  private mutating func pins(
    in source: PinSource, _ mode: PinningMode, _ pinned: Pinned, _ passwordFile: MaterialReference?,
    _ passwords: [SecretBytes]
  ) -> [Pin]? {
    let isKnown = former.units[TLSUnit.PinFolder(source: source)] != nil
    let reference = source.reference.flatMap { isKnown || (try? Pin.files(of: $0)) != nil ? $0 : nil }
    func key(_ source: PinSource) -> TLSUnit.Pins {
      TLSUnit.Pins(source: source, mode: mode, passwords: passwordFile)
    }
    guard let reference else {
      return unit(key(source), UnitFiles(source)) { loader in
        loader.attempt { () throws(MaterialError) in
          let parsed = try Pin.parse(
            source.spelling, scope: source.scope, relativeTo: source.folder, location: source.location,
            passwords: passwords)
          _ = try Self.pinSet(parsed, mode, pinned, source)
          return parsed
        }
      }
    }
    let listed = unit(TLSUnit.PinFolder(source: source), UnitFiles(source)) { loader in
      loader.attempt { () throws(MaterialError) in
        guard let paths = try Pin.files(of: reference) else {
          throw MaterialError(
            culprit: source.spelling, location: source.location,
            message: "\"\(source.spelling)\" is no folder any more",
            hint: "a folder of certificates")
        }
        return paths
      }
    }
    guard let listed else { return nil }
    var pins: [Pin] = []
    var isWhole = true
    for path in listed {
      let file = PinSource(spelling: path, scope: source.scope, folder: "", location: source.location)
      let told = diagnostics.count
      let parsed = unit(key(file), UnitFiles(file)) { loader in
        loader.attempt { () throws(MaterialError) in
          let parsed = try Pin.ofDirectory(path, scope: file.scope, location: file.location, passwords: passwords)
          _ = try Self.pinSet(parsed, mode, pinned, file)
          return parsed
        }
      }
      if let parsed {
        pins += parsed
      } else if isKnown {
        // A new file of a folder that serves: it adds nothing, and stops nothing.
        keep(UnitFiles(file), .kept, since: told, hasChanged: true)
      } else {
        isWhole = false
      }
    }
    return isWhole ? pins : nil
  }

  private static func pinSet(
    _ pins: [Pin], _ mode: PinningMode, _ pinned: Pinned, _ source: PinSource
  ) throws(MaterialError) -> PinSet {
    do throws(PinSet.ModeError) { return try PinSet(pins, mode: mode) } catch {
      let (fault, hint) =
        switch error {
        case .empty: ("no pin in it", "`sallyport pin FILE` prints one")
        case .unfit(let pin):
          (pinned.unfit(pin, mode), "pin a certificate's file")
        }
      throw MaterialError(
        culprit: source.spelling, location: source.location, message: "pin \"\(source.spelling)\": \(fault)", hint: hint
      )
    }
  }

  /// Warns when a file holds a whole chain: that also pins the CA and every certificate it signs, which is seldom
  /// intended.
  private mutating func warnOfIssuers(among pins: [Pin], _ source: PinSource) {
    let certificates = pins.compactMap { pin in
      if case .certificate(let certificate) = pin.target { certificate } else { nil }
    }
    guard
      let issuer = certificates.first(where: { issuer in
        certificates.contains { $0 != issuer && $0.issuer.rfc2253 == issuer.subject.rfc2253 && !$0.isSelfIssued }
      })
    else { return }
    report(
      Diagnostic(
        .warning, at: source.location,
        "pin \"\(source.spelling)\" holds a certificate and its issuer: whatever \(issuer.subject) signs is pinned by it",
        hint: "give a file with only the certificate that is meant"))
  }

  /// Returns no passwords when the file has a fault: the files that it should have opened report theirs too.
  package mutating func passwords(in file: MaterialReference?) -> [SecretBytes] {
    guard let file else { return [] }
    let key = Placed(unit: file, place: file.location)
    if let known = passwords[key] { return known }
    let loaded =
      unit(TLSUnit.Passwords(file: file), .passwords, file) { () throws(MaterialError) in try PasswordFile.load(file) }
      ?? []
    passwords[key] = loaded
    return loaded
  }

  package mutating func attempt<Object>(_ load: () throws(MaterialError) -> Object) -> Object? {
    do throws(MaterialError) {
      return try load()
    } catch {
      diagnostics.append(error.diagnostic)
      return nil
    }
  }

  /// Warns of a certificate that is presented to upstreams and is not one for clients.
  package mutating func warnOfPurpose(_ certificate: Certificate, _ reference: MaterialReference) {
    guard !certificate.allowsClients else { return }
    report(
      Diagnostic(
        .warning, at: reference.location,
        "\"\(reference)\": \(certificate.subject) is not one for clients: an upstream that looks at its extended key usage, which lacks clientAuth, refuses it",
        hint: "public CAs issue none for clients any more: take one of your own CA, or have the upstream pin its key"))
  }

  /// Only a warning: an expired certificate does not stop a start, because the clock may be wrong and reloads must stay
  /// possible.
  private mutating func warnOfValidity(_ certificate: Certificate, _ reference: MaterialReference) {
    warnOfValidity(certificate, "\(reference)", reference.location)
  }

  private mutating func warnOfValidity(_ certificate: Certificate, _ file: String, _ place: SourceLocation?) {
    let now = Int64(time(nil))
    func warn(_ text: String, hint: String? = nil) {
      report(Diagnostic(.warning, at: place, "\"\(file)\": \(certificate.subject) \(text)", hint: hint))
    }
    if case .unreadable(let algorithm?) = certificate.keyKind {
      return warn(
        "has a key of \(algorithm.rawValue), but \(algorithm.absence): no signature of it can be verified",
        hint: "run sallyport on a system with the newer OpenSSL")
    }
    if certificate.notAfter.hasEnded(at: now) { return warn("expired on \(certificate.notAfterWords)") }
    guard case .at(let begin) = certificate.notBefore, begin <= now else {
      return warn("is not valid before \(certificate.notBeforeWords)")
    }
    if case .at(let end) = certificate.notAfter, expiryNotice.age(from: begin, to: end, at: now) == .ending {
      warn(
        "\(ExpiryWords.ends(end, at: now)), on \(certificate.notAfterWords)",
        hint: "put its successor in its place in time")
    }
  }
}

/// The files that a configuration's features declare, for the question whether one may be loaded.
private struct DeclaredFiles {
  private var paths: Set<String> = []
  /// Folders of pins, whose files are loaded one by one.
  private var folders: Set<String> = []

  package init(_ uses: [FileUse]) {
    for use in uses {
      guard let path = use.resolvedPath else { continue }
      paths.insert(path)
      if case .pins = use.subject { folders.insert(path) }
    }
  }

  func has(_ path: String) -> Bool { paths.contains(path) || folders.contains(NewFile.folder(of: path)) }
}
